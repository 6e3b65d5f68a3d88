//! `transom demo`: the whole thing with built-in targets and a registry, and what to try.

use super::run;
use crate::demo;
use crate::failure::Failure;
use crate::serve::serve;
use crate::settings::Settings;
use crate::terminal;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use transom_config::{Environment, ProcessEnvironment};

/// Where the client verbs look when nobody says otherwise.
const PORT: u16 = 3000;

/// What it takes: what `run` does, and a folder.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(id = "demo")]
pub struct Args {
    /// Write config, registry and the registry's tests into this folder instead, as a beginning of your own
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "port", "listen"])]
    write: Option<PathBuf>,
    #[command(flatten)]
    run: run::Args,
}

impl Args {
    /// With what the environment says where no flag does.
    pub fn or_environment(mut self, environment: &dyn Environment) -> Args {
        self.run = self.run.or_environment(environment);
        self
    }

    /// Where its log goes.
    pub fn log_file(&self) -> Option<&Path> {
        self.run.log_file.as_deref()
    }
}

/// Serves the built-in targets until a signal, or writes them down.
pub async fn run(args: Args) -> Result<(), Failure> {
    let program = std::env::args().next().unwrap_or_else(|| "transom".into());
    if let Some(folder) = &args.write {
        demo::write(folder)?;
        terminal::note(&written(&program, folder));
        return Ok(());
    }
    let settings = Settings::collect(&args.run, &ProcessEnvironment)?
        .with_targets(demo::targets()?)
        .with_tools(demo::tools())
        .or_listen_on(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)));
    serve(&args.run, settings, |bound| Some(guide(&program, &bound.url(), bound.main_addr().port()))).await
}

/// As a shell wants it.
fn quoted(word: &str) -> String {
    if word.contains(char::is_whitespace) { format!("'{word}'") } else { word.to_string() }
}

/// What to do with what was written.
fn written(program: &str, folder: &Path) -> String {
    let (program, folder) = (quoted(program), folder.display().to_string());
    let file = |name: &str| quoted(&format!("{folder}/{name}"));
    format!(
        r#"Wrote config.yaml, registry.json, registry.test.yaml and README.md.

  {program} test {}
  {program} run -f {}
"#,
        file("registry.test.yaml"),
        file("config.yaml")
    )
}

/// What to do next, ready to be copied.
fn guide(program: &str, url: &str, port: u16) -> String {
    let program = quoted(program);
    let elsewhere = if port == PORT { String::new() } else { format!(" --url {url}/mcp") };
    format!(
        r#"
Four built-in targets are behind it: weather, tickets, slow and flaky. Nothing leaves this machine.

Its registry makes `get_forecast` of the weather service's `wx_forecast_v2`, which wants a key and answers with 3 KB:
agents see two arguments and get four fields, the key is filled in, and the raw tool is out of reach.

For an MCP client:

  {{ "mcpServers": {{ "transom": {{ "url": "{url}/mcp" }} }} }}

From another shell:

  {program} list{elsewhere}
  {program} call get_forecast city=Oslo{elsewhere}
  {program} call find_tickets words=invoice{elsewhere}
  {program} call slow_echo text=hello seconds=3{elsewhere}

`{program} demo --write my-gateway` leaves all this as files to change. Ctrl-C stops it.
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_has_a_client_config_and_commands_that_find_this_gateway() {
        let text = guide("transom", "http://127.0.0.1:3000", 3000);
        let config = text.lines().find(|line| line.contains("mcpServers")).unwrap();
        let config: serde_json::Value = serde_json::from_str(config).unwrap();
        assert_eq!(config["mcpServers"]["transom"]["url"], "http://127.0.0.1:3000/mcp");
        let commands: Vec<&str> = text.lines().filter(|line| line.starts_with("  transom ")).map(str::trim).collect();
        let expected = [
            "transom list",
            "transom call get_forecast city=Oslo",
            "transom call find_tickets words=invoice",
            "transom call slow_echo text=hello seconds=3",
        ];
        assert_eq!(commands, expected);

        let text = guide("target/release/transom", "http://127.0.0.1:41234", 41234);
        assert_eq!(text.matches(" --url http://127.0.0.1:41234/mcp").count(), 4, "{text}");
        assert!(guide("/my tools/transom", "http://127.0.0.1:1", 1).contains("'/my tools/transom' list"));
    }

    #[test]
    fn what_was_written_comes_with_two_commands() {
        let text = written("transom", Path::new("my gateway"));
        assert!(text.contains("  transom test 'my gateway/registry.test.yaml'\n  transom run -f 'my gateway/config.yaml'\n"), "{text}");
    }
}
