//! `{schema, hide, defaults, args}`: of what is hidden nothing comes from the caller; what the registry forces is there; and what
//! the source gets is valid to the source, as far as the caller and not the registry is to blame.

use crate::fields::{self, Step as Field};
use crate::world::{CANARY, catalog, compiled, has_key, is_json, read};
use serde_json::Value;
use transom_json::Json;
use transom_registry::{Compiled, Refusal, Step};

pub fn run(bytes: &[u8]) {
    let Some(input) = read(bytes) else { return };
    let part = |key: &str, absent: &'static str| input.get(key).map_or(absent, Json::raw);
    let (schema, hide, defaults) = (part("schema", "{}"), part("hide", "[]"), part("defaults", "{}"));
    let Some(catalog) = catalog(schema) else { return };
    let entry = format!(r#"{{"tools":[{{"name":"v","source":{{"target":"t","tool":"s"}},"hideFields":{hide},"defaults":{defaults}}}]}}"#);
    let Some(Compiled { plan, .. }) = compiled(&entry) else { return };
    let tools = plan.bind(&catalog);
    if tools.get("v").is_none() {
        return;
    }
    let sent = match tools.call("v", input.get("args")) {
        Ok(Step::Call(call)) => String::from_utf8(call.arguments).expect("arguments are text"),
        Ok(_) => return,
        Err(Refusal::Arguments { result, violations, .. }) => {
            let result = String::from_utf8(result).expect("a refusal is text");
            assert!(is_json(&result) && !result.contains(CANARY), "{result}");
            assert!(!violations.is_empty(), "refused without a reason");
            return;
        }
        Err(_) => return,
    };
    assert!(is_json(&sent), "{sent}");
    let value = |text: &str| serde_json::from_str::<Value>(text).ok();
    // Numbers that only text can hold are forwarded as they are, and no business of another reader.
    let (Some(sent), Some(args), Some(hide), Some(defaults)) = (value(&sent), value(part("args", "{}")), value(hide), value(defaults)) else {
        return;
    };
    // A source may have a field whose very name looks like a path; what is meant then is the engine's to find out.
    let source = value(schema).unwrap_or_default();
    let steps = |path: &str| fields::steps(path).filter(|steps| steps.len() == 1 || !has_key(&source, path));
    let written: Vec<Vec<Field>> = defaults.as_object().into_iter().flatten().flat_map(|(path, _)| fields::readings(path)).collect();
    let defaults: Vec<(Vec<Field>, &Value)> =
        defaults.as_object().into_iter().flatten().filter_map(|(path, value)| Some((steps(path)?, value))).collect();
    for hidden in hide.as_array().into_iter().flatten().filter_map(Value::as_str).filter_map(steps) {
        assert!(!fields::has_folded(&args, &hidden), "{hidden:?} came from the caller: {args} became {sent}");
        if !defaults.iter().any(|(path, _)| path.starts_with(&hidden) || hidden.starts_with(path)) {
            assert!(fields::at(&sent, &hidden).is_empty(), "{hidden:?} is there: {args} became {sent}");
        }
    }
    for (path, wanted) in &defaults {
        let alone = !defaults.iter().any(|(other, _)| other != path && (other.starts_with(path) || path.starts_with(other)));
        let hidden = hide.as_array().into_iter().flatten().filter_map(Value::as_str).filter_map(steps).any(|hidden| path.starts_with(&hidden));
        if hidden && alone && !path.contains(&Field::Each) {
            let found = fields::at(&sent, path);
            if path.split_last().is_some_and(|(_, object)| found.is_empty() && may_be_left_out(&source, object, &args, &sent)) {
                continue;
            }
            let [found] = found.as_slice() else { panic!("{path:?} is forced and not there: {args} became {sent}") };
            if !wanted.to_string().contains('$') {
                assert_eq!(found, wanted, "{path:?}: {args} became {sent}");
            }
        }
    }
    let readings = hide.as_array().into_iter().flatten().filter_map(Value::as_str).flat_map(fields::readings);
    let mut names =
        readings.filter_map(|path| path.into_iter().rev().find_map(|step| if let Field::Member(name) = step { Some(name) } else { None }));
    // A backslash protects what follows it, and is no part of the name.
    if !names.any(|name| is_asked_for_otherwise(&source, &name) || is_asked_for_otherwise(&source, &name.replace('\\', ""))) {
        valid_to_the_source(schema, &sent, &args, &written);
    }
}

/// An object that nobody sends is not made up for the sake of a default in it where the source may want more of it than that.
fn may_be_left_out(source: &Value, object: &[Field], args: &Value, sent: &Value) -> bool {
    let inside = |schema: &Value| schema.as_object().into_iter().flatten().any(|(key, value)| key != "required" && has_key(value, "required"));
    !object.is_empty() && fields::at(args, object).is_empty() && fields::at(sent, object).is_empty() && inside(source)
}

/// Whether the name stands within a `not`, a `const` or an `enum`. A source can ask for a field in these ways too, and a registry that hides the
/// field then leaves a tool that no arguments satisfy: its author's doing, which the source tells.
fn is_asked_for_otherwise(schema: &Value, name: &str) -> bool {
    match schema {
        Value::Object(members) => members.iter().any(|(key, value)| {
            (matches!(key.as_str(), "not" | "const" | "enum") && value.to_string().contains(&Value::from(name).to_string()))
                || is_asked_for_otherwise(value, name)
        }),
        Value::Array(items) => items.iter().any(|item| is_asked_for_otherwise(item, name)),
        _ => false,
    }
}

fn valid_to_the_source(schema: &str, sent: &Value, args: &Value, written: &[Vec<Field>]) {
    let Ok(schema) = serde_json::from_str::<Value>(schema) else { return };
    let Ok(validator) = jsonschema::validator_for(&schema) else { return };
    // What the registry writes may be wrong, and so may be whatever holds it.
    for error in validator.iter_errors(sent) {
        let place = error.instance_path().to_string();
        let place: Vec<String> = place.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
        let touches = |path: &[Field]| {
            path.iter().zip(&place).all(|(step, at)| match step {
                Field::Member(name) => name == at,
                Field::Each => at.parse::<usize>().is_ok(),
            })
        };
        assert!(written.iter().any(|path| touches(path)), "{args} became {sent}, which the source refuses: {error}");
    }
}
