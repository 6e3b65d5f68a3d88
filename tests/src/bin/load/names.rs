//! T22: names nobody has. What is counted must not grow with what strangers make up.

use crate::Size;
use crate::report::{Report, mebibytes};
use crate::stand::{Stand, fast_target};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::task::JoinSet;
use transom_tests::wire::{Wire, post};

const TEST: &str = "T22";
const CONNECTIONS: usize = 16;
/// Requests before anything is measured.
const FIRST: usize = 2_000;
/// The most series there may ever be.
const SERIES: f64 = 5_000.0;

fn series(text: &str) -> usize {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count()
}

pub async fn run(report: &mut Report, size: &Size) {
    let mut stand = Stand::before(&[fast_target().await]).await;
    // Everything that can be counted is counted once.
    let first = ask(&stand, 0, FIRST).await;
    let before = series(&stand.metrics().await);
    let memory = stand.settled().await;
    let (answered, wrong) = ask(&stand, FIRST, size.names).await;
    let after = series(&stand.metrics().await);
    let planned = FIRST + size.names;
    report.at_least(TEST, "answers to names, methods, clients and paths of their own", (first.0 + answered) as f64, "", planned as f64);
    report.at_most(TEST, format!("series more than before, of {before}"), after.abs_diff(before) as f64, "", 0.0);
    report.at_most(TEST, "series", after as f64, "", SERIES);
    report.at_most(TEST, "requests that were not refused in good order", (first.1 + wrong) as f64, "", 0.0);
    report.at_most(TEST, "growth of resident memory", mebibytes(stand.settled().await.saturating_sub(memory)), "MiB", 16.0);
    report.at_most(TEST, "panics", stand.panics().await, "", 0.0);
}

/// Asks for what nobody has, in all the ways a stranger can choose a name; how many answers came, and how many requests went wrong.
async fn ask(stand: &Stand, from: usize, count: usize) -> (usize, usize) {
    let (address, next) = (stand.address, Arc::new(AtomicUsize::new(from)));
    let (answered, wrong) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (next, answered, wrong) = (next.clone(), answered.clone(), wrong.clone());
        tasks.spawn(async move {
            let Ok(mut wire) = Wire::connect(address).await else { return };
            loop {
                let number = next.fetch_add(1, Relaxed);
                if number >= from + count {
                    return;
                }
                // A name that does not look like its neighbour.
                let name = format!("{:016x}", (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
                let (request, expected): (Vec<u8>, &[u16]) = match number % 16 {
                    0 => (post(address, None, &format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{name}"}}"#)), &[200, 404]),
                    1 => (format!("GET /{name} HTTP/1.1\r\nhost: {address}\r\n\r\n").into_bytes(), &[404]),
                    2 => (format!("M{} /mcp HTTP/1.1\r\nhost: {address}\r\n\r\n", name.to_uppercase()).into_bytes(), &[405]),
                    3 => (post(address, Some(&name), r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#), &[404]),
                    4 => (
                        format!(
                            "POST /tools/{name}/invoke HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
                        )
                        .into_bytes(),
                        &[404],
                    ),
                    5 => (post(address, None, &format!(r#"{{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{{"name":"{name}"}}}}"#)), &[200]),
                    6 => (
                        post(address, None, &format!(r#"{{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{{"uri":"{name}://x"}}}}"#)),
                        &[200],
                    ),
                    // Whoever says who they are gets a session, which is ended below: what is measured is what a name leaves behind.
                    7 | 8 => (
                        post(
                            address,
                            None,
                            &format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{{}},"clientInfo":{{"name":"{name}","title":"{name}","version":"{name}"}}}}}}"#),
                        ),
                        &[200],
                    ),
                    9 => (
                        post(
                            address,
                            None,
                            &format!(r#"{{"jsonrpc":"2.0","id":"{name}","method":"tools/list","params":{{"_meta":{{"{name}":1}}}}}}"#),
                        ),
                        &[200],
                    ),
                    _ => (
                        post(
                            address,
                            None,
                            &format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{name}","arguments":{{}}}}}}"#),
                        ),
                        &[200],
                    ),
                };
                let mut answer = wire.exchange(&request).await;
                if let Ok(began) = &answer
                    && let Some(session) = began.header("mcp-session-id")
                {
                    let end = format!("DELETE /mcp HTTP/1.1\r\nhost: {address}\r\nmcp-session-id: {session}\r\n\r\n");
                    answer = wire.exchange(end.as_bytes()).await;
                }
                answered.fetch_add(usize::from(answer.is_ok()), Relaxed);
                match answer {
                    Ok(answer) if expected.contains(&answer.status) => {}
                    outcome => {
                        if wrong.fetch_add(1, Relaxed) < 3 {
                            println!("      {}: {outcome:?}", String::from_utf8_lossy(&request));
                        }
                        let Ok(new) = Wire::connect(address).await else { return };
                        wire = new;
                    }
                }
            }
        });
    }
    tasks.join_all().await;
    (answered.load(Relaxed), wrong.load(Relaxed))
}
