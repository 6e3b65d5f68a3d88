//! `transom connect CLIENT`: the config that leads an MCP client to the gateway, printed or written into the client's file.

use super::run;
use crate::client::{self, DEFAULT_URL};
use crate::connect::{self, CLIENTS, Wish, file};
use crate::failure::{Exit, Failure};
use crate::session::{self, Folder, Found, SessionId};
use crate::settings::Settings;
use crate::terminal;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use transom_config::ProcessEnvironment;

/// A longer name no client shows.
const LONGEST_NAME: usize = 64;

/// What it takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The client; without one, all that are known are listed
    client: Option<String>,
    /// Write it into the client's file, after a copy of it, instead of printing it
    #[arg(long)]
    write: bool,
    /// The MCP endpoint; else that of the config, of TRANSOM_URL, of the session that runs, or http://127.0.0.1:3000/mcp
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The config.yaml of the gateway, for its address; may repeat
    #[arg(short, long, visible_alias = "config", value_name = "FILE", conflicts_with = "url")]
    file: Vec<PathBuf>,
    /// What the client is to call the gateway
    #[arg(long, default_value = "transom")]
    name: String,
    /// The environment variable from which the client takes a bearer token
    #[arg(long, value_name = "NAME")]
    token_env: Option<String>,
    /// Through `transom stdio`, also for a client that speaks HTTP
    #[arg(long)]
    stdio: bool,
}

/// Prints or writes.
pub fn run(args: &Args) -> Result<(), Failure> {
    let Some(name) = &args.client else {
        terminal::data(&list());
        return Ok(());
    };
    let client = connect::client(name)?;
    let (url, whose) = url(args)?;
    let wish = Wish {
        url,
        name: checked(&args.name, "--name", "_-.")?,
        token_env: args.token_env.as_deref().map(|name| checked(name, "--token-env", "_")).transpose()?,
        stdio: args.stdio,
        program: program()?,
    };
    let snippet = client.snippet(&wish)?;
    terminal::note(&format!("{}: {} ({whose})", client.title, wish.url));
    if snippet.is_stdio && !wish.stdio {
        let why = if client.http.is_some() { "it reads no token from the environment" } else { "it speaks to processes only" };
        terminal::note(&format!("through `transom stdio`: {why}"));
    }
    let path = client.path(&wish)?;
    if !args.write {
        terminal::data(&snippet.text);
        if let Some(path) = path {
            terminal::note(&format!("its file: {}", path.display()));
        }
        terminal::note(client.then);
        return Ok(());
    }
    let Some(path) = path.filter(|_| client.is_writable()) else {
        return Err(Failure::new(Exit::Unexpected, format!("the config of {} is not written by us", client.title))
            .hint("leave out `--write` and see what to do"));
    };
    let real = file::real(&path)?;
    if fs_differ(&path, &real) {
        terminal::note(&format!("`{}` is a link to `{}`, which is the one written", path.display(), real.display()));
    }
    match file::change(&real, |text| client.changed(text, &wish, &snippet))? {
        file::Outcome::Unchanged => terminal::note(&format!("`{}` says so already", real.display())),
        file::Outcome::Created => terminal::note(&format!("wrote `{}`, which was not there before\n{}", real.display(), client.then)),
        file::Outcome::Changed(backup) => {
            terminal::note(&format!("wrote `{}`; as it was before: `{}`\n{}", real.display(), backup.display(), client.then));
        }
    }
    Ok(())
}

/// Whether the last part of a path is a link; that a folder above is one is nobody's surprise.
fn fs_differ(path: &std::path::Path, real: &std::path::Path) -> bool {
    path != real && std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

fn list() -> String {
    let width = CLIENTS.iter().map(|client| client.name.len()).max().unwrap_or(0);
    CLIENTS.iter().map(|client| format!("{:width$}  {}", client.name, client.title)).collect::<Vec<_>>().join("\n")
}

/// A text that goes into other people's files as it is.
fn checked(text: &str, flag: &str, signs: &str) -> Result<String, Failure> {
    if text.is_empty() || text.len() > LONGEST_NAME || !text.chars().all(|sign| sign.is_ascii_alphanumeric() || signs.contains(sign)) {
        let signs: Vec<String> = signs.chars().map(|sign| format!("`{sign}`")).collect();
        return Err(Failure::new(Exit::Unexpected, format!("`{}` is no good for `{flag}`", terminal::harmless(text)))
            .hint(format!("letters, digits and {}, at most {LONGEST_NAME}", signs.join(" "))));
    }
    Ok(text.into())
}

/// Clients start us without our path, so they are told where we are.
fn program() -> Result<String, Failure> {
    let own = std::env::current_exe().map_err(|error| Failure::new(Exit::Unexpected, format!("this program does not know where it is: {error}")))?;
    own.into_os_string()
        .into_string()
        .map_err(|path| Failure::new(Exit::Unexpected, format!("`{}` is no path that a config can hold", path.display())))
}

/// The endpoint, and whose it is.
fn url(args: &Args) -> Result<(String, String), Failure> {
    if let Some(url) = &args.url {
        return Ok((client::endpoint_url(url)?.to_string(), "as asked".into()));
    }
    if !args.file.is_empty() {
        return Ok((of_config(&args.file)?, "where the config listens".into()));
    }
    let variable = std::env::var("TRANSOM_URL").ok().map(|url| url.trim_end_matches('/').to_owned()).filter(|url| !url.is_empty());
    if let Some(url) = variable {
        return Ok((client::endpoint_url(&url)?.to_string(), "from TRANSOM_URL".into()));
    }
    let named = std::env::var("SESSION_ID").ok().filter(|id| !id.is_empty()).map(|id| SessionId::read(&id)).transpose()?;
    if let Some((id, url)) = of_session(named.as_ref())? {
        return Ok((format!("{url}/mcp"), format!("of session `{id}`; it changes with every session, unless it has a `--port`")));
    }
    let instead = named.map(|id| format!("session `{}`, which SESSION_ID names, does not run; ", id.shown())).unwrap_or_default();
    Ok((DEFAULT_URL.into(), format!("{instead}the usual address; `--url` names another")))
}

/// The session that SESSION_ID names, or the only one that runs.
fn of_session(named: Option<&SessionId>) -> Result<Option<(String, String)>, Failure> {
    // Where no sessions can be kept there are none.
    let Ok(folder) = Folder::of_user() else { return Ok(None) };
    let places = match named {
        Some(id) => vec![folder.place(id)],
        None => folder.places()?,
    };
    let mut running = places.iter().filter_map(|place| match session::find(place) {
        Ok(Found::Running { url: Some(url), record: Some(record), .. }) => Some((SessionId::read(&record.id).ok()?.shown(), url)),
        _ => None,
    });
    let first = running.next();
    Ok(first.filter(|_| running.next().is_none()))
}

fn of_config(files: &[PathBuf]) -> Result<String, Failure> {
    let settings = Settings::collect(&run::Args { file: files.to_vec(), ..run::Args::default() }, &ProcessEnvironment)?;
    let config = settings.config()?.config;
    if config.listen.port() == 0 {
        return Err(Failure::new(Exit::Negative, "the config does not say where the gateway listens, so it takes another port each time")
            .hint("give it a `listen: 127.0.0.1:3000`, or name the URL with `--url`"));
    }
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    Ok(format!("{scheme}://{}/mcp", reachable(config.listen)))
}

/// Where to connect to somebody who listens everywhere.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_into_other_peoples_files_is_plain() {
        let name = |text: &str| checked(text, "--name", "_-.");
        assert!(name("a b").unwrap_err().to_string().contains("`_` `-` `.`"), "the hint names what is allowed");
        assert_eq!(name("my-gateway_2.0").unwrap(), "my-gateway_2.0");
        for bad in ["", "a b", "a\"b", "a\nb", "é", &"x".repeat(65)] {
            assert_eq!(name(bad).unwrap_err().exit, Exit::Unexpected, "{bad}");
        }
    }

    #[test]
    fn every_client_is_listed() {
        let list = list();
        assert!(list.starts_with("claude-code ") && list.contains("\nzed "), "{list}");
        assert_eq!(list.lines().count(), CLIENTS.len());
    }

    #[test]
    fn who_listens_everywhere_is_reached_here() {
        for (listen, expected) in [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:2", "[::1]:2"), ("10.0.0.7:3", "10.0.0.7:3")] {
            assert_eq!(reachable(listen.parse().unwrap()).to_string(), expected);
        }
    }
}
