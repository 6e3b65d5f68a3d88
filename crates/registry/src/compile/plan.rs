//! What documents mean: virtual tools, and who stands on which source.

use super::Unlisted;
use crate::file::{Place, Settings};
use crate::local::Implementation;
use crate::mask::Mask;
use crate::name::{FieldPath, TargetName, ToolName};
use crate::pin::Pin;
use crate::result::Projection;
use crate::schema::Rename;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use transom_json::{Json, Tree};

/// What the documents mean, whatever the targets offer.
#[doc(alias = "CompiledRegistry")]
#[derive(Debug)]
pub struct Plan {
    pub(crate) tools: Vec<Arc<VirtualTool>>,
    pub(crate) quarantined: Vec<Quarantined>,
    pub(super) by_name: HashMap<ToolName, usize>,
    pub(super) sources: HashMap<TargetName, HashMap<ToolName, Standing>>,
    pub(crate) masks: HashMap<TargetName, Arc<Mask>>,
    /// What was compiled, so that problems found later have a place too.
    pub(crate) texts: Vec<Box<str>>,
    pub(crate) strict: bool,
    pub(crate) unlisted: Unlisted,
    pub(crate) validate_all: bool,
}

/// A virtual tool that is neither listed nor callable, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Its name, or its place in the document if it has none.
    pub name: String,
    /// The first error it had.
    pub reason: String,
}

/// Who stands on one source.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// The virtual tools, in order.
    pub(super) names: Vec<ToolName>,
    /// Whether somebody wants the source out of sight.
    pub(super) withdrawn: bool,
}

/// One virtual tool, as meant.
#[derive(Debug)]
pub struct VirtualTool {
    pub(crate) name: ToolName,
    pub(crate) base: Base,
    pub(crate) parts: Parts,
    pub(crate) settings: Settings,
    pub(crate) projection: Option<Arc<Projection>>,
    pub(super) version: Option<String>,
    pub(super) tags: Vec<String>,
    pub(super) metadata: Option<Tree>,
    pub(super) depth: usize,
    pub(crate) spot: Spot,
}

/// What a virtual tool stands on in the end.
#[derive(Clone, Debug)]
pub(crate) enum Base {
    /// A tool of a target.
    Source { target: TargetName, tool: ToolName },
    /// Nothing but itself.
    Local(Arc<Implementation>),
}

/// What a tool says and a tool that stands on it inherits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    pub title: Option<String>,
    pub description: Option<String>,
    /// As JSON.
    pub annotations: Option<String>,
    /// In exposed names, named schemas expanded.
    pub input_schema: Option<Arc<Tree>>,
    pub renames: Vec<Rename>,
    pub hidden: Vec<(FieldPath, Range<usize>)>,
    pub defaults: Vec<Filling>,
    pub output: Option<Arc<Output>>,
    pub pin: Option<Pin>,
}

/// The shape of results.
#[derive(Debug)]
pub(crate) struct Output {
    /// With paths, named schemas expanded.
    pub(super) schema: Tree,
    /// As clients see it, as JSON.
    pub advertised: String,
}

/// A value for a field of the source.
#[derive(Clone)]
pub(crate) struct Filling {
    pub path: FieldPath,
    pub value: Arc<Tree>,
    /// Whether it came from the environment or a file and may be shown nowhere.
    pub secret: bool,
    /// Whether it was one placeholder and nothing else, and may become a number or a boolean.
    pub convertible: bool,
    pub at: Range<usize>,
    /// Whether it was said by this tool or by one that it stands on: places count in one entry only.
    pub own: bool,
}

impl fmt::Debug for Filling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = if self.secret { crate::secret::REDACTED.to_owned() } else { self.value.to_string() };
        write!(f, "{} = {value}", self.path)
    }
}

/// Where a tool stands, for problems that are found when its document is no longer at hand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spot {
    pub document: usize,
    pub(super) index: usize,
    pub(super) entry: Range<usize>,
    pub name: Range<usize>,
    pub source: Range<usize>,
    pub input_schema: Option<Range<usize>>,
    pub pin: Option<Range<usize>>,
}

impl VirtualTool {
    /// The name it is exposed under.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The target and the source tool it stands on; a local tool has none.
    pub fn source(&self) -> Option<(&str, &str)> {
        match &self.base {
            Base::Source { target, tool } => Some((target, tool)),
            Base::Local(_) => None,
        }
    }

    /// The author's version of it.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Words for policies.
    pub fn tags(&self) -> &[String] {
        &self.tags
    }

    /// What else the author keeps with it.
    pub fn metadata(&self) -> Option<&Tree> {
        self.metadata.as_ref()
    }

    /// The place that a value given by this tool itself, or else its source, has in the document.
    pub(crate) fn place_of(&self, path: &FieldPath) -> Range<usize> {
        let default = self.parts.defaults.iter().find(|filling| filling.own && filling.path == *path).map(|filling| &filling.at);
        default
            .or_else(|| self.parts.hidden.iter().find(|(hidden, at)| hidden == path && !at.is_empty()).map(|(_, at)| at))
            .unwrap_or(&self.spot.source)
            .clone()
    }
}

impl Plan {
    /// Whether some virtual tool stands on this source, quarantined ones included.
    pub fn is_virtualized(&self, target: &str, tool: &str) -> bool {
        self.standing(target, tool).is_some()
    }

    /// A virtual tool by its exposed name.
    pub fn get_tool(&self, name: &str) -> Option<&VirtualTool> {
        self.tools.get(*self.by_name.get(name)?).map(Arc::as_ref)
    }

    /// The same, to be kept.
    pub fn shared_tool(&self, name: &str) -> Option<Arc<VirtualTool>> {
        self.tools.get(*self.by_name.get(name)?).cloned()
    }

    /// All virtual tools that are not quarantined, in order.
    pub fn tools(&self) -> impl ExactSizeIterator<Item = &VirtualTool> {
        self.tools.iter().map(Arc::as_ref)
    }

    /// The virtual tools that stand on a source, in order; quarantined ones are not among them.
    pub fn names_of(&self, target: &str, tool: &str) -> &[ToolName] {
        self.standing(target, tool).map_or(&[], |standing| &standing.names)
    }

    /// The tools that have an error.
    pub fn quarantined(&self) -> &[Quarantined] {
        &self.quarantined
    }

    /// Whether a tool of a target is exposed as it is: nothing stands on it that withdraws it, and the config shows such tools.
    pub fn passes(&self, target: &str, tool: &str) -> bool {
        self.unlisted == Unlisted::Show && !self.is_withdrawn(target, tool)
    }

    /// Whether the arguments of tools that pass through are validated here as well.
    pub fn validates_all(&self) -> bool {
        self.validate_all
    }

    /// Whether a source is out of sight because of a virtual tool.
    pub(crate) fn is_withdrawn(&self, target: &str, tool: &str) -> bool {
        self.standing(target, tool).is_some_and(|standing| standing.withdrawn)
    }

    fn standing(&self, target: &str, tool: &str) -> Option<&Standing> {
        self.sources.get(target)?.get(tool)
    }

    /// Where problems of a tool are to be shown.
    pub(crate) fn place(&self, tool: &VirtualTool) -> Place<'_> {
        let text = self.texts.get(tool.spot.document).map_or("", |text| text);
        let root = Json::trusted(text.get(tool.spot.entry.clone()).unwrap_or("null"));
        let base = format!("/tools/{}", tool.spot.index);
        Place { text, document: tool.spot.document, root, base, tool: Some(tool.name.to_string()) }
    }
}
