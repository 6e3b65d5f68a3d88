//! A plan and a catalog become tools: what is listed, under which name, with which schema.

use crate::call::{Refusal, Step};
use crate::problem::Problem;
use transom_json::Json;

/// One generation of tools: immutable, made once per change, shared by all requests.
#[derive(Debug, Default)]
pub struct Tools {
    listed: Vec<Listed>,
    quarantined: Vec<Quarantined>,
    problems: Vec<Problem>,
}

/// One tool as clients see it.
#[derive(Debug)]
pub struct Listed {
    name: String,
    target: Option<String>,
    source: Option<String>,
    json: String,
}

/// A virtual tool that is neither listed nor callable, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Its name.
    pub name: String,
    /// The first error it had.
    pub reason: String,
}

impl Tools {
    /// All tools: virtual ones in the order of the registry, then those that pass through in the order of the catalog.
    pub fn list(&self) -> impl ExactSizeIterator<Item = &Listed> {
        self.listed.iter()
    }

    /// What only showed when the plan met the catalog.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The virtual tools that are out, for whichever reason.
    pub fn quarantined(&self) -> &[Quarantined] {
        &self.quarantined
    }

    /// Begins a call.
    #[doc(alias = "prepare_call_args")]
    pub fn call(&self, name: &str, arguments: Option<Json<'_>>) -> Result<Step, Refusal> {
        let _ = (name, arguments);
        Err(Refusal::UnknownTool)
    }

    /// The virtual tools that stand on a source.
    pub fn names_of(&self, target: &str, tool: &str) -> &[String] {
        let _ = (target, tool);
        &[]
    }
}

impl Listed {
    /// The name it is listed under, before any prefix.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its target; a local tool has none.
    pub fn target(&self) -> Option<&str> {
        self.target.as_deref()
    }

    /// The target's own name for it; a local tool has none.
    pub fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }

    /// The definition as listed.
    pub fn json(&self) -> &str {
        &self.json
    }
}
