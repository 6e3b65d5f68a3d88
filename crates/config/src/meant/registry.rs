//! What `registry`, `tools` and `validation` mean: where virtual tools come from, and how they are read.

use super::Meaning;
use super::location::{self, Location};
use super::network::{Server, is_readable_on_the_way};
use crate::file::{self, ClientTls, RegistryAuth, Text};
use crate::problem::{Problem, line_and_column};
use crate::shape::{Any, TextOr, json_number, quoted};
use crate::written::{Place, Written};
use base64::Engine;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use std::sync::Arc;
use std::time::Duration;
use transom_gateway::config::{OnStart, OwnTools, Reading, RegistryConfig, RegistryLocation, RegistrySource};
use transom_registry::Settings;
use transom_registry::file::HiddenArguments;
use transom_registry::pin::OnDrift;
use transom_registry::result::{Errors, OnMissing, OnUnshaped};
use transom_upstream::Secret;

/// How often HTTP sources are asked when nothing else is said.
const DEFAULT_REFRESH: Duration = Duration::from_secs(30);

/// What messages say of the URL of a registry.
const REGISTRY: Server<'static> = Server {
    what: "a registry",
    default_path: "/",
    credentials: "put credentials into `auth`, like `auth: { basic: { username: me, password: \"${PASSWORD}\" } }`",
    example: "https://registry.corp.example/api/v1/tools",
};

/// One source as written: where, and what it says of its own access.
struct Item<'a> {
    source: &'a Written<Text>,
    auth: Option<&'a Written<RegistryAuth>>,
    tls: Option<&'a Written<ClientTls>>,
}

/// What requests carry, and where that was written.
type Headers = (Vec<(HeaderName, Secret)>, Place);

impl Meaning<'_> {
    /// Where registries are published. A section without a source only says how `tools` are read.
    pub(super) fn registry(&self, written: &Written<file::Registry>, has_own_tools: bool) -> Option<RegistryConfig> {
        let (registry, place) = written.get()?;
        let refresh = self.refresh(registry);
        if let (Some((_, one)), Some((_, many))) = (registry.source.get(), registry.sources.get()) {
            let second = if one.start > many.start { one } else { many };
            self.note(
                Problem::error(second, "`registry` has both `source` and `sources`")
                    .label("the second one")
                    .help("keep one of them; `sources` is a list, in which the first registry wins"),
            );
        }
        if registry.source.is_missing() && registry.sources.is_missing() && !has_own_tools {
            self.note(
                Problem::error(place, "`registry` has no `source`")
                    .label("where is the registry?")
                    .help("add `source: …`, a URL or the path of a file, or keep `tools: […]` in this file"),
            );
        }
        if let (Some([]), at) = (registry.sources.value.as_deref(), registry.sources.place) {
            self.note(Problem::error(at, "`sources` is empty").help("name at least one registry, or remove it"));
        }
        let sources = self.sources(registry);
        // Nothing to fetch; the settings of the section count for `tools` all the same.
        if sources.is_empty() {
            return None;
        }
        Some(RegistryConfig {
            sources,
            refresh,
            on_start: match registry.on_start.value {
                None | Some(file::OnStart::Cached) => OnStart::Cached,
                Some(file::OnStart::Require) => OnStart::Require,
                Some(file::OnStart::Retry) => OnStart::Retry,
            },
            allow_empty: registry.allow_empty.value.unwrap_or(false),
        })
    }

    fn refresh(&self, registry: &file::Registry) -> Duration {
        let (newer, older) = (&registry.refresh_interval, &registry.older_refresh_interval);
        if !newer.is_missing() && !older.is_missing() {
            let problem = Problem::error(older.place, "`refreshInterval` and `refresh_interval` are the same setting");
            self.note(problem.label("the older spelling").help("keep one of them"));
        }
        let newer = self.duration("refreshInterval", newer);
        newer.or_else(|| self.duration("refresh_interval", older)).unwrap_or(DEFAULT_REFRESH)
    }

    fn sources(&self, registry: &file::Registry) -> Vec<RegistrySource> {
        let shared_headers = registry.auth.get().map(|(auth, place)| (self.auth(auth, place), place));
        let shared_ca = registry.tls.value.as_ref().and_then(|tls| self.authorities(tls));
        let one = Some(Item { source: &registry.source, auth: None, tls: None }).filter(|item| !item.source.is_missing());
        // The text of a short item stands where the item stands.
        let many = registry.sources.value.iter().flatten();
        let texts: Vec<Written<Text>> = many.clone().map(text_of).collect();
        let many = many.zip(&texts).filter_map(|(item, text)| match item.get()? {
            (TextOr::Text(_), _) => Some(Item { source: text, auth: None, tls: None }),
            (TextOr::Map(map), place) => {
                if map.source.is_missing() {
                    self.note(Problem::error(place, "this registry has no `source`").help("add `source: …`, a URL or the path of a file"));
                }
                Some(Item { source: &map.source, auth: Some(&map.auth), tls: Some(&map.tls) })
            }
        });
        let mut sources = Vec::new();
        let mut unreadable = false;
        for item in one.into_iter().chain(many) {
            let source = self.source(&item, shared_headers.as_ref(), shared_ca.as_ref());
            unreadable |= source.is_none();
            sources.extend(source);
        }
        if !unreadable {
            self.point_out_what_goes_nowhere(registry, &sources);
        }
        self.keep_credentials_together(shared_headers.as_ref(), &sources);
        sources
    }

    fn source(&self, item: &Item<'_>, shared: Option<&Headers>, shared_ca: Option<&Arc<[u8]>>) -> Option<RegistrySource> {
        let own = item.auth.and_then(Written::get).map(|(auth, place)| (self.auth(auth, place), place));
        let own_ca = item.tls.and_then(|tls| tls.value.as_ref()).and_then(|tls| self.authorities(tls));
        let resolved = self.filled("source", item.source)?;
        let location = match location::parse(resolved.text.trim()) {
            Ok(Location::File(path)) => {
                for (key, written_at) in
                    [("auth", item.auth.and_then(Written::get).map(|(_, at)| at)), ("tls", item.tls.and_then(Written::get).map(|(_, at)| at))]
                {
                    if let Some(at) = written_at {
                        self.note(no_effect_on_files(key, at));
                    }
                }
                let path = path.strip_prefix("./").unwrap_or(&path);
                RegistryLocation::File(self.beside(resolved.place).path(path))
            }
            Ok(Location::Http) => {
                let url = self.url(&resolved, &REGISTRY)?;
                let (headers, at) = own.as_ref().or(shared).map_or((Vec::new(), resolved.place), |(headers, at)| (headers.clone(), *at));
                if !headers.is_empty() && is_readable_on_the_way(&url) {
                    self.note(
                        Problem::warning(at, "these credentials go over plain http, where others can read them")
                            .help("use `https://` if the registry's server speaks it"),
                    );
                }
                RegistryLocation::Http { url, headers, ca: own_ca.or_else(|| shared_ca.cloned()) }
            }
            Err(unclear) => {
                self.note(Problem::error(resolved.place, format!("`{}` {}", resolved.written, unclear.why)).help(unclear.help));
                return None;
            }
        };
        let name = match location {
            RegistryLocation::File(_) => resolved.written.to_owned(),
            RegistryLocation::Http { .. } => location::shown(resolved.written),
        };
        Some(RegistrySource { name, location })
    }

    /// The headers that make up credentials.
    fn auth(&self, auth: &RegistryAuth, place: Place) -> Vec<(HeaderName, Secret)> {
        let mut headers = self.headers(auth.headers.value.as_ref());
        if auth.bearer.is_missing() && auth.basic.is_missing() && auth.headers.is_missing() {
            self.note(Problem::error(place, "`auth` is empty").help("add `bearer: …`, `basic: { username: …, password: … }` or `headers: { … }`"));
        }
        let bearer = self.filled("bearer", &auth.bearer).map(|token| (format!("Bearer {}", token.text.trim()), token.place));
        let basic = auth.basic.get().and_then(|(basic, at)| self.basic(basic, at));
        let values: Vec<(String, Place)> = bearer.into_iter().chain(basic).collect();
        let sent_already = headers.iter().any(|(name, _)| *name == AUTHORIZATION);
        if values.len() + usize::from(sent_already) > 1 {
            self.note(Problem::error(place, "`auth` says twice what `Authorization` is").help("keep one of `bearer`, `basic` and the header"));
        }
        for (value, at) in values {
            if HeaderValue::from_str(&value).is_err() {
                self.note(
                    Problem::error(at, "this token cannot be sent in a header")
                        .help("a header holds printable ASCII on one line; look for a line break in the middle of a variable"),
                );
            }
            headers.push((AUTHORIZATION, Secret::new(value)));
        }
        headers
    }

    fn basic(&self, basic: &file::Basic, place: Place) -> Option<(String, Place)> {
        for (key, written) in [("username", &basic.username), ("password", &basic.password)] {
            if written.is_missing() {
                self.note(Problem::error(place, format!("`basic` has no `{key}`")).help("it needs both `username` and `password`"));
            }
        }
        let (username, password) = (self.text(&basic.username), self.text(&basic.password));
        let (username, password) = (username?, password?);
        if username.text.contains(':') {
            self.note(Problem::error(username.place, "a user name may not contain `:`, which ends it"));
        }
        let both = format!("{}:{}", username.text, password.text);
        Some((format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(both)), place))
    }

    fn point_out_what_goes_nowhere(&self, registry: &file::Registry, sources: &[RegistrySource]) {
        let only_files = sources.iter().all(|source| matches!(source.location, RegistryLocation::File(_)));
        for (key, at) in [("auth", registry.auth.get().map(|(_, at)| at)), ("tls", registry.tls.get().map(|(_, at)| at))] {
            if let (true, Some(at)) = (only_files, at) {
                self.note(no_effect_on_files(key, at));
            }
        }
    }

    /// A token is for one server: several of them would each see the other's.
    fn keep_credentials_together(&self, shared: Option<&Headers>, sources: &[RegistrySource]) {
        let Some((shared, place)) = shared.filter(|(headers, _)| !headers.is_empty()) else { return };
        let servers = sources.iter().filter_map(|source| match &source.location {
            RegistryLocation::Http { url, headers, .. } if headers == shared => Some((url.scheme_str(), url.authority())),
            _ => None,
        });
        let mut servers = servers.collect::<Vec<_>>();
        servers.dedup();
        if servers.len() > 1 {
            self.note(
                Problem::error(*place, "these credentials would go to several servers")
                    .help("give each registry its own: `sources: [{ source: …, auth: { … } }, …]`"),
            );
        }
    }

    /// How registries are read.
    pub(super) fn reading(&self, registry: Option<&file::Registry>, validation: Option<file::Validation>) -> Reading {
        let validate_all = matches!(validation, Some(file::Validation::All));
        let Some(registry) = registry else { return Reading { validate_all, ..Reading::default() } };
        Reading {
            settings: registry.defaults.value.as_ref().map_or_else(Settings::default, settings),
            strict: registry.strict.value.unwrap_or(false),
            unlisted: match registry.unlisted.value {
                None | Some(file::Unlisted::Show) => transom_registry::Unlisted::Show,
                Some(file::Unlisted::Hide) => transom_registry::Unlisted::Hide,
            },
            full_jsonpath: matches!(registry.jsonpath.value, Some(file::JsonPath::Full)),
            env_allow: registry.env.value.as_ref().and_then(|env| self.env_allow(env)),
            validate_all,
        }
    }

    /// What could not be read allows nothing: its problem is noted, and a mistake must not open what it was meant to close.
    fn env_allow(&self, env: &file::RegistryEnvironment) -> Option<Vec<String>> {
        (!env.allow.is_missing()).then(|| self.all(&env.allow, |_, pattern| Some(pattern.text)))
    }

    /// The entries of `tools` as a registry document. What they mean, and whether they mean anything, the engine says.
    pub(super) fn own_tools(&self, written: &Written<Vec<Written<Any>>>) -> Option<OwnTools> {
        let (tools, place) = written.get()?;
        let source = self.sources.get(place.source).filter(|_| !tools.is_empty())?;
        let mut text = String::from("{\"tools\":[");
        for (index, tool) in tools.iter().enumerate() {
            text.push_str(if index == 0 { "" } else { "," });
            Any::write_json(tool, &mut |scalar, written| self.spelled(scalar, written.place), &mut text);
        }
        text.push_str("]}");
        let places = tools.iter().map(|tool| line_and_column(&source.text, tool.place.start)).collect();
        Some(OwnTools { name: source.name.clone(), text, places })
    }

    /// A scalar as JSON spells it. Placeholders stay: who may read what is for the engine to decide.
    pub(super) fn spelled(&self, scalar: &Any, place: Place) -> String {
        match scalar {
            Any::Number(spelled) => json_number(spelled).unwrap_or_else(|| {
                let problem = Problem::warning(place, format!("`{spelled}` is no number to JSON and counts as text"));
                self.note(problem.help(format!("write `\"{spelled}\"` to say so, or spell the number in decimal digits")));
                quoted(spelled)
            }),
            Any::Text(text) => quoted(text),
            Any::Boolean(_) | Any::List(_) | Any::Map(_) => String::new(),
        }
    }
}

fn text_of(item: &Written<TextOr<file::RegistrySource>>) -> Written<Text> {
    match item.get() {
        Some((TextOr::Text(text), place)) => Written::new(text.clone(), place),
        _ => Written::default(),
    }
}

fn no_effect_on_files(key: &str, place: Place) -> Problem {
    Problem::warning(place, format!("`{key}` has no effect on a registry that is a file"))
}

fn settings(defaults: &file::ToolDefaults) -> Settings {
    Settings {
        hidden_arguments: defaults.hidden_arguments.value.map(|written| match written {
            file::HiddenArguments::Reject => HiddenArguments::Reject,
            file::HiddenArguments::Drop => HiddenArguments::Drop,
        }),
        on_drift: defaults.on_drift.value.map(|written| match written {
            file::OnDrift::Quarantine => OnDrift::Quarantine,
            file::OnDrift::Warn => OnDrift::Warn,
            file::OnDrift::Ignore => OnDrift::Ignore,
        }),
        on_missing: defaults.on_missing.value.map(|written| match written {
            file::OnMissing::Omit => OnMissing::Omit,
            file::OnMissing::Null => OnMissing::Null,
            file::OnMissing::Error => OnMissing::Error,
        }),
        on_unshaped: defaults.on_unshaped.value.map(|written| match written {
            file::OnUnshaped::Error => OnUnshaped::Error,
            file::OnUnshaped::Passthrough => OnUnshaped::Passthrough,
        }),
        errors: defaults.errors.value.map(|written| match written {
            file::Errors::Pass => Errors::Pass,
            file::Errors::Generic => Errors::Generic,
        }),
        keep_content: defaults.keep_content.value,
        hide_defaulted: defaults.hide_defaulted.value,
        coerce_arguments: defaults.coerce_arguments.value,
    }
}
