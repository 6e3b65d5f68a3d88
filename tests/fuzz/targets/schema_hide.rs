//! `{schema, hide, value}`: no value that the shown schema accepts has what is hidden; hiding twice is hiding once; and what the
//! shown schema accepts the source accepts, but for the hidden names it asks for.

use crate::fields;
use crate::world::{CANARY, catalog, compiled, is_json, read};
use jsonschema::error::ValidationErrorKind;
use serde_json::{Value, json};
use transom_json::{Json, Tree};
use transom_registry::name::FieldPath;
use transom_registry::schema::{DefaultValue, Notice, Wanted, show};
use transom_registry::{Compiled, Step};

pub fn run(bytes: &[u8]) {
    let Some(input) = read(bytes) else { return };
    let part = |key: &str, absent: &'static str| input.get(key).map_or(absent, Json::raw);
    let schema = part("schema", "{}");
    // What the gateway would not take from a target is nothing to hide in.
    let Some(catalog) = catalog(schema) else { return };
    // The long way round takes as long as all the rest: every other input goes it.
    if bytes.len().is_multiple_of(2) {
        through_the_registry(&catalog);
    }

    let (Ok(source), Ok(hide), Ok(value)) = (
        serde_json::from_str::<Value>(schema),
        serde_json::from_str::<Value>(part("hide", "[]")),
        serde_json::from_str::<Value>(part("value", "{}")),
    ) else {
        return;
    };
    let tree = Tree::from(Json::trusted(schema));
    for path in hide.as_array().into_iter().flatten().filter_map(Value::as_str) {
        let (Ok(hidden), Some(steps)) = (FieldPath::parse(path), fields::steps(path)) else { continue };
        let defaults = [DefaultValue { path: &hidden, value: None }];
        let wanted = |source| Wanted {
            source,
            replacement: None,
            renames: &[],
            hidden: std::slice::from_ref(&hidden),
            defaults: &defaults,
            hide_defaulted: false,
        };
        let Ok(shown) = show(&wanted(&tree)) else { continue };
        if shown.notices.iter().any(|notice| matches!(notice, Notice::NothingToHide { .. })) {
            continue;
        }
        let again = show(&wanted(&shown.schema)).map(|again| again.schema.to_string());
        assert_eq!(again, Ok(shown.schema.to_string()), "{schema} without {path}, twice");
        let Ok(listed) = serde_json::from_str::<Value>(&shown.schema.to_string()) else { continue };
        let validator = match jsonschema::validator_for(&listed) {
            Ok(validator) => validator,
            // A reference to elsewhere stays one; what came of a sound schema is sound.
            Err(error) => {
                assert!(jsonschema::validator_for(&source).is_err(), "{schema} without {path} is no schema: {error}");
                continue;
            }
        };
        for end in [json!("x"), json!(1), json!(null), json!({}), json!([{}])] {
            let instance = fields::with(&value, &steps, &end);
            assert!(!validator.is_valid(&instance), "{schema} without {path} is {listed}, which accepts {instance}");
        }
        if validator.is_valid(&value) {
            accepted_by_the_source(&source, &value, hidden.last());
        }
    }
}

/// The source misses the hidden name and nothing else. What several branches say together is not told apart here.
fn accepted_by_the_source(source: &Value, value: &Value, hidden: &str) {
    let Ok(validator) = jsonschema::validator_for(source) else { return };
    for error in validator.iter_errors(value) {
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { .. }
            | ValidationErrorKind::Type { .. }
            | ValidationErrorKind::MaxLength { .. }
            | ValidationErrorKind::Pattern { .. }
            | ValidationErrorKind::Minimum { .. }
            | ValidationErrorKind::MaxItems { .. } => panic!("{source} without {hidden} shows more than there is: {value}: {error}"),
            ValidationErrorKind::Required { property } => assert_eq!(property, hidden, "{source} without {hidden}: {value}"),
            _ => {}
        }
    }
}

/// The same by the way a registry goes, with three fields hidden at once.
fn through_the_registry(catalog: &transom_registry::Catalog) {
    let entry = r#"{"tools":[{"name":"v","source":{"target":"t","tool":"s"},"hideFields":["secret","o.secret","l[].secret"],"defaults":{"secret":"${KEY}"}}]}"#;
    let Some(Compiled { plan, .. }) = compiled(entry) else { return };
    let tools = plan.bind(catalog);
    for tool in tools.list() {
        assert!(is_json(tool.json()), "{}", tool.json());
        assert!(tool.name() == "v" && !tool.json().contains(CANARY), "{}", tool.json());
    }
    for arguments in [
        r#"{"secret":"CALLER"}"#,
        r#"{"SECRET":"CALLER"}"#,
        r#"{"o":{"secret":"CALLER"}}"#,
        r#"{"l":[{"secret":"CALLER"}]}"#,
        r#"{"a":1,"o":{"a":1},"l":[{"a":1}]}"#,
    ] {
        if let Ok(Step::Call(call)) = tools.call("v", Some(Json::trusted(arguments))) {
            let sent = String::from_utf8_lossy(&call.arguments);
            assert!(!sent.contains("CALLER"), "{arguments} went through as {sent}");
        }
    }
}
