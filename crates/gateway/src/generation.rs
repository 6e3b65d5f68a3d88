//! One immutable picture of everything clients can see: exposed names, prepared lists, the way to each target.
//!
//! Built when the catalog or the naming changes, never by a request. A request takes the current generation once and
//! keeps it to its last byte.

use crate::metrics::ToolSeries;
use crate::naming::{Names, Wish};
use bytes::Bytes;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use transom_protocol::json::{Json, Key};
use transom_protocol::write::{self, Edit};
use transom_protocol::{Era, uri};
use transom_registry::name::{is_portable, is_sound};
use transom_registry::source::{ParamHeader, SourceTool};
use transom_upstream::{Capabilities, Item, Offer, Status, Target};

/// What a listing lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Kind {
    /// Tools.
    Tool,
    /// Prompts.
    Prompt,
    /// Resources.
    Resource,
    /// Resource templates.
    Template,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 4] = [Kind::Tool, Kind::Prompt, Kind::Resource, Kind::Template];

    /// The member of a list result that holds them.
    pub fn member(self) -> &'static str {
        match self {
            Kind::Tool => "tools",
            Kind::Prompt => "prompts",
            Kind::Resource => "resources",
            Kind::Template => "resourceTemplates",
        }
    }

    /// As error texts call one.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Tool => "Tool",
            Kind::Prompt => "Prompt",
            Kind::Resource | Kind::Template => "Resource",
        }
    }

    fn name_member(self) -> &'static str {
        match self {
            Kind::Tool | Kind::Prompt => "name",
            Kind::Resource => "uri",
            Kind::Template => "uriTemplate",
        }
    }
}

/// A running target, the same object in every generation.
pub struct Slot {
    /// Its name.
    pub name: Arc<str>,
    /// The way to it.
    pub handle: Target,
    /// How long a call may take.
    pub timeout: Duration,
    /// Other names for its tools: alias, then the tool's own name.
    pub aliases: Vec<(String, String)>,
    /// Its client-side series, by outcome.
    pub series: crate::metrics::TargetSeries,
}

/// A target as one generation sees it.
pub struct View {
    /// The target.
    pub slot: Arc<Slot>,
    /// Where it stood.
    pub status: Status,
    /// What it offered; of a target that is down, what it offered last.
    pub offer: Option<Arc<CheckedOffer>>,
}

impl View {
    /// Whether it is in service.
    pub fn available(&self) -> bool {
        self.status == Status::Connected
    }
}

/// An offer whose every part was checked once.
pub struct CheckedOffer {
    /// As the target wrote it.
    pub offer: Arc<Offer>,
    /// The aliases it was checked with.
    pub aliases: Vec<(String, String)>,
    items: [Vec<Checked>; 4],
}

struct Checked {
    source: Bytes,
    /// The name it would like: its own or an alias.
    wish: String,
    json: Bytes,
    headers: Vec<ParamHeader>,
}

impl CheckedOffer {
    /// Checks an offer. What is wrong is logged and left out; the rest stands.
    pub fn check(target: &str, aliases: &[(String, String)], offer: Arc<Offer>) -> CheckedOffer {
        let mut seen: HashSet<&str> = HashSet::new();
        let mut tools = Vec::with_capacity(offer.tools.len());
        for item in &offer.tools {
            let text = std::str::from_utf8(&item.json).unwrap_or("");
            match SourceTool::read(text) {
                _ if !seen.insert(&item.name) => tracing::warn!(target = target, tool = item.name, "tool is offered twice; the first one counts"),
                _ if !is_sound(&item.name) => {
                    tracing::error!(target = target, tool = ?item.name, "tool is left out: its name is empty, over 128 bytes long, or has characters that deceive readers");
                }
                Err(reason) => tracing::error!(target = target, tool = item.name, reason, "tool is left out: its definition is not sound"),
                Ok(tool) => {
                    let alias = aliases.iter().find(|(_, name)| *name == item.name).map(|(alias, _)| alias.clone());
                    let wish = alias.unwrap_or_else(|| item.name.clone());
                    if !is_portable(&wish) {
                        tracing::warn!(
                            target = target,
                            tool = wish,
                            "some LLM providers refuse this tool name: over 64 characters, or other than A-Z a-z 0-9 _ -"
                        );
                    }
                    let json = if tool.json.len() == item.json.len() { item.json.clone() } else { Bytes::from(tool.json) };
                    tools.push(Checked { source: Bytes::copy_from_slice(item.name.as_bytes()), wish, json, headers: tool.headers });
                }
            }
        }
        for (alias, name) in aliases {
            if !offer.tools.iter().any(|tool| tool.name == *name) {
                tracing::warn!(target = target, alias, tool = name, "alias names a tool that the target does not offer");
            }
        }
        let plain = |items: &[Item]| -> Vec<Checked> {
            let mut seen = HashSet::new();
            let first = items.iter().filter(|item| !item.name.chars().any(char::is_control) && seen.insert(item.name.as_str()));
            first
                .map(|item| Checked {
                    source: Bytes::copy_from_slice(item.name.as_bytes()),
                    wish: item.name.clone(),
                    json: item.json.clone(),
                    headers: Vec::new(),
                })
                .collect()
        };
        let items = [tools, plain(&offer.prompts), plain(&offer.resources), plain(&offer.templates)];
        CheckedOffer { offer, aliases: aliases.to_vec(), items }
    }
}

/// One thing a client can see and use.
pub struct Entry {
    kind: Kind,
    exposed: Arc<str>,
    source: Bytes,
    slot: Arc<Slot>,
    json: Bytes,
    available: bool,
    era: Era,
    wish: String,
    /// Arguments that travel as headers too.
    pub headers: Vec<ParamHeader>,
    /// Its server-side series, by outcome.
    pub series: Arc<ToolSeries>,
}

impl Entry {
    /// Its exposed name, or URI.
    pub fn exposed(&self) -> &str {
        &self.exposed
    }

    /// The target's own name for it.
    pub fn source(&self) -> &Bytes {
        &self.source
    }

    /// The target's own name for it, as text.
    pub fn source_name(&self) -> &str {
        std::str::from_utf8(&self.source).unwrap_or("")
    }

    /// Its target's name.
    pub fn target_name(&self) -> &str {
        &self.slot.name
    }

    /// Its target.
    pub fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }

    /// The definition as clients read it.
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// Which era its target speaks, or spoke last.
    pub fn era(&self) -> Era {
        self.era
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether its target was in service.
    pub fn available(&self) -> bool {
        self.available
    }
}

/// A prepared list.
struct Listing {
    /// What is listed, in order.
    entries: Vec<Arc<Entry>>,
    /// What a target that is down offered last: callable only to be told so.
    remembered: Vec<Arc<Entry>>,
    /// `"tools":[…]`.
    body: Bytes,
}

/// Entries in service, and those of targets that are down.
type Sorted = (Vec<Arc<Entry>>, Vec<Arc<Entry>>);

/// How a name was found.
pub enum Found {
    /// This is it.
    One(Arc<Entry>),
    /// Several things match; their exposed names.
    Many(Vec<String>),
    /// Nothing does.
    None,
}

type ByName = HashMap<Arc<str>, Arc<Entry>, foldhash::fast::RandomState>;

/// One immutable picture; see the module's documentation.
pub struct Generation {
    /// Its number; 0 before the first.
    pub number: u64,
    views: Vec<View>,
    separator: String,
    listings: [Listing; 4],
    by_name: [ByName; 4],
    by_source_uri: HashMap<Bytes, Vec<Arc<Entry>>>,
    spellings: OnceLock<HashMap<String, Vec<Arc<Entry>>>>,
    /// What targets can do, together.
    pub capabilities: Capabilities,
}

impl Generation {
    /// Before anything is known.
    pub fn empty() -> Generation {
        Generation::build(0, Vec::new(), &mut Names::default(), None, "__", &|_| Arc::default())
    }

    /// Puts a picture together. What did not change since `previous` is shared with it.
    pub fn build(
        number: u64,
        views: Vec<View>,
        names: &mut Names,
        previous: Option<&Generation>,
        separator: &str,
        series: &dyn Fn(&str) -> Arc<ToolSeries>,
    ) -> Generation {
        let mut wishes: Vec<Wish<'_>> = Vec::new();
        let each = || {
            views.iter().filter_map(|view| Some((view, view.offer.as_ref()?))).flat_map(|(view, offer)| {
                Kind::ALL.into_iter().flat_map(move |kind| offer.items.get(kind as usize).into_iter().flatten().map(move |item| (view, kind, item)))
            })
        };
        let is_named = |kind: Kind| matches!(kind, Kind::Tool | Kind::Prompt);
        for (view, kind, item) in each().filter(|(_, kind, _)| is_named(*kind)) {
            wishes.push((kind, &view.slot.name, &item.wish));
        }
        let mut given = names.give(&wishes).into_iter();

        let mut listings: [Sorted; 4] = Default::default();
        let mut by_name: [ByName; 4] = Default::default();
        let mut by_source_uri: HashMap<Bytes, Vec<Arc<Entry>>> = HashMap::new();
        for (view, kind, item) in each() {
            let exposed: Arc<str> = match kind {
                Kind::Tool | Kind::Prompt => match given.next().flatten() {
                    Some(name) => name,
                    None => continue,
                },
                Kind::Resource => uri::exposed(&view.slot.name, &item.wish).into(),
                Kind::Template => uri::exposed_template(&view.slot.name, &item.wish).into(),
            };
            let old = previous.and_then(|previous| previous.by_name.get(kind as usize)?.get(&exposed));
            let same = |old: &&Arc<Entry>| {
                Arc::ptr_eq(&old.slot, &view.slot)
                    && old.source == item.source
                    && old.available == view.available()
                    && Some(old.era) == view.offer.as_ref().map(|offer| offer.offer.era)
                    && old.headers == item.headers
            };
            let era = view.offer.as_ref().map_or(Era::Legacy, |offer| offer.offer.era);
            let json = with_name(kind, &item.json, &exposed);
            let entry = match old.filter(same) {
                Some(old) if old.json == json => old.clone(),
                _ => Arc::new(Entry {
                    kind,
                    source: item.source.clone(),
                    slot: view.slot.clone(),
                    json,
                    available: view.available(),
                    era,
                    wish: item.wish.clone(),
                    headers: item.headers.clone(),
                    series: if kind == Kind::Tool { series(&exposed) } else { Arc::default() },
                    exposed: exposed.clone(),
                }),
            };
            if kind == Kind::Resource {
                by_source_uri.entry(item.source.clone()).or_default().push(entry.clone());
            }
            if let (Some(names), Some((listed, remembered))) = (by_name.get_mut(kind as usize), listings.get_mut(kind as usize))
                && names.insert(exposed, entry.clone()).is_none()
            {
                if view.available() { listed.push(entry) } else { remembered.push(entry) }
            }
        }
        let mut kinds = Kind::ALL.into_iter();
        let listings = listings.map(|(entries, remembered)| {
            let kind = kinds.next().unwrap_or(Kind::Tool);
            let old = previous.and_then(|previous| previous.listings.get(kind as usize));
            let unchanged = |old: &&Listing| old.entries.len() == entries.len() && old.entries.iter().zip(&entries).all(|(a, b)| Arc::ptr_eq(a, b));
            let body = old.filter(unchanged).map_or_else(|| body(kind, entries.iter()), |old| old.body.clone());
            Listing { entries, remembered, body }
        });
        let mut capabilities = Capabilities::default();
        for offer in views.iter().filter(|view| view.available()).filter_map(|view| view.offer.as_ref()) {
            let can = offer.offer.capabilities;
            capabilities.tools |= can.tools;
            capabilities.prompts |= can.prompts;
            capabilities.resources |= can.resources;
            capabilities.subscribe |= can.subscribe;
            capabilities.completions |= can.completions;
            capabilities.logging |= can.logging;
        }
        Generation { number, views, separator: separator.to_owned(), listings, by_name, by_source_uri, spellings: OnceLock::new(), capabilities }
    }

    /// The targets, in the order of the config.
    pub fn views(&self) -> &[View] {
        &self.views
    }

    /// The target with this name.
    pub fn view(&self, target: &str) -> Option<&View> {
        self.views.iter().find(|view| &*view.slot.name == target)
    }

    /// Names of targets that are not in service.
    pub fn unavailable(&self) -> impl Iterator<Item = &str> {
        self.views.iter().filter(|view| !view.available()).map(|view| &*view.slot.name)
    }

    /// What is listed, in order.
    pub fn listed(&self, kind: Kind) -> &[Arc<Entry>] {
        self.listings.get(kind as usize).map_or(&[], |listing| &listing.entries)
    }

    /// What targets that are down offered last.
    pub fn remembered(&self, kind: Kind) -> &[Arc<Entry>] {
        self.listings.get(kind as usize).map_or(&[], |listing| &listing.remembered)
    }

    /// `"tools":[…]`, prepared.
    pub fn body(&self, kind: Kind) -> Bytes {
        self.listings.get(kind as usize).map_or_else(Bytes::new, |listing| listing.body.clone())
    }

    /// The thing with this exposed name; else the one that another spelling (`target__tool`, `target:tool`,
    /// `target_tool`) can only mean.
    pub fn find(&self, kind: Kind, name: &str) -> Found {
        if let Some(entry) = self.by_name.get(kind as usize).and_then(|names| names.get(name)) {
            return Found::One(entry.clone());
        }
        if kind != Kind::Tool {
            return Found::None;
        }
        let spellings = self.spellings.get_or_init(|| self.spell());
        match spellings.get(name).map(Vec::as_slice) {
            None | Some([]) => Found::None,
            Some([one]) => Found::One(one.clone()),
            Some(many) => Found::Many(many.iter().map(|entry| entry.exposed().to_owned()).collect()),
        }
    }

    /// The resources that targets list under this URI of their own.
    pub fn with_source_uri(&self, uri: &str) -> &[Arc<Entry>] {
        self.by_source_uri.get(uri.as_bytes()).map_or(&[], Vec::as_slice)
    }

    fn spell(&self) -> HashMap<String, Vec<Arc<Entry>>> {
        let mut spellings: HashMap<String, Vec<Arc<Entry>>> = HashMap::new();
        let Some(listing) = self.listings.first() else { return spellings };
        for entry in listing.entries.iter().chain(&listing.remembered) {
            let names = [entry.wish.as_str(), entry.source_name()];
            for spelling in Names::spellings(&self.separator, entry.target_name(), &names) {
                spellings.entry(spelling).or_default().push(entry.clone());
            }
        }
        for matches in spellings.values_mut() {
            matches.sort_by_key(|entry| std::cmp::Reverse(entry.target_name().len()));
        }
        spellings
    }
}

/// `"tools":[…]` for these entries.
pub fn body<'e>(kind: Kind, entries: impl Iterator<Item = &'e Arc<Entry>>) -> Bytes {
    let mut out = Vec::new();
    write::string(&mut out, kind.member());
    out.extend_from_slice(b":[");
    for (at, entry) in entries.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&entry.json);
    }
    out.push(b']');
    out.into()
}

/// A definition under its exposed name; the same bytes if the name is the target's own.
fn with_name(kind: Kind, json: &Bytes, exposed: &str) -> Bytes {
    let Ok(text) = std::str::from_utf8(json) else { return json.clone() };
    let object = Json::trusted(text);
    let member = kind.name_member();
    if object.get(member).and_then(Json::string).as_deref() == Some(exposed) {
        return json.clone();
    }
    let name = write::quoted(exposed);
    write::edited(object, |key: Key<'_>, _| if key.is(member) { Edit::Set(name.as_bytes()) } else { Edit::Keep }, &[]).into()
}
