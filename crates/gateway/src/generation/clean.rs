//! Definitions without the secrets that their targets were given.
//!
//! What a thing is for, people and models read: there a secret is masked. By what it is called and what it takes, it is bound and judged: that stays
//! as it is, or a variable whose value is an ordinary word would take tools away and refuse what they take.

use super::Kind;
use transom_protocol::json::{Json, Object, Tree};
use transom_registry::mask::Mask;

/// Keywords of schemas whose values decide what is taken.
const DECIDING: [&str; 14] = [
    "type",
    "format",
    "pattern",
    "enum",
    "const",
    "required",
    "dependentRequired",
    "x-mcp-header",
    "$ref",
    "$dynamicRef",
    "$id",
    "$anchor",
    "$dynamicAnchor",
    "$schema",
];
/// Keywords whose members have names of somebody's choice.
const NAMING: [&str; 6] = ["properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"];
/// Values that callers may send as they are: half a value is none.
const SUGGESTING: [&str; 3] = ["default", "examples", "example"];

/// A checked definition without secrets; nothing, if there are none to take out.
pub(super) fn without_secrets(mask: Option<&Mask>, kind: Kind, json: &str) -> Option<String> {
    let mask = mask.filter(|mask| mask.json(json).is_some())?;
    let definition = Tree::from(Json::trusted(json));
    let members = definition.as_object()?.iter().map(|(key, value)| {
        let value = match key {
            // Of a resource it is a title; what is read is its URI.
            "name" if matches!(kind, Kind::Tool | Kind::Prompt) => value.clone(),
            "uri" | "uriTemplate" | "mimeType" => value.clone(),
            "inputSchema" | "outputSchema" => schema(value, mask),
            "arguments" => arguments(value, mask),
            _ => masked(value, mask),
        };
        (key.to_owned(), value)
    });
    Some(Tree::Object(members.collect::<Object>()).to_json())
}

/// Without secrets wherever they stand.
fn masked(value: &Tree, mask: &Mask) -> Tree {
    mask.json(&value.to_json()).map_or_else(|| value.clone(), |clean| Tree::from(Json::trusted(&clean)))
}

/// The arguments of a prompt are sent by their names.
fn arguments(value: &Tree, mask: &Mask) -> Tree {
    let of_argument = |argument: &Tree| match argument {
        Tree::Object(members) => {
            let members = members.iter().map(|(key, value)| (key.to_owned(), if key == "name" { value.clone() } else { masked(value, mask) }));
            Tree::Object(members.collect::<Object>())
        }
        other => masked(other, mask),
    };
    match value {
        Tree::Array(arguments) => Tree::Array(arguments.iter().map(of_argument).collect()),
        other => masked(other, mask),
    }
}

fn schema(tree: &Tree, mask: &Mask) -> Tree {
    match tree {
        Tree::Object(keywords) => Tree::Object(keywords.iter().filter_map(|(key, value)| keyword(key, value, mask)).collect::<Object>()),
        Tree::Array(schemas) => Tree::Array(schemas.iter().map(|each| schema(each, mask)).collect()),
        Tree::String(text) => Tree::String(mask.text(text).unwrap_or_else(|| text.clone())),
        // A bound: nothing else than a number could stand there.
        Tree::Number(_) | Tree::Bool(_) | Tree::Null => tree.clone(),
    }
}

fn keyword(key: &str, value: &Tree, mask: &Mask) -> Option<(String, Tree)> {
    let clean = match value {
        _ if DECIDING.contains(&key) => value.clone(),
        _ if SUGGESTING.contains(&key) => Some(value).filter(|value| mask.json(&value.to_json()).is_none())?.clone(),
        Tree::Object(members) if NAMING.contains(&key) => {
            // In place of a schema there may be names that go with a name.
            let named = |value: &Tree| if value.as_array().is_some() { value.clone() } else { schema(value, mask) };
            Tree::Object(members.iter().map(|(name, value)| (name.to_owned(), named(value))).collect::<Object>())
        }
        // No keyword of JSON Schema has other than letters in it.
        _ if mask.text(key).is_some() && !key.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'$') => return None,
        _ => schema(value, mask),
    };
    Some((key.to_owned(), clean))
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_registry::secret::Secret;

    // D2
    #[test]
    fn a_secret_is_masked_where_it_is_read_and_stays_where_it_decides() {
        let cleaned = |secret: &str, kind, json: &str| without_secrets(Some(&Mask::new(&[Secret::new(secret)]).unwrap()), kind, json);
        assert_eq!(cleaned("us-east-1", Kind::Tool, r#"{"name":"deploy","description":"Deploys"}"#), None);
        for (secret, kind, before, after) in [
            (
                "us-east-1",
                Kind::Tool,
                r#"{"name":"deploy_us-east-1","description":"to us-east-1","inputSchema":{"type":"object","required":["us-east-1"],"properties":{"us-east-1":{"type":"string"},"region":{"enum":["us-east-1","eu-west-1"],"default":"us-east-1","title":"not us-east-1","maxLength":20},"default":{"description":"us-east-1"}},"dependencies":{"region":["us-east-1"]},"x-us-east-1":1},"_meta":{"name":"us-east-1"}}"#,
                r#"{"name":"deploy_us-east-1","description":"to [redacted]","inputSchema":{"type":"object","required":["us-east-1"],"properties":{"us-east-1":{"type":"string"},"region":{"enum":["us-east-1","eu-west-1"],"title":"not [redacted]","maxLength":20},"default":{"description":"[redacted]"}},"dependencies":{"region":["us-east-1"]}},"_meta":{"name":"[redacted]"}}"#,
            ),
            (
                "properties",
                Kind::Tool,
                r#"{"name":"t","inputSchema":{"type":"object","properties":{"a":{"description":"properties"}},"required":["a"]}}"#,
                r#"{"name":"t","inputSchema":{"type":"object","properties":{"a":{"description":"[redacted]"}},"required":["a"]}}"#,
            ),
            (
                "S3cretK3y-abcdef",
                Kind::Resource,
                r#"{"uri":"db://S3cretK3y-abcdef","name":"postgres S3cretK3y-abcdef","annotations":{"name":"S3cretK3y-abcdef"}}"#,
                r#"{"uri":"db://S3cretK3y-abcdef","name":"postgres [redacted]","annotations":{"name":"[redacted]"}}"#,
            ),
            (
                "customers",
                Kind::Prompt,
                r#"{"name":"customers","arguments":[{"name":"customers","description":"customers"}]}"#,
                r#"{"name":"customers","arguments":[{"name":"customers","description":"[redacted]"}]}"#,
            ),
        ] {
            assert_eq!(cleaned(secret, kind, before).unwrap(), after);
        }
    }
}
