//! `transom connect`: what is printed, what is written, and what stays as it was.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;
use tempfile::TempDir;
use tokio::process::Command;
use transom_tests::process::binary;
use transom_tests::*;

/// A home folder of nobody else's.
struct Home(TempDir);

fn home() -> Home {
    Home(tempfile::tempdir().expect("a folder"))
}

impl Home {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    async fn connect(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(binary());
        let home = self.0.path();
        command.arg("connect").args(arguments).current_dir(home).env("HOME", home).env("XDG_RUNTIME_DIR", home).env("NO_COLOR", "1");
        for name in ["XDG_CONFIG_HOME", "APPDATA", "TRANSOM_URL", "SESSION_ID", "TRANSOM_LISTEN", "TRANSOM_PORT"] {
            command.env_remove(name);
        }
        command.output().await.expect("it runs")
    }
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn files_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn clients_are_listed_and_an_unknown_one_gets_a_suggestion() {
    let home = home();
    let listed = out(&home.connect(&[]).await);
    for client in
        ["claude-code", "claude-desktop", "cline", "codex", "continue", "cursor", "gemini-cli", "goose", "inspector", "vscode", "windsurf", "zed"]
    {
        assert!(listed.lines().any(|line| line.split_whitespace().next() == Some(client)), "{client}: {listed}");
    }
    let output = home.connect(&["cursorr"]).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("did you mean `cursor`?") && err(&output).contains("zed"), "{}", err(&output));
}

#[tokio::test]
async fn a_snippet_is_data_and_the_rest_is_for_people() {
    let home = home();
    let output = home.connect(&["cursor", "--url", "localhost:4000", "--name", "tools"]).await;
    let snippet: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", out(&output)));
    assert_eq!(snippet, json!({"mcpServers": {"tools": {"url": "http://localhost:4000/mcp"}}}));
    assert!(err(&output).contains(".cursor/mcp.json") && err(&output).contains("as asked"), "{}", err(&output));
    assert_eq!(files_in(home.0.path()), Vec::<String>::new(), "nothing is written");
}

#[tokio::test]
async fn the_url_is_that_of_the_config_or_of_the_session_and_it_is_said_which() {
    let home = home();
    assert!(out(&home.connect(&["vscode"]).await).contains("http://127.0.0.1:3000/mcp"));
    let config = home.write("config.yaml", "listen: 0.0.0.0:4711\nallowUnauthenticated: true\n");
    let output = home.connect(&["vscode", "--config", config.to_str().unwrap()]).await;
    assert!(out(&output).contains("http://127.0.0.1:4711/mcp") && err(&output).contains("where the config listens"), "{}", err(&output));
    let session = async |act: &str| {
        let mut command = Command::new(binary());
        command.args(["session", act, "--id", "s"]).env("XDG_RUNTIME_DIR", home.0.path()).env_remove("SESSION_ID");
        command.output().await.unwrap()
    };
    let started = out(&session("start").await);
    let url = started.lines().next().unwrap().strip_prefix("export TRANSOM_URL=").unwrap().to_owned();
    let output = home.connect(&["vscode"]).await;
    assert!(session("stop").await.status.success());
    assert!(out(&output).contains(&format!("{url}/mcp")) && err(&output).contains("session `s`"), "{}{}", out(&output), err(&output));
}

#[tokio::test]
async fn a_file_is_merged_into_with_a_copy_and_the_second_time_nothing_changes() {
    let home = home();
    let before = "{\n  // mine\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" }, // keep\n  },\n  \"theme\": \"dark\"\n}\n";
    let file = home.write(".cursor/mcp.json", before);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let output = home.connect(&["cursor", "--write", "--url", "http://127.0.0.1:3000/mcp"]).await;
    assert!(output.status.success() && output.stdout.is_empty(), "{}", err(&output));
    assert!(err(&output).contains("mcp.json.bak"), "{}", err(&output));
    let after = std::fs::read_to_string(&file).unwrap();
    let expected = "{\n  // mine\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" }, // keep\n    \"transom\": {\n      \"url\": \"http://127.0.0.1:3000/mcp\"\n    }\n  },\n  \"theme\": \"dark\"\n}\n";
    assert_eq!(after, expected);
    assert_eq!(std::fs::read_to_string(home.path(".cursor/mcp.json.bak")).unwrap(), before);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    let output = home.connect(&["cursor", "--write", "--url", "http://127.0.0.1:3000/mcp"]).await;
    assert!(err(&output).contains("says so already"), "{}", err(&output));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
    assert_eq!(files_in(&home.path(".cursor")), ["mcp.json", "mcp.json.bak"]);
}

#[tokio::test]
async fn every_client_with_a_file_can_be_written_to() {
    let home = home();
    for (client, file) in [
        ("claude-code", ".mcp.json"),
        ("claude-desktop", ".config/Claude/claude_desktop_config.json"),
        ("cline", ".cline/data/settings/cline_mcp_settings.json"),
        ("codex", ".codex/config.toml"),
        ("continue", ".continue/mcpServers/transom.yaml"),
        ("copilot-cli", ".copilot/mcp-config.json"),
        ("cursor", ".cursor/mcp.json"),
        ("gemini-cli", ".gemini/settings.json"),
        ("vscode", ".vscode/mcp.json"),
        ("windsurf", ".codeium/windsurf/mcp_config.json"),
        ("zed", ".config/zed/settings.json"),
    ] {
        for times in 0..2 {
            let output = home.connect(&[client, "--write", "--url", "http://127.0.0.1:4000/mcp", "--token-env", "GATEWAY_TOKEN"]).await;
            assert!(output.status.success(), "{client}: {}", err(&output));
            assert!(err(&output).contains(if times == 0 { "was not there before" } else { "says so already" }), "{client}: {}", err(&output));
        }
        let text = std::fs::read_to_string(home.path(file)).unwrap_or_else(|error| panic!("{client}: {error}"));
        assert!(text.contains("http://127.0.0.1:4000/mcp") && text.contains("GATEWAY_TOKEN"), "{client}: {text}");
    }
    for client in ["goose", "inspector"] {
        let output = home.connect(&[client, "--write"]).await;
        assert_eq!(output.status.code(), Some(2), "{client}");
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_changed_safely_is_left_alone() {
    let home = home();
    for text in ["{\"mcpServers\": [1]}", "{\"mcpServers\": {}, \"mcpServers\": {}}", "not json"] {
        let file = home.write(".cursor/mcp.json", text);
        let output = home.connect(&["cursor", "--write"]).await;
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(err(&output).contains("left alone"), "{}", err(&output));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        assert_eq!(files_in(&home.path(".cursor")), ["mcp.json"], "no copy of what was not changed");
    }
}

#[tokio::test]
async fn a_session_that_is_named_and_does_not_run_is_said() {
    let home = home();
    let mut command = Command::new(binary());
    command.args(["connect", "cursor"]).env("HOME", home.0.path()).env("XDG_RUNTIME_DIR", home.0.path()).env("SESSION_ID", "ghost");
    let output = command.env_remove("TRANSOM_URL").output().await.unwrap();
    assert!(out(&output).contains("127.0.0.1:3000") && err(&output).contains("session `ghost`"), "{}", err(&output));
}

#[tokio::test]
async fn a_toml_file_that_is_none_is_left_alone_and_one_with_an_entry_keeps_the_rest() {
    let home = home();
    let file = home.write(".codex/config.toml", "this is no toml\n");
    let output = home.connect(&["codex", "--write"]).await;
    assert!(output.status.code() == Some(1) && err(&output).contains("left alone: it is not TOML"), "{}", err(&output));
    let before = "\u{feff}[mcp_servers.\"tr\\u0061nsom\"] # mine ]\r\nurl = \"old\"\r\nenabled = false\r\n";
    std::fs::write(&file, before).unwrap();
    let output = home.connect(&["codex", "--write", "--url", "http://127.0.0.1:4000/mcp"]).await;
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before.replace("old", "http://127.0.0.1:4000/mcp"));
}

#[tokio::test]
async fn a_link_is_written_through_and_said() {
    let home = home();
    let real = home.write("dotfiles/cursor.json", "{}\n");
    std::fs::create_dir(home.path(".cursor")).unwrap();
    symlink(&real, home.path(".cursor/mcp.json")).unwrap();
    let output = home.connect(&["cursor", "--write"]).await;
    assert!(output.status.success() && err(&output).contains("is a link to"), "{}", err(&output));
    assert!(std::fs::symlink_metadata(home.path(".cursor/mcp.json")).unwrap().is_symlink(), "it is still one");
    assert!(std::fs::read_to_string(&real).unwrap().contains("127.0.0.1:3000"));
    assert_eq!(files_in(&home.path("dotfiles")), ["cursor.json", "cursor.json.bak"]);
    symlink(home.path("nowhere"), home.path(".mcp.json")).unwrap();
    let output = home.connect(&["claude-code", "--write"]).await;
    assert!(output.status.code() == Some(1) && err(&output).contains("leads nowhere"), "{}", err(&output));
}

// What a client that speaks only to processes is told works: the command is run as it stands in its file.
#[tokio::test]
async fn the_command_in_a_desktop_clients_file_reaches_the_gateway() {
    let a = target("a").tool("echo", []);
    let gateway = gateway().target(&a).start().await;
    let home = home();
    let output = home.connect(&["claude-desktop", "--write", "--url", &gateway.url("/mcp")]).await;
    assert!(output.status.success(), "{}", err(&output));
    let config: Value = serde_json::from_slice(&std::fs::read(home.path(".config/Claude/claude_desktop_config.json")).unwrap()).unwrap();
    let server = &config["mcpServers"]["transom"];
    let mut command = Command::new(server["command"].as_str().unwrap());
    command.args(server["args"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap()));
    let mut child = command.env_clear().stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string() + "\n";
    tokio::io::AsyncWriteExt::write_all(&mut child.stdin.take().unwrap(), list.as_bytes()).await.unwrap();
    let output = child.wait_with_output().await.unwrap();
    assert!(output.status.success() && out(&output).contains("\"echo\""), "{}", out(&output));
}
