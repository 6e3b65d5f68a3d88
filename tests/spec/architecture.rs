//! The shape of the house: which crate may know which, that the path stands where the text says, that no link is dead.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each crate and everything it may know of ours, directly or through others. Arrows go one way.
const MAY_KNOW: [(&str, &[&str]); 8] = [
    ("json", &[]),
    ("protocol", &["json"]),
    ("registry", &["json"]),
    ("views", &["json"]),
    ("upstream", &["json", "protocol"]),
    ("gateway", &["json", "protocol", "registry", "upstream", "views"]),
    ("config", &["json", "protocol", "registry", "upstream", "views", "gateway"]),
    ("cli", &["json", "protocol", "registry", "upstream", "views", "gateway", "config"]),
];

/// The crates that take values and give values.
const PURE: [&str; 4] = ["json", "protocol", "registry", "views"];

/// What no pure crate needs, however many dependencies away: runtimes, sockets, logs, watchers.
const IMPURE: [&str; 12] =
    ["tokio", "mio", "async-io", "hyper", "hyper-util", "reqwest", "tower", "tower-http", "tracing", "log", "notify", "rustls"];

/// The stages, in the order a message meets them.
const STAGES: [&str; 10] = ["observe", "authenticate", "session", "invoke", "names", "authorize", "limits", "virtualize", "bridge", "dispatch"];

/// What the product stands on; `rmcp` serves the demo's targets.
const FOUNDATIONS: [&str; 15] = [
    "tokio",
    "hyper",
    "hyper-util",
    "tower",
    "tower-http",
    "rmcp",
    "arc-swap",
    "serde_json",
    "serde_json_path",
    "regex",
    "notify",
    "reqwest",
    "serde-saphyr",
    "prometheus-client",
    "tracing",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is a folder of the repository").to_owned()
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every crate that ends up in this one, by name.
fn dependencies(of: &str) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let package = format!("transom-{of}");
    let arguments = ["tree", "--package", &package, "--edges", "normal", "--prefix", "none", "--format", "{p}", "--offline", "--locked"];
    let output = Command::new(cargo).args(arguments).current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8_lossy(&output.stdout);
    let names: BTreeSet<String> = listed.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    assert!(names.contains(&package), "cargo tree lists {package} itself: {listed}");
    names
}

#[test]
fn crates_know_only_what_is_to_their_right() {
    for (of, allowed) in MAY_KNOW {
        let ours: BTreeSet<String> =
            dependencies(of).iter().filter_map(|name| name.strip_prefix("transom-")).filter(|name| *name != of).map(str::to_owned).collect();
        let allowed: BTreeSet<String> = allowed.iter().map(|name| (*name).to_owned()).collect();
        let unexpected: Vec<_> = ours.difference(&allowed).collect();
        assert!(unexpected.is_empty(), "{of} knows {unexpected:?}, which is not for it to know");
    }
}

#[test]
fn every_crate_has_its_place_in_that_order() {
    let crates: BTreeSet<String> =
        entries(&root().join("crates")).into_iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect();
    assert_eq!(crates, MAY_KNOW.iter().map(|(name, _)| (*name).to_owned()).collect());
}

#[test]
fn the_pure_crates_have_no_runtime_no_socket_and_no_log() {
    for pure in PURE {
        let dependencies = dependencies(pure);
        let found: Vec<_> = IMPURE.iter().filter(|name| dependencies.contains(**name)).collect();
        assert!(found.is_empty(), "{pure} depends on {found:?}");
    }
}

#[test]
fn the_pure_crates_are_held_to_it_by_clippy() {
    for pure in PURE {
        let rules = text(&format!("crates/{pure}/clippy.toml"));
        for rule in [
            "std::env::var",
            "std::fs::read",
            "std::fs::File",
            "std::net::TcpStream",
            "std::process::Command",
            "std::time::Instant::now",
            "std::time::SystemTime::now",
        ] {
            assert!(rules.contains(&format!("\"{rule}\"")), "crates/{pure}/clippy.toml has no rule about {rule}");
        }
    }
}

// R-005-1, R-005-10
#[test]
fn the_binary_stands_on_the_crates_it_was_promised_to_stand_on() {
    let there = dependencies("cli");
    let missing: Vec<_> = FOUNDATIONS.into_iter().filter(|name| !there.contains(*name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    // On the path of a message its typed models would lose fields.
    assert!(!dependencies("gateway").contains("rmcp"));
}

// R-005-7
#[test]
fn the_top_level_is_what_it_was_promised_to_be() {
    for name in ["Cargo.toml", "crates", "schema", "examples", "architecture", "tests", "Makefile"] {
        assert!(root().join(name).exists(), "{name} is missing");
    }
}

// R-005-2
#[test]
fn the_stages_stand_in_one_file_in_order_and_each_has_a_file_of_its_name() {
    let stack = text("crates/gateway/src/stack.rs");
    let stages: Vec<String> = stack.lines().filter_map(stage_on).collect();
    assert_eq!(stages, STAGES, "the stages of stack.rs, first to last");
    for stage in stages {
        let room = text(&format!("crates/gateway/src/{stage}.rs"));
        assert!(room.starts_with("//! "), "{stage}.rs does not say what it is for");
        assert!(room.contains("Stage<") || room.contains("Next<"), "{stage}.rs holds no stage");
    }
}

/// The stage that a line of the stack adds: `.layer(stage(Observe::new(…)))` adds `observe`.
fn stage_on(line: &str) -> Option<String> {
    let line = line.trim_start();
    let rest = line.strip_prefix(".layer(stage(").or_else(|| line.strip_prefix(".service("))?;
    let name: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
    Some(name.strip_suffix("Stage").unwrap_or(&name).to_ascii_lowercase())
}

#[test]
fn the_text_about_the_path_names_every_stage_in_order() {
    let page = text("architecture/request-path.md");
    let rows: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| [")?.split_once(']').map(|(name, _)| name))
        .filter(|name| STAGES.contains(name))
        .collect();
    assert_eq!(rows, STAGES);
}

#[test]
fn nothing_the_text_points_at_is_missing() {
    let mut dead = Vec::new();
    for (page, text) in pages() {
        let folder = page.parent().unwrap_or(Path::new(""));
        for target in links(&text) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { page.clone() } else { folder.join(file) };
            match std::fs::read_to_string(root().join(&file)) {
                Ok(there) if heading.is_empty() || headings(&there).contains(heading) => {}
                Err(_) if heading.is_empty() && root().join(&file).is_dir() => {}
                _ => dead.push(format!("{}: {target}", page.display())),
            }
        }
        dead.extend(source_files(&text).filter(|file| !root().join(file).is_file()).map(|file| format!("{}: {file}", page.display())));
    }
    assert!(dead.is_empty(), "these lead nowhere:\n{}", dead.join("\n"));
}

#[test]
fn every_page_of_the_architecture_is_in_its_table_of_contents() {
    let contents = text("architecture/README.md");
    let listed: BTreeSet<&str> = links(&contents).collect();
    let pages = pages();
    let missing: Vec<&str> = pages
        .keys()
        .filter_map(|page| page.strip_prefix("architecture").ok()?.to_str())
        .filter(|page| *page != "README.md" && !listed.contains(page))
        .collect();
    assert!(missing.is_empty(), "architecture/README.md does not mention {missing:?}");
}

#[test]
fn every_decision_says_what_was_decided_and_why() {
    for (page, text) in pages().iter().filter(|(page, _)| page.starts_with("architecture/decisions")) {
        for part in ["# ", "**Context.**", "**Decision.**", "**Why.**", "**Consequence.**"] {
            assert!(text.contains(part), "{} has no {part}", page.display());
        }
    }
}

/// Everything written for people: at the top, about the architecture, about the examples. By path from the root.
fn pages() -> BTreeMap<PathBuf, String> {
    let mut open: Vec<PathBuf> = entries(&root()).into_iter().filter(|path| path.is_file()).collect();
    open.extend(["architecture", "examples"].map(|folder| root().join(folder)));
    let mut pages = BTreeMap::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(entries(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let text = std::fs::read_to_string(&path).expect("a page is text");
            pages.insert(path.strip_prefix(root()).expect("below the root").to_owned(), text);
        }
    }
    assert!(pages.contains_key(Path::new("README.md")) && pages.contains_key(Path::new("architecture/README.md")));
    pages
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())).map(|entry| entry.expect("readable").path()).collect()
}

/// Where the links of a page lead that stay in this repository.
fn links(page: &str) -> impl Iterator<Item = &str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

/// Paths such as `crates/cli/src/main.rs`, linked or not.
fn source_files(page: &str) -> impl Iterator<Item = &str> {
    let words = page.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-')));
    words
        .map(|word| word.trim_start_matches("../"))
        .filter(|word| (word.starts_with("crates/") || word.starts_with("tests/")) && word.ends_with(".rs"))
}

/// The anchors of a page's headings, as a renderer makes them.
fn headings(page: &str) -> BTreeSet<String> {
    let titles = page.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim().to_lowercase());
    titles
        .map(|title| title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_')).map(|c| if c == ' ' { '-' } else { c }).collect())
        .collect()
}
