//! What a request costs: the gateway against a bare proxy, and gateways against each other.

use crate::Run;
use crate::load::{Ask, Sample};
use crate::proc::{self, Proxy, Setup};
use crate::report::Report;
use jsonwebtoken::Algorithm;
use serde_json::{Value, json};
use std::net::SocketAddr;
use transom_tests::backend::{self, Era, Offer, tool};
use transom_tests::issuer::{Issuer, issuer};

/// Runs both in turn, so that what else happens on the machine happens to both.
pub async fn pair(run: &Run, limit: (&Proxy, &Ask), ours: (&Proxy, &Ask)) -> Pair {
    let mut pair = Pair::default();
    for _ in 0..run.rounds {
        let (limit, ours) = (run.load.run(limit.0, limit.1).await, run.load.run(ours.0, ours.1).await);
        pair.ratios.push(ours.cpu_per_request() / limit.cpu_per_request());
        pair.limit.add(limit);
        pair.ours.add(ours);
    }
    pair.ratios.sort_by(f64::total_cmp);
    pair
}

/// What two proxies used.
#[derive(Default)]
pub struct Pair {
    pub limit: Sample,
    pub ours: Sample,
    /// Of each round, the smallest first.
    pub ratios: Vec<f64>,
}

impl Pair {
    /// The ratio of the round in the middle.
    pub fn ratio(&self) -> f64 {
        self.ratios.get(self.ratios.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// One legacy server with so many tools.
pub async fn server(prefix: &'static str, tools: usize) -> SocketAddr {
    backend::serve_http(Offer { era: Era::Legacy, prefix, tools }).await
}

/// A virtual tool over a tool of the backend: another name, one field hidden, two defaults; `output` besides.
fn virtual_tool(name: &str, source: &str, output: Option<Value>) -> Value {
    let mut virtual_tool = json!({
        "name": name,
        "source": {"target": "backend-0", "tool": source},
        "defaults": {"argument_6": "a default", "argument_7": "hidden and forced"},
        "hideFields": ["argument_7"],
    });
    if let Some(output) = output {
        virtual_tool["outputSchema"] = output;
    }
    virtual_tool
}

/// A registry with one virtual tool that passes results on and one that projects three fields of them.
pub fn registry() -> Value {
    let field = |kind: &str, path: &str| json!({"type": kind, "sourceField": path});
    let projected = json!({"type": "object", "properties": {
        "total": field("integer", "$.total"), "summary": field("string", "$.summary"), "first": field("string", "$.rows[0].title"),
    }});
    json!({"schemaVersion": "1.0", "tools": [virtual_tool("find_reports", "tool_042", None), virtual_tool("sum_up", "tool_043", Some(projected))]})
}

/// Tokens of one issuer, and three rules that look at them.
fn policies(issuer: &Issuer) -> Value {
    let config = issuer.config();
    let keys = std::env::temp_dir().join(format!("bench-keys-{}.json", std::process::id()));
    std::fs::write(&keys, issuer.jwks().to_string()).expect("a file for the keys");
    json!({
        "authentication": {"jwt": {"issuer": config.issuer, "audiences": config.audiences, "jwks": {"file": keys}}},
        "authorization": {"rules": [
            {"allow": "jwt.team == \"reports\" && mcp.tool.name.startsWith(\"find\")"},
            {"allow": "\"ops\" in jwt.roles"},
            {"deny": "mcp.tool.name == \"sum_up\" && jwt.team != \"reports\""},
        ]},
    })
}

/// The rows of the table.
pub async fn measure(run: &Run, report: &mut Report) {
    report.heading("CPU per request");
    let legacy = server("tool", 100).await;
    let modern = backend::serve_http(Offer { era: Era::Modern, prefix: "tool", tools: 100 }).await;
    let call = |era| Ask::call(era, &[tool("tool", 42)]);
    let through = |server: SocketAddr| Setup::over_http(&[server]);
    let bare = proc::start(&run.this, &["bare-http", &legacy.to_string()]).await;
    let bare_modern = proc::start(&run.this, &["bare-http", &modern.to_string()]).await;

    let plain = proc::gateway(&run.this, &through(legacy)).await.0;
    for (label, ask, bar, aim) in
        [("call, legacy session", call(Era::Legacy), 1.6, 1.25), ("list of 100 tools, legacy", Ask::list(Era::Legacy), 1.0, 0.6)]
    {
        if run.wants(label) {
            report.ratio(run, label, pair(run, (&bare, &ask), (&plain, &ask)).await, bar, aim);
        }
    }
    let plain_modern = proc::gateway(&run.this, &through(modern)).await.0;
    for (label, ask, bar, aim) in
        [("call, modern stateless", call(Era::Modern), 1.6, 1.25), ("list of 100 tools, modern", Ask::list(Era::Modern), 1.0, 0.6)]
    {
        if run.wants(label) {
            report.ratio(run, label, pair(run, (&bare_modern, &ask), (&plain_modern, &ask)).await, bar, aim);
        }
    }

    let virtual_ask = Ask::call(Era::Legacy, &["find_reports".into()]);
    let with_registry = proc::gateway(&run.this, &through(legacy).with_registry(registry())).await.0;
    // A member that only the projection gives.
    let projected = Ask::call(Era::Legacy, &["sum_up".into()]).expecting(100, r#""first":"Row number 0""#);
    for (label, ask, bar, aim) in [("virtual call", &virtual_ask, 1.9, 1.4), ("virtual call, projected", &projected, 2.3, 1.7)] {
        if run.wants(label) {
            report.ratio(run, label, pair(run, (&bare, &call(Era::Legacy)), (&with_registry, ask)).await, bar, aim);
        }
    }
    let label = "call, stdio target";
    if run.wants(label) {
        let pipe = proc::start(&run.this, &["bare-pipe"]).await;
        let target = json!({"name": "backend", "stdio": {"cmd": run.this, "args": ["stdio-server"]}});
        let stdio = proc::gateway(&run.this, &Setup { targets: vec![target], ..Setup::default() }).await.0;
        report.ratio(run, label, pair(run, (&pipe, &call(Era::Legacy)), (&stdio, &call(Era::Legacy))).await, 2.0, 1.4);
    }

    report.heading("What more costs, against the gateway without it");
    let label = "JWT and three rules on a virtual call";
    if run.wants(label) {
        let issuer = issuer(Algorithm::ES256).await;
        let mut claims = issuer.claims("bench");
        claims["team"] = json!("reports");
        claims["roles"] = json!(["dev"]);
        let ask = virtual_ask.clone().with_bearer(issuer.key().sign(&claims));
        let setup = through(legacy).with_registry(registry()).with_policies(policies(&issuer));
        let guarded = proc::gateway(&run.this, &setup).await.0;
        report.increase(run, label, pair(run, (&with_registry, &virtual_ask), (&guarded, &ask)).await, 15.0, 5.0);
    }
    let label = "3 targets in place of 1";
    if run.wants(label) {
        let servers = [server("red", 100).await, server("green", 100).await, server("blue", 100).await];
        let three = proc::gateway(&run.this, &Setup::over_http(&servers)).await.0;
        let ask = Ask::call(Era::Legacy, &["red", "green", "blue"].map(|prefix| tool(prefix, 42)));
        report.increase(run, label, pair(run, (&plain, &call(Era::Legacy)), (&three, &ask)).await, 5.0, 0.0);
    }
    let label = "10,000 tools in place of 100";
    if run.wants(label) {
        let many = crate::curves::gateway_with_tools(run, 10_000).await;
        let ask = Ask::call(Era::Legacy, &[tool("t0", 42)]);
        report.increase(run, label, pair(run, (&plain, &call(Era::Legacy)), (&many, &ask)).await, 10.0, 0.0);
    }
}
