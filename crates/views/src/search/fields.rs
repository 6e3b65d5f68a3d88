//! What of a tool is searched, and how much each part of it counts.

use crate::Tool;
use std::borrow::Cow;
use transom_json::{Json, Kind};

/// A part of a tool that is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// Its name.
    Name,
    /// Its title.
    Title,
    /// The target it stands on.
    Server,
    /// The names of its arguments.
    Arguments,
    /// Its description.
    Description,
}

impl Field {
    /// All of them.
    pub const ALL: [Field; 5] = [Field::Name, Field::Title, Field::Server, Field::Arguments, Field::Description];

    /// What readers of results call it.
    pub fn word(self) -> &'static str {
        match self {
            Field::Name => "name",
            Field::Title => "title",
            Field::Server => "server",
            Field::Arguments => "arguments",
            Field::Description => "description",
        }
    }

    /// How much a word in it counts.
    pub(super) fn weight(self) -> f32 {
        match self {
            Field::Name => 4.0,
            Field::Title => 3.0,
            Field::Server => 2.0,
            Field::Arguments => 0.8,
            Field::Description => 1.2,
        }
    }

    /// How many words it usually has. A constant and not the average of what is there: that would tell of tools that somebody does not see.
    pub(super) fn usual(self) -> f32 {
        match self {
            Field::Name | Field::Title => 3.0,
            Field::Server => 1.0,
            Field::Arguments => 6.0,
            Field::Description => 20.0,
        }
    }

    /// How much its length matters, from 0 to 1.
    pub(super) fn slope(self) -> f32 {
        match self {
            Field::Name | Field::Title => 0.35,
            Field::Server => 0.0,
            Field::Arguments => 0.6,
            Field::Description => 0.5,
        }
    }

    /// The most words of it that are looked at.
    pub(super) fn most_words(self) -> usize {
        match self {
            Field::Name | Field::Title | Field::Server => 32,
            Field::Arguments => 128,
            Field::Description => 256,
        }
    }
}

/// The most arguments, nested ones included, whose names are looked at.
const ARGUMENTS: usize = 100;
/// How deep arguments are looked for.
const DEPTH: usize = 4;

/// Gives each text of a tool that is searched.
pub fn texts<'t>(tool: &Tool<'t>, mut each: impl FnMut(Field, &str)) {
    each(Field::Name, tool.name);
    if let Some(server) = tool.server {
        each(Field::Server, server);
    }
    let definition = tool.definition;
    let text = |json: Option<Json<'t>>| json.and_then(Json::string).unwrap_or(Cow::Borrowed(""));
    let title = definition.get("title").or_else(|| definition.get("annotations")?.get("title"));
    each(Field::Title, &text(title));
    each(Field::Description, &text(definition.get("description")));
    if let Some(schema) = definition.get("inputSchema") {
        let mut left = ARGUMENTS;
        arguments(schema, DEPTH, &mut left, &mut |name: &str| each(Field::Arguments, name));
    }
}

/// The names of arguments, wherever a schema has properties.
fn arguments(schema: Json<'_>, depth: usize, left: &mut usize, each: &mut impl FnMut(&str)) {
    if depth == 0 || schema.kind() != Kind::Object {
        return;
    }
    for (key, value) in schema.members() {
        match &*key.text() {
            "properties" if value.kind() == Kind::Object => {
                for (name, property) in value.members() {
                    if *left == 0 {
                        return;
                    }
                    *left -= 1;
                    each(&name.text());
                    arguments(property, depth - 1, left, each);
                }
            }
            "items" | "additionalProperties" => arguments(value, depth - 1, left, each),
            "anyOf" | "oneOf" | "allOf" if value.kind() == Kind::Array => {
                for branch in value.elements().take(ARGUMENTS) {
                    arguments(branch, depth - 1, left, each);
                }
            }
            _ => {}
        }
    }
}
