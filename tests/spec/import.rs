//! Other programs' files, turned into a config and a registry: what they become, and that it works.

use std::path::PathBuf;
use tokio::process::Command;
use transom_config::Source;
use transom_config::import::{Fit, Format, Imported, Options, import};
use transom_tests::children::run;
use transom_tests::process::{binary, stdio_entry};
use transom_tests::*;

/// Every file of `tests/import/`: whose it is, and the target that is named with it.
const FILES: [(&str, Format, Option<&str>); 10] = [
    ("agentgateway-long.yaml", Format::Agentgateway, None),
    ("agentgateway-short.yaml", Format::Agentgateway, None),
    ("mcp-servers.json", Format::McpServers, None),
    ("vscode.json", Format::VsCode, None),
    ("fastmcp.json", Format::FastMcp, None),
    ("toolhive-overrides.json", Format::ToolHive, Some("intranet")),
    ("toolhive-resource.yaml", Format::ToolHive, None),
    ("toolhive-run.json", Format::ToolHive, None),
    ("openapi-3.0.yaml", Format::OpenApi, None),
    ("openapi-3.1.json", Format::OpenApi, Some("notes")),
];

fn folder() -> PathBuf {
    transom_tests::install::folder("import")
}

fn source(file: &str) -> Source {
    let text = std::fs::read_to_string(folder().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    Source { name: file.into(), text, base_dir: folder() }
}

fn imported(file: &str, target: Option<&str>) -> Imported {
    let options = Options { target: target.map(str::to_owned), ..Options::default() };
    import(&source(file), &options).unwrap_or_else(|report| panic!("{report}"))
}

fn page(imported: &Imported) -> String {
    let mut page = format!("{}\n--- registry.json\n{}\n--- findings\n", imported.config, imported.registry.as_deref().unwrap_or("none\n"));
    for finding in &imported.findings {
        page.push_str(&format!("{}:{}: {}: {}\n", finding.line, finding.column, finding.fit, finding.what));
        if let Some(next) = &finding.next {
            page.push_str(&format!("  next: {next}\n"));
        }
    }
    page
}

// operations.md 1: a finding per item: exact, approximate, manual, unsupported.
#[test]
fn every_format_becomes_a_config_with_a_finding_for_each_item() {
    let mut there: Vec<String> = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let mut known: Vec<&str> = FILES.iter().map(|(file, ..)| *file).collect();
    there.sort();
    known.sort_unstable();
    assert_eq!(there, known);
    for (file, format, target) in FILES {
        let imported = imported(file, target);
        assert_eq!(imported.format, format, "{file}");
        insta::with_settings!({ snapshot_suffix => file, omit_expression => true }, {
            insta::assert_snapshot!(page(&imported));
        });
    }
}

#[test]
fn no_secret_of_a_file_reaches_what_is_made_of_it() {
    let mut secrets = 0;
    for (file, _, target) in FILES {
        secrets += source(file).text.matches("canary").count();
        let imported = imported(file, target);
        let everything = format!("{imported:?}");
        assert!(!everything.contains("canary"), "{file}: {everything}");
        for finding in imported.findings.iter().filter(|finding| finding.what.contains("looks like a secret")) {
            assert_eq!(finding.fit, Fit::Manual);
            let names = imported.variables.iter().any(|name| finding.next.as_deref().unwrap_or_default().contains(&format!("set {name} ")));
            assert!(names, "{file}: {finding:?}");
        }
    }
    assert!(secrets >= 10, "there are secrets to be found");
}

fn with_variables(command: &mut Command, imported: &Imported) {
    for name in &imported.variables {
        command.env(name, if name.ends_with("_URL") { "http://localhost:9/mcp" } else { "some-value" });
    }
}

#[tokio::test]
async fn what_is_made_of_every_format_is_valid() {
    for (file, _, target) in FILES {
        let out = tempfile::tempdir().unwrap();
        let mut command = Command::new(binary());
        command.args(["import"]).arg(folder().join(file)).arg("--out").arg(out.path());
        command.args(target.iter().flat_map(|target| ["--target", target]));
        let done = run(&mut command).await;
        assert!(done.status.success(), "{file}: {done:?}");
        assert!(done.stdout.is_empty(), "what is written is not printed");
        let imported = imported(file, target);
        let mut command = Command::new(binary());
        command.arg("validate").arg(out.path().join("config.yaml"));
        with_variables(&mut command, &imported);
        let valid = run(&mut command).await;
        assert!(valid.status.success() && valid.stdout.is_empty(), "{file}: {}\n{}", String::from_utf8_lossy(&valid.stdout), imported.config);

        // Printed, it is one file that says the same.
        let mut command = Command::new(binary());
        command.args(["import"]).arg(folder().join(file)).args(target.iter().flat_map(|target| ["--target", target]));
        let printed = run(&mut command).await;
        let whole = out.path().join("whole.yaml");
        std::fs::write(&whole, &printed.stdout).unwrap();
        let mut command = Command::new(binary());
        command.arg("validate").arg(&whole);
        with_variables(&mut command, &imported);
        let valid = run(&mut command).await;
        assert!(valid.status.success() && valid.stdout.is_empty(), "{file}: {}", String::from_utf8_lossy(&valid.stdout));
        let findings = String::from_utf8_lossy(&printed.stderr).into_owned();
        assert!(findings.contains(&format!("{file}:")) && findings.contains(" exact, "), "{findings}");
    }
}

// Issue 6: an imported config runs.
#[tokio::test]
async fn an_imported_config_runs_and_lists_tools() {
    let folder = tempfile::tempdir().unwrap();
    let entry = stdio_entry("clock", json!({"tools": [{"name": "now", "inputSchema": {"type": "object"}}]}));
    let stdio = &entry["stdio"];
    let mut server = json!({"command": stdio["cmd"], "args": stdio["args"], "env": stdio["env"]});
    server["env"]["CLOCK_TOKEN"] = json!("canary");
    server["tools"] = json!({"now": {"name": "what_time_is_it"}});
    let file = folder.path().join("claude.json");
    std::fs::write(&file, json!({"mcpServers": {"clock": server}}).to_string()).unwrap();
    let out = folder.path().join("made");
    let done = run(Command::new(binary()).arg("import").arg(&file).arg("--out").arg(&out)).await;
    assert!(done.status.success(), "{done:?}");
    let config = std::fs::read_to_string(out.join("config.yaml")).unwrap();
    assert!(config.contains("${CLOCK_TOKEN}") && !config.contains("canary"), "{config}");

    let exported = run(Command::new(binary()).args(["export", "openai", "-f"]).arg(out.join("config.yaml")).env("CLOCK_TOKEN", "x")).await;
    assert!(exported.status.success(), "{exported:?}");
    let tools: Value = serde_json::from_slice(&exported.stdout).unwrap();
    assert_eq!(tools[0]["function"]["name"], "what_time_is_it", "{tools}");
    assert_eq!(tools.as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn what_is_there_is_not_overwritten_unless_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.yaml");
    std::fs::write(&config, "mine").unwrap();
    let import = |more: &'static [&'static str]| {
        let mut command = Command::new(binary());
        command.arg("import").arg(self::folder().join("fastmcp.json")).arg("--out").arg(folder.path()).args(more);
        command
    };
    let refused = run(&mut import(&[])).await;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is there already"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&config).unwrap(), "mine");
    assert!(!folder.path().join("registry.json").exists(), "both files or none");
    assert!(run(&mut import(&["--force"])).await.status.success());
    assert_ne!(std::fs::read_to_string(&config).unwrap(), "mine");
    assert!(folder.path().join("registry.json").exists());
}

#[tokio::test]
async fn a_registry_of_an_earlier_import_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for (file, says) in [("fastmcp.json", false), ("mcp-servers.json", true)] {
        let done = run(Command::new(binary()).arg("import").arg(self::folder().join(file)).arg("--force").arg("--out").arg(folder.path())).await;
        assert!(done.status.success(), "{done:?}");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(said.contains("registry.json` is of an earlier import"), says, "{said}");
    }
}

#[tokio::test]
async fn a_file_of_which_nothing_is_left_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (text, from, says) in [
        ("swagger: '2.0'\n", "openapi", "only OpenAPI 3.0 and 3.1 are read"),
        ("[]", "openapi", "only OpenAPI"),
        ("", "mcp-servers", "no server and no tool"),
        ("{\"mcpServers\": {}}", "mcp-servers", "no server and no tool"),
    ] {
        let file = folder.path().join("file");
        std::fs::write(&file, text).unwrap();
        let out = folder.path().join("out");
        for more in [&[][..], &["--out", out.to_str().unwrap()]] {
            let refused = run(Command::new(binary()).args(["import", "--from", from]).arg(&file).args(more)).await;
            assert_eq!(refused.status.code(), Some(1), "{refused:?}");
            assert!(refused.stdout.is_empty() && !out.exists(), "{refused:?}");
            assert!(String::from_utf8_lossy(&refused.stderr).contains(says), "{refused:?}");
        }
    }
}

#[tokio::test]
async fn what_nobody_knows_is_refused_with_the_names_of_those_we_know() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text, says) in [
        ("odd.yaml", "a: 1\n", "known are agentgateway"),
        ("broken.json", "{\"mcpServers\": {", "not valid JSON"),
        ("empty.json", "", "no file that can be imported"),
    ] {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        let refused = run(Command::new(binary()).arg("import").arg(&file)).await;
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains(says) && said.contains(&format!("{name}:1:")), "{said}");
    }
    let forced = run(Command::new(binary()).args(["import", "--from", "fastmcp"]).arg(self::folder().join("mcp-servers.json"))).await;
    assert!(forced.status.success(), "{forced:?}");
}
