//! What LLM providers accept as the `tools` of a request. The shapes in `tests/providers/` are written down from their API references,
//! and from what they are known to refuse; the product knows nothing of them.

use serde_json::Value;

/// The formats there are.
pub const FORMATS: [&str; 4] = ["openai", "ollama", "gemini", "anthropic"];

/// Fails if the provider would refuse these tools.
pub fn accepts(format: &str, tools: &Value) {
    let path = crate::install::folder("providers").join(format!("{format}.schema.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let schema: Value = serde_json::from_str(&text).expect("a schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema is a schema");
    let refused: Vec<String> = validator.iter_errors(tools).map(|error| format!("{} at {}", error, error.instance_path())).take(10).collect();
    assert!(refused.is_empty(), "{format} refuses: {refused:#?}");
    if format == "gemini" {
        every_required_member_is_there(tools);
    }
}

/// What JSON Schema cannot say: of what is required, everything is a property.
fn every_required_member_is_there(value: &Value) {
    match value {
        Value::Object(members) => {
            let properties = value["properties"].as_object();
            for name in value["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                assert!(properties.is_some_and(|properties| properties.contains_key(name)), "`{name}` is required and not there: {value}");
            }
            members.values().for_each(every_required_member_is_there);
        }
        Value::Array(elements) => elements.iter().for_each(every_required_member_is_there),
        _ => {}
    }
}

/// The name of a tool in a format.
pub fn name_of<'t>(format: &str, tool: &'t Value) -> &'t str {
    let name = match format {
        "anthropic" => &tool["name"],
        "gemini" => &tool["functionDeclarations"][0]["name"],
        _ => &tool["function"]["name"],
    };
    name.as_str().unwrap_or_else(|| panic!("no name in {tool}"))
}

/// The schema of a tool's arguments in a format; `null` where it takes none.
pub fn schema_of<'t>(format: &str, tool: &'t Value) -> &'t Value {
    match format {
        "anthropic" => &tool["input_schema"],
        "gemini" => &tool["functionDeclarations"][0]["parameters"],
        _ => &tool["function"]["parameters"],
    }
}

/// The names of a whole export.
pub fn names(format: &str, tools: &Value) -> Vec<String> {
    let tools = tools.as_array().unwrap_or_else(|| panic!("no list: {tools}"));
    tools.iter().map(|tool| name_of(format, tool).to_owned()).collect()
}
