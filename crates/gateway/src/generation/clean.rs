//! Definitions without the secrets that their targets were given.
//!
//! What a thing is for, people and models read: there a secret is masked. By what it is called and what it takes, it is bound and judged: that stays
//! as it is, or a variable whose value is an ordinary word would take tools away and refuse what they take.

use transom_protocol::json::{Json, Object, Tree};
use transom_registry::mask::Mask;

/// Members whose value decides how a thing is called.
const DECIDING: [&str; 18] = [
    "name",
    "uri",
    "uriTemplate",
    "mimeType",
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
/// Members whose members have names of somebody's choice.
const NAMING: [&str; 5] = ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"];
/// Values that callers may send as they are: half a value is none.
const SUGGESTING: [&str; 3] = ["default", "examples", "example"];

/// A checked definition without secrets; nothing, if there are none to take out.
pub(super) fn without_secrets(mask: Option<&Mask>, json: &str) -> Option<String> {
    let mask = mask.filter(|mask| mask.json(json).is_some())?;
    Some(cleaned(&Tree::from(Json::trusted(json)), mask, false).to_json())
}

fn cleaned(tree: &Tree, mask: &Mask, named: bool) -> Tree {
    match tree {
        Tree::Object(members) => Tree::Object(members.iter().filter_map(|(key, value)| member(key, value, mask, named)).collect::<Object>()),
        Tree::Array(elements) => Tree::Array(elements.iter().map(|element| cleaned(element, mask, false)).collect()),
        Tree::String(text) => Tree::String(mask.text(text).unwrap_or_else(|| text.clone())),
        // A bound, for the most part; nothing else than a number could stand there.
        Tree::Number(_) | Tree::Bool(_) | Tree::Null => tree.clone(),
    }
}

fn member(key: &str, value: &Tree, mask: &Mask, named: bool) -> Option<(String, Tree)> {
    let kept = |value| Some((key.to_owned(), value));
    if named {
        return kept(cleaned(value, mask, false));
    }
    match key {
        _ if DECIDING.contains(&key) => kept(value.clone()),
        _ if SUGGESTING.contains(&key) && mask.json(&value.to_json()).is_some() => None,
        // Nobody else's business what is in there, and nothing that anybody decides by.
        "_meta" => kept(mask.json(&value.to_json()).map_or_else(|| value.clone(), |clean| Tree::from(Json::trusted(&clean)))),
        _ if mask.text(key).is_some() => None,
        _ => kept(cleaned(value, mask, NAMING.contains(&key))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_registry::secret::Secret;

    // D2
    #[test]
    fn a_secret_is_masked_where_it_is_read_and_stays_where_it_decides() {
        let mask = Mask::new(&[Secret::new("us-east-1")]).unwrap();
        let cleaned = |json: &str| without_secrets(Some(&mask), json);
        assert_eq!(cleaned(r#"{"name":"deploy","description":"Deploys"}"#), None);
        assert_eq!(
            cleaned(
                r#"{"name":"deploy_us-east-1","description":"to us-east-1","inputSchema":{"type":"object","required":["us-east-1"],"properties":{"us-east-1":{"type":"string"},"region":{"enum":["us-east-1","eu-west-1"],"default":"us-east-1","title":"not us-east-1","maxLength":20},"default":{"description":"us-east-1"}}},"_meta":{"name":"us-east-1"},"x-us-east-1":1}"#
            )
            .unwrap(),
            r#"{"name":"deploy_us-east-1","description":"to [redacted]","inputSchema":{"type":"object","required":["us-east-1"],"properties":{"us-east-1":{"type":"string"},"region":{"enum":["us-east-1","eu-west-1"],"title":"not [redacted]","maxLength":20},"default":{"description":"[redacted]"}}},"_meta":{"name":"[redacted]"}}"#
        );
    }
}
