//! One rule: CEL as written becomes an expression that is known to be sound, small, and about things that exist.
//!
//! A rule is written by the operator and evaluated on the request path, so everything that can be wrong with it is found
//! here: variables that do not exist, functions nobody has, patterns that are no patterns. What remains can fail only
//! for want of a value. Its cost is bounded as well: length and nesting by this file, loops by [`super::evaluate`].

use crate::config::{Effect, Rule};
use cel::common::ast::{CallExpr, EntryExpr, Expr, LiteralValue, SourceInfo, operators};
use cel::parser::{Expression, ParseErrors};
use regex::Regex;
use std::sync::Arc;

/// The longest expression, in bytes.
pub const LONGEST: usize = 4 * 1024;
/// The deepest nesting of an expression. Evaluation takes one stack frame per level.
pub const DEEPEST: usize = 48;
/// Parsing takes many frames per level, and how deep an expression is shows only afterwards: it runs on a stack of its
/// own, which is address space until somebody uses it.
const PARSER_STACK: usize = 256 * 1024 * 1024;

/// A rule that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRule {
    /// Which rule, from 0.
    pub rule: usize,
    /// What is wrong and what to do.
    pub message: String,
    /// Where in the expression, in bytes, if it is one place.
    pub offset: Option<usize>,
}

/// What a rule looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// `mcp.*`: what is asked for.
    pub subject: bool,
    /// `mcp.tool.arguments`.
    pub arguments: bool,
    /// `request.*`, `client.*`, `source.*`: what changes from one request of a principal to the next.
    pub request: bool,
}

/// A rule that can be evaluated.
pub struct Checked {
    /// What follows when it holds.
    pub effect: Effect,
    /// Its expression, with every variable as one identifier.
    pub expression: Expression,
    /// The parts of it that must all hold and that look only at who asks. If one of them does not hold, nor does the rule.
    pub about_who: Vec<Expression>,
    /// The patterns of its `matches`, compiled.
    pub patterns: Arc<[Regex]>,
    /// What it looks at.
    pub reads: Reads,
    /// Names it compares tools and targets with.
    pub names: Vec<(Named, String)>,
}

/// What a name in a rule is the name of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// A tool.
    Tool,
    /// A target.
    Target,
}

impl Named {
    /// As warnings call it.
    pub fn word(self) -> &'static str {
        match self {
            Named::Tool => "tool",
            Named::Target => "target",
        }
    }
}

/// What can follow a variable with members of its own; `jwt` has whatever the claims have.
const MEMBERS: [(&str, &[&str]); 8] = [
    ("mcp", &["method", "tool", "prompt", "resource"]),
    ("mcp.tool", &["name", "target", "source", "title", "version", "tags", "metadata", "annotations", "arguments"]),
    ("mcp.prompt", &["name", "target"]),
    ("mcp.resource", &["uri", "target"]),
    ("apiKey", &["id"]),
    ("request", &["headers", "path"]),
    ("client", &["name", "version"]),
    ("source", &["address"]),
];
const ROOTS: [&str; 6] = ["mcp", "jwt", "apiKey", "request", "client", "source"];
const TYPES: [&str; 10] = ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"];
const FUNCTIONS: [&str; 13] =
    ["size", "contains", "startsWith", "endsWith", "matches", "string", "int", "uint", "double", "bool", "bytes", "type", "dyn"];
const OPERATORS: [&str; 19] = [
    operators::CONDITIONAL,
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::SUBSTRACT,
    operators::ADD,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::GREATER_EQUALS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::LESS,
    operators::NEGATE,
    operators::INDEX,
    operators::IN,
    operators::NOT_STRICTLY_FALSE,
];

/// Reads a rule: every problem it has, or the rule.
pub fn check(number: usize, rule: &Rule) -> Result<Checked, Vec<BadRule>> {
    let bad = |message: String, offset: Option<usize>| BadRule { rule: number, message, offset };
    if rule.expression.trim().is_empty() {
        return Err(vec![bad("the rule is empty: write `true` for a rule that always holds".into(), None)]);
    }
    if rule.expression.len() > LONGEST {
        return Err(vec![bad(format!("the rule is over {LONGEST} bytes long: split it into several"), None)]);
    }
    let (text, effect) = (rule.expression.clone(), rule.effect);
    let checked = std::thread::Builder::new().name("rule".into()).stack_size(PARSER_STACK).spawn(move || parse(&text, effect));
    let outcome = match checked.map(std::thread::JoinHandle::join) {
        Ok(Ok(outcome)) => outcome,
        // Neither has been seen. A rule nobody could read must not be taken for one that holds.
        Ok(Err(_)) => Err(vec![("the rule cannot be read: write it in another way".to_owned(), None)]),
        Err(error) => Err(vec![(format!("no thread to read the rule with: {error}"), None)]),
    };
    outcome.map_err(|problems| problems.into_iter().map(|(message, offset)| bad(message, offset)).collect())
}

type Problems = Vec<(String, Option<usize>)>;

fn parse(text: &str, effect: Effect) -> Result<Checked, Problems> {
    let parser = super::evaluate::environment().parser();
    let (mut expression, places) = parser.parse_with_source_info(text).map_err(|errors| parse_problems(text, &errors))?;
    if deeper_than(&expression, DEEPEST) {
        return Err(vec![(format!("the rule is nested more than {DEEPEST} levels deep: split it into several"), None)]);
    }
    let mut checker =
        Checker { places: &places, problems: Vec::new(), reads: Reads::default(), names: Vec::new(), scope: Vec::new(), patterns: Vec::new() };
    checker.walk(&mut expression);
    let Checker { mut problems, reads, names, patterns, .. } = checker;
    problems.sort_by_key(|(_, offset)| *offset);
    if problems.is_empty() {
        Ok(Checked { effect, about_who: about_who(&expression), expression, patterns: patterns.into(), reads, names })
    } else {
        Err(problems)
    }
}

/// The parts of a rule that are joined by `&&` and do not speak of what is asked for. A rule that looks only at who asks is
/// judged as a whole anyway.
fn about_who(expression: &Expression) -> Vec<Expression> {
    let (mut left, mut found) = (vec![expression], Vec::new());
    let mut joined = false;
    while let Some(part) = left.pop() {
        match &part.expr {
            Expr::Call(CallExpr { func_name, target: None, args }) if func_name == operators::LOGICAL_AND => {
                joined = true;
                left.extend(args);
            }
            _ if joined && !speaks_of_the_subject(part) => found.push(part.clone()),
            _ => {}
        }
    }
    found
}

/// Whether an expression, its variables already one identifier each, looks at `mcp.*`.
fn speaks_of_the_subject(expression: &Expression) -> bool {
    let mut speaks = false;
    each_part(expression, |part, _| {
        speaks |= matches!(&part.expr, Expr::Ident(name) if name.trim_start_matches('?').starts_with("mcp."));
        !speaks
    });
    speaks
}

fn parse_problems(text: &str, errors: &ParseErrors) -> Problems {
    let problem = |error: &cel::ParseError| {
        let message = match error.msg.split_once("Syntax error: ").map_or(error.msg.as_str(), |(_, rest)| rest) {
            "UNKNOWN" => "it cannot be read".to_owned(),
            // The parser lists every token it knows; the beginning says what it stumbled over.
            message => message.split(" expecting {").next().unwrap_or(message).to_owned(),
        };
        (format!("not CEL: {message}"), offset_of(text, error.pos))
    };
    // What follows the first is most often a consequence of it.
    let mut problems: Problems = errors.errors.iter().map(problem).take(1).collect();
    if problems.is_empty() {
        problems.push(("not CEL".to_owned(), None));
    }
    problems
}

/// The byte at a line and column, both from 1; the parser counts characters.
fn offset_of(text: &str, (line, column): (isize, isize)) -> Option<usize> {
    let line = usize::try_from(line).ok()?.checked_sub(1)?;
    let column = usize::try_from(column).ok()?.saturating_sub(1);
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let rest = text.get(start..)?;
    Some(start + rest.char_indices().nth(column).map_or(rest.len(), |(at, _)| at))
}

/// Whether an expression is nested deeper than that.
fn deeper_than(expression: &Expression, limit: usize) -> bool {
    let mut deeper = false;
    each_part(expression, |_, depth| {
        deeper |= depth > limit;
        !deeper
    });
    deeper
}

/// Visits an expression and everything in it, with its depth, until told to stop. Without recursion: some are deep.
fn each_part<'e>(expression: &'e Expression, mut visit: impl FnMut(&'e Expression, usize) -> bool) {
    let mut left = vec![(expression, 1)];
    while let Some((expression, depth)) = left.pop() {
        if !visit(expression, depth) {
            return;
        }
        let mut below = |child| left.push((child, depth + 1));
        match &expression.expr {
            Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).for_each(below),
            Expr::Comprehension(c) => [&c.iter_range, &c.accu_init, &c.loop_cond, &c.loop_step, &c.result].into_iter().for_each(below),
            Expr::List(list) => list.elements.iter().for_each(below),
            Expr::Map(map) => {
                for entry in &map.entries {
                    match &entry.expr {
                        EntryExpr::MapEntry(entry) => [&entry.key, &entry.value].into_iter().for_each(&mut below),
                        EntryExpr::StructField(field) => below(&field.value),
                    }
                }
            }
            Expr::Select(select) => below(&select.operand),
            Expr::Struct(message) => {
                for entry in &message.entries {
                    match &entry.expr {
                        EntryExpr::MapEntry(entry) => [&entry.key, &entry.value].into_iter().for_each(&mut below),
                        EntryExpr::StructField(field) => below(&field.value),
                    }
                }
            }
            Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
        }
    }
}

/// Walks an expression once: finds what is wrong, notes what is read, and makes each variable one identifier, so that
/// what is read is exactly what was noted.
struct Checker<'c> {
    places: &'c SourceInfo,
    problems: Problems,
    reads: Reads,
    names: Vec<(Named, String)>,
    /// Variables of the loops around.
    scope: Vec<String>,
    patterns: Vec<Regex>,
}

impl Checker<'_> {
    /// Notes what is wrong with a chain of names, at its beginning.
    fn problem(&mut self, mut at: &Expression, message: String) {
        while let Expr::Select(select) = &at.expr {
            at = &select.operand;
        }
        let offset = self.places.offset_for(at.id).map(|(start, _)| start as usize);
        self.problems.push((message, offset));
    }

    fn walk(&mut self, expression: &mut Expression) {
        if let Some(path) = self.variable(expression) {
            self.read(&path);
            expression.expr = Expr::Ident(path);
            return;
        }
        let mut problem = None;
        match &mut expression.expr {
            Expr::Call(call) => {
                problem = wrong_call(call);
                self.note_names(call);
                if problem.is_none() && call.func_name == "matches" {
                    problem = self.compile(call);
                }
                if let Some(target) = &mut call.target {
                    self.walk(target);
                }
                for argument in &mut call.args {
                    self.walk(argument);
                }
            }
            Expr::Comprehension(comprehension) => {
                self.walk(&mut comprehension.iter_range);
                self.walk(&mut comprehension.accu_init);
                for name in [Some(&comprehension.iter_var), comprehension.iter_var2.as_ref()].into_iter().flatten() {
                    if ROOTS.contains(&name.as_str()) {
                        problem = Some(format!("`{name}` is a variable already: give the loop another one"));
                    }
                    self.scope.push(name.clone());
                }
                self.walk(&mut comprehension.loop_cond);
                self.walk(&mut comprehension.loop_step);
                self.walk(&mut comprehension.result);
                self.scope.pop();
                if comprehension.iter_var2.is_some() {
                    self.scope.pop();
                }
                super::evaluate::bound(comprehension);
            }
            Expr::Ident(name) => {
                // The parser's own variables begin with `@`, which nobody can write.
                let known = name.starts_with('@') || self.scope.contains(name) || TYPES.contains(&name.as_str()) || name == "jwt";
                problem = (!known).then(|| unknown_variable(name));
            }
            Expr::List(list) => list.elements.iter_mut().for_each(|element| self.walk(element)),
            Expr::Map(map) => {
                for entry in &mut map.entries {
                    if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                        self.walk(&mut entry.key);
                        self.walk(&mut entry.value);
                    }
                }
            }
            Expr::Select(select) => self.walk(&mut select.operand),
            Expr::Struct(message) => problem = Some(format!("`{}{{…}}` is not a value that rules have", message.type_name)),
            Expr::Literal(_) => {}
            Expr::Unspecified => problem = Some("something is missing here".to_owned()),
        }
        if let Some(problem) = problem {
            self.problem(expression, problem);
        }
    }

    /// Compiles the pattern of a `matches`; what is wrong with it, if something is.
    fn compile(&mut self, call: &mut CallExpr) -> Option<String> {
        let Some(Expr::Literal(LiteralValue::String(pattern))) = call.args.last().map(|pattern| &pattern.expr) else {
            // A pattern from outside would be compiled anew for each request, at the sender's choice of cost.
            return Some("`matches` takes its pattern as a text in quotes".to_owned());
        };
        match super::evaluate::pattern(pattern.inner()) {
            Ok(pattern) => {
                self.patterns.push(pattern);
                super::evaluate::use_pattern(call, self.patterns.len() - 1);
                None
            }
            Err(problem) => Some(problem),
        }
    }

    /// The variable an expression stands for, `?` in front where it asks whether there is one: `mcp.tool.name`,
    /// `?mcp.tool.title`. A path that leads nowhere is a problem.
    fn variable(&mut self, expression: &Expression) -> Option<String> {
        let (path, test) = self.path(expression)?;
        let root = path.split('.').next().unwrap_or(&path);
        if root == "jwt" {
            return None;
        }
        let (parent, last) = path.rsplit_once('.').unwrap_or(("", &path));
        let members = |of: &str| MEMBERS.iter().find(|(name, _)| *name == of).map(|(_, members)| *members);
        match members(parent) {
            // Something within a value, as in `mcp.tool.metadata.owner`: its operand is the variable.
            None if !parent.is_empty() => None,
            None => {
                self.problem(expression, whole(&path, members(&path).unwrap_or_default()));
                Some(path)
            }
            Some(known) if !known.contains(&last) => {
                self.problem(expression, format!("there is no `{path}`; `{parent}` has {}", known.join(", ")));
                Some(path)
            }
            Some(_) if test => Some(format!("?{path}")),
            Some(_) => {
                if let Some(members) = members(&path) {
                    self.problem(expression, whole(&path, members));
                }
                Some(path)
            }
        }
    }

    /// A chain of names that begins with a variable of ours, and whether its last is asked for with `has`.
    fn path(&self, expression: &Expression) -> Option<(String, bool)> {
        let mut names = Vec::new();
        let mut test = false;
        let mut at = expression;
        loop {
            match &at.expr {
                Expr::Ident(name) => {
                    names.push(name.strip_prefix('.').unwrap_or(name));
                    break;
                }
                Expr::Select(select) => {
                    test |= select.test;
                    names.push(&select.field);
                    at = &select.operand;
                }
                // `mcp.tool["name"]` is another way to write `mcp.tool.name`.
                Expr::Call(CallExpr { func_name, target: None, args }) if func_name == operators::INDEX => {
                    let [operand, Expression { expr: Expr::Literal(LiteralValue::String(name)), .. }] = args.as_slice() else { return None };
                    names.push(name.inner());
                    at = operand;
                }
                _ => return None,
            }
        }
        names.reverse();
        let root = names.first()?;
        let ours = ROOTS.contains(root) && !self.scope.iter().any(|name| name == root);
        // Members of a value may have any name, dots included; those of our variables have none.
        let plain = names.iter().take(3).all(|name| !name.contains('.'));
        (ours && (plain || names.len() > 3)).then(|| (names.join("."), test))
    }

    fn read(&mut self, path: &str) {
        let path = path.trim_start_matches('?');
        self.reads.subject |= path.starts_with("mcp.");
        self.reads.arguments |= path == "mcp.tool.arguments";
        self.reads.request |= ["request.", "client.", "source."].iter().any(|root| path.starts_with(root));
    }

    /// Names that tools and targets are compared with: `mcp.tool.name == "x"`, `mcp.tool.target in ["x", "y"]`.
    fn note_names(&mut self, call: &CallExpr) {
        if !matches!(call.func_name.as_str(), operators::EQUALS | operators::NOT_EQUALS | operators::IN) {
            return;
        }
        let [left, right] = call.args.as_slice() else { return };
        for (variable, names) in [(left, right), (right, left)] {
            let named = match self.path(variable) {
                Some((path, false)) if path == "mcp.tool.name" => Named::Tool,
                Some((path, false)) if path == "mcp.tool.target" => Named::Target,
                _ => continue,
            };
            let literals: Vec<&Expression> = match &names.expr {
                Expr::List(list) => list.elements.iter().collect(),
                _ => vec![names],
            };
            for literal in literals {
                if let Expr::Literal(LiteralValue::String(name)) = &literal.expr {
                    self.names.push((named, name.inner().to_owned()));
                }
            }
        }
    }
}

fn whole(path: &str, members: &[&str]) -> String {
    format!("`{path}` cannot be used as a whole: name one of its members ({})", members.join(", "))
}

fn unknown_variable(name: &str) -> String {
    format!("there is no variable `{name}`; there are {}; a text stands in quotes", ROOTS.join(", "))
}

fn wrong_call(call: &CallExpr) -> Option<String> {
    let name = call.func_name.as_str();
    if OPERATORS.contains(&name) {
        return None;
    }
    if !FUNCTIONS.contains(&name) {
        return Some(format!("there is no function `{name}`; there are has, all, exists, exists_one, map, filter, {}", FUNCTIONS.join(", ")));
    }
    None
}

/// Reads rules: all of them, or every problem they have.
pub fn check_all(rules: &[Rule]) -> Result<Arc<[Checked]>, Vec<BadRule>> {
    let mut problems = Vec::new();
    let mut checked = Vec::new();
    for (number, rule) in rules.iter().enumerate() {
        match check(number, rule) {
            Ok(rule) => checked.push(rule),
            Err(bad) => problems.extend(bad),
        }
    }
    if problems.is_empty() { Ok(checked.into()) } else { Err(problems) }
}
