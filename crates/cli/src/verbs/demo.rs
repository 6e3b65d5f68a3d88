//! `transom demo`: the whole thing with built-in targets, and what to try.

use super::run;
use crate::demo;
use crate::failure::Failure;
use crate::serve::serve;
use crate::settings::Settings;
use std::net::{Ipv4Addr, SocketAddr};
use transom_config::ProcessEnvironment;

/// Where the client verbs look when nobody says otherwise.
const PORT: u16 = 3000;

/// Serves the built-in targets until a signal.
pub async fn run(args: run::Args) -> Result<(), Failure> {
    let settings =
        Settings::collect(&args, &ProcessEnvironment)?.with_targets(demo::targets()?).or_listen_on(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)));
    let program = std::env::args().next().unwrap_or_else(|| "transom".into());
    serve(&args, settings, |bound| Some(guide(&program, &bound.url(), bound.main_addr().port()))).await
}

/// What to do next, ready to be copied.
fn guide(program: &str, url: &str, port: u16) -> String {
    let program = if program.contains(char::is_whitespace) { format!("'{program}'") } else { program.to_string() };
    let elsewhere = if port == PORT { String::new() } else { format!(" --url {url}/mcp") };
    format!(
        r#"
Four built-in targets are behind it: weather, tickets, slow and flaky. Nothing leaves this machine.

For an MCP client:

  {{ "mcpServers": {{ "transom": {{ "url": "{url}/mcp" }} }} }}

From another shell:

  {program} list{elsewhere}
  {program} call get_forecast city=Oslo{elsewhere}
  {program} call slow_echo text=hello seconds=3{elsewhere}

Ctrl-C stops it.
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_has_a_client_config_and_three_commands_that_find_this_gateway() {
        let text = guide("transom", "http://127.0.0.1:3000", 3000);
        let config = text.lines().find(|line| line.contains("mcpServers")).unwrap();
        let config: serde_json::Value = serde_json::from_str(config).unwrap();
        assert_eq!(config["mcpServers"]["transom"]["url"], "http://127.0.0.1:3000/mcp");
        let commands: Vec<&str> = text.lines().filter(|line| line.starts_with("  transom ")).map(str::trim).collect();
        assert_eq!(commands, ["transom list", "transom call get_forecast city=Oslo", "transom call slow_echo text=hello seconds=3"]);

        let text = guide("target/release/transom", "http://127.0.0.1:41234", 41234);
        assert_eq!(text.matches(" --url http://127.0.0.1:41234/mcp").count(), 3, "{text}");
        assert!(guide("/my tools/transom", "http://127.0.0.1:1", 1).contains("'/my tools/transom' list"));
    }
}
