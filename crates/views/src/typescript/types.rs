//! A TypeScript type, and how it is written.

use super::names::is_identifier;
use super::text::{comment, literal};
use std::collections::HashSet;

/// Members of a declared union, of one that stands in place, and of what an intersection multiplies them to: a compiler
/// writes that out, and gives up at a hundred thousand.
pub const WIDEST_DECLARED: usize = 500;
const WIDEST: usize = 5_000;
const WIDEST_PRODUCT: usize = 10_000;
/// Characters of what an index signature is when it has to agree with named members.
const LONGEST_INDEX: usize = 200;

/// A type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// `unknown`, `never`, `null`, `undefined`, `boolean`, `number`, `string`
    Word(&'static str),
    /// A literal, as it is written.
    Literal(String),
    /// A declared type, and how many members its union has at most.
    Name(String, usize),
    /// `T[]`
    Array(Box<Type>),
    /// `[A, B?, ...C[]]`: how many come first for certain, and what follows.
    Tuple(Vec<Type>, usize, Option<Box<Type>>),
    /// `{ … }`
    Object(Shape),
    /// `A | B`; see [`union`].
    Union(Vec<Type>),
    /// `A & B`; see [`intersection`].
    Intersection(Vec<Type>),
}

/// What an object has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    /// By name; no two alike.
    pub members: Vec<Member>,
    /// What other members are.
    pub index: Option<Box<Type>>,
}

/// A named member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// Its name, any text.
    pub name: String,
    /// Whether it may be missing.
    pub optional: bool,
    /// What is said of it.
    pub about: String,
    /// What it is.
    pub kind: Type,
}

pub const UNKNOWN: Type = Type::Word("unknown");
pub const NEVER: Type = Type::Word("never");
pub const NULL: Type = Type::Word("null");

/// One of these. Where anything is possible nothing is said.
pub fn union(types: impl IntoIterator<Item = Type>) -> Type {
    let mut seen = HashSet::new();
    let mut members = Vec::new();
    for kind in types {
        let several = match kind {
            Type::Union(several) => several,
            one => vec![one],
        };
        members.extend(several.into_iter().filter(|kind| *kind != NEVER && seen.insert(kind.clone())));
    }
    if members.contains(&UNKNOWN) || members.iter().map(Type::width).fold(0, usize::saturating_add) > WIDEST {
        return UNKNOWN;
    }
    match members.len() {
        0 => NEVER,
        1 => members.pop().unwrap_or(NEVER),
        _ => Type::Union(members),
    }
}

/// All of these at once. A part that would multiply the union beyond the bound is left out: what is said stays true.
pub fn intersection(types: impl IntoIterator<Item = Type>) -> Type {
    let mut width = 1usize;
    let mut members: Vec<Type> = Vec::new();
    for kind in types {
        let several = match kind {
            Type::Intersection(several) => several,
            one => vec![one],
        };
        for kind in several {
            let wider = width.saturating_mul(kind.width());
            if kind == NEVER {
                return NEVER;
            }
            if kind != UNKNOWN && wider <= WIDEST_PRODUCT && !members.contains(&kind) {
                width = wider;
                members.push(kind);
            }
        }
    }
    match members.len() {
        0 => UNKNOWN,
        1 => members.pop().unwrap_or(UNKNOWN),
        _ => Type::Intersection(members),
    }
}

impl Type {
    /// How many members it has as a union.
    pub fn width(&self) -> usize {
        match self {
            Type::Word("boolean") => 2,
            Type::Name(_, width) => *width,
            Type::Union(types) => types.iter().map(Type::width).fold(0, usize::saturating_add),
            Type::Intersection(types) => types.iter().map(Type::width).fold(1, usize::saturating_mul),
            _ => 1,
        }
    }

    /// Written after what stands on a line that begins with `indent`.
    pub fn write(&self, out: &mut String, indent: &str) {
        match self {
            Type::Word(word) => out.push_str(word),
            Type::Literal(text) | Type::Name(text, _) => out.push_str(text),
            Type::Array(kind) => {
                kind.write_tight(out, indent);
                out.push_str("[]");
            }
            Type::Tuple(items, certain, rest) => {
                out.push('[');
                for (at, kind) in items.iter().enumerate() {
                    if at > 0 {
                        out.push_str(", ");
                    }
                    if at < *certain {
                        kind.write(out, indent);
                    } else {
                        kind.write_tight(out, indent);
                        out.push('?');
                    }
                }
                if let Some(rest) = rest {
                    out.push_str(if items.is_empty() { "..." } else { ", ..." });
                    rest.write_tight(out, indent);
                    out.push_str("[]");
                }
                out.push(']');
            }
            Type::Object(shape) => shape.write(out, indent),
            Type::Union(types) => write_joined(types, " | ", out, indent),
            Type::Intersection(types) => write_joined(types, " & ", out, indent),
        }
    }

    /// Written so that what follows belongs to all of it.
    fn write_tight(&self, out: &mut String, indent: &str) {
        if self.is_joined() || matches!(self, Type::Literal(text) if text.starts_with('-')) {
            self.write_apart(out, indent);
        } else {
            self.write(out, indent);
        }
    }

    fn write_apart(&self, out: &mut String, indent: &str) {
        out.push('(');
        self.write(out, indent);
        out.push(')');
    }

    fn is_joined(&self) -> bool {
        matches!(self, Type::Union(_) | Type::Intersection(_))
    }
}

fn write_joined(types: &[Type], by: &str, out: &mut String, indent: &str) {
    for (at, kind) in types.iter().enumerate() {
        if at > 0 {
            out.push_str(by);
        }
        if kind.is_joined() { kind.write_apart(out, indent) } else { kind.write(out, indent) }
    }
}

impl Shape {
    /// With an index signature that every named member agrees with, as TypeScript wants it: what the others are, or what a
    /// named one is.
    pub fn new(members: Vec<Member>, others: Option<Type>) -> Shape {
        let index = others.map(|others| {
            if members.is_empty() || others == UNKNOWN {
                return Box::new(others);
            }
            let missing = members.iter().any(|member| member.optional).then_some(Type::Word("undefined"));
            let together = union([others].into_iter().chain(members.iter().map(|member| member.kind.clone())).chain(missing));
            let mut written = String::new();
            together.write(&mut written, "");
            // What is named is said once already; and what repeats it, level by level, would double each time.
            Box::new(if written.len() > LONGEST_INDEX { UNKNOWN } else { together })
        });
        Shape { members, index }
    }

    /// `{ … }`
    pub fn write(&self, out: &mut String, indent: &str) {
        if self.members.is_empty() {
            match &self.index {
                None => out.push_str("{}"),
                Some(kind) => {
                    out.push_str("{ [key: string]: ");
                    kind.write(out, indent);
                    out.push_str(" }");
                }
            }
            return;
        }
        let inner = format!("{indent}  ");
        out.push_str("{\n");
        for member in &self.members {
            comment(out, &inner, &member.about);
            out.push_str(&inner);
            if is_identifier(&member.name) {
                out.push_str(&member.name);
            } else {
                out.push_str(&literal(&member.name));
            }
            out.push_str(if member.optional { "?: " } else { ": " });
            member.kind.write(out, &inner);
            out.push_str(";\n");
        }
        if let Some(kind) = &self.index {
            out.push_str(&format!("{inner}[key: string]: "));
            kind.write(out, &inner);
            out.push_str(";\n");
        }
        out.push_str(indent);
        out.push('}');
    }
}
