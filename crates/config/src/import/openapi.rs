//! An OpenAPI document, as far as it maps: what each operation is called, what it is for and what it takes.
//!
//! Transom calls MCP servers and no web services. With `--target` the tools stand on an MCP server that speaks for the service; without
//! one they are mocks that answer with the document's own examples, good for trying out an agent before there is anything behind it.

use super::draft::{Draft, LONGEST_TOOL_NAME};
use super::schema::{converted, definitions};
use super::{entries, get, json, text};
use crate::tree::Node;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

const METHODS: [&str; 7] = ["get", "post", "put", "patch", "delete", "head", "options"];

/// Tools that one document may make.
const MOST_OPERATIONS: usize = 500;

/// Reads a document.
pub fn import(tree: &Node, draft: &mut Draft<'_>) {
    let version = text(tree, "openapi").unwrap_or_default();
    if !version.starts_with("3.") {
        draft.unsupported(tree, "only OpenAPI 3.0 and 3.1 are read", "convert the document first");
        return;
    }
    let document = json(tree);
    let target = draft.options.target.clone().map(|wanted| draft.target_name(&wanted, tree));
    match &target {
        Some(target) => {
            draft.placeholder_target(target, tree);
            draft.manual(
                tree,
                format!("Transom calls MCP servers, not web services: the tools stand on target `{target}`"),
                "run a server that makes MCP of this document, with the operation ids as names of its tools",
            );
        }
        None => draft.manual(
            tree,
            "Transom calls MCP servers, not web services: the tools are mocks that answer with the document's examples",
            "run a server that makes MCP of this document, and import it again with `--target NAME`",
        ),
    }
    let mut made = 0;
    let paths = get(tree, "paths").filter(|paths| draft.is_map(paths, "`paths`"));
    for (path, item) in paths.into_iter().flat_map(entries) {
        let at = path.spelling().unwrap_or_default();
        if !draft.is_map(item, &format!("`{at}`")) {
            continue;
        }
        if let Some(reference) = get(item, "$ref") {
            draft.unsupported(reference, format!("what `{at}` refers to is left out"), "write its operations here");
        }
        for (method, operation) in entries(item).filter(|(method, _)| METHODS.contains(&method.spelling().unwrap_or_default())) {
            if made == MOST_OPERATIONS {
                draft.manual(path, format!("more than {MOST_OPERATIONS} operations: the rest is left out"), "import the document in parts");
                return;
            }
            if !draft.is_map(operation, &format!("`{} {at}`", method.spelling().unwrap_or_default())) {
                continue;
            }
            made += 1;
            let read = Operation {
                document: &document,
                path: path.spelling().unwrap_or_default(),
                method: method.spelling().unwrap_or_default(),
                item: json(item),
                operation: json(operation),
            };
            let name = read.name();
            if get(operation, "operationId").is_none() {
                draft.approximate(
                    method,
                    format!("`{} {}` has no `operationId`; its tool is `{name}`", read.method.to_uppercase(), read.path),
                    "give it one",
                );
            }
            let tool = match &target {
                Some(target) => read.virtual_tool(&name, target),
                None => read.mock(&name),
            };
            let next = if target.is_some() { "the schema comes from the target" } else { "it answers with an example" };
            draft.approximate(method, format!("`{} {}` is tool `{name}`", read.method.to_uppercase(), read.path), next);
            draft.tool(tool, method);
        }
    }
    for (key, value) in entries(tree) {
        let name = key.spelling().unwrap_or_default();
        match name {
            "servers" => draft.manual(value, "where the service is, is for the MCP server in front of it", "configure it there"),
            "security" => draft.manual(
                value,
                "credentials of the service are for the MCP server in front of it",
                "configure them there, or as `headers` of the target",
            ),
            "webhooks" => draft.unsupported(value, "webhooks are no tools", "leave them out"),
            _ => {}
        }
    }
}

/// One operation.
struct Operation<'d> {
    document: &'d Value,
    path: &'d str,
    method: &'d str,
    item: Value,
    operation: Value,
}

impl Operation<'_> {
    /// The operation id, or else method and path, as the name of a tool.
    fn name(&self) -> String {
        let wanted = match self.operation["operationId"].as_str() {
            Some(id) => id.to_owned(),
            None => format!("{}_{}", self.method, self.path),
        };
        let mut name = String::new();
        for letter in wanted.chars() {
            if letter.is_ascii_alphanumeric() || letter == '-' || letter == '.' {
                name.push(letter);
            } else if !name.ends_with('_') && !name.is_empty() {
                name.push('_');
            }
        }
        let name: String = name.trim_end_matches('_').chars().take(LONGEST_TOOL_NAME).collect();
        if name.is_empty() { self.method.to_owned() } else { name }
    }

    fn description(&self) -> String {
        let text = |key: &str| self.operation[key].as_str().map(str::trim).filter(|text| !text.is_empty());
        match (text("summary"), text("description")) {
            (Some(summary), Some(description)) if description != summary => format!("{summary}\n\n{description}"),
            (Some(one), _) | (None, Some(one)) => one.to_owned(),
            (None, None) => format!("{} {}", self.method.to_uppercase(), self.path),
        }
    }

    fn virtual_tool(&self, name: &str, target: &str) -> Value {
        let source = self.operation["operationId"].as_str().unwrap_or(name);
        let mut tool = json!({ "name": name, "source": { "target": target, "tool": source }, "description": self.description() });
        self.annotate(&mut tool);
        tool
    }

    fn mock(&self, name: &str) -> Value {
        let mut tool = json!({ "name": name, "description": self.description(), "inputSchema": self.input_schema() });
        self.annotate(&mut tool);
        tool["implementation"] = json!({ "type": "mock", "mock_response": self.example() });
        tool
    }

    fn annotate(&self, tool: &mut Value) {
        let annotations = match self.method {
            "get" | "head" | "options" => Some(json!({ "readOnlyHint": true })),
            "delete" => Some(json!({ "destructiveHint": true, "idempotentHint": true })),
            "put" => Some(json!({ "idempotentHint": true })),
            _ => None,
        };
        if let Some(annotations) = annotations {
            tool["annotations"] = annotations;
        }
        if let Some(tags) = self.operation["tags"].as_array().filter(|tags| !tags.is_empty() && tags.iter().all(Value::is_string)) {
            tool["tags"] = tags.clone().into();
        }
    }

    /// What a reference within the document leads to.
    fn resolved<'v>(&'v self, value: &'v Value) -> &'v Value {
        let mut value = value;
        for _ in 0..8 {
            let Some(meant) = value["$ref"].as_str().and_then(|reference| self.document.pointer(reference.strip_prefix('#')?)) else { break };
            value = meant;
        }
        value
    }

    /// Parameters and the members of the body, side by side.
    fn input_schema(&self) -> Value {
        let (mut properties, mut required, mut named) = (Map::new(), Vec::new(), BTreeSet::new());
        for part in [&self.item, &self.operation] {
            for parameter in part["parameters"].as_array().into_iter().flatten() {
                let parameter = self.resolved(parameter);
                let Some(name) = parameter["name"].as_str() else { continue };
                let schema = parameter.get("schema").or_else(|| parameter["content"].as_object()?.values().next()?.get("schema"));
                let mut schema = schema.map_or_else(|| json!({}), |schema| converted(schema, &mut named));
                if let (Some(text), Some(schema)) = (parameter.get("description"), schema.as_object_mut()) {
                    schema.entry("description").or_insert_with(|| text.clone());
                }
                properties.insert(name.to_owned(), schema);
                if parameter["required"] == true && !required.iter().any(|known| known == name) {
                    required.push(Value::from(name));
                }
            }
        }
        let body = self.resolved(&self.operation["requestBody"]);
        let schema =
            body["content"].as_object().and_then(|content| content.get("application/json").or_else(|| content.values().next())?.get("schema"));
        if let Some(schema) = schema {
            let meant = self.resolved(schema);
            match meant["properties"].as_object().filter(|members| members.keys().all(|name| !properties.contains_key(name))) {
                Some(members) => {
                    for (name, member) in members {
                        properties.insert(name.clone(), converted(member, &mut named));
                    }
                    required.extend(meant["required"].as_array().cloned().unwrap_or_default());
                }
                None => {
                    properties.insert("body".into(), converted(schema, &mut named));
                    if body["required"] == true {
                        required.push("body".into());
                    }
                }
            }
        }
        let mut out = json!({ "type": "object", "properties": properties });
        if !required.is_empty() {
            out["required"] = required.into();
        }
        let definitions = definitions(self.document, named);
        if !definitions.is_empty() {
            out["$defs"] = definitions.into();
        }
        out
    }

    /// What the document itself says an answer looks like.
    fn example(&self) -> Value {
        let responses = self.operation["responses"].as_object();
        let good = responses.into_iter().flatten().filter(|(status, _)| status.starts_with('2') || *status == "default");
        for (_, response) in good {
            let response = self.resolved(response);
            for media in response["content"].as_object().into_iter().flat_map(Map::values) {
                let listed = media["examples"].as_object().and_then(|examples| examples.values().next()).map(|example| self.resolved(example));
                let schema = self.resolved(&media["schema"]);
                let example =
                    media.get("example").or_else(|| listed?.get("value")).or_else(|| schema.get("example")).or_else(|| schema["examples"].get(0));
                if let Some(example) = example {
                    return example.clone();
                }
            }
            if let Some(text) = response["description"].as_str().filter(|text| !text.is_empty()) {
                return text.into();
            }
        }
        "ok".into()
    }
}
