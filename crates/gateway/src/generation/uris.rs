//! Which resource of which target a URI of ours means, and the way back.
//!
//! What a target lists is encoded as a whole. What it does not list and one of its templates fits was expanded by a client: what
//! stands for the variables is the client's writing, and stays as it is.

use super::{Generation, Kind};
use std::collections::HashMap;
use transom_protocol::uri::{self, Template};

/// So many templates of a target are held against a URI: looking takes time on the road of requests.
const TRIED: usize = 256;

/// So many times URIs of one result are held against templates.
const TRIES: usize = 16_384;

/// The templates of each target; those that decide most of a URI first.
pub(super) type Templates = HashMap<String, Vec<Template>>;

impl Generation {
    /// Target and URI behind a URI of ours, if it is one.
    pub fn resolve_uri(&self, exposed: &str) -> Option<(String, String)> {
        let (target, rest) = uri::split(exposed)?;
        if let Some(template) = self.named(Kind::Template, exposed) {
            return Some((target, template.source_name().to_owned()));
        }
        let whole = uri::decoded(rest);
        let expanded = match &whole {
            Some(uri) if self.lists(&target, uri) => None,
            _ => self.templates(&target).iter().find_map(|template| template.resolve(rest)),
        };
        expanded.or(whole).map(|uri| (target, uri))
    }

    /// The URI of ours for one of a target.
    pub fn expose_uri(&self, target: &str, uri: &str) -> String {
        let leads_back = |exposed: &String| self.resolve_uri(exposed).is_some_and(|(_, back)| back == uri);
        let expanded = match self.lists(target, uri) {
            true => None,
            false => self.templates(target).iter().find_map(|template| template.expose(target, uri)).filter(leads_back),
        };
        expanded.unwrap_or_else(|| uri::exposed(target, uri))
    }

    /// How many URIs of one result may be held against the target's templates.
    pub fn uris_to_try(&self, target: &str) -> usize {
        TRIES / self.templates(target).len().max(1)
    }

    fn lists(&self, target: &str, uri: &str) -> bool {
        self.with_source_uri(uri).iter().any(|entry| entry.target_name() == target)
    }

    fn templates(&self, target: &str) -> &[Template] {
        self.templates.get_or_init(|| self.take_templates_apart()).get(target).map_or(&[], Vec::as_slice)
    }

    fn take_templates_apart(&self) -> Templates {
        let mut templates = Templates::new();
        let Some(listing) = self.listings.get(Kind::Template as usize) else { return templates };
        for entry in listing.entries.iter().chain(&listing.remembered) {
            templates.entry(entry.target_name().to_owned()).or_default().push(Template::new(entry.source_name()));
        }
        for of_target in templates.values_mut() {
            of_target.sort_by_key(|template| std::cmp::Reverse(template.weight()));
            of_target.truncate(TRIED);
        }
        templates
    }
}
