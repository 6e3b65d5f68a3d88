//! `discovery` as written.

use super::{Measure, Text};
use crate::written::Written;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use std::borrow::Cow;

/// How clients learn which tools there are.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("required" = ["mode"]))]
pub struct Discovery {
    /// From lists, or by searching.
    pub mode: Written<DiscoveryMode>,
    /// With `auto`: whoever sees more tools than this at an endpoint gets the short list there.
    #[schemars(with = "Measure", extend("default" = 100))]
    pub threshold: Written<Text>,
    /// Tools that are on the short list too, by name; `*` stands for anything.
    pub pinned: Written<Vec<Written<Text>>>,
}

/// How clients learn which tools there are.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DiscoveryMode {
    /// Lists show every tool.
    List,
    /// Lists show `catalog_search`, `describe_tool`, `invoke_tool` and what is pinned; every other tool can be found and called.
    Search,
    /// As `search` where a list would be longer than `threshold`, else as `list`.
    Auto,
}

impl DiscoveryMode {
    /// All of them, as they are written.
    pub const ALL: [(&'static str, DiscoveryMode); 3] =
        [("list", DiscoveryMode::List), ("search", DiscoveryMode::Search), ("auto", DiscoveryMode::Auto)];
}

/// What the schema says of `discovery`: a mode, or a map that says more.
pub(super) struct Discovering;

impl JsonSchema for Discovering {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Discovering".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "enum": DiscoveryMode::ALL.map(|(word, _)| word) }, generator.subschema_for::<Discovery>()] })
    }
}
