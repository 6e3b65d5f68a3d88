//! The JSON Schema of `config.yaml`, for editors. Made from the types of [`file`](crate::file), so it cannot say anything else.

use crate::file::File;
use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use serde_json::{Value, json};

/// The schema, draft 2020-12.
pub fn json_schema() -> Value {
    let generator = SchemaSettings::draft2020_12().for_deserialize().with_transform(Comments).into_generator();
    let mut schema = generator.into_root_schema_for::<File>();
    schema.insert("title".into(), "Transom configuration".into());
    // `tools` holds entries of a registry, so that editors should know these too.
    let registry = transom_registry::published::json_schema();
    if let (Some(Value::Object(ours)), Some(Value::Object(theirs))) = (schema.get_mut("$defs"), registry.get("$defs")) {
        ours.extend(theirs.clone());
    }
    schema.to_value()
}

/// Lets every map of ours carry `$comment…`, `x-…` and `$schema`, as the reader does.
#[derive(Clone)]
struct Comments;

impl Transform for Comments {
    fn transform(&mut self, schema: &mut Schema) {
        if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
            schema.insert("patternProperties".into(), json!({ r"^(x-|\$comment|\$schema$)": true }));
        }
        transform_subschemas(self, schema);
    }
}
