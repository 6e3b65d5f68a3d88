//! Targets over Streamable HTTP, both eras, and over legacy SSE.

mod common;

use common::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use transom_protocol::Era;
use transom_upstream::tuning::Tuning;
use transom_upstream::{CallError, EraChoice, FromTarget, SessionKey, Sessions, Status, TargetSpec, Transport};

#[tokio::test]
async fn a_legacy_server_is_probed_shaken_hands_with_and_called() {
    let server = Server::start(|got: Got| async move {
        match legacy(&got) {
            Some(mut answer) => {
                if got.rpc() == "initialize" {
                    answer.headers_mut().insert("mcp-session-id", "s-1".parse().unwrap());
                }
                answer
            }
            None => got.result(&format!(r#"{{"content":[],"sent":{}}}"#, got.get("params").unwrap())),
        }
    })
    .await;
    let subject = Subject::start(spec("legacy", http(&server.url())), quick());
    let offer = subject.connected().await.offer.clone().unwrap();
    assert_eq!((offer.era, offer.revision.text(), offer.tools.len()), (Era::Legacy, "2025-06-18", 1));
    assert_eq!(offer.tools[0].json, r#"{"name":"echo","inputSchema":{"type":"object"}}"#);

    let mut renamed = call("exposed", r#"{"n":1e400}"#);
    renamed.rename = Some(("name", "own \"name\"".into()));
    let result = subject.target.call(renamed).await.unwrap();
    assert_eq!(result, r#"{"content":[],"sent":{"name":"own \"name\"","arguments":{"n":1e400}}}"#);

    let got = &server.find("tools/call")[0];
    assert_eq!(got.header("mcp-session-id").as_deref(), Some("s-1"));
    assert_eq!(got.header("mcp-protocol-version").as_deref(), Some("2025-06-18"));
    assert_eq!(got.header("authorization").as_deref(), Some("Bearer t0ken-value"));
    assert_eq!((got.header("mcp-method"), got.header("mcp-name")), (None, None));
    assert_eq!(server.find("initialize")[0].get("params.capabilities").as_deref(), Some("{}"));
    assert!(server.find("initialize")[0].header("mcp-protocol-version").is_none());

    subject.target.close().await;
    let deleted =
        server.got.lock().unwrap().iter().any(|got| got.method == http::Method::DELETE && got.header("mcp-session-id").as_deref() == Some("s-1"));
    assert!(deleted);
    assert!(matches!(subject.call("echo", "{}").await, Err(CallError::Unavailable { .. })));
}

#[tokio::test]
async fn a_modern_server_gets_headers_and_meta_and_no_session() {
    let server = Server::start(|got: Got| async move {
        match modern(&got) {
            Some(answer) => answer,
            None => got.result(r#"{"resultType":"complete","content":[]}"#),
        }
    })
    .await;
    let subject = Subject::start(spec("modern", http(&server.url())), quick());
    assert_eq!(subject.connected().await.offer.as_ref().unwrap().era, Era::Modern);
    let mut request = call("größe", "{}");
    request.param_headers = vec![("mcp-param-region".parse().unwrap(), "eu".parse().unwrap())];
    subject.target.call(request).await.unwrap();
    let got = &server.find("tools/call")[0];
    assert_eq!(got.header("mcp-protocol-version").as_deref(), Some("2026-07-28"));
    assert_eq!(got.header("mcp-method").as_deref(), Some("tools/call"));
    assert_eq!(got.header("mcp-name").as_deref(), Some("=?base64?Z3LDtsOfZQ==?="));
    assert_eq!(got.header("mcp-param-region").as_deref(), Some("eu"));
    assert_eq!(got.header("mcp-session-id"), None);
    let meta = got.get("params._meta").unwrap();
    assert!(
        meta.contains(r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#)
            && meta.contains(r#""io.modelcontextprotocol/clientCapabilities":{}"#),
        "{meta}"
    );
    assert_eq!(server.count("initialize"), 0);
}

#[tokio::test]
async fn the_era_is_read_from_how_the_probe_is_answered() {
    for (status, code, era) in
        [(200, -32601, Era::Legacy), (404, -32601, Era::Modern), (400, -32600, Era::Legacy), (405, -32000, Era::Legacy), (200, -32602, Era::Legacy)]
    {
        let server = Server::start(move |got: Got| async move {
            match got.rpc().as_str() {
                "server/discover" => got.error(status, code),
                "initialize" if era == Era::Legacy => got.result(INITIALIZED),
                "prompts/list" | "resources/list" | "resources/templates/list" => got.error(404, -32601),
                "tools/list" => got.result(TOOLS),
                _ => empty(202),
            }
        })
        .await;
        let subject = Subject::start(spec("era", http(&server.url())), quick());
        let offer = subject.connected().await.offer.clone().unwrap();
        assert_eq!(offer.era, era, "{status} {code}");
        assert!(offer.capabilities.tools && !offer.capabilities.prompts);
        subject.target.close().await;
    }
}

#[tokio::test]
async fn a_configured_era_skips_the_probe() {
    let server = Server::start(|got: Got| async move { legacy(&got).unwrap_or_else(|| empty(500)) }).await;
    let subject = Subject::start(TargetSpec { era: EraChoice::Legacy, ..spec("legacy", http(&server.url())) }, quick());
    subject.connected().await;
    assert_eq!(server.count("server/discover"), 0);
    let refused = Subject::start(TargetSpec { era: EraChoice::Modern, ..spec("modern", http(&server.url())) }, quick());
    let state = refused.until("refused", |state| state.last_error.is_some()).await;
    assert!(state.last_error.as_ref().unwrap().contains("2026-07-28"), "{state:?}");
}

// K1, L5: what is gone is gone at once, and comes back by itself
#[tokio::test]
async fn a_server_that_dies_is_seen_within_milliseconds_and_comes_back() {
    let answer = |got: Got| async move { legacy(&got).unwrap_or_else(|| got.result("{}")) };
    let server = Server::start(answer).await;
    let addr = server.addr;
    let subject = Subject::start(spec("http", http(&server.url())), quick());
    subject.connected().await;
    subject.call("echo", "{}").await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.kill().await;
    let killed = Instant::now();
    let state = subject.down().await;
    assert!(killed.elapsed() < Duration::from_millis(500), "{:?}", killed.elapsed());
    assert!(state.offer.is_none() && state.restarts == 1);
    let Err(CallError::Unavailable { reason, .. }) = subject.call("echo", "{}").await else { panic!() };
    assert!(reason.contains("refused"), "{reason}");
    let _again = Server::start_at(addr, answer).await;
    subject.connected().await;
    subject.call("echo", "{}").await.unwrap();
    assert_eq!(*subject.host.losses.lock().unwrap(), 1);
}

// L4
#[tokio::test]
async fn a_forgotten_session_is_made_anew_once_for_all_and_no_call_is_lost() {
    let generation = Arc::new(AtomicUsize::new(1));
    let current = generation.clone();
    let server = Server::start(move |got: Got| {
        let current = current.clone();
        async move {
            let id = format!("s-{}", current.load(Ordering::SeqCst));
            if got.rpc() == "initialize" {
                tokio::time::sleep(Duration::from_millis(20)).await;
                let mut answer = got.result(INITIALIZED);
                answer.headers_mut().insert("mcp-session-id", id.parse().unwrap());
                return answer;
            }
            if got.method == http::Method::POST && got.rpc() != "server/discover" && got.header("mcp-session-id") != Some(id) {
                return got.error(404, -32001);
            }
            legacy(&got).unwrap_or_else(|| got.result("{}"))
        }
    })
    .await;
    let subject = Subject::start(spec("forgetful", http(&server.url())), quick());
    subject.connected().await;
    assert_eq!(server.count("initialize"), 1);
    generation.store(2, Ordering::SeqCst);
    let calls = (0..200).map(|_| subject.call("echo", "{}"));
    for outcome in futures_util::future::join_all(calls).await {
        outcome.unwrap();
    }
    assert_eq!(server.count("initialize"), 2);
    assert_eq!(*subject.host.losses.lock().unwrap(), 0);
}

// L4: again 404 is the end of it; L7: 500 is never sent twice
#[tokio::test]
async fn nothing_is_sent_a_third_time_and_a_failed_call_not_twice() {
    let server = Server::start(|got: Got| async move {
        match got.rpc().as_str() {
            "initialize" => {
                let mut answer = got.result(INITIALIZED);
                answer.headers_mut().insert("mcp-session-id", "s".parse().unwrap());
                answer
            }
            "tools/call" => match got.tool().as_str() {
                "gone" => empty(404),
                "broken" => empty(500),
                "unauthorized" => empty(401),
                _ => got.error(400, -32602),
            },
            _ => legacy(&got).unwrap(),
        }
    })
    .await;
    let subject = Subject::start(spec("bad", http(&server.url())), quick());
    subject.connected().await;
    assert!(matches!(subject.call("gone", "{}").await, Err(CallError::Unavailable { .. })));
    assert_eq!(server.count("tools/call"), 2);
    assert!(matches!(subject.call("broken", "{}").await, Err(CallError::Lost(_))));
    assert!(matches!(subject.call("unauthorized", "{}").await, Err(CallError::Unavailable { .. })));
    let Err(CallError::Refused(error)) = subject.call("refused", "{}").await else { panic!() };
    assert_eq!(error, r#"{"code":-32602,"message":"no"}"#);
    assert_eq!(server.count("tools/call"), 5);
}

#[tokio::test]
async fn progress_comes_back_under_the_clients_own_token_and_the_rest_as_it_was() {
    let server = Server::start(|got: Got| async move {
        if let Some(answer) = legacy(&got) {
            return answer;
        }
        let token = got.get("params._meta.progressToken").unwrap();
        let (feed, answer) = events();
        let progress = |token: &str, n: u32| {
            event(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{n}}}}}"#))
        };
        feed.send(progress(&token, 1)).unwrap();
        // E11: someone else's token
        feed.send(progress("7", 2)).unwrap();
        feed.send(event(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}"#)).unwrap();
        feed.send(event(r#"{"jsonrpc":"2.0","method":"notifications/custom"}"#)).unwrap();
        // E9: an answer to something else
        feed.send(event(r#"{"jsonrpc":"2.0","id":"1","result":{}}"#)).unwrap();
        feed.send(event(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"done":true}}}}"#, got.id()))).unwrap();
        answer
    })
    .await;
    let subject = Subject::start(spec("stream", http(&server.url())), quick());
    subject.connected().await;
    let (request, outbox) = listened("echo", "{}", "\"mine\"");
    assert_eq!(subject.target.call(request).await.unwrap(), r#"{"done":true}"#);
    let mut texts = vec![];
    while let Some(FromTarget::Notification(text)) = outbox.try_next() {
        texts.push(String::from_utf8(text.to_vec()).unwrap());
    }
    assert_eq!(
        texts,
        [
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"mine","progress":1}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/custom"}"#,
        ]
    );
    assert_eq!((subject.host.count("unknown_token"), subject.host.count("unknown_id")), (1, 1));
    let sent = server.find("tools/call")[0].get("params._meta.progressToken").unwrap();
    assert_eq!((sent.len(), sent), (34, server.find("tools/call")[0].id()));
}

// K10, L2, N18
#[tokio::test]
async fn a_call_without_answer_is_taken_back_at_the_target() {
    let server = Server::start(|got: Got| async move {
        match legacy(&got) {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    })
    .await;
    let subject = Subject::start(spec("slow", http(&server.url())), quick());
    subject.connected().await;
    let mut request = call("echo", "{}");
    request.timeout = Duration::from_millis(50);
    assert_eq!(subject.target.call(request).await, Err(CallError::TimedOut(Duration::from_millis(50))));
    eventually("cancelled", || server.count("notifications/cancelled") == 1).await;
    assert_eq!(server.find("notifications/cancelled")[0].get("params.requestId"), Some(server.find("tools/call")[0].id()));
    // dropping the future does the same
    let _dropped = tokio::time::timeout(Duration::from_millis(50), subject.call("echo", "{}")).await;
    eventually("cancelled twice", || server.count("notifications/cancelled") == 2).await;
    assert_eq!(subject.target.in_flight(), 0);
}

// L2: a modern server sees the closed connection
#[tokio::test]
async fn a_modern_call_is_taken_back_by_closing_its_stream() {
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = dropped.clone();
    let server = Server::start(move |got: Got| {
        let count = count.clone();
        async move {
            if let Some(answer) = modern(&got) {
                return answer;
            }
            let _guard = Dropped(count);
            std::future::pending().await
        }
    })
    .await;
    let subject = Subject::start(spec("modern", http(&server.url())), quick());
    subject.connected().await;
    let _dropped = tokio::time::timeout(Duration::from_millis(50), subject.call("echo", "{}")).await;
    eventually("seen", || dropped.load(Ordering::SeqCst) == 1).await;
    assert_eq!(server.count("notifications/cancelled"), 0);
}

#[tokio::test]
async fn progress_starts_the_wait_anew_but_not_for_ever() {
    let server = Server::start(|got: Got| async move {
        if let Some(answer) = legacy(&got) {
            return answer;
        }
        let (feed, answer) = events();
        let token = got.get("params._meta.progressToken").unwrap();
        let (id, endless) = (got.id(), got.tool() == "endless");
        tokio::spawn(async move {
            for n in 0.. {
                tokio::time::sleep(Duration::from_millis(60)).await;
                if !endless && n == 4 {
                    break;
                }
                if feed
                    .send(event(&format!(
                        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{n}}}}}"#
                    )))
                    .is_err()
                {
                    return;
                }
            }
            let _gone = feed.send(event(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)));
        });
        answer
    })
    .await;
    let subject = Subject::start(spec("progress", http(&server.url())), Tuning { longest_call: Duration::from_millis(600), ..quick() });
    subject.connected().await;
    let (mut request, _outbox) = listened("finite", "{}", "1");
    request.timeout = Duration::from_millis(150);
    subject.target.call(request).await.unwrap();
    let (mut request, _outbox) = listened("endless", "{}", "1");
    request.timeout = Duration::from_millis(150);
    let begin = Instant::now();
    assert!(matches!(subject.target.call(request).await, Err(CallError::TimedOut(_))));
    assert!(begin.elapsed() >= Duration::from_millis(550) && begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
}

// E10
#[tokio::test]
async fn a_servers_request_reaches_the_client_only_if_allowed() {
    async fn answer(got: Got) -> Res {
        if got.rpc().is_empty() && got.method == http::Method::POST {
            return empty(202);
        }
        if let Some(answer) = legacy(&got) {
            return answer;
        }
        let (feed, answer) = events();
        feed.send(event(r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"sure?"}}"#)).unwrap();
        let id = got.id();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(150)).await;
            let _sent = feed.send(event(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)));
        });
        answer
    }
    let posted = |server: &Server| {
        let got = server.got.lock().unwrap();
        got.iter()
            .filter(|got| got.rpc().is_empty() && got.method == http::Method::POST)
            .map(|got| String::from_utf8(got.body.to_vec()).unwrap())
            .collect::<Vec<_>>()
    };

    let server = Server::start(answer).await;
    let refused = Subject::start(spec("refused", http(&server.url())), quick());
    refused.connected().await;
    let (request, outbox) = listened("echo", "{}", "1");
    refused.target.call(request).await.unwrap();
    assert!(outbox.try_next().is_none());
    assert_eq!(posted(&server), [r#"{"jsonrpc":"2.0","id":"q","error":{"code":-32601,"message":"elicitation/create is not allowed here"}}"#]);

    let server = Server::start(answer).await;
    let allowed = Subject::start(TargetSpec { allow_server_requests: true, ..spec("allowed", http(&server.url())) }, quick());
    allowed.connected().await;
    let (request, outbox) = listened("echo", "{}", "1");
    let client = async {
        let FromTarget::Request { method, params, answer } = outbox.next().await else { panic!() };
        assert_eq!((method.as_str(), &params[..]), ("elicitation/create", &br#"{"message":"sure?"}"#[..]));
        answer.send(Ok(r#"{"action":"accept"}"#.into())).unwrap();
    };
    let (result, ()) = tokio::join!(allowed.target.call(request), client);
    result.unwrap();
    assert_eq!(posted(&server), [r#"{"jsonrpc":"2.0","id":"q","result":{"action":"accept"}}"#]);
    assert_eq!(server.find("initialize")[0].get("params.capabilities.elicitation").as_deref(), Some(r#"{"form":{},"url":{}}"#));
}

// L11
#[tokio::test]
async fn lists_are_read_to_their_end_and_no_further() {
    let server = Server::start(|got: Got| async move {
        if got.rpc() != "tools/list" {
            return legacy(&got).unwrap();
        }
        match got.get("params.cursor").as_deref() {
            None => got.result(r#"{"tools":[{"name":"a"},{"noname":1},7,{"name":7}],"nextCursor":"2"}"#),
            Some("\"2\"") => got.result(r#"{"tools":[{"name":"b"}],"nextCursor":"3"}"#),
            _ => got.result(&format!(r#"{{"tools":[{{"name":"big","description":"{}"}},{{"name":"c"}}],"nextCursor":"2"}}"#, "x".repeat(70_000))),
        }
    })
    .await;
    let subject = Subject::start(spec("pages", http(&server.url())), quick());
    let offer = subject.connected().await.offer.clone().unwrap();
    assert_eq!(offer.tools.iter().map(|item| item.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(server.count("tools/list"), 3);
    assert!(subject.host.count("listing") >= 5);

    let endless = Server::start(|got: Got| async move {
        if got.rpc() != "tools/list" {
            return legacy(&got).unwrap();
        }
        let page: u32 = got.get("params.cursor").map_or(0, |cursor| cursor.trim_matches('"').parse().unwrap());
        got.result(&format!(r#"{{"tools":[{{"name":"t{page}"}}],"nextCursor":"{}"}}"#, page + 1))
    })
    .await;
    let subject = Subject::start(spec("endless", http(&endless.url())), quick());
    assert_eq!(subject.connected().await.offer.as_ref().unwrap().tools.len(), 100);
}

// L10
#[tokio::test]
async fn redirects_are_never_followed() {
    let evil = Server::start(|got: Got| async move { got.result("{}") }).await;
    let elsewhere = evil.url();
    let server = Server::start(move |got: Got| {
        let elsewhere = elsewhere.clone();
        async move {
            if let Some(answer) = legacy(&got) {
                return answer;
            }
            let mut answer = empty(307);
            answer.headers_mut().insert("location", elsewhere.parse().unwrap());
            answer
        }
    })
    .await;
    let subject = Subject::start(spec("redirecting", http(&server.url())), quick());
    subject.connected().await;
    let Err(CallError::Unavailable { reason, .. }) = subject.call("echo", "{}").await else { panic!() };
    assert!(reason.contains("redirect"), "{reason}");
    assert!(evil.got.lock().unwrap().is_empty());
}

// E5, E6, E7
#[tokio::test]
async fn a_reply_that_cannot_be_passed_on_is_an_error_of_its_own() {
    let server = Server::start(|got: Got| async move {
        if let Some(answer) = legacy(&got) {
            return answer;
        }
        match got.tool().as_str() {
            "text" => json(http::StatusCode::OK, "temp is 3".into()),
            "deep" => got.result(&format!("{}{}", "[".repeat(70), "]".repeat(70))),
            "large" => got.result(&format!("\"{}\"", "x".repeat(2 << 20))),
            "other" => json(http::StatusCode::OK, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.into()),
            "both" => json(http::StatusCode::OK, format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}},"error":{{}}}}"#, got.id())),
            "surrogate" => got.result(r#""\ud800""#),
            "null" => got.result("null"),
            "list" => got.result("[1]"),
            "string" => got.result(r#""x""#),
            "number" => got.result("5"),
            "event" => {
                let (feed, answer) = events();
                feed.send(event(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":null}}"#, got.id()))).unwrap();
                answer
            }
            "html" => {
                let mut answer = empty(200);
                answer.headers_mut().insert("content-type", "text/html".parse().unwrap());
                answer
            }
            _ => empty(202),
        }
    })
    .await;
    let subject = Subject::start(spec("odd", http(&server.url())), Tuning { message: 1 << 20, ..quick() });
    subject.connected().await;
    for name in ["text", "deep", "large", "other", "both", "surrogate", "html", "nothing", "null", "list", "string", "number", "event"] {
        assert!(matches!(subject.call(name, "{}").await, Err(CallError::Invalid(_))), "{name}");
    }
    assert_eq!(subject.state().status, Status::Connected);
}

// L7: the answer never came, but it may have run
#[tokio::test]
async fn a_connection_that_breaks_after_the_request_was_sent_loses_the_call_and_sends_nothing_twice() {
    let server = Server::start(|got: Got| async move {
        if let Some(answer) = legacy(&got) {
            return answer;
        }
        if got.tool() == "stream" {
            let (feed, answer) = events();
            feed.send(": opened\n\n".into()).unwrap();
            return answer;
        }
        panic!("the connection breaks here");
    })
    .await;
    let subject = Subject::start(spec("breaking", http(&server.url())), quick());
    subject.connected().await;
    for name in ["stream", "reset"] {
        assert!(matches!(subject.call(name, "{}").await, Err(CallError::Lost(_))), "{name}");
    }
    assert_eq!(server.count("tools/call"), 2);
}

// J9, bulkhead
#[tokio::test]
async fn too_many_calls_are_told_so_and_the_rest_is_served() {
    let server = Server::start(|got: Got| async move {
        match legacy(&got) {
            Some(answer) => answer,
            None => {
                tokio::time::sleep(Duration::from_millis(200)).await;
                got.result("{}")
            }
        }
    })
    .await;
    let tuning = Tuning { in_flight: 4, queue: 2, queue_wait: Duration::from_secs(1), ..quick() };
    let subject = Subject::start(spec("busy", http(&server.url())), tuning);
    subject.connected().await;
    let outcomes = futures_util::future::join_all((0..10).map(|_| subject.call("echo", "{}"))).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 6);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Err(CallError::Overloaded)).count(), 4);
}

// N20, E11
#[tokio::test]
async fn a_changed_list_is_fetched_once_however_often_it_is_announced() {
    let version = Arc::new(AtomicUsize::new(0));
    let (feeds, current) = (Arc::new(std::sync::Mutex::new(vec![])), version.clone());
    let (given, feeds) = (feeds.clone(), feeds);
    let server = Server::start(move |got: Got| {
        let (given, current) = (given.clone(), current.clone());
        async move {
            if got.method == http::Method::GET {
                let (feed, answer) = events();
                given.lock().unwrap().push(feed);
                return answer;
            }
            match got.rpc().as_str() {
                "tools/list" => got.result(&format!(r#"{{"tools":[{{"name":"v{}"}}]}}"#, current.load(Ordering::SeqCst))),
                _ => legacy(&got).unwrap(),
            }
        }
    })
    .await;
    let subject = Subject::start(spec("changing", http(&server.url())), Tuning { refresh_pause: Duration::from_millis(200), ..quick() });
    subject.connected().await;
    eventually("listening", || feeds.lock().unwrap().len() == 1).await;
    version.store(1, Ordering::SeqCst);
    for _ in 0..1000 {
        feeds.lock().unwrap()[0].send(event(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#)).unwrap();
    }
    subject.until("changed", |state| state.offer.as_ref().is_some_and(|offer| offer.tools[0].name == "v1")).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(server.count("tools/list") <= 4, "{}", server.count("tools/list"));
    // the stream breaks with the server alive: the target stays
    feeds.lock().unwrap().clear();
    eventually("listening again", || feeds.lock().unwrap().len() == 1).await;
    assert_eq!(subject.state().status, Status::Connected);
    assert!(server.count("ping") >= 1);
}

/// A server of one era whose listening streams the test holds, and whose only tool is named by a number.
async fn streaming(era: Era) -> (Server, Arc<std::sync::Mutex<Vec<tokio::sync::mpsc::UnboundedSender<String>>>>, Arc<AtomicUsize>) {
    let (feeds, version) = (Arc::new(std::sync::Mutex::new(vec![])), Arc::new(AtomicUsize::new(0)));
    let (given, current) = (feeds.clone(), version.clone());
    let discovered = r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}}"#;
    let server = Server::start(move |got: Got| {
        let (given, current) = (given.clone(), current.clone());
        async move {
            if got.method == http::Method::GET || got.rpc() == "subscriptions/listen" {
                let (feed, answer) = events();
                given.lock().unwrap().push(feed);
                return answer;
            }
            match got.rpc().as_str() {
                "tools/list" => got.result(&format!(r#"{{"tools":[{{"name":"v{}"}}]}}"#, current.load(Ordering::SeqCst))),
                "server/discover" if era == Era::Modern => got.result(discovered),
                _ => legacy(&got).unwrap(),
            }
        }
    })
    .await;
    (server, feeds, version)
}

// N20: nobody heard what was announced while there was no stream.
#[tokio::test]
async fn a_list_that_changed_while_there_was_no_stream_is_fetched_once_there_is_one_again() {
    for era in [Era::Legacy, Era::Modern] {
        let (server, feeds, version) = streaming(era).await;
        let subject = Subject::start(spec("resting", http(&server.url())), quick());
        subject.connected().await;
        eventually("listening", || feeds.lock().unwrap().len() == 1).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(server.count("tools/list"), 1, "the first stream follows the listing at once");
        // Older than `stream_pause`, so that it did not end as soon as it began.
        feeds.lock().unwrap().clear();
        version.store(1, Ordering::SeqCst);
        subject.until("changed", |state| state.offer.as_ref().is_some_and(|offer| offer.tools[0].name == "v1")).await;
        assert_eq!(feeds.lock().unwrap().len(), 1, "listening again");
    }
}

#[tokio::test]
async fn a_stream_that_ends_again_and_again_makes_no_more_lists_than_a_flood_of_announcements() {
    for era in [Era::Legacy, Era::Modern] {
        let (server, feeds, _) = streaming(era).await;
        let tuning = Tuning { refresh_pause: Duration::from_millis(400), stream_pause: Duration::from_millis(2), ..quick() };
        let subject = Subject::start(spec("flapping", http(&server.url())), tuning);
        subject.connected().await;
        let (begin, mut streams) = (Instant::now(), 0);
        while begin.elapsed() < Duration::from_secs(1) {
            let ended = std::mem::take(&mut *feeds.lock().unwrap());
            streams += ended.len();
            // Alive for longer than `stream_pause`.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(streams >= 8, "{streams}");
        assert!((2..=4).contains(&server.count("tools/list")), "{} lists for {streams} streams", server.count("tools/list"));
    }
}

// 2025-11-25, transports: a broken stream may be resumed after the last event that came.
#[tokio::test]
async fn a_stream_with_event_ids_is_opened_again_after_the_last_one() {
    let (server, feeds, _) = streaming(Era::Legacy).await;
    let subject = Subject::start(spec("numbered", http(&server.url())), quick());
    subject.connected().await;
    let gets = || server.got.lock().unwrap().iter().filter(|got| got.method == http::Method::GET).map(|got| got.header("last-event-id")).collect();
    for id in ["7", "8"] {
        eventually("listening", || feeds.lock().unwrap().len() == 1).await;
        feeds.lock().unwrap()[0].send(format!("id: {id}\n{}", event(r#"{"jsonrpc":"2.0","method":"notifications/message"}"#))).unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        feeds.lock().unwrap().clear();
    }
    eventually("listening", || feeds.lock().unwrap().len() == 1).await;
    let gets: Vec<Option<String>> = gets();
    assert_eq!(gets, [None, Some("7".into()), Some("8".into())]);
}

// A place that leads nowhere costs what was said meanwhile, not the stream.
#[tokio::test]
async fn a_stream_that_cannot_be_resumed_is_opened_without_a_place() {
    for refuses in [true, false] {
        let streams = Arc::new(std::sync::Mutex::new(vec![]));
        let given = streams.clone();
        let server = Server::start(move |got: Got| {
            let given = given.clone();
            async move {
                match (got.method.clone(), got.header("last-event-id")) {
                    (http::Method::GET, Some(_)) if refuses => empty(400),
                    // One that ends at once.
                    (http::Method::GET, Some(_)) => events().1,
                    (http::Method::GET, None) => {
                        let (feed, answer) = events();
                        given.lock().unwrap().push(feed);
                        answer
                    }
                    _ => legacy(&got).unwrap(),
                }
            }
        })
        .await;
        let subject = Subject::start(spec("forgetful", http(&server.url())), quick());
        subject.connected().await;
        eventually("listening", || streams.lock().unwrap().len() == 1).await;
        streams.lock().unwrap()[0].send(format!("id: 7\n{}", event(r#"{"jsonrpc":"2.0","method":"notifications/message"}"#))).unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        streams.lock().unwrap().clear();
        eventually("listening again", || streams.lock().unwrap().len() == 1).await;
    }
}

#[tokio::test]
async fn subscriptions_follow_what_is_wanted_in_both_eras() {
    let initialized = r#"{"protocolVersion":"2025-06-18","capabilities":{"resources":{"subscribe":true}}}"#;
    let server = Server::start(move |got: Got| async move {
        match got.rpc().as_str() {
            "initialize" => got.result(initialized),
            "resources/list" => got.result(r#"{"resources":[{"uri":"file:///a","name":"a"}]}"#),
            "resources/subscribe" | "resources/unsubscribe" | "resources/templates/list" => got.result("{}"),
            _ => legacy(&got).unwrap(),
        }
    })
    .await;
    let subject = Subject::start(spec("legacy", http(&server.url())), quick());
    subject.target.subscribe_to(vec!["file:///a".into(), "file:///b".into()]);
    let offer = subject.connected().await.offer.clone().unwrap();
    assert_eq!(offer.resources[0].name, "file:///a");
    eventually("subscribed", || server.count("resources/subscribe") == 2).await;
    subject.target.subscribe_to(vec!["file:///b".into()]);
    eventually("unsubscribed", || server.count("resources/unsubscribe") == 1).await;
    assert_eq!(server.find("resources/unsubscribe")[0].get("params.uri").as_deref(), Some("\"file:///a\""));

    let discovered = r#"{"supportedVersions":["2026-07-28"],"capabilities":{"resources":{"subscribe":true}}}"#;
    let server = Server::start(move |got: Got| async move {
        match got.rpc().as_str() {
            "server/discover" => got.result(discovered),
            "subscriptions/listen" => {
                let (feed, answer) = events();
                feed.send(event(r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{}}"#)).unwrap();
                feed.send(event(r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///a"}}"#)).unwrap();
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_secs(30)).await;
                    drop(feed);
                });
                answer
            }
            "resources/list" | "resources/templates/list" => got.result("{}"),
            _ => modern(&got).unwrap(),
        }
    })
    .await;
    let subject = Subject::start(spec("modern", http(&server.url())), quick());
    subject.connected().await;
    assert_eq!(server.count("subscriptions/listen"), 0);
    subject.target.subscribe_to(vec!["file:///a".into()]);
    eventually("told", || subject.host.updates.lock().unwrap().len() == 1).await;
    assert_eq!(server.find("subscriptions/listen")[0].get("params.notifications.resourceSubscriptions").as_deref(), Some(r#"["file:///a"]"#));
    subject.target.subscribe_to(vec!["file:///b".into()]);
    eventually("listening anew", || server.count("subscriptions/listen") == 2).await;
}

// L9
#[tokio::test]
async fn a_legacy_sse_server_is_found_and_used_and_kept_at_its_origin() {
    let feeds: Arc<std::sync::Mutex<Option<tokio::sync::mpsc::UnboundedSender<String>>>> = Arc::default();
    let feed = feeds.clone();
    let server = Server::start(move |got: Got| {
        let feed = feed.clone();
        async move {
            if got.method == http::Method::GET {
                let (sender, answer) = events();
                sender.send("event: endpoint\ndata: /messages?s=1\n\n".into()).unwrap();
                *feed.lock().unwrap() = Some(sender);
                return answer;
            }
            if got.path != "/messages?s=1" {
                return empty(405);
            }
            let result = match got.rpc().as_str() {
                "initialize" => r#"{"protocolVersion":"2024-11-05","capabilities":{"tools":{}}}"#,
                "tools/list" => TOOLS,
                "tools/call" => r#"{"content":[]}"#,
                _ => return empty(202),
            };
            let feed = feed.lock().unwrap().clone().unwrap();
            feed.send(event(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, got.id()))).unwrap();
            empty(202)
        }
    })
    .await;
    for transport in [http(&server.url()), Transport::Sse { url: server.url().parse().unwrap(), headers: vec![], tls: None }] {
        let subject = Subject::start(spec("sse", transport), quick());
        let offer = subject.connected().await.offer.clone().unwrap();
        assert_eq!((offer.revision.text(), offer.tools.len()), ("2024-11-05", 1));
        assert_eq!(subject.call("echo", "{}").await.unwrap(), r#"{"content":[]}"#);
        // the stream is the connection
        *feeds.lock().unwrap() = None;
        let begin = Instant::now();
        // It may be back before anybody looks.
        let state = subject.until("lost", |state| state.restarts == 1).await;
        assert!(begin.elapsed() < Duration::from_millis(500));
        assert_eq!(state.last_error.as_deref(), Some("the event stream ended"));
        subject.connected().await;
        subject.target.close().await;
    }

    let evil = Server::start(|_| async { empty(202) }).await;
    let elsewhere = evil.url();
    let server = Server::start(move |got: Got| {
        let elsewhere = elsewhere.clone();
        async move {
            assert_eq!(got.method, http::Method::GET);
            let (sender, answer) = events();
            sender.send(format!("event: endpoint\ndata: {elsewhere}\n\n")).unwrap();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(5)).await;
                drop(sender);
            });
            answer
        }
    })
    .await;
    let subject = Subject::start(spec("sse", Transport::Sse { url: server.url().parse().unwrap(), headers: vec![], tls: None }), quick());
    let state = subject.until("refused", |state| state.last_error.is_some()).await;
    assert!(state.last_error.as_ref().unwrap().contains("origin"), "{state:?}");
    assert!(evil.got.lock().unwrap().is_empty());
}

// L1, K8
#[tokio::test]
async fn a_target_that_never_answers_is_given_up_and_blocks_nobody() {
    let hanging = Server::start(|_| async { std::future::pending().await }).await;
    let good = Server::start(|got: Got| async move { legacy(&got).unwrap_or_else(|| got.result("{}")) }).await;
    let tuning = Tuning { handshake: Duration::from_millis(300), ..quick() };
    let hanging = Subject::start(spec("hanging", http(&hanging.url())), tuning);
    let good = Subject::start(spec("good", http(&good.url())), quick());
    let begin = Instant::now();
    good.connected().await;
    assert!(begin.elapsed() < Duration::from_millis(300));
    let state = hanging.until("given up", |state| state.settled).await;
    assert!(state.last_error.is_some() && state.offer.is_none());
}

// L5
#[tokio::test]
async fn five_failures_in_a_row_open_the_circuit() {
    let refused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let subject = Subject::start(spec("gone", http(&format!("http://{refused}/mcp"))), quick());
    eventually("five attempts", || subject.host.connects.lock().unwrap().len() >= 5).await;
    let state = subject.until("waiting", |state| state.status == Status::Unavailable && state.next_retry.is_some()).await;
    assert!(state.retry_after().unwrap() > Duration::from_millis(700), "{state:?}");
    assert!(state.last_error.as_ref().unwrap().contains("connection refused"), "{state:?}");
    let Err(CallError::Unavailable { retry_after: Some(_), .. }) = subject.call("echo", "{}").await else { panic!() };
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(subject.host.connects.lock().unwrap().len(), 5);
    assert_eq!(state.restarts, 0);
}

// L14: only the authority the config names is trusted, and what is wrong is said
#[tokio::test]
async fn a_tls_target_is_trusted_by_its_authority_and_by_nothing_else() {
    let server = Server::start_tls(|got: Got| async move { legacy(&got).unwrap_or_else(|| got.result("{}")) }).await;
    let folder = tempfile::tempdir().unwrap();
    let mut files = 0;
    let mut transport = |ca: Option<&[u8]>| {
        let url = format!("https://localhost:{}/mcp", server.addr.port()).parse().unwrap();
        files += 1;
        let path = folder.path().join(format!("{files}.pem"));
        let tls = ca.map(|ca| {
            std::fs::write(&path, ca).unwrap();
            Arc::new(transom_upstream::ClientTls { ca: Some(path.clone()), identity: None })
        });
        Transport::Http { url, headers: vec![], tls }
    };
    let trusted = Subject::start(spec("trusted", transport(Some(include_bytes!("fixtures/ca.pem")))), quick());
    trusted.connected().await;
    trusted.call("echo", "{}").await.unwrap();
    for (ca, reason) in
        [(None, "certificate"), (Some(&b"nonsense"[..]), "no certificate"), (Some(&include_bytes!("fixtures/localhost.pem")[..]), "certificate")]
    {
        let refused = Subject::start(spec("refused", transport(ca)), quick());
        let state = refused.until("refused", |state| state.settled).await;
        let error = state.last_error.clone().unwrap_or_default();
        assert!(error.to_lowercase().contains(reason), "{error}");
    }
}

// L3: connected, but nobody there
#[tokio::test]
async fn a_server_that_falls_silent_is_given_up_when_it_answers_no_pings() {
    let silent = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let flag = silent.clone();
    let server = Server::start(move |got: Got| {
        let flag = flag.clone();
        async move {
            if flag.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            legacy(&got).unwrap_or_else(|| got.result("{}"))
        }
    })
    .await;
    let tuning =
        Tuning { ping_every: Duration::from_millis(50), ping_timeout: Duration::from_millis(100), handshake: Duration::from_millis(300), ..quick() };
    let subject = Subject::start(spec("silent", http(&server.url())), tuning);
    subject.connected().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(subject.state().restarts, 0);
    silent.store(true, Ordering::SeqCst);
    let state = subject.down().await;
    assert!(state.last_error.as_ref().unwrap().contains("no longer answers"), "{state:?}");
    silent.store(false, Ordering::SeqCst);
    subject.connected().await;
}

// H12: a legacy session of their own for each client session, ended with it
#[tokio::test]
async fn each_client_session_has_a_session_of_its_own_at_the_target() {
    let count = Arc::new(AtomicUsize::new(0));
    let server = Server::start(move |got: Got| {
        let count = count.clone();
        async move {
            if got.rpc() == "initialize" {
                let mut answer = got.result(INITIALIZED);
                answer.headers_mut().insert("mcp-session-id", format!("s-{}", count.fetch_add(1, Ordering::SeqCst)).parse().unwrap());
                return answer;
            }
            match legacy(&got) {
                Some(answer) => answer,
                None => got.result(&format!(r#"{{"session":{:?}}}"#, got.header("mcp-session-id").unwrap())),
            }
        }
    })
    .await;
    let subject = Subject::start(TargetSpec { sessions: Sessions::PerSession, ..spec("private", http(&server.url())) }, quick());
    subject.connected().await;
    let in_session = |key: u128| {
        let mut request = call("echo", "{}");
        request.caller.session = Some(SessionKey(key));
        subject.target.call(request)
    };
    let (a, b, again) = (in_session(1).await.unwrap(), in_session(2).await.unwrap(), in_session(1).await.unwrap());
    assert!(a == again && a != b);
    subject.target.end_session(SessionKey(1));
    let ended = |id: &[u8]| {
        let got = server.got.lock().unwrap();
        got.iter()
            .any(|got| got.method == http::Method::DELETE && format!(r#"{{"session":{:?}}}"#, got.header("mcp-session-id").unwrap()).as_bytes() == id)
    };
    eventually("ended", || ended(&a)).await;
    assert!(!ended(&b));
    subject.target.close().await;
    assert!(ended(&b));
}

// L6, L5: however often it dies, the lists come back whole and the number of attempts stays small
#[tokio::test]
async fn a_flapping_server_is_tried_again_with_growing_pauses() {
    let server = Server::start(|got: Got| async move {
        match got.rpc().as_str() {
            "tools/list" => empty(503),
            _ => legacy(&got).unwrap_or_else(|| got.result("{}")),
        }
    })
    .await;
    let subject = Subject::start(spec("flapping", http(&server.url())), Tuning { circuit_delay: Duration::from_millis(200), ..quick() });
    tokio::time::sleep(Duration::from_millis(1000)).await;
    let attempts = subject.host.connects.lock().unwrap().len();
    assert!((3..=10).contains(&attempts), "{attempts}");
    let state = subject.state();
    assert!(state.offer.is_none() && state.last_error.as_ref().unwrap().contains("503"), "{state:?}");
}
