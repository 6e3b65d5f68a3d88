//! T19: bodies of 4 MiB that would be hundreds of MiB as a tree.

use crate::Size;
use crate::report::{Report, mebibytes};
use crate::stand::{Stand, TOOL, fast_target};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::task::JoinSet;
use transom_tests::wire::{Wire, post};

const TEST: &str = "T19";
const CLIENTS: usize = 64;
/// A little less than the largest body that is read.
const BYTES: usize = (4 << 20) - 1024;

/// A call whose arguments are as many values as fit into a body.
pub fn amplifying(what: &str, bytes: usize) -> String {
    let mut body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{TOOL}","arguments":{{"argument_0":["#);
    while body.len() + what.len() + 8 < bytes {
        body.push_str(what);
    }
    body.push_str("0]}}}");
    body
}

pub async fn run(report: &mut Report, size: &Size) {
    let mut stand = Stand::before(&[fast_target().await]).await;
    crate::slow::good_clients(stand.address, Duration::from_secs(1)).await;
    let before = stand.settled().await;
    let address = stand.address;
    let body = std::sync::Arc::new(post(address, None, &amplifying("{\"a\":0},", BYTES)));
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..size.rounds {
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            let body = body.clone();
            clients.spawn(async move {
                let mut wire = Wire::connect(address).await?;
                let sent = wire.send(&body).await;
                match wire.answer().await {
                    Ok(answer) => Ok(answer.status.to_string()),
                    Err(error) => sent.and(Err(error)),
                }
            });
        }
        while let Some(done) = clients.join_next().await {
            let outcome = done.expect("a client that came to its end").unwrap_or_else(|error: std::io::Error| format!("closed: {:?}", error.kind()));
            *outcomes.entry(outcome).or_default() += 1;
        }
    }
    let grown = stand.peak().saturating_sub(before);
    let refused: usize = outcomes
        .iter()
        .filter(|(outcome, _)| outcome.starts_with('4') || outcome.starts_with('5') || outcome.starts_with("closed"))
        .map(|(_, count)| count)
        .sum();
    let all = CLIENTS * size.rounds;
    report.at_least(TEST, format!("bodies of 4 MiB of objects refused, of {all}: {outcomes:?}"), refused as f64, "", all as f64);
    report.at_most(TEST, "growth of resident memory at its peak", mebibytes(grown), "MiB", 256.0);
    report.figure(TEST, "growth that is left afterwards", mebibytes(stand.settled().await.saturating_sub(before)), "MiB");
    report.at_most(TEST, "panics", stand.panics().await, "", 0.0);
}
