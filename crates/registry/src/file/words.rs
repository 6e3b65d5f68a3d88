//! The words that a document may use, and those that it may not.

/// The keys of a document.
pub(crate) const DOCUMENT_KEYS: &[&str] = &["$schema", "schemaVersion", "tools", "schemas"];
/// The keys of an entry.
pub(crate) const TOOL_KEYS: &[&str] = &[
    "name",
    "source",
    "server",
    "originalName",
    "implementation",
    "type",
    "handler",
    "title",
    "description",
    "annotations",
    "inputSchema",
    "parameters",
    "arguments",
    "defaults",
    "hideFields",
    "outputSchema",
    "outputTransform",
    "version",
    "tags",
    "metadata",
    "expectedSourceHash",
    "exposeSource",
    "hiddenArguments",
    "onDrift",
    "onMissing",
    "onUnshaped",
    "errors",
    "keepContent",
    "hideDefaulted",
    "coerceArguments",
];
/// The keys of a source that is an object.
pub(crate) const SOURCE_KEYS: &[&str] = &["target", "server", "tool", "originalName", "defaults", "hideFields"];
/// The keys of an argument.
pub(crate) const ARGUMENT_KEYS: &[&str] = &["source", "description"];
/// The keys of an implementation.
pub(super) const IMPLEMENTATION_KEYS: &[&str] = &["type", "handler", "mock_response"];
/// Words of JSON Schema, beside those that hold data or schemas.
pub(super) const SCHEMA_WORDS: &[&str] = &[
    "type",
    "title",
    "description",
    "format",
    "pattern",
    "required",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minContains",
    "maxContains",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "dependencies",
    "readOnly",
    "writeOnly",
    "deprecated",
    "contentEncoding",
    "contentMediaType",
    "id",
];
/// A registry refers to targets; it never says how to run or reach one (F1).
pub(super) const FORBIDDEN_KEYS: &[&str] = &["command", "args", "env", "url", "headers", "targets"];
