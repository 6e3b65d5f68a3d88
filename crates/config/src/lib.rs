//! `config.yaml` as written, turned into what the gateway means.
//!
//! A text goes through four rooms: `tree` knows syntax, `read` knows which keys there are (`file`, `mcp_servers`), `merge` puts
//! several files together, and `meant` decides what it all means. Each notes every `problem` it finds, and [`load`] reports them
//! at once. After it nobody reads YAML or the environment again.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

mod duration;
mod environment;
mod file;
pub mod import;
mod markdown;
mod mcp_servers;
mod meant;
mod merge;
mod problem;
mod read;
mod schema;
mod shape;
mod size;
mod tree;
mod written;

pub use environment::ProcessEnvironment;
pub use markdown::{config_page, registry_page};
pub use problem::{Located, Problem, Report, Severity};
pub use schema::json_schema;
pub use transom_gateway::watch::{Changes, watch};
pub use transom_registry::template::Environment;
pub use tree::{Node, Value};
pub use written::Place;

use problem::Problems;
use std::cell::RefCell;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use transom_gateway::Config;

/// A config file, or whatever stands in for one.
#[derive(Clone)]
pub struct Source {
    /// What messages call it.
    pub name: String,
    /// What it says.
    pub text: String,
    /// Where its relative paths start; absolute.
    pub base_dir: PathBuf,
}

impl Source {
    /// Reads a file.
    pub fn read(path: &Path) -> io::Result<Source> {
        let mut text = String::new();
        // One byte more than is accepted, so that `load` says that the file is too large, and reads no endless one.
        std::fs::File::open(path)?.take(tree::LARGEST_SOURCE as u64 + 1).read_to_string(&mut text)?;
        let base_dir = std::path::absolute(path)?.parent().map(Path::to_path_buf).unwrap_or_default();
        Ok(Source { name: path.display().to_string(), text, base_dir })
    }
}

/// A config that can be used.
#[derive(Debug)]
pub struct Loaded {
    /// What it means.
    pub config: Config,
    /// What its author should know all the same; often empty.
    pub warnings: Report,
}

/// Turns sources into one config; without any, the defaults. Fails with every problem of every source.
///
/// The config keeps the environment, for what registries read from it later.
pub fn load<E: Environment + Clone + Send + Sync + 'static>(sources: &[Source], environment: &E) -> Result<Loaded, Report> {
    let (config, report) = examine(sources, environment);
    if report.has_errors() { Err(report) } else { Ok(Loaded { config, warnings: report }) }
}

/// What sources mean as far as they can be read, and every problem of every source. Not to be run if there is an error among them.
pub fn examine<E: Environment + Clone + Send + Sync + 'static>(sources: &[Source], environment: &E) -> (Config, Report) {
    let problems = RefCell::default();
    let files = sources.iter().enumerate().filter_map(|(index, source)| read_source(source, index, &problems));
    let merged = merge::merge(files.collect::<Vec<_>>());
    let config = meant::config(&merged, sources, environment, &problems);
    (config, problems.into_inner().into_report(sources))
}

/// Where something stands that a JSON pointer leads to; if the file spells it out, only the part of it in question.
pub fn place_of(tree: &Node, source: &Source, pointer: &str, part: &str) -> Place {
    let (key, node) = tree.at(pointer);
    let place = node.underlined(key);
    let spelled = source.text.get(place.start..place.start + place.length).unwrap_or_default();
    let mut found = spelled.match_indices(part);
    match (found.next(), found.next()) {
        (Some((at, _)), None) if !part.is_empty() => Place { start: place.start + at, length: part.len(), ..place },
        _ => place,
    }
}

/// The text of a source as a tree in which every value knows its place. YAML and JSON alike; what it means is for others to say.
pub fn tree(source: &Source) -> Result<Node, Report> {
    let mut problems = Problems::default();
    let tree = tree::parse(&source.text, 0, &mut problems);
    tree.ok_or_else(|| problems.into_report(std::slice::from_ref(source)))
}

fn read_source(source: &Source, index: usize, problems: &RefCell<Problems>) -> Option<file::File> {
    let tree = tree::parse(&source.text, index, &mut problems.borrow_mut())?;
    if tree.is_empty() {
        return None;
    }
    if mcp_servers::recognises(&tree) {
        return Some(mcp_servers::file(&tree, problems));
    }
    read::read(&tree, problems)
}
