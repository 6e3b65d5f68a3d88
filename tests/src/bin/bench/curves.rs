//! How the cost of a call grows, with tools, targets, sessions and generations, and that of a list with targets. It should not.

use crate::load::{Ask, Connection};
use crate::proc::{self, Proxy, Setup};
use crate::report::{Curve, Report};
use crate::rows::{pair, registry, server};
use crate::{Run, load};
use std::time::Duration;
use transom_tests::backend::{Era, tool};

/// Prefixes of servers, one each.
const PREFIXES: [&str; 10] = ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9"];

/// A gateway before so many tools, ten servers at the most.
pub async fn gateway_with_tools(run: &Run, tools: usize) -> Proxy {
    let servers = tools.div_ceil(1_000).max(1);
    let mut addresses = Vec::new();
    for prefix in PREFIXES.iter().take(servers) {
        addresses.push(server(prefix, tools / servers).await);
    }
    proc::gateway(&run.this, &Setup::over_http(&addresses)).await.0
}

pub async fn measure(run: &Run, report: &mut Report) {
    if !run.wants("curves") {
        return;
    }
    let legacy = server("tool", 100).await;
    let bare = proc::start(&run.this, &["bare-http", &legacy.to_string()]).await;
    let call = Ask::call(Era::Legacy, &[tool("tool", 42)]);
    let points = |all: &[usize], few: &[usize]| if run.short { few.to_vec() } else { all.to_vec() };

    let mut curve = Curve::of_calls("tools");
    for tools in points(&[100, 300, 1_000, 3_000, 10_000], &[100, 3_000]) {
        let gateway = gateway_with_tools(run, tools).await;
        let ask = Ask::call(Era::Legacy, &[tool("t0", 42)]);
        curve.point(tools, pair(run, (&bare, &call), (&gateway, &ask)).await.ratio());
    }
    report.curve(run, curve);

    let mut curve = Curve::of_calls("targets");
    let mut servers = Vec::new();
    for targets in points(&[1, 3, 5, 10], &[1, 10]) {
        while let Some(prefix) = PREFIXES.get(servers.len()).filter(|_| servers.len() < targets) {
            servers.push(server(prefix, 100).await);
        }
        let gateway = proc::gateway(&run.this, &Setup::over_http(&servers)).await.0;
        let tools: Vec<String> = PREFIXES.iter().take(targets).map(|prefix| tool(prefix, 42)).collect();
        curve.point(targets, pair(run, (&bare, &call), (&gateway, &Ask::call(Era::Legacy, &tools))).await.ratio());
    }
    report.curve(run, curve);

    // A list is a copy of prepared bytes, from however many targets they came: always a hundred tools, with names of the same length.
    let mut curve = Curve::of_lists("targets");
    let whole = server("t0", 100).await;
    let bare_list = proc::start(&run.this, &["bare-http", &whole.to_string()]).await;
    let list = Ask::list(Era::Legacy);
    for targets in points(&[1, 2, 5, 10], &[1, 10]) {
        let mut servers = Vec::new();
        for prefix in PREFIXES.iter().take(targets) {
            servers.push(server(prefix, 100 / targets).await);
        }
        let gateway = proc::gateway(&run.this, &Setup::over_http(&servers)).await.0;
        curve.point(targets, pair(run, (&bare_list, &list), (&gateway, &list)).await.ratio());
    }
    report.curve(run, curve);

    let mut curve = Curve::of_calls("idle sessions with a stream");
    let gateway = proc::gateway(&run.this, &Setup::over_http(&[legacy])).await.0;
    let mut streams = Vec::new();
    for sessions in points(&[0, 250, 1_000, 3_000], &[0, 500]) {
        while streams.len() < sessions {
            streams.push(Connection::open(gateway.address, &call, 0).await.into_stream().await);
        }
        curve.point(sessions, pair(run, (&bare, &call), (&gateway, &call)).await.ratio());
    }
    drop(streams);
    report.curve(run, curve);

    let mut curve = Curve::of_calls("registry swaps a minute");
    let gateway = proc::gateway(&run.this, &Setup::over_http(&[legacy]).with_registry(registry())).await.0;
    // A tool that the registry leaves alone.
    let beside = Ask::call(Era::Legacy, &[tool("tool", 7)]);
    for swaps in points(&[0, 6, 60, 300], &[0, 60]) {
        let swapping = swap(&gateway, swaps);
        let measured = pair(run, (&bare, &call), (&gateway, &beside));
        tokio::select! {
            () = swapping => {}
            pair = measured => curve.point(swaps, pair.ratio()),
        }
    }
    report.curve(run, curve);
}

/// Publishes another registry so many times a minute, for ever.
async fn swap(gateway: &Proxy, swaps: usize) {
    let Some(pause) = Duration::from_secs(60).checked_div(swaps as u32) else { return std::future::pending().await };
    let admin = gateway.admin();
    for version in 0.. {
        let mut registry = registry();
        registry["tools"][0]["description"] = format!("Version {version}").into();
        gateway.publish(&registry);
        load::reload(admin, proc::TOKEN).await;
        tokio::time::sleep(pause).await;
    }
}
