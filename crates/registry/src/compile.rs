//! From what was written to what it means.

use crate::file::{Document, Settings};
use crate::list::Tools;
use crate::problem::Problem;
use crate::source::Catalog;
use crate::template::Environment;

/// What the config says about all registries.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What holds for a tool that says nothing else (`registry.defaults`).
    pub settings: Settings,
    /// Whether every error is fatal, and an override that the source cannot accept an error.
    pub strict: bool,
    /// What becomes of tools that the registry does not mention.
    pub unlisted: Unlisted,
    /// Whether the bans on costly JSONPaths are lifted (`registry.jsonpath: full`).
    pub full_jsonpath: bool,
    /// What placeholders may read (`registry.env.allow`): patterns of variable names, and of files as `file:/path/*`.
    /// `None`: every variable, no file.
    pub env_allow: Option<Vec<String>>,
    /// The targets of the config, if they are known.
    pub targets: Option<Vec<String>>,
    /// The gateway's own handlers, for `implementation.type: internal`.
    pub internal: Vec<String>,
}

/// What becomes of tools that the registry does not mention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unlisted {
    /// They pass through unchanged.
    #[default]
    Show,
    /// Only virtual tools are exposed.
    Hide,
}

/// A plan, and what was wrong on the way to it.
#[derive(Debug)]
pub struct Compiled {
    /// What goes live.
    pub plan: Plan,
    /// Every problem, in the order of the documents. Tools with an error are quarantined in the plan.
    pub problems: Vec<Problem>,
}

/// What the documents mean, whatever the targets offer.
#[doc(alias = "CompiledRegistry")]
#[derive(Debug)]
pub struct Plan {}

/// Compiles documents, in order: of two tools with one name the first wins.
///
/// Fails only if a document is no registry at all, or with [`Options::strict`] on any error.
pub fn compile(documents: &[Document<'_>], environment: &dyn Environment, options: &Options) -> Result<Compiled, Vec<Problem>> {
    let _ = (documents, environment, options);
    Ok(Compiled { plan: Plan {}, problems: Vec::new() })
}

impl Plan {
    /// Binds the plan to what the targets offer now.
    #[doc(alias = "transform_tools")]
    pub fn bind(&self, catalog: &Catalog) -> Tools {
        let _ = catalog;
        Tools::default()
    }

    /// Whether some virtual tool stands on this source.
    pub fn is_virtualized(&self, target: &str, tool: &str) -> bool {
        let _ = (target, tool);
        false
    }
}
