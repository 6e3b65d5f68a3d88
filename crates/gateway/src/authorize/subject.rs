//! What rules can see: what is asked for, who asks, and how.
//!
//! Each variable is one value, made once and lent to every evaluation: a tool's when it is first judged, a principal's
//! when it is first seen. Only arguments and what belongs to one request are made per request, and only for rules that
//! read them.

use crate::generation::{Entry, Kind};
use cel::common::types::{CelBool, CelString};
use cel::common::value::{CowVal, Val};
use cel::context::VariableResolver;
use cel::objects::{Key, Map};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use transom_protocol::json::{Json, Kind as JsonKind};

/// Values that rules may see of the arguments of one call.
const VALUES: usize = 4_096;
/// Bytes of text that rules may see of the arguments of one call.
const TEXT: usize = 64 * 1024;

type Boxed = Box<dyn Val>;

/// What is asked for, in the words of rules.
pub struct Subject {
    kind: Kind,
    /// By the last part of the variable's name: `name`, `tags`.
    members: Vec<(&'static str, Boxed)>,
}

impl Subject {
    /// What this is to rules.
    pub fn of(entry: &Entry) -> Subject {
        let mut members: Vec<(&'static str, Boxed)> = Vec::new();
        let mut add = |name, value: cel::Value| members.extend(boxed(value).map(|value| (name, value)));
        let text = |text: &str| cel::Value::from(text);
        add("target", text(entry.target_name()));
        match entry.kind() {
            Kind::Tool => {
                let definition = Json::trusted(std::str::from_utf8(entry.json()).unwrap_or("{}"));
                let annotations = definition.get("annotations").filter(|annotations| annotations.kind() == JsonKind::Object);
                let title = definition.get("title").or_else(|| annotations?.get("title")).and_then(Json::string);
                add("name", text(entry.unprefixed()));
                add("source", text(entry.source_name()));
                title.into_iter().for_each(|title| add("title", text(&title)));
                add("annotations", whole(annotations.unwrap_or(Json::trusted("{}"))));
                let tool = entry.virtual_tool();
                tool.and_then(|tool| tool.version()).into_iter().for_each(|version| add("version", text(version)));
                let tags = tool.map_or(&[][..], |tool| tool.tags());
                add("tags", cel::Value::List(Arc::new(tags.iter().map(|tag| text(tag)).collect())));
                let mut metadata = Vec::new();
                if let Some(tree) = tool.and_then(|tool| tool.metadata()) {
                    tree.write(&mut metadata);
                }
                add("metadata", whole(Json::trusted(std::str::from_utf8(&metadata).ok().filter(|text| text.starts_with('{')).unwrap_or("{}"))));
            }
            Kind::Prompt => add("name", text(entry.unprefixed())),
            Kind::Resource | Kind::Template => add("uri", text(entry.source_name())),
        }
        Subject { kind: entry.kind(), members }
    }

    /// A resource that nobody lists, by the URI that its target knows: one that fits a template, perhaps.
    pub fn of_resource(target: &str, uri: &str) -> Subject {
        let members = [("target", target), ("uri", uri)];
        let members = members.into_iter().filter_map(|(name, value)| Some((name, boxed(cel::Value::from(value))?))).collect();
        Subject { kind: Kind::Resource, members }
    }

    /// A thing of this kind with these members, JSON; for tests and the fuzzer.
    #[doc(hidden)]
    pub fn with(kind: Kind, members: &[(&'static str, &str)]) -> Subject {
        let members = members.iter().filter_map(|(name, json)| Some((*name, boxed(whole(Json::trusted(json)))?))).collect();
        Subject { kind, members }
    }

    /// Whether it is a tool.
    pub fn is_tool(&self) -> bool {
        self.kind == Kind::Tool
    }

    fn method(&self) -> &'static str {
        match self.kind {
            Kind::Tool => "tools/call",
            Kind::Prompt => "prompts/get",
            Kind::Resource | Kind::Template => "resources/read",
        }
    }

    fn word(&self) -> &'static str {
        match self.kind {
            Kind::Tool => "tool",
            Kind::Prompt => "prompt",
            Kind::Resource | Kind::Template => "resource",
        }
    }

    fn member(&self, path: &str) -> Option<&Boxed> {
        let (word, name) = path.split_once('.')?;
        (word == self.word()).then(|| self.members.iter().find(|(member, _)| *member == name).map(|(_, value)| value))?
    }

    fn has(&self, path: &str) -> Option<bool> {
        match path.split_once('.') {
            None => Some(path == self.word()),
            // A member of something this is not: neither yes nor no.
            Some((word, _)) => (word == self.word()).then(|| self.member(path).is_some()),
        }
    }
}

/// Who asks, in the words of rules.
pub struct Who {
    claims: Option<Boxed>,
    api_key: Option<Boxed>,
}

impl Who {
    /// Somebody with these claims, known by this key if they came with one.
    pub fn new(claims: &serde_json::Map<String, serde_json::Value>, api_key: Option<&str>) -> Who {
        let text = serde_json::to_string(claims).unwrap_or_default();
        Who { claims: boxed(whole(Json::trusted(&text))), api_key: api_key.and_then(|id| boxed(cel::Value::from(id))) }
    }

    /// Nobody in particular.
    #[cfg(test)]
    pub(super) fn nobody() -> Who {
        Who::new(&serde_json::Map::new(), None)
    }
}

/// How it is asked for: what changes from one request of a principal to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Circumstances {
    /// The request's headers, names in lower case, those with credentials left out.
    pub headers: Vec<(String, String)>,
    /// The path of its URL.
    pub path: Option<String>,
    /// The client's name and version, as it says.
    pub client: Option<(String, String)>,
    /// Where it came from.
    pub address: Option<String>,
}

impl Circumstances {
    /// What the head of a request says. Headers with credentials are nobody's business; one that comes twice is one with
    /// a comma.
    pub fn read(parts: &http::request::Parts, peer: IpAddr) -> Circumstances {
        let mut headers: Vec<(String, String)> = Vec::new();
        for (name, value) in parts.headers.iter().filter(|(_, value)| !value.is_sensitive()) {
            let Ok(value) = value.to_str() else { continue };
            match headers.iter_mut().find(|(known, _)| known == name.as_str()) {
                Some((_, known)) => *known = format!("{known}, {value}"),
                None => headers.push((name.as_str().to_owned(), value.to_owned())),
            }
        }
        let address = Some(peer.to_canonical().to_string());
        Circumstances { headers, path: Some(parts.uri.path().to_owned()), client: None, address }
    }

    fn value(&self, path: &str) -> Option<CowVal<'_, '_>> {
        let text = |text: &Option<String>| text.clone().map(|text| CowVal::owned(CelString::from(text)));
        match path {
            "request.headers" => {
                let headers = self.headers.iter().map(|(name, value)| (Key::from(name.clone()), cel::Value::from(value.clone())));
                boxed(cel::Value::Map(Map { map: Arc::new(headers.collect::<HashMap<_, _>>()) })).map(CowVal::Owned)
            }
            "request.path" => text(&self.path),
            "client.name" => self.client.as_ref().map(|(name, _)| CowVal::owned(CelString::from(name.clone()))),
            "client.version" => self.client.as_ref().map(|(_, version)| CowVal::owned(CelString::from(version.clone()))),
            "source.address" => text(&self.address),
            _ => None,
        }
    }
}

/// The arguments of a call, as far as rules may see them; `None` where they are too much to look at.
pub struct Arguments(Option<Boxed>);

impl Arguments {
    /// As the caller sent them; none at all are an empty object.
    pub fn read(arguments: Option<Json<'_>>) -> Arguments {
        let sent = arguments.filter(|sent| sent.kind() != JsonKind::Null).unwrap_or(Json::trusted("{}"));
        Arguments(value(sent, &mut Room { values: VALUES, text: TEXT }).and_then(boxed))
    }
}

/// Everything a rule can see at once.
pub struct Asked<'a> {
    /// What is asked for; `None` for rules that do not look at it.
    pub subject: Option<&'a Subject>,
    /// Who asks.
    pub who: &'a Who,
    /// How, as far as it is known.
    pub circumstances: Option<&'a Circumstances>,
    /// With which arguments; `None` while listing.
    pub arguments: Option<&'a Arguments>,
    /// Whether a rule looked at arguments that are not there yet.
    pub(super) awaited: AtomicBool,
}

impl<'a> Asked<'a> {
    /// Somebody asks for something; nothing more is known.
    pub fn new(subject: Option<&'a Subject>, who: &'a Who) -> Asked<'a> {
        Asked { subject, who, circumstances: None, arguments: None, awaited: AtomicBool::new(false) }
    }

    /// Whether a rule looked at arguments that are not there yet, since this was asked last.
    pub(super) fn awaits_arguments(&self) -> bool {
        self.awaited.swap(false, Relaxed)
    }

    /// The arguments, if they are there; notes that they were missed. Nothing but a tool has any, whoever asks.
    fn sent(&self) -> Option<&'a Arguments> {
        if !self.subject.is_some_and(Subject::is_tool) {
            return None;
        }
        if self.arguments.is_none() {
            self.awaited.store(true, Relaxed);
        }
        self.arguments
    }
}

impl VariableResolver for Asked<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        if let Some(path) = variable.strip_prefix('?') {
            let has = match path.strip_prefix("mcp.") {
                Some("method") => true,
                Some("tool.arguments") => self.sent()?.0.is_some(),
                Some(path) => self.subject?.has(path)?,
                None => self.resolve(path).is_some(),
            };
            return Some(CowVal::owned(CelBool::from(has)));
        }
        if let Some(path) = variable.strip_prefix("mcp.") {
            return match path {
                "method" => Some(CowVal::owned(CelString::from(self.subject?.method()))),
                "tool.arguments" => self.sent()?.0.as_deref().map(CowVal::Borrowed),
                _ => self.subject?.member(path).map(|value| CowVal::Borrowed(&**value)),
            };
        }
        match variable {
            "jwt" => self.who.claims.as_deref().map(CowVal::Borrowed),
            "apiKey.id" => self.who.api_key.as_deref().map(CowVal::Borrowed),
            _ => self.circumstances?.value(variable),
        }
    }
}

fn boxed(value: cel::Value) -> Option<Boxed> {
    Boxed::try_from(value).ok()
}

/// How much of a JSON document may still become values.
struct Room {
    values: usize,
    text: usize,
}

/// A document of ours: there is always room for it.
fn whole(json: Json<'_>) -> cel::Value {
    value(json, &mut Room { values: usize::MAX, text: usize::MAX }).unwrap_or(cel::Value::Null)
}

/// JSON as rules see it. Its depth was bounded when it was checked.
fn value(json: Json<'_>, room: &mut Room) -> Option<cel::Value> {
    room.values = room.values.checked_sub(1)?;
    let text = |text: std::borrow::Cow<'_, str>, room: &mut Room| {
        room.text = room.text.checked_sub(text.len())?;
        Some(Arc::new(text.into_owned()))
    };
    Some(match json.kind() {
        JsonKind::Object => {
            let mut members = HashMap::new();
            for (name, member) in json.members() {
                members.insert(Key::String(text(name.text(), room)?), value(member, room)?);
            }
            cel::Value::Map(Map { map: Arc::new(members) })
        }
        JsonKind::Array => cel::Value::List(Arc::new(json.elements().map(|element| value(element, room)).collect::<Option<Vec<_>>>()?)),
        JsonKind::String => cel::Value::String(text(json.string()?, room)?),
        JsonKind::Number => number(json.raw())?,
        JsonKind::Bool => cel::Value::Bool(json.bool()?),
        JsonKind::Null => cel::Value::Null,
    })
}

/// A number, the same however it was spelled: to whoever reads it in the end, `1000`, `1e3` and `1000.0` are one.
fn number(text: &str) -> Option<cel::Value> {
    if let Ok(whole) = text.parse::<i64>() {
        return Some(cel::Value::Int(whole));
    }
    if let Ok(whole) = text.parse::<u64>() {
        return Some(cel::Value::UInt(whole));
    }
    let float: f64 = text.parse().ok()?;
    // Beyond this, not every whole number is one of its own.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if float.fract() == 0.0 && float.abs() <= EXACT {
        #[allow(clippy::cast_possible_truncation, reason = "a whole number within ±2^53")]
        return Some(cel::Value::Int(float as i64));
    }
    Some(cel::Value::Float(float))
}
