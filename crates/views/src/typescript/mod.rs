//! A TypeScript module with a function for every tool.
//!
//! [`names`] makes identifiers, [`text`] keeps what others wrote inside strings and comments, [`schema`] reads JSON Schema into the
//! [`types`] that it means, and here all of it becomes a module. The part that runs is `runtime.ts`, a file like any other.

mod names;
mod schema;
mod select;
mod text;
mod types;

use crate::Tool;
use names::{Taken, camel, claim, pascal};
use schema::{Declaration, declarations, wants_nothing};
use std::collections::BTreeMap;
use transom_json::{Json, Tree};
use types::{Shape, Type, UNKNOWN};

/// What the module is to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {
    /// Only this server: its name, or its namespace in the module.
    pub server: Option<String>,
    /// Only this tool of `server`: its own name, or its function in the module.
    pub tool: Option<String>,
    /// Only these, separated by commas: `server` or `server__tool`.
    pub filter: Option<String>,
    /// Types and signatures only: nothing that runs.
    pub compact: bool,
    /// Virtual tools stand in the namespace `virtual` instead of that of their server.
    pub group_virtual: bool,
}

const HEAD: &str = "// The tools of a Transom gateway as functions. Generated: ask for it again rather than change it.\n\n";
/// What stands in every module before the first word of others, so that no comment of theirs is the first.
const RUNTIME: &str = include_str!("runtime.ts");
const COMPACT: &str = include_str!("compact.ts");
/// What these two declare, and what the module itself does.
const OWN_NAMES: [&str; 5] = ["Answer", "Settings", "ToolError", "call", "tools"];

/// The tools of a server, and what they are called.
struct Namespace<'t> {
    /// The server's name; `None` for what is grouped as virtual.
    server: Option<&'t str>,
    name: String,
    functions: Vec<Function<'t>>,
    /// Whether it has another name than its server's alone would give it.
    renamed: bool,
}

struct Function<'t> {
    tool: &'t Tool<'t>,
    name: String,
    /// Of its types, which end in `Params` and `Result`.
    stem: String,
    renamed: bool,
}

/// The module. The same tools give the same text, in whatever order they come.
///
/// Names are given before anything is left out, so that a function is called the same in every selection.
pub fn module(tools: &[Tool<'_>], options: &Options) -> String {
    let (namespaces, mut taken) = named(tools, options.group_virtual);
    let chosen = select::chosen(&namespaces, options);
    let mut out = String::from(HEAD);
    out.push_str(if options.compact { COMPACT } else { RUNTIME });
    let mut body = String::new();
    for (namespace, functions) in &chosen {
        if namespace.renamed {
            let about = namespace.server.map_or_else(|| "Virtual tools".to_owned(), |server| format!("Server {}", quoted(server)));
            text::comment(&mut body, "  ", &about);
        }
        if functions.is_empty() {
            body.push_str(&format!("  {}: {{}}{}\n", namespace.name, if options.compact { ";" } else { "," }));
            continue;
        }
        body.push_str(&format!("  {}: {{\n", namespace.name));
        for function in functions {
            write_function(&mut out, &mut body, function, options.compact, &mut taken);
        }
        body.push_str(if options.compact { "  };\n" } else { "  },\n" });
    }
    out.push('\n');
    out.push_str(&match (chosen.is_empty(), options.compact) {
        (true, _) => "export const tools = {};\n".to_owned(),
        (false, false) => format!("export const tools = {{\n{body}}};\n"),
        (false, true) => format!("export declare const tools: {{\n{body}}};\n"),
    });
    out
}

/// Every tool with its names, sorted.
fn named<'t>(tools: &'t [Tool<'t>], group_virtual: bool) -> (Vec<Namespace<'t>>, Taken) {
    // The group comes last: a server that is called `virtual` keeps its name.
    let mut groups: BTreeMap<(bool, &str), Vec<&'t Tool<'t>>> = BTreeMap::new();
    for tool in tools {
        let server = tool.server.filter(|_| !(group_virtual && tool.is_virtual));
        groups.entry((server.is_none(), server.unwrap_or("virtual"))).or_default().push(tool);
    }
    let (mut servers, mut types) = (Taken::default(), Taken::with(&OWN_NAMES));
    // A name goes to who has the best claim to it, so that one that comes later and merely sounds alike takes none away.
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|((is_group, server), _)| (*is_group, claim(server), *server));
    let mut namespaces = Vec::new();
    for ((is_group, server), mut tools) in groups {
        tools.sort_by_key(|tool| (!tool.is_virtual, claim(tool.own_name), tool.own_name, tool.name, tool.server, tool.definition.raw()));
        let (name, type_name, renamed) = give(&mut servers, server, "server");
        let mut taken = Taken::default();
        let functions = tools.into_iter().map(|tool| {
            let (name, of_tool, renamed) = give(&mut taken, tool.own_name, "tool");
            let stem = format!("{type_name}{of_tool}");
            let ending = types.free(&stem, &["Params", "Result"]);
            Function { tool, name, stem: format!("{stem}{ending}"), renamed }
        });
        let mut functions: Vec<Function<'t>> = functions.collect();
        functions.sort_by_key(|Function { tool, .. }| (tool.own_name, tool.name, tool.server, tool.definition.raw()));
        namespaces.push(Namespace { server: (!is_group).then_some(server), name, functions, renamed });
    }
    // The group stays last.
    namespaces.sort_by_key(|namespace| (namespace.server.is_none(), namespace.server));
    (namespaces, types)
}

/// What something is called as a member, as a part of types, and whether that is not what its name alone would give.
fn give(taken: &mut Taken, raw: &str, nameless: &str) -> (String, String, bool) {
    match camel(raw).zip(pascal(raw)) {
        Some((camel, pascal)) => {
            let ending = taken.free(&camel, &[""]);
            (format!("{camel}{ending}"), format!("{pascal}{ending}"), !ending.is_empty())
        }
        None => {
            let ending = taken.numbered(nameless);
            let type_name = pascal(nameless).unwrap_or_default();
            (format!("{nameless}{ending}"), format!("{type_name}{ending}"), true)
        }
    }
}

/// A name of others inside a comment.
fn quoted(name: &str) -> String {
    text::literal(name)
}

fn write_function(types: &mut String, body: &mut String, function: &Function<'_>, compact: bool, taken: &mut Taken) {
    let Function { tool, name, stem, renamed } = function;
    let schema = |key: &str| tool.definition.get(key).filter(|schema| schema.raw() != "null").map(Tree::from);
    let (input, output) = (schema("inputSchema"), schema("outputSchema"));
    for (at, declaration) in declarations(input.as_ref(), &format!("{stem}Params"), taken).into_iter().enumerate() {
        write_declaration(types, declaration, at == 0);
    }
    for declaration in declarations(output.as_ref(), &format!("{stem}Result"), taken) {
        write_declaration(types, declaration, false);
    }
    let said = |key: &str| tool.definition.get(key).and_then(Json::string).filter(|text| !text.is_empty());
    let mut about = said("description").or_else(|| said("title")).unwrap_or_default().into_owned();
    if *renamed {
        about.push_str(&format!("\n\nTool {}", quoted(tool.own_name)));
    }
    text::comment(body, "    ", &about);
    let optional = if wants_nothing(input.as_ref()) { "?" } else { "" };
    if compact {
        // A method of this name would be a constructor.
        let name = if name == "new" { "\"new\"" } else { name.as_str() };
        body.push_str(&format!("    {name}(params{optional}: {stem}Params): Promise<{stem}Result>;\n"));
        return;
    }
    let path = encoded(tool.qualified.unwrap_or(tool.name));
    let server = tool.server.map_or_else(|| "null".to_owned(), text::literal);
    body.push_str(&format!("    async {name}(params{optional}: {stem}Params): Promise<{stem}Result> {{\n"));
    body.push_str(&format!("      return call<{stem}Result>(\"/tools/{path}\", {server}, params);\n    }},\n"));
}

fn write_declaration(out: &mut String, declaration: Declaration, is_params: bool) {
    let Declaration { name, about, kind } = declaration;
    // Arguments of which nothing is said are none.
    let says_nothing = match &kind {
        Type::Object(shape) => shape.members.is_empty() && shape.index.as_deref().is_none_or(|others| *others == UNKNOWN || *others == types::NEVER),
        other => *other == UNKNOWN,
    };
    let kind = if is_params && says_nothing { Type::Object(Shape::default()) } else { kind };
    out.push('\n');
    text::comment(out, "", &about);
    match kind {
        Type::Object(shape) => {
            out.push_str(&format!("export interface {name} "));
            shape.write(out, "");
            out.push('\n');
        }
        kind => {
            out.push_str(&format!("export type {name} = "));
            kind.write(out, "");
            out.push_str(";\n");
        }
    }
}

/// A name as a part of a path.
fn encoded(name: &str) -> String {
    let letter = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    name.bytes().map(letter).collect()
}

#[cfg(test)]
mod tests;
