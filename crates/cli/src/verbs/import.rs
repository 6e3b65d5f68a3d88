//! `transom import FILE`: another program's file as a config and a registry of ours, and what became of each item of it.

use super::Output;
use crate::failure::{Exit, Failure};
use crate::terminal::{self, harmless};
use serde_json::json;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use transom_config::Source;
use transom_config::import::{self, Finding, Fit, Format, Imported, Options};

/// No config that a person wrote is larger, and no OpenAPI document that can be read here.
const LARGEST_FILE: u64 = (4 << 20) + 1;

/// What it takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Whose file it is, if its content does not tell
    #[arg(long, value_enum, value_name = "FORMAT")]
    from: Option<Whose>,
    /// The target that tools stand on, for files that name none: ToolHive's overrides, OpenAPI
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// Write config.yaml, and registry.json where there are virtual tools, into this folder; without it one config is printed
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Overwrite what is there
    #[arg(long, requires = "out")]
    force: bool,
    /// Say what fits as well
    #[arg(short, long)]
    verbose: bool,
    /// How to print what was found: as lines, or everything as JSON
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    output: Output,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Whose {
    /// agentgateway's config
    Agentgateway,
    /// `mcpServers`, of desktop clients and editors
    McpServers,
    /// VS Code's mcp.json
    Vscode,
    /// FastMCP's config with tool transforms
    Fastmcp,
    /// ToolHive's tool overrides
    Toolhive,
    /// OpenAPI 3.0 or 3.1
    Openapi,
}

impl Whose {
    fn format(self) -> Format {
        match self {
            Whose::Agentgateway => Format::Agentgateway,
            Whose::McpServers => Format::McpServers,
            Whose::Vscode => Format::VsCode,
            Whose::Fastmcp => Format::FastMcp,
            Whose::Toolhive => Format::ToolHive,
            Whose::Openapi => Format::OpenApi,
        }
    }
}

/// Prints or writes what the file means here.
pub fn run(args: Args) -> Result<(), Failure> {
    let source = read(&args.file)?;
    let options = Options { from: args.from.map(Whose::format), target: args.target.clone() };
    let imported = import::import(&source, &options).map_err(|report| Failure::rendered(Exit::Negative, report.to_string()))?;
    let is_written = args.out.as_ref().filter(|_| !imported.is_empty);
    let stale = is_written.map(|folder| write(folder, &imported, args.force)).transpose()?.flatten();
    match args.output {
        Output::Json => terminal::data(&format!("{:#}", as_json(&source.name, &imported))),
        Output::Text => {
            if args.out.is_none() && !imported.is_empty {
                terminal::data(&imported.whole);
            }
            terminal::note(&harmless(&as_lines(&source.name, &imported, args.verbose)));
        }
    }
    if let Some(stale) = stale {
        terminal::note(&format!("`{}` is of an earlier import; the new config does not read it, and it can be deleted", stale.display()));
    }
    if imported.is_empty {
        let whose = imported.format.name();
        return Err(Failure::new(Exit::Negative, format!("`{}` has no server and no tool that could be read as {whose}", source.name))
            .hint("nothing was written; `--from` names another format"));
    }
    Ok(())
}

fn read(path: &Path) -> Result<Source, Failure> {
    let cannot = |error: std::io::Error| Failure::new(Exit::Negative, format!("cannot read `{}`: {error}", path.display()));
    let mut text = String::new();
    if path.as_os_str() == "-" {
        std::io::stdin().lock().take(LARGEST_FILE).read_to_string(&mut text).map_err(cannot)?;
    } else {
        std::fs::File::open(path).and_then(|file| file.take(LARGEST_FILE).read_to_string(&mut text)).map_err(cannot)?;
    }
    let name = if path.as_os_str() == "-" { "standard input".into() } else { path.display().to_string() };
    Ok(Source { name, text, base_dir: PathBuf::new() })
}

/// Both files or none: what is there is looked for before anything is written. A registry that is there and no longer read is returned.
fn write(folder: &Path, imported: &Imported, force: bool) -> Result<Option<PathBuf>, Failure> {
    let files = [("config.yaml", Some(&imported.config)), ("registry.json", imported.registry.as_ref())];
    let files: Vec<(PathBuf, &String)> = files.into_iter().filter_map(|(name, text)| Some((folder.join(name), text?))).collect();
    if let Some((there, _)) = files.iter().find(|(path, _)| !force && path.exists()) {
        return Err(
            Failure::new(Exit::Negative, format!("`{}` is there already", there.display())).hint("`--force` overwrites it, or name another folder")
        );
    }
    let cannot = |path: &Path, error: std::io::Error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::new(Exit::Negative, format!("`{}` is there already", path.display())).hint("`--force` overwrites it"),
        _ => Failure::new(Exit::Negative, format!("cannot write `{}`: {error}", path.display())),
    };
    std::fs::create_dir_all(folder).map_err(|error| cannot(folder, error))?;
    for (path, text) in files {
        let mut options = OpenOptions::new();
        options.write(true);
        if force {
            options.create(true).truncate(true)
        } else {
            options.create_new(true)
        };
        options.open(&path).and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| cannot(&path, error))?;
    }
    let registry = folder.join("registry.json");
    Ok((imported.registry.is_none() && registry.exists()).then_some(registry))
}

fn count(imported: &Imported, fit: Fit) -> usize {
    imported.findings.iter().filter(|finding| finding.fit == fit).count()
}

/// A line a finding, its next step below it, and at the end how many there are of each kind.
fn as_lines(file: &str, imported: &Imported, verbose: bool) -> String {
    let mut out = String::new();
    for Finding { fit, line, column, what, next } in imported.findings.iter().filter(|finding| verbose || finding.fit != Fit::Exact) {
        out.push_str(&format!("{file}:{line}:{column}: {fit}: {what}\n"));
        if let Some(next) = next {
            out.push_str(&format!("  next: {next}\n"));
        }
    }
    let counts = [Fit::Exact, Fit::Approximate, Fit::Manual, Fit::Unsupported].map(|fit| format!("{} {fit}", count(imported, fit)));
    out.push_str(&format!("read as {}: {}\n", imported.format.name(), counts.join(", ")));
    if !imported.variables.is_empty() {
        out.push_str(&format!("variables to set: {}\n", imported.variables.join(", ")));
    }
    out
}

fn as_json(file: &str, imported: &Imported) -> serde_json::Value {
    let findings: Vec<serde_json::Value> = imported
        .findings
        .iter()
        .map(|finding| {
            json!({
                "fit": finding.fit.to_string(), "file": file, "line": finding.line, "column": finding.column,
                "what": finding.what, "next": finding.next,
            })
        })
        .collect();
    json!({
        "format": imported.format.name(), "config": imported.config, "registry": imported.registry, "variables": imported.variables, "findings": findings,
    })
}
