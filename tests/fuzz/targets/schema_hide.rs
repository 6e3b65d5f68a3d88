//! `{schema, hide, value}`: no value that the shown schema accepts has what is hidden; hiding twice is hiding once; and what the
//! shown schema accepts the source accepts, but for the hidden names it asks for.

use crate::fields;
use crate::world::{CANARY, catalog, compiled, has_key, is_json, read};
use jsonschema::Validator;
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
        let Ok(judge) = jsonschema::validator_for(&source) else { continue };
        for instance in near(&value).iter().filter(|instance| validator.is_valid(instance)) {
            accepted_by_the_source(&source, &judge, instance, hidden.last(), &listed);
        }
    }
}

/// Parts of a value that are looked at in turn.
const PARTS: usize = 16;

/// A value, and others that differ from it in one part: what a keyword is about is seldom met by chance.
fn near(value: &Value) -> Vec<Value> {
    let ends =
        [json!(null), json!(""), json!("a"), json!("aaaaaaaa"), json!(-1), json!(0), json!(1.5), json!(1e6), json!([]), json!(["a", "a"]), json!({})];
    let mut places = Vec::new();
    pointers(value, &mut String::new(), &mut places);
    let mut all = vec![value.clone()];
    for place in places {
        for end in &ends {
            let mut other = value.clone();
            if let Some(part) = other.pointer_mut(&place) {
                *part = end.clone();
            }
            all.push(other);
        }
    }
    all
}

/// Where the first parts of a value are.
fn pointers(value: &Value, at: &mut String, places: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value)).collect(),
        Value::Array(elements) => elements.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (name, child) in children {
        if places.len() == PARTS {
            return;
        }
        let length = at.len();
        at.push('/');
        at.push_str(&name);
        places.push(at.clone());
        pointers(child, at, places);
        at.truncate(length);
    }
}

/// Where the source only says what the hidden field looks like, it accepts all that is shown to be accepted, whatever the keyword. Where it asks
/// for the field, or counts fields, it misses that one and nothing else; what several branches say together is not told apart then.
fn accepted_by_the_source(source: &Value, validator: &Validator, value: &Value, hidden: &str, listed: &Value) {
    if validator.is_valid(value) {
        return;
    }
    let asks = asks_for(source, hidden);
    let decides = decides(source, hidden);
    for error in validator.iter_errors(value) {
        // Which branch holds only the source knows if the field decides, and either is shown.
        if decides && error.evaluation_path().as_str().split('/').any(|step| step == "then" || step == "else") {
            continue;
        }
        let unasked = match error.kind() {
            ValidationErrorKind::AdditionalItems { .. }
            | ValidationErrorKind::AdditionalProperties { .. }
            | ValidationErrorKind::ExclusiveMaximum { .. }
            | ValidationErrorKind::ExclusiveMinimum { .. }
            | ValidationErrorKind::MaxItems { .. }
            | ValidationErrorKind::Maximum { .. }
            | ValidationErrorKind::MaxLength { .. }
            | ValidationErrorKind::MaxProperties { .. }
            | ValidationErrorKind::MinItems { .. }
            | ValidationErrorKind::Minimum { .. }
            | ValidationErrorKind::MinLength { .. }
            | ValidationErrorKind::MultipleOf { .. }
            | ValidationErrorKind::Pattern { .. }
            | ValidationErrorKind::PropertyNames { .. }
            | ValidationErrorKind::Type { .. }
            | ValidationErrorKind::UniqueItems => true,
            ValidationErrorKind::Constant { expected_value } => !names(expected_value, hidden),
            ValidationErrorKind::Enum { options } => !names(options, hidden),
            ValidationErrorKind::Required { property } => property != hidden,
            // Branches that were told apart by what they close may hold together once the field is gone from them.
            ValidationErrorKind::OneOfMultipleValid { .. } => !asks && !CLOSES.iter().any(|keyword| has_key(source, keyword)),
            // The validator gave up; that says nothing about the schema.
            ValidationErrorKind::BacktrackLimitExceeded { .. } | ValidationErrorKind::RegexEngineFailure { .. } => false,
            _ => !asks,
        };
        assert!(!unasked, "{source} without {hidden} is {listed}, which shows more than there is: {value}: {error}");
    }
}

/// Whether a schema can need the field: it has the name elsewhere than among its `properties`, or counts how many there are.
fn asks_for(schema: &Value, name: &str) -> bool {
    match schema {
        Value::Object(members) => members.iter().any(|(key, value)| match value {
            Value::Object(properties) if key == "properties" => properties.values().any(|property| asks_for(property, name)),
            _ => key == "minProperties" || key.contains(name) || asks_for(value, name),
        }),
        Value::Array(items) => items.iter().any(|item| asks_for(item, name)),
        Value::String(text) => text.contains(name),
        _ => false,
    }
}

/// What decides about fields that nothing names.
const CLOSES: [&str; 4] = ["additionalProperties", "patternProperties", "propertyNames", "unevaluatedProperties"];

/// Whether a condition anywhere has the name in it.
fn decides(schema: &Value, name: &str) -> bool {
    match schema {
        Value::Object(members) => members.iter().any(|(key, value)| (key == "if" && names(value, name)) || decides(value, name)),
        Value::Array(items) => items.iter().any(|item| decides(item, name)),
        _ => false,
    }
}

/// Whether a value has the name in it.
fn names(value: &Value, name: &str) -> bool {
    value.to_string().contains(&Value::from(name).to_string())
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
