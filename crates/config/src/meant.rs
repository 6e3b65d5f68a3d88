//! What a config means: variables replaced, paths absolute, defaults filled in, every rule checked.
//!
//! The last room that sees the file. It notes every problem it finds and goes on; what it returns is only used if there was
//! none. Messages quote what was written, never what a variable held.

use crate::environment::Beside;
use crate::file::{ClientTls, Era, Listener, Prefix, Readiness, Remote, ServerTls, Sessions, Stdio, Target, Text};
use crate::merge::Merged;
use crate::problem::{Problem, Problems};
use crate::written::{Entries, Place, Written};
use crate::{Source, duration};
use http::header::{self, HeaderName, HeaderValue};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use transom_gateway::{Config, ListenAt, Naming, TlsFiles};
use transom_registry::template::{self, Environment, Fault};
use transom_upstream::{EraChoice, Secret, TargetSpec, Transport};

/// How long a call may take when nothing else is said.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// What the admin API, metrics labels and `/mcp/{target}` can carry comfortably.
const LONGEST_TARGET_NAME: usize = 64;

/// What MCP recommends as the limit of a tool's name.
const LONGEST_TOOL_NAME: usize = 128;

/// Shorter keys can be guessed.
const SHORTEST_SESSION_KEY: usize = 16;

/// Headers that the gateway writes itself: a value from a config would break the connection or the session.
const OUR_HEADERS: [HeaderName; 9] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::TRANSFER_ENCODING,
    header::ACCEPT,
    HeaderName::from_static("mcp-session-id"),
    HeaderName::from_static("mcp-protocol-version"),
    HeaderName::from_static("mcp-method"),
];

/// Decides what the files mean together.
pub fn config(merged: &Merged, sources: &[Source], environment: &dyn Environment, problems: &RefCell<Problems>) -> Config {
    let meaning = Meaning { sources, environment, problems };
    let defaults = Config::default();
    let file = &merged.file;
    let timeout = file.policies.value.as_ref().and_then(|policies| meaning.duration("defaultTimeout", &policies.default_timeout));
    Config {
        listen: meaning.address("listen", &file.listen).unwrap_or(defaults.listen),
        tls: file.tls.get().and_then(|(tls, place)| meaning.server_tls(tls, place)),
        admin: meaning.side_listener(&file.admin, defaults.admin),
        metrics: meaning.side_listener(&file.metrics, defaults.metrics),
        targets: meaning.targets(&merged.targets, timeout.unwrap_or(DEFAULT_TIMEOUT)),
        naming: meaning.naming(file.naming.value.as_ref()),
        allowed_hosts: meaning.all(&file.allowed_hosts, Meaning::allowed_host),
        allowed_origins: meaning.all(&file.allowed_origins, Meaning::allowed_origin),
        session_key: meaning.session_key(&file.session_key),
        state_dir: meaning.path(&file.state_dir).map(|(path, _)| path),
        readiness: file.readiness.value.map_or(defaults.readiness, |readiness| match readiness {
            Readiness::All => transom_gateway::Readiness::All,
            Readiness::Any => transom_gateway::Readiness::Any,
            Readiness::Registry => transom_gateway::Readiness::Registry,
        }),
        allow_unauthenticated: file.allow_unauthenticated.value.unwrap_or(defaults.allow_unauthenticated),
        drain: defaults.drain,
    }
}

struct Meaning<'a> {
    sources: &'a [Source],
    environment: &'a dyn Environment,
    problems: &'a RefCell<Problems>,
}

/// A text after its variables were replaced. Messages use what was written.
struct Resolved<'a> {
    text: String,
    written: &'a str,
    place: Place,
}

impl Meaning<'_> {
    fn note(&self, problem: Problem) {
        self.problems.borrow_mut().add(problem);
    }

    fn beside(&self, place: Place) -> Beside<'_> {
        let base_dir = self.sources.get(place.source).map_or(Path::new(""), |source| source.base_dir.as_path());
        Beside { environment: self.environment, base_dir }
    }

    // --- values -----------------------------------------------------------------------------------------------------

    /// A text with its variables replaced.
    fn text<'w>(&self, written: &'w Written<Text>) -> Option<Resolved<'w>> {
        let (Text(text), place) = written.get()?;
        match template::expand(text, &self.beside(place)) {
            Ok(expanded) => {
                for at in expanded.unclosed {
                    let problem = Problem::warning(self.inside(place, text, &at), "this placeholder is never closed and stays as it is");
                    self.note(problem.label("no closing bracket").help("close it, or write `$${` to mean the characters themselves"));
                }
                Some(Resolved { text: expanded.text, written: text, place })
            }
            Err(faults) => {
                for bad in faults {
                    let problem = Problem::error(self.inside(place, text, &bad.at), bad.fault.to_string());
                    self.note(match bad.fault {
                        Fault::Empty | Fault::BadName(_) => problem
                            .label("not a placeholder")
                            .help("write `${NAME}`, `${NAME:-default}` or `${file:/path}`; `$${` means the characters `${`"),
                        Fault::Unset(name) => {
                            problem.label("has no value").help(format!("set `{name}` in the environment, or give it a default: `${{{name}:-value}}`"))
                        }
                        Fault::Required { name, .. } => problem.label("has no value").help(format!("set `{name}` in the environment")),
                        Fault::File { .. } => problem.label("cannot be read"),
                    });
                }
                None
            }
        }
    }

    /// The place of a part of a text, if the file spells the text as it is; else the place of the whole.
    fn inside(&self, place: Place, text: &str, part: &Range<usize>) -> Place {
        let source = self.sources.get(place.source).map_or("", |source| source.text.as_str());
        let spelled = source.get(place.start..place.start + place.length).unwrap_or_default();
        let quote = usize::from(spelled.starts_with(['"', '\'']));
        match spelled.get(quote..) {
            Some(rest) if rest.starts_with(text) => Place { start: place.start + quote + part.start, length: part.len(), ..place },
            _ => place,
        }
    }

    /// A text that may not be empty.
    fn filled<'w>(&self, key: &str, written: &'w Written<Text>) -> Option<Resolved<'w>> {
        let resolved = self.text(written)?;
        if resolved.text.trim().is_empty() {
            self.note(Problem::error(resolved.place, format!("`{key}` is empty")));
            return None;
        }
        Some(resolved)
    }

    fn all<T>(&self, written: &Written<Vec<Written<Text>>>, meaning: impl Fn(&Self, Resolved<'_>) -> Option<T>) -> Vec<T> {
        let items = written.value.iter().flatten();
        items.filter_map(|item| meaning(self, self.text(item)?)).collect()
    }

    fn duration(&self, key: &str, written: &Written<Text>) -> Option<Duration> {
        let resolved = self.text(written)?;
        match duration::parse(&resolved.text) {
            Ok(duration) => Some(duration),
            Err(fault) => {
                self.note(Problem::error(resolved.place, format!("`{key}: {}` {fault}", resolved.written)).help(duration::FORMS));
                None
            }
        }
    }

    fn path(&self, written: &Written<Text>) -> Option<(PathBuf, Place)> {
        let resolved = self.filled("path", written)?;
        Some((self.beside(resolved.place).path(&resolved.text), resolved.place))
    }

    /// A file that has to be there, of which the content matters.
    fn pem(&self, written: &Written<Text>, what: &str, begin: &str) -> Option<(PathBuf, String)> {
        let (path, place) = self.path(written)?;
        let shown = path.display();
        match self.environment.file(&path) {
            Ok(content) if content.contains(begin) => Some((path, content)),
            Ok(_) => {
                self.note(
                    Problem::error(place, format!("`{shown}` has no {what} in PEM form"))
                        .help(format!("such a file has a line that begins with `{begin}`")),
                );
                None
            }
            Err(reason) => {
                self.note(
                    Problem::error(place, format!("`{shown}` cannot be read: {reason}"))
                        .help("a relative path starts at the config file's directory"),
                );
                None
            }
        }
    }

    // --- the gateway ------------------------------------------------------------------------------------------------

    fn address(&self, key: &str, written: &Written<Text>) -> Option<SocketAddr> {
        let resolved = self.filled(key, written)?;
        let text = resolved.text.trim();
        if let Ok(address) = text.parse() {
            return Some(address);
        }
        if let Some(port) = text.strip_prefix("localhost:").and_then(|port| port.parse::<u16>().ok()) {
            return Some((Ipv4Addr::LOCALHOST, port).into());
        }
        let port = text.trim_start_matches(['*', ':']);
        let help = if port.parse::<u16>().is_ok() {
            format!("write `127.0.0.1:{port}` for this machine only, or `0.0.0.0:{port}` for everyone")
        } else if text.parse::<IpAddr>().is_ok() || text == "localhost" {
            "add a port, like `127.0.0.1:3000`".to_owned()
        } else {
            "write an IP address and a port, like `127.0.0.1:3000` or `[::1]:3000`".to_owned()
        };
        self.note(Problem::error(resolved.place, format!("`{}` is not an address to listen on", resolved.written)).help(help));
        None
    }

    fn side_listener(&self, written: &Written<Listener>, default: ListenAt) -> ListenAt {
        let address = written.value.as_ref().and_then(|section| self.address("listen", &section.listen));
        address.map_or(default, ListenAt::Exactly)
    }

    fn server_tls(&self, tls: &ServerTls, place: Place) -> Option<TlsFiles> {
        for (key, written) in [("cert", &tls.cert), ("key", &tls.key)] {
            if written.value.is_none() {
                self.note(Problem::error(place, format!("`tls` has no `{key}`")).help("TLS needs both `cert` and `key`, each a PEM file"));
            }
        }
        let cert = self.pem(&tls.cert, "certificate", "-----BEGIN CERTIFICATE-----");
        let key = self.pem(&tls.key, "private key", "-----BEGIN ");
        Some(TlsFiles { cert: cert?.0, key: key?.0 })
    }

    fn naming(&self, written: Option<&crate::file::Naming>) -> Naming {
        let mut naming = Naming::default();
        let Some(written) = written else { return naming };
        match written.prefix.value {
            Some(Prefix::OnCollision) => naming.prefix = transom_gateway::Prefix::OnCollision,
            Some(Prefix::Always) => naming.prefix = transom_gateway::Prefix::Always,
            Some(Prefix::Never) => naming.prefix = transom_gateway::Prefix::Never,
            None => {}
        }
        if let Some((Text(separator), place)) = written.separator.get() {
            if separator.is_empty() {
                self.note(
                    Problem::error(place, "`separator` is empty")
                        .help("without one, two different tools could get the same name; the default is `__`"),
                );
            } else if !separator.chars().all(is_tool_name_character) {
                self.note(Problem::error(place, format!("`separator` cannot be `{separator}`")).help(TOOL_NAME_CHARACTERS));
            } else {
                naming.separator.clone_from(separator);
            }
        }
        naming
    }

    fn allowed_host(&self, host: Resolved<'_>) -> Option<String> {
        let text = host.text.trim().to_ascii_lowercase();
        let bare = text.split_once("://").map_or(text.as_str(), |(_, rest)| rest);
        let bare = bare.split('/').next().unwrap_or_default();
        let is_host = text.parse::<http::uri::Authority>().is_ok_and(|authority| !authority.as_str().contains('@') && !authority.host().is_empty());
        if is_host && text == bare && !text.contains('*') {
            return Some(text);
        }
        let mut problem = Problem::error(host.place, format!("`{}` is not a host", host.written));
        problem = if text != bare && host.text == host.written {
            problem.help(format!("write only the host: `{bare}`"))
        } else {
            problem.help("write a host with or without a port, like `mcp.corp.example` or `mcp.corp.example:8443`; there are no wildcards")
        };
        self.note(problem);
        None
    }

    fn allowed_origin(&self, origin: Resolved<'_>) -> Option<String> {
        let text = origin.text.trim().to_ascii_lowercase();
        let parsed = text.parse::<http::Uri>().ok();
        let is_origin = parsed.is_some_and(|uri| {
            let authority = uri.authority().filter(|authority| !authority.as_str().contains(['@', '*']) && !authority.host().is_empty());
            authority.zip(uri.scheme_str()).is_some_and(|(authority, scheme)| format!("{scheme}://{authority}") == text)
        });
        if is_origin {
            return Some(text);
        }
        self.note(
            Problem::error(origin.place, format!("`{}` is not an origin", origin.written))
                .help("write scheme, host and port as a browser sends them, like `https://app.corp.example`; there are no wildcards"),
        );
        None
    }

    fn session_key(&self, written: &Written<Text>) -> Option<Secret> {
        let resolved = self.text(written)?;
        if resolved.text.len() < SHORTEST_SESSION_KEY {
            self.note(
                Problem::error(resolved.place, format!("`sessionKey` is shorter than {SHORTEST_SESSION_KEY} bytes"))
                    .label("can be guessed")
                    .help("make one with `openssl rand -hex 32`"),
            );
            return None;
        }
        Some(Secret::new(resolved.text))
    }

    // --- the targets ------------------------------------------------------------------------------------------------

    fn targets(&self, written: &[Written<Target>], default_timeout: Duration) -> Vec<TargetSpec> {
        let mut seen = HashMap::new();
        let mut targets = Vec::new();
        for (target, place) in written.iter().filter_map(Written::get) {
            let name = self.target_name(&target.name, place);
            if let Some(name) = &name
                && let Some(first) = seen.insert(name.clone(), target.name.place)
            {
                let line = self
                    .sources
                    .get(first.source)
                    .and_then(|source| source.text.get(..first.start))
                    .map_or(0, |before| before.matches('\n').count() + 1);
                self.note(
                    Problem::error(target.name.place, format!("two targets are called `{name}`"))
                        .label("the second one")
                        .help(format!("the first is on line {line}; every target needs a name of its own")),
                );
            }
            // Checked even without a name, so that all problems of a target come at once.
            let spec = self.target(name.clone().unwrap_or_default(), target, place, default_timeout);
            targets.extend(spec.filter(|_| name.is_some()));
        }
        targets
    }

    fn target_name(&self, written: &Written<Text>, target: Place) -> Option<String> {
        let Some((Text(name), place)) = written.get() else {
            self.note(
                Problem::error(target, "this target has no name")
                    .label("`name` is missing")
                    .help("add `name: …`; logs, metrics and `/mcp/{name}` use it"),
            );
            return None;
        };
        let fault = if name.is_empty() {
            "the name is empty".to_owned()
        } else if name.chars().count() > LONGEST_TARGET_NAME {
            format!("the name is longer than {LONGEST_TARGET_NAME} characters")
        } else if name.contains('/') {
            "the name contains `/`".to_owned()
        } else if name.chars().any(char::is_control) {
            "the name contains a control character".to_owned()
        } else {
            return Some(name.clone());
        };
        let rule = format!("a target's name has 1 to {LONGEST_TARGET_NAME} characters and no `/`: it is part of the path `/mcp/{{name}}`");
        self.note(Problem::error(place, fault).help(rule));
        None
    }

    fn target(&self, name: String, target: &Target, place: Place, default_timeout: Duration) -> Option<TargetSpec> {
        let timeout = self.duration("timeout", &target.timeout).unwrap_or(default_timeout);
        let aliases = self.aliases(target.aliases.value.as_ref());
        let transport = self.transport(&name, target, place);
        Some(TargetSpec {
            name,
            transport: transport?,
            era: match target.era.value {
                None | Some(Era::Auto) => EraChoice::Auto,
                Some(Era::Modern) => EraChoice::Modern,
                Some(Era::Legacy) => EraChoice::Legacy,
            },
            sessions: match target.sessions.value {
                None | Some(Sessions::Shared) => transom_upstream::Sessions::Shared,
                Some(Sessions::PerSession) => transom_upstream::Sessions::PerSession,
            },
            timeout,
            allow_server_requests: target.allow_server_requests.value.unwrap_or(false),
            aliases,
        })
    }

    fn transport(&self, name: &str, target: &Target, place: Place) -> Option<Transport> {
        let written = [
            ("stdio", target.stdio.get().map(|(_, at)| at)),
            ("mcp", target.mcp.get().map(|(_, at)| at)),
            ("sse", target.sse.get().map(|(_, at)| at)),
        ];
        let mut given = written.into_iter().filter_map(|(key, at)| at.map(|at| (key, at)));
        let target_called = if name.is_empty() { "this target".to_owned() } else { format!("target `{name}`") };
        let Some((first, first_at)) = given.next() else {
            let at = if target.name.value.is_some() { target.name.place } else { place };
            self.note(
                Problem::error(at, format!("{target_called} has no transport"))
                    .label("how is it reached?")
                    .help("add one of `stdio: { cmd: … }`, `mcp: { host: … }` or `sse: { host: … }`"),
            );
            return None;
        };
        if let Some((second, second_at)) = given.next() {
            let at = if second_at.start > first_at.start { second_at } else { first_at };
            self.note(
                Problem::error(at, format!("{target_called} has two transports, `{first}` and `{second}`"))
                    .label("the second one")
                    .help("keep one of them, or make two targets of it"),
            );
        }
        let ca = self.ca(&target.tls, target);
        let stdio = target.stdio.get().and_then(|(stdio, at)| self.stdio(stdio, at));
        let remote = |key, section: &Written<Remote>| section.get().and_then(|(remote, at)| self.remote(key, remote, at));
        let http = remote("mcp", &target.mcp).map(|(url, headers)| Transport::Http { url, headers, ca: ca.clone() });
        let sse = remote("sse", &target.sse).map(|(url, headers)| Transport::Sse { url, headers, ca: ca.clone() });
        stdio.or(http).or(sse)
    }

    fn stdio(&self, stdio: &Stdio, place: Place) -> Option<Transport> {
        if stdio.cmd.value.is_none() {
            self.note(Problem::error(place, "`stdio` has no `cmd`").label("which program?").help("add `cmd: …`, the program to start"));
        }
        let cmd = self.filled("cmd", &stdio.cmd).and_then(|cmd| self.without_nul(cmd)).map(|cmd| {
            // A bare name is looked up in PATH; anything with a slash is a path.
            if cmd.text.contains('/') { self.beside(cmd.place).path(&cmd.text).display().to_string() } else { cmd.text }
        });
        self.point_out_a_command_line(stdio);
        let args = self.all(&stdio.args, |meaning, arg| meaning.without_nul(arg).map(|arg| arg.text));
        let env = self.env(stdio.env.value.as_ref());
        let cwd = self.path(&stdio.cwd).map(|(path, _)| path);
        Some(Transport::Stdio { cmd: cmd?, args, env, cwd })
    }

    /// `cmd: npx -y server` is what a shell would take; here it would be one odd file name.
    fn point_out_a_command_line(&self, stdio: &Stdio) {
        let Some((Text(cmd), place)) = stdio.cmd.get() else { return };
        let mut words = cmd.split_whitespace();
        if let (Some(program), Some(first), None) = (words.next(), words.next(), &stdio.args.value)
            && !program.contains(['/', '$'])
        {
            let args = std::iter::once(first).chain(words).collect::<Vec<_>>().join(", ");
            self.note(
                Problem::warning(place, "`cmd` contains a space, and there is no shell that splits it")
                    .label("one program of this name")
                    .help(format!("write `cmd: {program}` and `args: [{args}]`")),
            );
        }
    }

    /// The operating system ends texts at the first NUL.
    fn without_nul<'w>(&self, resolved: Resolved<'w>) -> Option<Resolved<'w>> {
        if resolved.text.contains('\0') {
            self.note(Problem::error(resolved.place, "a process cannot be given a text with a NUL character"));
            return None;
        }
        Some(resolved)
    }

    fn env(&self, entries: Option<&Entries<Text>>) -> Vec<(String, Secret)> {
        let mut env = Vec::new();
        for (key, value) in entries.iter().flat_map(|entries| &entries.0) {
            let Some((name, place)) = key.get() else { continue };
            if name.is_empty() || name.contains(['=', '\0']) {
                self.note(Problem::error(place, format!("`{}` is not the name of a variable", name.escape_debug())));
            }
            let value = self.text(value).and_then(|value| self.without_nul(value));
            env.extend(value.map(|value| (name.clone(), Secret::new(value.text))));
        }
        env
    }

    fn remote(&self, key: &str, remote: &Remote, place: Place) -> Option<(http::Uri, Vec<(HeaderName, Secret)>)> {
        if remote.host.value.is_none() {
            let problem = Problem::error(place, format!("`{key}` has no `host`")).label("where is the server?");
            self.note(problem.help(format!("add `host: …`, like `http://localhost:8080/{key}`")));
        }
        // The paths that servers use by convention are called like our keys.
        let url = self.filled("host", &remote.host).and_then(|host| self.url(&host, &format!("/{key}")));
        let headers = self.headers(remote.headers.value.as_ref());
        Some((url?, headers))
    }

    fn url(&self, host: &Resolved<'_>, default_path: &str) -> Option<http::Uri> {
        let refuse = |message: String, help: &str| {
            self.note(Problem::error(host.place, message).help(help));
            None
        };
        let text = host.text.trim();
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let scheme = scheme.to_ascii_lowercase();
        if scheme != "http" && scheme != "https" {
            return refuse(format!("`{}` is neither an http nor an https URL", host.written), "a target on the network speaks http or https");
        }
        let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(authority_end);
        if authority.contains('@') {
            // The URL is not quoted: it holds a password.
            return refuse(
                "the URL of a target may not contain a user name or password".into(),
                "put credentials into `headers`, like `headers: { Authorization: \"Basic ${CREDENTIALS}\" }`",
            );
        }
        if path.contains('#') {
            return refuse(format!("`{}` has a fragment, which is never sent to a server", host.written), "remove the part from `#` on");
        }
        let path = match path.chars().next() {
            None => default_path.to_owned(),
            Some('?') => format!("{default_path}{path}"),
            Some(_) => path.to_owned(),
        };
        let url: Option<http::Uri> = format!("{scheme}://{authority}{path}").parse().ok();
        let is_complete =
            |url: &http::Uri| url.host().is_some_and(|name| !name.is_empty() && (name.len() == authority.len() || url.port_u16().is_some()));
        match url.filter(is_complete) {
            Some(url) => Some(url),
            None => refuse(format!("`{}` is not a URL", host.written), "write it like `http://search.internal:8080/mcp`"),
        }
    }

    fn headers(&self, entries: Option<&Entries<Text>>) -> Vec<(HeaderName, Secret)> {
        let mut headers = Vec::new();
        let mut seen = HashSet::new();
        for (key, value) in entries.iter().flat_map(|entries| &entries.0) {
            let Some((written, place)) = key.get() else { continue };
            let name = HeaderName::from_bytes(written.as_bytes()).ok();
            match &name {
                None => self.note(
                    Problem::error(place, format!("`{}` is not the name of a header", written.escape_debug()))
                        .help("names of headers consist of letters, digits and `-`, like `X-Api-Key`"),
                ),
                Some(name) if OUR_HEADERS.contains(name) => {
                    self.note(Problem::error(place, format!("header `{written}` is written by the gateway itself")).help("remove it"));
                }
                Some(name) if !seen.insert(name.clone()) => {
                    self.note(
                        Problem::error(place, format!("header `{written}` is given twice"))
                            .help("upper and lower case make no difference in the name of a header"),
                    );
                }
                Some(_) => {}
            }
            let Some(value) = self.text(value) else { continue };
            if HeaderValue::from_str(&value.text).is_err() {
                self.note(
                    Problem::error(value.place, format!("the value of header `{written}` cannot be sent"))
                        .help("a header holds printable ASCII on one line; look for a line break at the end of a variable"),
                );
            }
            headers.extend(name.map(|name| (name, Secret::new(value.text))));
        }
        headers
    }

    fn ca(&self, tls: &Written<ClientTls>, target: &Target) -> Option<Arc<[u8]>> {
        let (tls, place) = tls.get()?;
        let hosts = [&target.mcp, &target.sse].into_iter().filter_map(|section| section.value.as_ref()?.host.value.as_ref());
        let is_https = hosts.map(|Text(host)| host.to_ascii_lowercase()).any(|host| host.contains('$') || host.starts_with("https://"));
        if !is_https {
            // A variable may turn out to be https; only what is plainly something else is pointed out.
            self.note(Problem::warning(place, "`tls` has no effect on a target that is not reached by https"));
        }
        let (_, content) = self.pem(&tls.ca, "certificate", "-----BEGIN CERTIFICATE-----")?;
        Some(content.into_bytes().into())
    }

    fn aliases(&self, entries: Option<&Entries<Text>>) -> Vec<(String, String)> {
        let mut aliases = Vec::new();
        for (key, value) in entries.iter().flat_map(|entries| &entries.0) {
            let (Some((alias, alias_at)), Some((Text(tool), tool_at))) = (key.get(), value.get()) else { continue };
            if alias.is_empty() || alias.len() > LONGEST_TOOL_NAME || !alias.chars().all(is_tool_name_character) {
                self.note(Problem::error(alias_at, format!("`{}` cannot be the name of a tool", alias.escape_debug())).help(TOOL_NAME_CHARACTERS));
            }
            if tool.is_empty() {
                self.note(Problem::error(tool_at, format!("alias `{alias}` names no tool")).help(format!("write `{alias}: the_tool`")));
            } else if tool == alias {
                self.note(Problem::warning(alias_at, format!("`{alias}` is an alias of itself")).label("no effect"));
            }
            aliases.push((alias.clone(), tool.clone()));
        }
        aliases
    }
}

const TOOL_NAME_CHARACTERS: &str = "names of tools consist of letters, digits, `_`, `-` and `.`, at most 128 of them";

fn is_tool_name_character(each: char) -> bool {
    each.is_ascii_alphanumeric() || matches!(each, '_' | '-' | '.')
}
