//! Several files as one: a later file's target of the same name replaces the earlier one whole; of every other setting the
//! later one counts.

use crate::file::{Admin, File, Listener, Naming, Policies, Registry, ServerTls, Target, Text, ToolDefaults};
use crate::written::Written;

/// All files together.
#[derive(Default)]
pub struct Merged {
    /// Every setting but the targets.
    pub file: File,
    /// The targets of all files, in their order; a replaced target keeps its position.
    pub targets: Vec<Written<Target>>,
}

/// Puts files together, the earlier first.
pub fn merge(files: impl IntoIterator<Item = File>) -> Merged {
    files.into_iter().fold(Merged::default(), |earlier, mut later| {
        let later_targets = take_targets(&mut later);
        Merged { file: settings(earlier.file, later), targets: targets(earlier.targets, later_targets) }
    })
}

/// Two targets of one name in the same file stay both, for the check to find.
fn targets(earlier: Vec<Written<Target>>, later: Vec<Written<Target>>) -> Vec<Written<Target>> {
    let known = earlier.len();
    let mut targets = earlier;
    for new in later {
        match targets.iter_mut().take(known).find(|old| name(old).is_some() && name(old) == name(&new)) {
            Some(old) => *old = new,
            None => targets.push(new),
        }
    }
    targets
}

fn name(target: &Written<Target>) -> Option<&str> {
    let Text(name) = target.value.as_ref()?.name.value.as_ref()?;
    Some(name)
}

fn take_targets(file: &mut File) -> Vec<Written<Target>> {
    let backends = std::mem::take(&mut file.backends).or_default().into_iter();
    backends.filter_map(|backend| backend.value?.mcp.value?.targets.value).flatten().collect()
}

fn settings(earlier: File, later: File) -> File {
    File {
        listen: earlier.listen.or_later(later.listen),
        admin: section(earlier.admin, later.admin, |earlier, later| Admin {
            listen: earlier.listen.or_later(later.listen),
            token: earlier.token.or_later(later.token),
        }),
        metrics: section(earlier.metrics, later.metrics, |earlier, later| Listener { listen: earlier.listen.or_later(later.listen) }),
        backends: Written::default(),
        naming: section(earlier.naming, later.naming, |earlier, later| Naming {
            prefix: earlier.prefix.or_later(later.prefix),
            separator: earlier.separator.or_later(later.separator),
        }),
        discovery: earlier.discovery.or_later(later.discovery),
        tls: section(earlier.tls, later.tls, |earlier, later| ServerTls {
            cert: earlier.cert.or_later(later.cert),
            key: earlier.key.or_later(later.key),
        }),
        allowed_hosts: earlier.allowed_hosts.or_later(later.allowed_hosts),
        allowed_origins: earlier.allowed_origins.or_later(later.allowed_origins),
        session_key: earlier.session_key.or_later(later.session_key),
        state_dir: earlier.state_dir.or_later(later.state_dir),
        readiness: earlier.readiness.or_later(later.readiness),
        allow_unauthenticated: earlier.allow_unauthenticated.or_later(later.allow_unauthenticated),
        memory_limit: earlier.memory_limit.or_later(later.memory_limit),
        registry: section(earlier.registry, later.registry, registry),
        tools: earlier.tools.or_later(later.tools),
        validation: earlier.validation.or_later(later.validation),
        policies: section(earlier.policies, later.policies, |earlier, later| Policies {
            default_timeout: earlier.default_timeout.or_later(later.default_timeout),
            // Whole: who may do what is one thought, and half of it from another file would be a different one.
            authentication: earlier.authentication.or_later(later.authentication),
            authorization: earlier.authorization.or_later(later.authorization),
            rate_limit: earlier.rate_limit.or_later(later.rate_limit),
            concurrency: earlier.concurrency.or_later(later.concurrency),
            timeouts: earlier.timeouts.or_later(later.timeouts),
        }),
    }
}

fn registry(earlier: Registry, later: Registry) -> Registry {
    // Credentials stay with the place they were written for: a later file that names another one does not send it the token of the first.
    let elsewhere = !later.source.is_missing() || !later.sources.is_missing();
    let (source, sources, auth, tls) = if elsewhere {
        (later.source, later.sources, later.auth, later.tls)
    } else {
        (earlier.source, earlier.sources, earlier.auth.or_later(later.auth), earlier.tls.or_later(later.tls))
    };
    let later_interval = !later.refresh_interval.is_missing() || !later.older_refresh_interval.is_missing();
    let (refresh_interval, older_refresh_interval) = if later_interval {
        (later.refresh_interval, later.older_refresh_interval)
    } else {
        (earlier.refresh_interval, earlier.older_refresh_interval)
    };
    Registry {
        source,
        sources,
        refresh_interval,
        older_refresh_interval,
        auth,
        tls,
        env: earlier.env.or_later(later.env),
        on_start: earlier.on_start.or_later(later.on_start),
        strict: earlier.strict.or_later(later.strict),
        allow_empty: earlier.allow_empty.or_later(later.allow_empty),
        unlisted: earlier.unlisted.or_later(later.unlisted),
        jsonpath: earlier.jsonpath.or_later(later.jsonpath),
        defaults: section(earlier.defaults, later.defaults, tool_defaults),
    }
}

fn tool_defaults(earlier: ToolDefaults, later: ToolDefaults) -> ToolDefaults {
    ToolDefaults {
        hidden_arguments: earlier.hidden_arguments.or_later(later.hidden_arguments),
        on_drift: earlier.on_drift.or_later(later.on_drift),
        on_missing: earlier.on_missing.or_later(later.on_missing),
        on_unshaped: earlier.on_unshaped.or_later(later.on_unshaped),
        errors: earlier.errors.or_later(later.errors),
        keep_content: earlier.keep_content.or_later(later.keep_content),
        hide_defaulted: earlier.hide_defaulted.or_later(later.hide_defaulted),
        coerce_arguments: earlier.coerce_arguments.or_later(later.coerce_arguments),
    }
}

fn section<T>(earlier: Written<T>, later: Written<T>, merge: impl FnOnce(T, T) -> T) -> Written<T> {
    match (earlier.value, later.value) {
        (Some(old), Some(new)) => Written::new(merge(old, new), later.place),
        (Some(old), None) => Written::new(old, earlier.place),
        (None, Some(new)) => Written::new(new, later.place),
        (None, None) => Written::default(),
    }
}
