//! What a target means: its name, how it is reached, what it is sent.

use super::network::Server;
use super::value::Resolved;
use super::{Meaning, TOOL_NAME_CHARACTERS, is_tool_name_character};
use crate::file::{self, Era, Remote, Sessions, Stdio, Target, Text};
use crate::problem::Problem;
use crate::written::{Entries, Place, Written};
use http::HeaderName;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use transom_gateway::Config;
use transom_gateway::via::is_own;
use transom_upstream::{ChildLimits, ClientTls, EraChoice, Secret, TargetSpec, Transport};

/// What the admin API, metrics labels and `/mcp/{target}` can carry comfortably.
const LONGEST_TARGET_NAME: usize = 64;

/// What MCP recommends as the limit of a tool's name.
const LONGEST_TOOL_NAME: usize = 128;

/// What messages say of the URL of a target.
const TARGET: Server = Server {
    what: "a target",
    default_path: "/",
    credentials: "put credentials into `headers`, like `headers: { Authorization: \"Basic ${CREDENTIALS}\" }`",
    example: "http://search.internal:8080/mcp",
};

impl Meaning<'_> {
    /// All targets, in the order of the files.
    pub(super) fn targets(&self, written: &[Written<Target>], default_timeout: Duration) -> Vec<TargetSpec> {
        let mut seen = HashMap::new();
        let mut targets = Vec::new();
        for (target, place) in written.iter().filter_map(Written::get) {
            let name = self.target_name(&target.name, place);
            if let Some(name) = &name {
                let first = *seen.entry(name.clone()).or_insert(target.name.place);
                if first != target.name.place {
                    let line = self.line(first);
                    self.note(
                        Problem::error(target.name.place, format!("two targets are called `{name}`"))
                            .label("the second one")
                            .help(format!("the first is on line {line}; every target needs a name of its own")),
                    );
                }
            }
            // Checked even without a name, so that all problems of a target come at once.
            let spec = self.target(name.clone().unwrap_or_default(), target, place, default_timeout);
            targets.extend(spec.filter(|_| name.is_some()));
        }
        targets
    }

    /// A target that is the gateway itself would answer its own calls for ever.
    pub(super) fn point_out_itself(&self, written: &[Written<Target>], config: &Config) {
        for (target, _) in written.iter().filter_map(Written::get) {
            let name = target.name.get().map_or("", |(Text(name), _)| name.as_str());
            let url = config.targets.iter().find(|spec| spec.name == name).and_then(|spec| spec.transport.url());
            let place = [&target.mcp, &target.sse].into_iter().find_map(|section| Some(section.value.as_ref()?.host.place));
            if let (Some(url), Some(place)) = (url, place)
                && is_own(url, config.listen, &config.allowed_hosts)
            {
                self.note(
                    Problem::error(place, format!("target `{name}` is this gateway's own listener"))
                        .label("leads back here")
                        .help("every call of it would come back; name the server that was meant, or remove the target"),
                );
            }
        }
    }

    fn target_name(&self, written: &Written<Text>, target: Place) -> Option<String> {
        if written.is_missing() {
            self.note(
                Problem::error(target, "this target has no name")
                    .label("`name` is missing")
                    .help("add `name: …`; logs, metrics and `/mcp/{name}` use it"),
            );
        }
        let (Text(name), place) = written.get()?;
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
            if target.stdio.is_missing() && target.mcp.is_missing() && target.sse.is_missing() {
                let at = if target.name.value.is_some() { target.name.place } else { place };
                self.note(
                    Problem::error(at, format!("{target_called} has no transport"))
                        .label("how is it reached?")
                        .help("add one of `stdio: { cmd: … }`, `mcp: { host: … }` or `sse: { host: … }`"),
                );
            }
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
        let tls = self.client_tls(&target.tls, target);
        let stdio = target.stdio.get().and_then(|(stdio, at)| self.stdio(stdio, at));
        let remote = |key, section: &Written<Remote>| section.get().and_then(|(remote, at)| self.remote(key, remote, at));
        let http = remote("mcp", &target.mcp).map(|(url, headers)| Transport::Http { url, headers, tls: tls.clone() });
        let sse = remote("sse", &target.sse).map(|(url, headers)| Transport::Sse { url, headers, tls: tls.clone() });
        stdio.or(http).or(sse)
    }

    fn stdio(&self, stdio: &Stdio, place: Place) -> Option<Transport> {
        if stdio.cmd.is_missing() {
            self.note(Problem::error(place, "`stdio` has no `cmd`").label("which program?").help("add `cmd: …`, the program to start"));
        }
        let cmd = self.filled("cmd", &stdio.cmd).and_then(|cmd| self.without_nul(cmd)).map(|cmd| {
            // A bare name is looked up in PATH; anything with a slash is a path.
            if cmd.text.contains('/') { self.absolute(&cmd).display().to_string() } else { cmd.text }
        });
        self.point_out_a_command_line(stdio);
        let args = self.all(&stdio.args, |meaning, arg| meaning.without_nul(arg).map(|arg| arg.text));
        let env = self.env(stdio.env.value.as_ref());
        let cwd = self.path("cwd", &stdio.cwd);
        let limits = stdio.limits.value.as_ref().map(|limits| self.child_limits(limits)).unwrap_or_default();
        Some(Transport::Stdio { cmd: cmd?, args, env, cwd, limits })
    }

    fn child_limits(&self, limits: &file::ChildLimits) -> ChildLimits {
        ChildLimits {
            memory: self.size("memory", &limits.memory),
            processes: self.count("processes", &limits.processes),
            files: self.count("files", &limits.files),
            cpu: self.duration("cpu", &limits.cpu),
        }
    }

    fn count(&self, key: &str, written: &Written<Text>) -> Option<u64> {
        let resolved = self.text(written)?;
        let count = resolved.text.trim().parse().ok().filter(|count| *count > 0);
        if count.is_none() {
            self.note(Problem::error(resolved.place, format!("`{key}: {}` is not a number above zero", resolved.written)));
        }
        count
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
            let value = value.map(|value| if value.secret { Secret::made_of(value.text, value.values) } else { Secret::plain(value.text) });
            env.extend(value.map(|value| (name.clone(), value)));
        }
        env
    }

    fn remote(&self, key: &str, remote: &Remote, place: Place) -> Option<(http::Uri, Vec<(HeaderName, Secret)>)> {
        if remote.host.is_missing() {
            let problem = Problem::error(place, format!("`{key}` has no `host`")).label("where is the server?");
            self.note(problem.help(format!("add `host: …`, like `http://localhost:8080/{key}`")));
        }
        // The paths that servers use by convention are called like our keys.
        let url = self.filled("host", &remote.host).and_then(|host| self.url(&host, &Server { default_path: &format!("/{key}"), ..TARGET }));
        let headers = self.headers(remote.headers.value.as_ref());
        Some((url?, headers))
    }

    fn client_tls(&self, tls: &Written<file::TargetTls>, target: &Target) -> Option<Arc<ClientTls>> {
        let (tls, place) = tls.get()?;
        let hosts = [&target.mcp, &target.sse].into_iter().filter_map(|section| section.value.as_ref()?.host.value.as_ref());
        let is_https = hosts.map(|Text(host)| host.to_ascii_lowercase()).any(|host| host.contains('$') || host.starts_with("https://"));
        if !is_https {
            // A variable may turn out to be https; only what is plainly something else is pointed out.
            self.note(Problem::warning(place, "`tls` has no effect on a target that is not reached by https"));
        }
        for (given, missing, key) in [(&tls.cert, &tls.key, "key"), (&tls.key, &tls.cert, "cert")] {
            if let (Some((_, at)), true) = (given.get(), missing.is_missing()) {
                self.note(
                    Problem::error(at, format!("`tls` has no `{key}`")).help("to prove who we are takes both `cert` and `key`, each a PEM file"),
                );
            }
        }
        let path = |key, written, what, begin| self.pem(key, written, what, begin).map(|(path, _)| path);
        let ca = path("ca", &tls.ca, "certificate", "-----BEGIN CERTIFICATE-----");
        let cert = path("cert", &tls.cert, "certificate", "-----BEGIN CERTIFICATE-----");
        let key = path("key", &tls.key, "private key", "-----BEGIN ");
        Some(Arc::new(ClientTls { ca, identity: cert.zip(key) }))
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
