//! One immutable picture of everything clients can see: the plan over the catalog, exposed names, prepared lists, the way to
//! each target.
//!
//! Built when the registry, the catalog or the naming changes, never by a request. A request takes the current generation once and
//! keeps it to its last byte.

mod clean;
mod entry;
mod offer;
mod own;
mod search;
mod uris;

use crate::authorize::Classes;
use crate::config::{Discovery, DiscoveryMode};
use crate::limits::fits;
use crate::metrics::ToolSeries;
use crate::naming::{Names, Wish};
use crate::store::Loaded;
use bytes::Bytes;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use transom_protocol::json::{Json, Key};
use transom_protocol::write::{self, Edit};
use transom_protocol::{Era, uri};
use transom_registry::mask::Mask;
use transom_registry::name::TargetName;
use transom_registry::{Catalog, Listed, Plan, Tools};
use transom_upstream::{Capabilities, Status, Target};
use transom_views::search::Index;

pub use entry::Entry;
pub use offer::{Checked, CheckedOffer};
pub use own::Own;

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
    /// What hides the secrets that the config gives it.
    pub mask: Option<Arc<Mask>>,
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

/// A prepared list.
struct Listing {
    /// What is listed, in order.
    entries: Vec<Arc<Entry>>,
    /// What a target that is down offered last: callable only to be told so.
    remembered: Vec<Arc<Entry>>,
    /// `"tools":[…]`.
    body: Bytes,
    /// Whether that is the short list.
    short: bool,
}

/// Entries in service, and those of targets that are down.
type Sorted = (Vec<Arc<Entry>>, Vec<Arc<Entry>>);

type ByName = HashMap<Arc<str>, Arc<Entry>, foldhash::fast::RandomState>;

/// What the registry has to say about tools.
#[derive(Clone, Default)]
pub enum Registry {
    /// There is none: every tool passes through.
    #[default]
    None,
    /// There is one, and it was never loaded: no tool is shown.
    Awaited,
    /// This.
    Loaded(Arc<Loaded>),
}

impl Registry {
    /// The plan in force.
    pub fn loaded(&self) -> Option<&Arc<Loaded>> {
        match self {
            Registry::Loaded(loaded) => Some(loaded),
            Registry::None | Registry::Awaited => None,
        }
    }

    fn passes(&self, target: &str, tool: &str) -> bool {
        match self {
            Registry::None => true,
            Registry::Awaited => false,
            Registry::Loaded(loaded) => loaded.plan.passes(target, tool),
        }
    }
}

/// What a generation is built from.
pub struct Material {
    /// The targets, in the order of the config.
    pub views: Vec<View>,
    /// What the registry has to say.
    pub registry: Registry,
    /// What stands between a target's name and a tool's.
    pub separator: String,
    /// Which tools lists show.
    pub discovery: Discovery,
}

impl Default for Material {
    fn default() -> Self {
        Material { views: Vec::new(), registry: Registry::None, separator: "__".to_owned(), discovery: Discovery::default() }
    }
}

/// One immutable picture; see the module's documentation.
pub struct Generation {
    /// Its number; 0 before the first.
    pub number: u64,
    registry: Registry,
    tools: Option<Tools>,
    /// What hides the secrets of targets where there is no plan that would.
    masks: HashMap<TargetName, Arc<Mask>>,
    views: Vec<View>,
    separator: String,
    listings: [Listing; 4],
    by_name: [ByName; 4],
    by_source_uri: HashMap<Bytes, Vec<Arc<Entry>>>,
    spellings: OnceLock<HashMap<String, Vec<Arc<Entry>>>>,
    templates: OnceLock<uris::Templates>,
    discovery: Discovery,
    /// The gateway's own tools; none where lists show everything.
    own: Vec<Arc<Entry>>,
    /// Listed tools that are on the short list too.
    pinned: Vec<Arc<Entry>>,
    /// Tools of the registry that have the name of one of our own, and are left out.
    displaced: Vec<String>,
    index: tokio::sync::OnceCell<Index>,
    /// What targets can do, together.
    pub capabilities: Capabilities,
    /// Who sees what of it, as far as it was asked.
    pub classes: Classes,
}

impl Generation {
    /// Before anything is known.
    pub fn empty() -> Generation {
        Generation::build(0, Material::default(), &mut Names::default(), None, &|_| Arc::default())
    }

    /// Puts a picture together. What did not change since `previous` is shared with it.
    pub fn build(
        number: u64,
        material: Material,
        names: &mut Names,
        previous: Option<&Generation>,
        series: &dyn Fn(&str) -> Arc<ToolSeries>,
    ) -> Generation {
        let Material { views, registry, separator, discovery } = material;
        let plan = registry.loaded().map(|loaded| loaded.plan.clone());
        let masks: HashMap<TargetName, Arc<Mask>> =
            views.iter().filter_map(|view| Some((TargetName::new(&view.slot.name), view.slot.mask.clone()?))).collect();
        let tools = plan.as_ref().map(|plan| plan.bind_hiding(&catalog(&views), masks.clone()));
        let own: &[Own] = if discovery.mode == DiscoveryMode::List { &[] } else { &Own::ALL };
        let mut taken = plan.as_deref().map(reserved).unwrap_or_default();
        taken.extend(own.iter().map(|own| Arc::from(own.name())));
        names.reserve(taken);

        let mut draft = Draft { views: &views, previous, series, listings: Default::default(), by_name: Default::default() };
        let own: Vec<Arc<Entry>> = own.iter().map(|own| draft.add(own.entry())).collect();
        let displaced = match (&plan, &tools) {
            (Some(plan), Some(tools)) => draft.add_virtual(plan, tools),
            _ => Vec::new(),
        };
        let by_source_uri = draft.add_offers(&registry, names);
        let Draft { listings, by_name, .. } = draft;
        let mut pinned = Vec::new();
        let mut kinds = Kind::ALL.into_iter();
        let listings = listings.map(|(entries, remembered)| {
            let kind = kinds.next().unwrap_or(Kind::Tool);
            if kind == Kind::Tool && !own.is_empty() {
                pinned = entries.iter().filter(|entry| is_pinned(&discovery, entry)).cloned().collect();
                if discovery.mode == DiscoveryMode::Search || entries.len() > discovery.threshold {
                    return Listing { entries, remembered, body: body(kind, own.iter().chain(&pinned)), short: true };
                }
            }
            let old = previous.and_then(|previous| previous.listings.get(kind as usize)).filter(|old| !old.short);
            let unchanged = |old: &&Listing| old.entries.len() == entries.len() && old.entries.iter().zip(&entries).all(|(a, b)| Arc::ptr_eq(a, b));
            let body = old.filter(unchanged).map_or_else(|| body(kind, entries.iter()), |old| old.body.clone());
            Listing { entries, remembered, body, short: false }
        });
        let capabilities = capabilities(&views);
        Generation {
            number,
            registry,
            tools,
            masks,
            views,
            separator,
            listings,
            by_name,
            by_source_uri,
            spellings: OnceLock::new(),
            templates: OnceLock::new(),
            discovery,
            own,
            pinned,
            displaced,
            index: tokio::sync::OnceCell::new(),
            capabilities,
            classes: Classes::default(),
        }
    }

    /// What the registry had to say.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The plan over the catalog, where there is a plan.
    pub fn tools(&self) -> Option<&Tools> {
        self.tools.as_ref()
    }

    /// What hides the secrets that were sent to a target in all that comes back from it.
    pub fn mask(&self, target: &str) -> Option<&Arc<Mask>> {
        match &self.tools {
            Some(tools) => tools.mask(target),
            None => self.masks.get(target),
        }
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

    /// Which tools lists show.
    pub fn discovery(&self) -> &Discovery {
        &self.discovery
    }

    /// Whether some lists are short.
    pub fn discovers(&self) -> bool {
        !self.own.is_empty()
    }

    /// The tools of a short list, whoever sees them: our own, then those that are pinned.
    pub fn short(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.own.iter().chain(&self.pinned)
    }

    /// Tools of the registry that are left out because one of our own has their name.
    pub fn displaced(&self) -> &[String] {
        &self.displaced
    }

    /// What targets that are down offered last.
    pub fn remembered(&self, kind: Kind) -> &[Arc<Entry>] {
        self.listings.get(kind as usize).map_or(&[], |listing| &listing.remembered)
    }

    /// Everything there is, of every kind, what is remembered included; always in the same order, and listed tools first. Our own tools are
    /// not among it: nobody judges them.
    pub fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.listings.iter().flat_map(|listing| listing.entries.iter().chain(&listing.remembered))
    }

    /// `"tools":[…]`, prepared.
    pub fn body(&self, kind: Kind) -> Bytes {
        self.listings.get(kind as usize).map_or_else(Bytes::new, |listing| listing.body.clone())
    }

    /// The thing with this exposed name.
    pub fn named(&self, kind: Kind, name: &str) -> Option<&Arc<Entry>> {
        self.by_name.get(kind as usize)?.get(name)
    }

    /// The tools that this is another spelling of: `target__tool`, `target:tool` or `target_tool`.
    pub fn spelled(&self, name: &str) -> &[Arc<Entry>] {
        self.spellings.get_or_init(|| self.spell()).get(name).map_or(&[], Vec::as_slice)
    }

    /// The resources that targets list under this URI of their own.
    pub fn with_source_uri(&self, uri: &str) -> &[Arc<Entry>] {
        self.by_source_uri.get(uri.as_bytes()).map_or(&[], Vec::as_slice)
    }

    /// Virtual tools have one name and no other: it is the contract.
    fn spell(&self) -> HashMap<String, Vec<Arc<Entry>>> {
        let mut spellings: HashMap<String, Vec<Arc<Entry>>> = HashMap::new();
        let Some(listing) = self.listings.first() else { return spellings };
        for entry in listing.entries.iter().chain(&listing.remembered).filter(|entry| entry.virtual_tool().is_none()) {
            let names = [entry.unprefixed(), entry.source_name()];
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

/// What the targets offer, for the engine. A target that is down counts with what it offered last: its tools keep their
/// definitions, and whether they can be called is the gateway's business.
fn catalog(views: &[View]) -> Catalog {
    let offer = |view: &View| transom_registry::Offer {
        target: view.slot.name.to_string(),
        available: view.offer.is_some(),
        tools: view.offer.iter().flat_map(|offer| &offer.tools).filter_map(|item| item.tool.clone()).collect(),
    };
    Catalog { targets: views.iter().map(offer).collect() }
}

fn is_pinned(discovery: &Discovery, entry: &Entry) -> bool {
    discovery.pinned.iter().any(|pattern| fits(pattern, entry.exposed()) || fits(pattern, entry.unprefixed()))
}

/// Names that belong to the registry: also those of tools that are out, so that nobody reaches something else under them.
fn reserved(plan: &Plan) -> HashSet<Arc<str>> {
    plan.tools().map(|tool| tool.name()).chain(plan.quarantined().iter().map(|tool| tool.name.as_str())).map(Arc::from).collect()
}

fn capabilities(views: &[View]) -> Capabilities {
    let mut together = Capabilities::default();
    for offer in views.iter().filter(|view| view.available()).filter_map(|view| view.offer.as_ref()) {
        let can = offer.offer.capabilities;
        together.tools |= can.tools;
        together.prompts |= can.prompts;
        together.resources |= can.resources;
        together.subscribe |= can.subscribe;
        together.completions |= can.completions;
        together.logging |= can.logging;
        together.legacy_tasks |= can.legacy_tasks;
        together.legacy_task_cancel |= can.legacy_task_cancel;
        together.modern_tasks |= can.modern_tasks;
    }
    together
}

/// A generation on its way.
struct Draft<'d> {
    views: &'d [View],
    previous: Option<&'d Generation>,
    series: &'d dyn Fn(&str) -> Arc<ToolSeries>,
    listings: [Sorted; 4],
    by_name: [ByName; 4],
}

impl Draft<'_> {
    /// The registry's tools, in its order. Gives those that cannot have their name.
    fn add_virtual(&mut self, plan: &Plan, tools: &Tools) -> Vec<String> {
        let mut displaced = Vec::new();
        let listed: HashMap<&str, &Listed> =
            tools.list().filter(|listed| listed.virtual_tool().is_some()).map(|listed| (listed.name(), listed)).collect();
        for tool in plan.tools() {
            if self.by_name.first().is_some_and(|names| names.contains_key(tool.name())) {
                displaced.push(tool.name().to_owned());
                continue;
            }
            let target = tool.source().map(|(target, _)| target);
            let view = target.and_then(|target| self.views.iter().find(|view| &*view.slot.name == target));
            let (json, headers, virtual_tool, absent) = match (listed.get(tool.name()), tools.absence(tool.name())) {
                (Some(listed), _) => {
                    (Bytes::copy_from_slice(listed.json().as_bytes()), listed.headers().to_vec(), listed.virtual_tool().cloned(), None)
                }
                (None, Some((_, why))) => {
                    let json = format!("{{\"name\":{},\"description\":\"\",\"inputSchema\":{{\"type\":\"object\"}}}}", write::quoted(tool.name()));
                    (json.into(), Vec::new(), plan.shared_tool(tool.name()), Some(why.to_owned()))
                }
                // Quarantined by what its source looks like.
                (None, None) => continue,
            };
            self.add(Entry {
                kind: Kind::Tool,
                exposed: tool.name().into(),
                source: tool.source().map_or_else(Bytes::new, |(_, source)| Bytes::copy_from_slice(source.as_bytes())),
                slot: view.map(|view| view.slot.clone()),
                json,
                available: absent.is_none() && view.is_none_or(View::available),
                era: view.and_then(|view| view.offer.as_ref()).map_or(Era::Legacy, |offer| offer.offer.era),
                wish: tool.name().to_owned(),
                headers,
                series: Arc::default(),
                virtual_tool,
                absent,
                own: None,
                subject: OnceLock::new(),
                takes: OnceLock::new(),
            });
        }
        displaced
    }

    /// What targets offer and the registry leaves as it is.
    fn add_offers(&mut self, registry: &Registry, names: &mut Names) -> HashMap<Bytes, Vec<Arc<Entry>>> {
        let views = self.views;
        let each = || {
            let offers = views.iter().filter_map(|view| Some((view, view.offer.as_ref()?)));
            let items = offers.flat_map(|(view, offer)| {
                Kind::ALL.into_iter().flat_map(move |kind| offer.items(kind).iter().map(move |item| (view, offer, kind, item)))
            });
            items.filter(|(view, _, kind, item)| {
                *kind != Kind::Tool || std::str::from_utf8(&item.source).is_ok_and(|tool| registry.passes(&view.slot.name, tool))
            })
        };
        let is_named = |kind: Kind| matches!(kind, Kind::Tool | Kind::Prompt);
        let wishes: Vec<Wish<'_>> =
            each().filter(|(_, _, kind, _)| is_named(*kind)).map(|(view, _, kind, item)| (kind, &*view.slot.name, item.wish.as_str())).collect();
        let mut given = names.give(&wishes).into_iter();
        let mut by_source_uri: HashMap<Bytes, Vec<Arc<Entry>>> = HashMap::new();
        for (view, offer, kind, item) in each() {
            let exposed: Arc<str> = match kind {
                Kind::Tool | Kind::Prompt => match given.next().flatten() {
                    Some(name) => name,
                    None => continue,
                },
                Kind::Resource => uri::exposed(&view.slot.name, &item.wish).into(),
                Kind::Template => uri::exposed_template(&view.slot.name, &item.wish).into(),
            };
            let entry = self.add(Entry {
                kind,
                source: item.source.clone(),
                slot: Some(view.slot.clone()),
                json: with_name(kind, &item.json, &exposed),
                available: view.available(),
                era: offer.offer.era,
                wish: item.wish.clone(),
                headers: item.tool.as_ref().map(|tool| tool.headers.clone()).unwrap_or_default(),
                series: Arc::default(),
                virtual_tool: None,
                absent: None,
                own: None,
                subject: OnceLock::new(),
                takes: OnceLock::new(),
                exposed,
            });
            if kind == Kind::Resource {
                by_source_uri.entry(item.source.clone()).or_default().push(entry);
            }
        }
        by_source_uri
    }

    /// Enters one thing under its name, if that is free. What did not change is the object it was before.
    fn add(&mut self, mut entry: Entry) -> Arc<Entry> {
        let at = entry.kind as usize;
        let old = self.previous.and_then(|previous| previous.by_name.get(at)?.get(&entry.exposed)).filter(|old| old.is_same_as(&entry));
        let entry = match old {
            Some(old) => old.clone(),
            None => {
                if entry.kind == Kind::Tool {
                    entry.series = (self.series)(&entry.exposed);
                }
                Arc::new(entry)
            }
        };
        if let (Some(names), Some((listed, remembered))) = (self.by_name.get_mut(at), self.listings.get_mut(at))
            && names.insert(entry.exposed.clone(), entry.clone()).is_none()
            && entry.own.is_none()
        {
            if entry.available { listed.push(entry.clone()) } else { remembered.push(entry.clone()) }
        }
        entry
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
