//! Tools in the formats of LLM providers, as their APIs take them in the `tools` of a request.
//!
//! Each provider refuses a whole request for one tool that it does not like, so what is exported is what every tool of the
//! list can be sent as: names within the provider's alphabet ([`SafeNames`]), schemas within its dialect.

mod gemini;
mod merge;
mod names;
mod schema;

pub use names::{LONGEST_NAME, SafeNames, original};

use crate::Tool;
use std::fmt;
use transom_json::{Json, Object, Tree};

/// What OpenAI's API accepts as a function's description.
const LONGEST_OPENAI_DESCRIPTION: usize = 1024;

/// Whose format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// OpenAI's chat completions, and what imitates them.
    OpenAi,
    /// Ollama, from 0.1.26 on.
    Ollama,
    /// Gemini's function declarations.
    Gemini,
    /// Anthropic's messages.
    Anthropic,
}

/// A provider that nobody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported(String);

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let supported = Provider::ALL.map(Provider::name).join(", ");
        write!(f, "unsupported provider \"{}\"; supported: {supported}", self.0)
    }
}

impl std::error::Error for Unsupported {}

impl Provider {
    /// All of them, in the order in which texts name them.
    pub const ALL: [Provider; 4] = [Provider::OpenAi, Provider::Ollama, Provider::Gemini, Provider::Anthropic];

    /// Its name in URLs and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Provider::OpenAi => "openai",
            Provider::Ollama => "ollama",
            Provider::Gemini => "gemini",
            Provider::Anthropic => "anthropic",
        }
    }

    /// The provider with this name.
    pub fn parse(text: &str) -> Result<Provider, Unsupported> {
        // An error text must not grow with what somebody sends.
        let shown = || text.chars().take(64).flat_map(char::escape_debug).collect();
        Provider::ALL.into_iter().find(|provider| provider.name() == text).ok_or_else(|| Unsupported(shown()))
    }

    /// One tool, under a name of [`SafeNames`].
    fn tool(self, name: &str, definition: Json<'_>) -> Tree {
        let description = description(definition);
        match self {
            Provider::OpenAi | Provider::Ollama => {
                let description = match self {
                    Provider::OpenAi => shortened(description.unwrap_or_default(), LONGEST_OPENAI_DESCRIPTION),
                    _ => description.unwrap_or_default(),
                };
                let function =
                    [("name", name.into()), ("description", Tree::String(description)), ("parameters", Tree::Object(schema::object(definition)))];
                object([("type", "function".into()), ("function", object(function))])
            }
            Provider::Anthropic => {
                let description = description.map(|text| ("description", Tree::String(text)));
                let schema = ("input_schema", Tree::Object(schema::object(definition)));
                object([("name", name.into())].into_iter().chain(description).chain([schema]))
            }
            Provider::Gemini => {
                // Gemini asks for a description; a tool that has none is at least called something.
                let description = ("description", Tree::String(description.unwrap_or_else(|| name.to_owned())));
                let parameters = gemini::parameters(schema::object(definition)).map(|parameters| ("parameters", Tree::Object(parameters)));
                let declaration = object([("name", name.into()), description].into_iter().chain(parameters));
                object([("functionDeclarations", Tree::Array(vec![declaration]))])
            }
        }
    }
}

/// These tools as a JSON array in the provider's format, in their order. The names come from the whole list that the reader
/// sees, so that a tool is called the same in every part of it.
pub fn export<'t>(provider: Provider, tools: impl IntoIterator<Item = Tool<'t>>, names: &SafeNames<'t>) -> String {
    let tools = tools.into_iter().map(|tool| provider.tool(names.safe(tool.name), tool.definition));
    Tree::Array(tools.collect()).to_string()
}

/// Which tools of a list are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed(Option<Vec<String>>);

impl Allowed {
    /// Names with commas between them. No list at all means every tool; an empty one means none.
    pub fn read(list: Option<&str>) -> Allowed {
        Allowed(list.map(|list| list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()))
    }

    /// Whether it is wanted, by its own or its safe name.
    pub fn admits(&self, name: &str, safe: &str) -> bool {
        self.0.as_ref().is_none_or(|wanted| wanted.iter().any(|wanted| wanted == name || wanted == safe))
    }
}

/// What the model reads: the description, or else the title.
fn description(definition: Json<'_>) -> Option<String> {
    let text = |member: &str| definition.get(member).and_then(Json::string).filter(|text| !text.trim().is_empty());
    text("description").or_else(|| text("title")).map(|text| text.into_owned())
}

/// At most so many characters, cut between words where that is possible.
fn shortened(text: String, most: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(most.saturating_sub(1)).filter(|_| text.chars().nth(most).is_some()) else { return text };
    let kept = text.get(..end).unwrap_or_default();
    let word = kept.rfind(char::is_whitespace).filter(|at| *at > end / 2).unwrap_or(end);
    format!("{}…", kept.get(..word).unwrap_or_default().trim_end())
}

fn object<'m>(members: impl IntoIterator<Item = (&'m str, Tree)>) -> Tree {
    Tree::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Object>())
}

#[cfg(test)]
mod tests;
