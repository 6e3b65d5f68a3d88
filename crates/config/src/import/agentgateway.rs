//! agentgateway's config: the long form (`binds`, with listeners and routes) and the short one (`mcp`).

use super::draft::{Draft, Wish};
use super::secrets::Kind;
use super::{entries, first, get, is_true, items, json, servers, text};
use crate::tree::{Node, Value as Written};
use serde_json::{Map, Value, json};
use transom_registry::name::identifier;

/// What one route, or the whole short form, says of its targets.
struct Route<'n> {
    targets: Vec<String>,
    policies: Vec<&'n Node>,
}

/// What is met on the way and counts for the whole config.
#[derive(Default)]
struct Seen<'n> {
    is_prefixed: bool,
    /// Rules of one target alone, and its name.
    rules_of_targets: Vec<(String, &'n Node)>,
}

/// Reads a file.
pub fn import(tree: &Node, draft: &mut Draft<'_>) {
    let mut routes = Vec::new();
    let mut ports = Vec::new();
    let mut seen = Seen::default();
    if let Some(mcp) = get(tree, "mcp").filter(|mcp| draft.is_map(mcp, "`mcp`")) {
        ports.extend(get(mcp, "port"));
        routes.push(Route { targets: backend(draft, mcp, &mut seen), policies: self::policies_of(draft, mcp) });
        leftover(draft, mcp, &["port", "targets", "policies", "statefulMode", "prefixMode", "failureMode"]);
    }
    for bind in list(draft, tree, "binds") {
        ports.extend(get(bind, "port"));
        for listener in list(draft, bind, "listeners") {
            self::listener(draft, listener);
            for route in list(draft, listener, "routes") {
                routes.extend(self::route(draft, route, &mut seen));
            }
            if let Some(tcp) = get(listener, "tcpRoutes") {
                draft.unsupported(tcp, "TCP routes carry no MCP", "keep them in agentgateway");
            }
        }
        leftover(draft, bind, &["port", "listeners"]);
    }
    leftover(draft, tree, &["mcp", "binds"]);
    routes.retain(|route| !route.targets.is_empty());
    policies(draft, &routes);
    refused(draft, &seen.rules_of_targets);
    listen(draft, &ports);
    naming(draft, tree, seen.is_prefixed);
    if routes.len() > 1 {
        draft.approximate(
            tree,
            format!("{} routes become one endpoint, `/mcp`; `/mcp/{{target}}` shows one target alone", routes.len()),
            "point clients at `/mcp`, or at the target they want",
        );
    }
}

/// The items of a member that should be a list.
fn list<'n>(draft: &mut Draft<'_>, node: &'n Node, key: &str) -> &'n [Node] {
    get(node, key).map(|list| draft.list(list, &format!("`{key}`"))).unwrap_or_default()
}

/// The policies of something. In a list each counts: better one too many than one that is lost.
fn policies_of<'n>(draft: &mut Draft<'_>, node: &'n Node) -> Vec<&'n Node> {
    let Some(policies) = get(node, "policies") else { return Vec::new() };
    if let Written::List(items) = &policies.value {
        draft.approximate(policies, "`policies` is a list, not a map; each item is read as one", "look whether all of them are meant");
        return items.iter().filter(|item| draft.is_map(item, "an item of `policies`")).collect();
    }
    if draft.is_map(policies, "`policies`") { vec![policies] } else { Vec::new() }
}

fn listener(draft: &mut Draft<'_>, listener: &Node) {
    if let Some(hostname) = get(listener, "hostname").filter(|name| name.spelling().is_some_and(|name| name != "*")) {
        let host = hostname.spelling().unwrap_or_default();
        if host.contains('*') {
            draft.unsupported(hostname, format!("`{host}`: names with `*` are not accepted as `allowedHosts`"), "name each host in `allowedHosts`");
        } else {
            push(draft, "allowedHosts", host);
            draft.exact(hostname, format!("`{host}` is accepted as the `Host` of requests"));
        }
    }
    if let Some(tls) = get(listener, "tls") {
        match (text(tls, "cert"), text(tls, "key")) {
            (Some(cert), Some(key)) => {
                draft.sections.insert("tls".into(), json!({ "cert": cert, "key": key }));
                draft.approximate(
                    tls,
                    "certificate and key are the main listener's",
                    "relative paths start at the config file now, not where the program was started",
                );
            }
            _ => draft.manual(tls, "this `tls` is left out", "write `tls: { cert: …, key: … }`"),
        }
    }
    leftover(draft, listener, &["hostname", "tls", "routes", "tcpRoutes", "name", "protocol", "namespace", "gatewayName"]);
}

fn route<'n>(draft: &mut Draft<'_>, route: &'n Node, seen: &mut Seen<'n>) -> Option<Route<'n>> {
    let mut out = Route { targets: Vec::new(), policies: policies_of(draft, route) };
    for backend in list(draft, route, "backends") {
        match get(backend, "mcp") {
            Some(mcp) => {
                out.targets.extend(self::backend(draft, mcp, seen));
                out.policies.extend(policies_of(draft, backend));
                out.policies.extend(policies_of(draft, mcp));
                leftover(draft, mcp, &["targets", "statefulMode", "prefixMode", "failureMode", "policies"]);
                leftover(draft, backend, &["mcp", "policies", "weight", "name"]);
            }
            None => {
                let kind = entries(backend).next().and_then(|(key, _)| key.spelling()).unwrap_or("backend");
                draft.unsupported(backend, format!("backend `{kind}` is no MCP server"), "keep it in agentgateway");
            }
        }
    }
    leftover(draft, route, &["backends", "policies", "matches", "name", "hostnames", "ruleName"]);
    if let Some(hostnames) = get(route, "hostnames") {
        draft.unsupported(hostnames, "tools are not told apart by host name here", "run a gateway of its own for each, or use `/mcp/{target}`");
    }
    for matched in list(draft, route, "matches") {
        for (key, value) in entries(matched) {
            let name = key.spelling().unwrap_or_default();
            if name != "path" && json(value) != Value::Null && json(value) != json!([]) {
                draft.unsupported(
                    key,
                    format!("requests are not told apart by `{name}` here: the targets of this route are there for all of them"),
                    "narrow them down with a rule under `policies.authorization`, or run a gateway of its own",
                );
            }
        }
        let Some(path) = get(matched, "path") else { continue };
        match text(path, "exact").or_else(|| text(path, "pathPrefix")) {
            Some("/" | "/mcp" | "/sse") => {}
            Some(own) if own.contains(".well-known") => {}
            Some(own) => draft.approximate(path, format!("`{own}` is `/mcp` here"), "change the URL in the clients"),
            None => draft.unsupported(path, "this path is left out: the endpoint is `/mcp`", "change the URL in the clients"),
        }
    }
    (!out.targets.is_empty()).then_some(out)
}

/// The targets of a backend, by the names they got.
fn backend<'n>(draft: &mut Draft<'_>, mcp: &'n Node, seen: &mut Seen<'n>) -> Vec<String> {
    seen.is_prefixed |= text(mcp, "prefixMode") == Some("always");
    if let Some(mode) = get(mcp, "statefulMode").filter(|mode| mode.spelling() == Some("stateless")) {
        draft.exact(mode, "a modern client has no session here either, and a legacy one only if it wants one");
    }
    if let Some(mode) = get(mcp, "failureMode") {
        let (fit, next) = match mode.spelling() {
            Some("failOpen") => (super::Fit::Exact, None),
            _ => (super::Fit::Approximate, Some("look at `/ready` where every target has to be there")),
        };
        draft.note(fit, mode, "a target that is down costs its own tools and nothing else", next);
    }
    let mut names = Vec::new();
    if !draft.is_map(mcp, "`mcp`") {
        return names;
    }
    for target in list(draft, mcp, "targets") {
        names.extend(self::target(draft, target, seen));
    }
    names
}

fn target<'n>(draft: &mut Draft<'_>, target: &'n Node, seen: &mut Seen<'n>) -> Option<String> {
    if !draft.is_map(target, "a target") {
        return None;
    }
    let named = get(target, "name").filter(|name| name.spelling().is_some()).unwrap_or(target);
    let called = named.spelling().unwrap_or("target").to_owned();
    let mut out = Map::new();
    if let Some(stdio) = get(target, "stdio") {
        let mut section = Map::new();
        let cmd = usable(draft, stdio, &called, "stdio", "cmd")?;
        section.insert("cmd".into(), shell(draft, cmd, &called, "cmd", Kind::Command).into());
        if let Some(args) = get(stdio, "args") {
            let args = servers::arguments(draft, &called, args);
            if !args.is_empty() {
                section.insert("args".into(), args.into());
            }
        }
        if let Some(env) = get(stdio, "env") {
            section.insert("env".into(), servers::texts(draft, &called, "env", env).into());
        }
        if !is_true(stdio, "clearEnv") && !is_true(stdio, "clear_env") {
            draft.approximate(
                stdio,
                format!("`{called}` gets PATH, HOME, LANG, TZ, TMPDIR and what `env` says, not the gateway's whole environment"),
                "add the variables it needs to `env`, as `NAME: \"${NAME}\"`",
            );
        }
        out.insert("stdio".into(), section.into());
    } else if let Some((key, remote)) = ["mcp", "sse"].into_iter().find_map(|key| get(target, key).map(|remote| (key, remote))) {
        if let Some(reference) = get(remote, "backend") {
            draft.unsupported(
                reference,
                format!("target `{called}` refers to a backend of its own, and is left out"),
                "write its URL as `mcp: { host: … }`",
            );
            return None;
        }
        let mut section = Map::new();
        let host = usable(draft, remote, &called, key, "host")?;
        section.insert("host".into(), self::host(draft, host, remote, &called)?.into());
        out.insert(key.into(), section.into());
    } else {
        let kind = entries(target).filter_map(|(key, _)| key.spelling()).find(|key| *key != "name").unwrap_or("nothing").to_owned();
        let next = match kind.as_str() {
            "openapi" => "put a server that makes MCP of OpenAPI in front of the service, or import the document itself with `transom import`",
            _ => "write it as `stdio`, `mcp` or `sse`",
        };
        draft.unsupported(target, format!("target `{called}` is reached by `{kind}`, which is not known here; it is left out"), next);
        return None;
    }
    let policies = policies_of(draft, target);
    for policies in &policies {
        target_policies(draft, policies, &called, &mut out);
    }
    leftover(draft, target, &["name", "stdio", "mcp", "sse", "policies"]);
    let name = draft.target_name(&called, named);
    seen.rules_of_targets.extend(policies.iter().filter_map(|policies| get(policies, "mcpAuthorization")).map(|rules| (name.clone(), rules)));
    draft.exact(named, format!("target `{called}`"));
    let mut whole: Map<String, Value> = [("name".to_owned(), Value::from(name.as_str()))].into_iter().collect();
    whole.append(&mut out);
    draft.target(whole.into());
    Some(name)
}

/// What a target cannot do without: its command or its host.
fn usable<'n>(draft: &mut Draft<'_>, section: &'n Node, called: &str, under: &str, key: &str) -> Option<&'n Node> {
    let found = get(section, key).filter(|node| node.spelling().is_some_and(|text| !text.trim().is_empty()));
    if found.is_none() {
        draft.unsupported(
            section,
            format!("`{under}` of target `{called}` has no `{key}` that could be used; the target is left out"),
            &format!("write `{under}: {{ {key}: … }}`"),
        );
    }
    found
}

/// `host` alone is a URL; with `port` and `path` it is put together.
fn host(draft: &mut Draft<'_>, host: &Node, remote: &Node, called: &str) -> Option<String> {
    let written = spelled(host.spelling().unwrap_or_default());
    let path = get(remote, "path").filter(|path| draft.is_text(path, &format!("`path` of target `{called}`"))).and_then(Node::spelling);
    let slash = if path.is_some_and(|path| !path.starts_with('/')) { "/" } else { "" };
    let url = match (get(remote, "port"), path) {
        (Some(port), path) => {
            let number = self::port(draft, port, &format!("`port` of target `{called}`"))?;
            format!("http://{written}:{number}{slash}{}", path.unwrap_or("/"))
        }
        (None, _) if written.contains("://") || written.contains("${") => written,
        (None, Some(path)) => format!("http://{written}{slash}{path}"),
        (None, None) if written.contains('/') => format!("http://{written}"),
        // Without a path our `host` would mean `/mcp`.
        (None, None) => format!("http://{written}/"),
    };
    Some(draft.value_of(&url, host, &Wish { server: called, name: "host", kind: Kind::Other }))
}

/// A port, or a variable that says it.
fn port(draft: &mut Draft<'_>, port: &Node, what: &str) -> Option<String> {
    let written = spelled(port.spelling().unwrap_or_default());
    let is_port = written.starts_with("${") || written.parse::<u16>().is_ok_and(|number| number > 0);
    if !is_port {
        draft.unsupported(port, format!("{what} is no port from 1 to 65535; what needs it is left out"), "write a number");
    }
    is_port.then_some(written)
}

fn shell(draft: &mut Draft<'_>, node: &Node, server: &str, name: &str, kind: Kind) -> String {
    draft.value_of(&spelled(node.spelling().unwrap_or_default()), node, &Wish { server, name, kind })
}

/// agentgateway expands `$NAME` as well.
fn spelled(text: &str) -> String {
    let mut spelled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at(at);
        spelled.push_str(before);
        let after = &from[1..];
        let end = after.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(after.len());
        if end > 0 && after.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
            spelled.push_str(&format!("${{{}}}", &after[..end]));
            rest = &after[end..];
        } else {
            spelled.push('$');
            rest = after;
        }
    }
    spelled.push_str(rest);
    spelled
}

/// What a target is sent beside the call.
fn target_policies(draft: &mut Draft<'_>, policies: &Node, called: &str, out: &mut Map<String, Value>) {
    let mut headers = Map::new();
    for (key, value) in entries(policies) {
        match key.spelling().unwrap_or_default() {
            "backendAuth" => match get(value, "key").map(|key| get(key, "value").unwrap_or(key)) {
                Some(secret) if secret.spelling().is_some() => {
                    let token = draft.value(secret, &Wish { server: called, name: "token", kind: Kind::Header });
                    headers.insert("Authorization".into(), format!("Bearer {token}").into());
                    draft.exact(value, format!("`{called}` is sent a token of its own"));
                }
                _ => draft.unsupported(
                    value,
                    "a caller's own token is never passed on",
                    "give the target a token of its own, as `headers: { Authorization: \"Bearer ${TOKEN}\" }`",
                ),
            },
            "requestHeaderModifier" => {
                for section in ["set", "add"] {
                    headers.extend(get(value, section).map(|map| servers::texts(draft, called, "headers", map)).unwrap_or_default());
                }
                if let Some(removed) = get(value, "remove") {
                    draft.exact(removed, "what a caller sends does not reach a target anyway");
                }
            }
            "backendTLS" => draft.manual(value, format!("how to trust `{called}` is left out"), "write `tls: { ca: ca.pem }` into the target"),
            // Said where the rules are.
            "mcpAuthorization" => {}
            other => draft.unsupported(
                value,
                format!("`{other}` of target `{called}` is left out"),
                "see `transom schema config --format markdown` for what a target can say",
            ),
        }
    }
    let remote = ["mcp", "sse"].into_iter().find(|key| out.contains_key(*key));
    match remote {
        _ if headers.is_empty() => {}
        Some(remote) => out[remote]["headers"] = headers.into(),
        None => draft.unsupported(policies, format!("`{called}` is started, and gets no headers"), "give it what it needs as `env`"),
    }
}

/// Who may come in and what they may do. What one route says of its targets must not loosen what another says of its own.
fn policies(draft: &mut Draft<'_>, routes: &[Route<'_>]) {
    let all = |key: &str| routes.iter().flat_map(|route| &route.policies).filter_map(|policies| get(policies, key)).collect::<Vec<_>>();
    let issuers: Vec<&Node> = ["jwtAuth", "mcpAuthentication"].into_iter().flat_map(all).collect();
    let mut jwt: Vec<Value> = Vec::new();
    for issuer in &issuers {
        if let Some(read) = self::issuer(draft, issuer)
            && !jwt.contains(&read)
        {
            jwt.push(read);
        }
    }
    if !jwt.is_empty() {
        let jwt = if jwt.len() == 1 { jwt.remove(0) } else { jwt.into() };
        policy(draft, "authentication", json!({ "jwt": jwt }));
        let says_so = |route: &Route<'_>| route.policies.iter().any(|policies| first(policies, &["jwtAuth", "mcpAuthentication"]).is_some());
        if let (Some(first), false) = (issuers.first(), routes.iter().all(says_so)) {
            draft.approximate(
                first,
                "every client has to prove who it is now, not only those of this route",
                "run two gateways if some targets are for everybody",
            );
        }
    }
    let with_rules = |route: &&Route<'_>| route.policies.iter().any(|policies| get(policies, "mcpAuthorization").is_some());
    if routes.iter().any(|route| with_rules(&route)) {
        for route in routes {
            self::rules(draft, route, routes.len() > 1);
        }
    }
    for cors in all("cors") {
        self::cors(draft, cors);
    }
    for limits in all("localRateLimit") {
        for limit in items(limits) {
            rate(draft, limit);
        }
    }
    for timeout in all("timeout") {
        if let Some(longest) = get(timeout, "requestTimeout").or_else(|| get(timeout, "backendRequestTimeout")) {
            policy(draft, "defaultTimeout", longest.spelling().unwrap_or("60s").into());
            draft.exact(longest, "how long a call may take");
        }
    }
    const READ: [&str; 6] = ["jwtAuth", "mcpAuthentication", "mcpAuthorization", "cors", "localRateLimit", "timeout"];
    for policies in routes.iter().flat_map(|route| &route.policies) {
        for (key, value) in entries(policies) {
            match key.spelling().unwrap_or_default() {
                "localRateLimit" => drop(draft.list(value, "`localRateLimit`")),
                name if READ.contains(&name) => drop(draft.is_map(value, &format!("`{name}`"))),
                "backendAuth" => draft.unsupported(
                    value,
                    "a caller's own token is never passed on, and one for all targets is not known here",
                    "give each target a token of its own, as `headers: { Authorization: \"Bearer ${TOKEN}\" }`",
                ),
                other => draft.unsupported(
                    value,
                    format!("policy `{other}` is left out"),
                    "see `transom schema config --format markdown` for the policies there are",
                ),
            }
        }
    }
}

fn issuer(draft: &mut Draft<'_>, node: &Node) -> Option<Value> {
    if let Some(providers) = get(node, "providers").filter(|providers| !items(providers).is_empty()) {
        draft.manual(providers, "several providers in one policy are left out", "write each as an entry of `policies.authentication.jwt`");
        return None;
    }
    let jwks = get(node, "jwks");
    let place = jwks.and_then(|jwks| ["url", "file"].into_iter().find_map(|key| text(jwks, key).map(|value| (key, value.to_owned()))));
    let (Some(issuer), Some((key, value))) = (text(node, "issuer"), place) else {
        draft.manual(
            node,
            "this issuer is left out: `issuer`, or where its keys are, is missing",
            "write `policies.authentication.jwt: { issuer, audiences, jwks: { url } }`",
        );
        return None;
    };
    let audiences: Vec<Value> = get(node, "audiences").map(items).unwrap_or_default().iter().filter_map(Node::spelling).map(Value::from).collect();
    if audiences.is_empty() {
        draft.manual(node, "a token without an audience is not accepted here; this issuer is left out", "name the `audiences` of this gateway");
        return None;
    }
    if key == "file" {
        draft.approximate(
            jwks.unwrap_or(node),
            format!("`{value}` starts at the config file now, not where the program was started"),
            "copy the file there, or write an absolute path",
        );
    }
    let is_loose = text(node, "mode").is_some_and(|mode| mode != "strict");
    if is_loose {
        draft.approximate(node, "a caller without a token is turned away here", "leave `authentication` out where everybody may come in");
    } else {
        draft.exact(node, format!("tokens of `{issuer}`"));
    }
    for (key, value) in entries(node) {
        let name = key.spelling().unwrap_or_default();
        if !matches!(name, "issuer" | "audiences" | "jwks" | "mode") {
            draft.unsupported(
                value,
                format!("`{name}` of an issuer is left out"),
                "the gateway writes the protected-resource metadata itself; `authentication.resource` names its URL",
            );
        }
    }
    Some(json!({ "issuer": issuer, "audiences": audiences, "jwks": { key: value } }))
}

/// The rules of a route, for its own targets. A rule about tools that is asked about a prompt cannot be worked out, and then counts against
/// the caller; so one that refuses is asked about tools alone.
fn rules(draft: &mut Draft<'_>, route: &Route<'_>, is_one_of_several: bool) {
    let names = Value::from(route.targets.clone()).to_string();
    let of = |kind: &str| format!("has(mcp.{kind}) && mcp.{kind}.target in {names}");
    let of_all = || format!("({} || {} || {})", of("tool"), of("prompt"), of("resource"));
    let sections: Vec<&Node> = route.policies.iter().filter_map(|policies| get(policies, "mcpAuthorization")).collect();
    let Some(first) = sections.first() else {
        draft.rules.push(json!({ "allow": of_all() }));
        return;
    };
    let before = draft.rules.len();
    let mut is_lost = false;
    let mut listed = Vec::new();
    for section in &sections {
        match get(section, "rules").map(|rules| (rules, &rules.value)) {
            Some((_, Written::List(items))) => listed.extend(items),
            Some((rule, Written::Text(_))) => {
                draft.approximate(rule, "`rules` is text, not a list; it is read as one rule", "write it as a list");
                listed.push(rule);
            }
            _ => {
                draft.unsupported(section, "`mcpAuthorization` has no list of `rules`", "write `rules` as a list");
                is_lost = true;
            }
        }
    }
    // No rules are no limits there.
    if listed.is_empty() && !is_lost {
        if is_one_of_several {
            draft.rules.push(json!({ "allow": of_all() }));
        }
        return;
    }
    for rule in listed {
        let effect = ["allow", "deny", "require"].into_iter().find_map(|effect| get(rule, effect).map(|expression| (effect, expression)));
        let (effect, expression) = effect.unwrap_or(("allow", rule));
        let Written::Text(text) = &expression.value else {
            draft.manual(rule, "this rule is left out: it is no expression", "write it as `allow`, `deny` or `require`");
            // What a rule would have refused must not be open now.
            is_lost |= effect != "allow" || entries(rule).next().is_some_and(|(key, _)| key.spelling() != Some("allow"));
            continue;
        };
        let kind = ["tool", "prompt", "resource"].into_iter().find(|kind| text.contains(&format!("mcp.{kind}")));
        let about = match (is_one_of_several, kind) {
            (true, Some(kind)) => Some(of(kind)),
            (true, None) => Some(of_all()),
            (false, Some(kind)) if effect != "allow" => Some(format!("has(mcp.{kind})")),
            (false, _) => None,
        };
        let written = match (about, effect) {
            (None, _) => text.to_owned(),
            (Some(about), "require") => format!("!({about}) || ({text})"),
            (Some(about), _) => format!("{about} && ({text})"),
        };
        draft.rules.push(json!({ effect: written }));
        let reads_more = ["request.", "response.", "source.", "extauthz.", "backend."].into_iter().any(|word| text.contains(word));
        if reads_more {
            draft.manual(
                expression,
                "this rule reads more than tools and tokens",
                "look whether `request` and `source` mean the same here: architecture/authorization.md",
            );
        } else {
            draft.exact(expression, format!("a rule that says `{effect}`"));
        }
    }
    if is_lost || draft.rules.len() == before {
        let everything = if is_one_of_several { of_all() } else { "true".to_owned() };
        draft.rules.push(json!({ "deny": everything }));
        draft.manual(
            first,
            format!("rules were lost: until they are written here everything of {} is refused to everybody", route.targets.join(", ")),
            "write the rules that are missing under `policies.authorization`, and take the last one out",
        );
    }
}

/// Rules of one target alone are not carried over, and nothing of it may be open because of that.
fn refused(draft: &mut Draft<'_>, targets: &[(String, &Node)]) {
    if !targets.is_empty() && draft.rules.is_empty() {
        draft.rules.push(json!({ "allow": "true" }));
    }
    for (target, rules) in targets {
        let of = |kind: &str| format!("has(mcp.{kind}) && mcp.{kind}.target == {}", Value::from(target.as_str()));
        draft.rules.push(json!({ "deny": format!("{} || {} || {}", of("tool"), of("prompt"), of("resource")) }));
        draft.manual(
            rules,
            format!("rules of one target are not carried over: until they are written here everything of `{target}` is refused to everybody"),
            "write them as rules under `policies.authorization` that ask for `mcp.tool.target`, and take the one out that denies",
        );
    }
}

fn cors(draft: &mut Draft<'_>, cors: &Node) {
    for origin in get(cors, "allowOrigins").map(items).unwrap_or_default() {
        let written = origin.spelling().unwrap_or_default();
        if written.contains('*') {
            draft.unsupported(origin, "not every website may call tools with its visitor's browser", "name each origin in `allowedOrigins`");
        } else {
            push(draft, "allowedOrigins", written);
            draft.exact(origin, format!("`{written}` may call from a browser"));
        }
    }
}

fn rate(draft: &mut Draft<'_>, limit: &Node) {
    let (unit, word) = match text(limit, "fillInterval") {
        Some("1s") => ("s", "second"),
        Some("1m" | "60s") => ("m", "minute"),
        Some("1h" | "60m" | "3600s") => ("h", "hour"),
        _ => {
            draft.manual(limit, "this rate limit is left out", "write it as `policies.rateLimit: [{ total: 100/m }]`");
            return;
        }
    };
    if text(limit, "type").is_some_and(|kind| kind != "requests") {
        draft.unsupported(limit, "only requests are counted", "leave it out");
        return;
    }
    let per = first(limit, &["tokensPerFill", "maxTokens"]).and_then(Node::spelling).unwrap_or("1");
    let limits = draft.sections.entry("policies").or_insert_with(|| json!({}));
    match limits["rateLimit"].as_array_mut() {
        Some(limits) => limits.push(json!({ "total": format!("{per}/{unit}") })),
        None => limits["rateLimit"] = json!([{ "total": format!("{per}/{unit}") }]),
    }
    draft.approximate(
        limit,
        format!("{per} calls per {word} of all callers together; other requests are not counted"),
        "`perPrincipal` instead of `total` limits each caller",
    );
}

fn listen(draft: &mut Draft<'_>, ports: &[&Node]) {
    let Some((first, others)) = ports.split_first() else { return };
    let Some(port) = self::port(draft, first, "`port`") else { return };
    // Others can reach it only where they have to prove who they are.
    let is_guarded = draft.sections.get("policies").is_some_and(|policies| policies.get("authentication").is_some());
    let address = if is_guarded { "0.0.0.0" } else { "127.0.0.1" };
    draft.sections.insert("listen".into(), format!("{address}:{port}").into());
    if is_guarded {
        draft.exact(first, format!("the main listener is on port {port}"));
    } else {
        draft.approximate(
            first,
            format!("the main listener is on port {port} of loopback only: nobody has to prove who they are"),
            "configure `policies.authentication`, or `allowUnauthenticated: true`, before it listens elsewhere",
        );
    }
    for other in others.iter().filter(|other| other.spelling() != Some(port.as_str())) {
        draft.unsupported(
            other,
            format!("there is one main listener; port {} is left out", other.spelling().unwrap_or_default()),
            "run another gateway for it",
        );
    }
}

/// agentgateway puts the target's name in front as soon as there are two.
fn naming(draft: &mut Draft<'_>, tree: &Node, prefixed: bool) {
    let names = draft.target_names();
    if !prefixed && names.len() < 2 {
        return;
    }
    draft.sections.insert("naming".into(), json!({ "prefix": "always", "separator": "_" }));
    let changed: Vec<String> =
        names.iter().filter(|name| identifier(name) != **name).map(|name| format!("`{name}_` is `{}_`", identifier(name))).collect();
    if changed.is_empty() {
        draft.exact(tree, "tools carry their target's name, as agentgateway names them: `target_tool`");
    } else {
        draft.approximate(
            tree,
            format!("tools carry their target's name as an identifier: {}", changed.join(", ")),
            "tell whoever calls tools by name",
        );
    }
}

fn policy(draft: &mut Draft<'_>, key: &str, value: Value) {
    let policies = draft.sections.entry("policies").or_insert_with(|| json!({}));
    policies[key] = value;
}

fn push(draft: &mut Draft<'_>, key: &str, value: &str) {
    let list = draft.sections.entry(key).or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut()
        && !list.iter().any(|known| known == value)
    {
        list.push(value.into());
    }
}

fn leftover(draft: &mut Draft<'_>, node: &Node, read: &[&str]) {
    for (key, value) in entries(node).filter(|(key, _)| !read.contains(&key.spelling().unwrap_or_default())) {
        let name = key.spelling().unwrap_or_default();
        if json(value) != json!([]) && json(value) != Value::Null {
            draft.unsupported(key, format!("`{name}` is left out"), "see `transom schema config --format markdown` for what a config can say");
        }
    }
}
