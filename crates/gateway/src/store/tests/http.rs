//! Registries on servers: up, down, slow, lying, cut short; and what a restart finds.

use super::*;
use crate::config::Surroundings;
use ::http::{HeaderName, header};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::AtomicUsize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use transom_upstream::Secret;

/// What the server does next.
#[derive(Clone, Debug)]
enum Says {
    /// Exactly these bytes, then the connection ends.
    Raw(String),
    /// A registry with this ETag, and 304 to whoever has it.
    Tagged(String, &'static str),
    /// Accepts and sleeps.
    Nothing,
}

/// A server as bad as a test wants it.
struct Server {
    address: std::net::SocketAddr,
    shared: Shared,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Clone)]
struct Shared {
    says: Arc<Mutex<Says>>,
    requests: Arc<Mutex<Vec<String>>>,
    not_modified: Arc<AtomicUsize>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn ok(body: &str) -> Says {
    Says::Raw(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len()))
}

fn status(line: &str) -> Says {
    Says::Raw(format!("HTTP/1.1 {line}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"))
}

impl Server {
    async fn start(says: Says) -> Server {
        Server::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), says)
    }

    fn on(listener: TcpListener, says: Says) -> Server {
        let address = listener.local_addr().unwrap();
        let shared = Shared { says: Arc::new(Mutex::new(says)), requests: Arc::default(), not_modified: Arc::default() };
        let served = shared.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(Server::serve(stream, served.clone()));
            }
        });
        Server { address, shared, task }
    }

    async fn serve(mut stream: TcpStream, shared: Shared) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = stream.read_u8().await else { return };
            head.push(byte);
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        shared.requests.lock().unwrap().push(head.clone());
        let says = shared.says.lock().unwrap().clone();
        let answer = match says {
            Says::Raw(answer) => answer,
            Says::Tagged(_, tag) if head.contains(&format!("if-none-match: \"{tag}\"")) => {
                shared.not_modified.fetch_add(1, Ordering::Relaxed);
                "HTTP/1.1 304 Not Modified\r\nconnection: close\r\n\r\n".into()
            }
            Says::Tagged(body, tag) => {
                format!("HTTP/1.1 200 OK\r\netag: \"{tag}\"\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
            }
            Says::Nothing => std::future::pending().await,
        };
        let _ = stream.write_all(answer.as_bytes()).await;
    }

    fn say(&self, says: Says) {
        *self.shared.says.lock().unwrap() = says;
    }

    fn asked(&self) -> usize {
        self.shared.requests.lock().unwrap().len()
    }

    fn source(&self) -> RegistrySource {
        source(&format!("http://{}/registry", self.address))
    }
}

fn source(url: &str) -> RegistrySource {
    RegistrySource {
        name: "http://registry.test/tools".into(),
        location: RegistryLocation::Http { url: url.parse().unwrap(), headers: vec![], ca: None },
    }
}

/// Asks its server ten times a second.
fn often(source: RegistrySource) -> Config {
    let mut config = config(vec![source]);
    config.registry.as_mut().unwrap().refresh = Duration::from_millis(100);
    config
}

#[tokio::test]
async fn a_server_is_asked_at_intervals_with_the_configs_headers() {
    // R-003-7, R-003-27, R-003-30, R-003-33, R-003-52, L4
    let server = Server::start(ok(&registry(&["a"]))).await;
    let mut source = server.source();
    let RegistryLocation::Http { headers, .. } = &mut source.location else { unreachable!() };
    *headers = vec![(header::AUTHORIZATION, Secret::new("Bearer my-token")), (HeaderName::from_static("x-team"), Secret::new("weather"))];
    let store = started(&often(source)).await;
    assert_eq!(tools(&store), ["a"]);
    server.say(ok(&registry(&["b"])));
    until("the next round", || tools(&store) == ["b"]).await;
    for request in server.shared.requests.lock().unwrap().iter() {
        assert!(request.starts_with("get /registry http/1.1\r\n"), "{request}");
        assert!(request.contains("authorization: bearer my-token\r\n") && request.contains("x-team: weather\r\n"), "{request}");
    }
}

#[tokio::test]
async fn what_has_not_changed_is_neither_sent_nor_compiled_nor_told() {
    // L7, L8
    let server = Server::start(Says::Tagged(registry(&["a"]), "v1")).await;
    let store = started(&often(server.source())).await;
    let mut changes = store.changes();
    changes.mark_unchanged();
    until("304 three times", || server.shared.not_modified.load(Ordering::Relaxed) >= 3).await;
    server.say(ok(&registry(&["a"])));
    let asked = server.asked();
    until("the same body without a tag", || server.asked() >= asked + 3).await;
    assert!(!changes.has_changed().unwrap());
    assert_eq!(metric(&store, "transom_registry_reloads_total{result=\"success\"}"), Some(1.0));
    assert!(metric(&store, "transom_registry_reloads_total{result=\"unchanged\"}").unwrap() >= 5.0);

    server.say(Says::Tagged(registry(&["b"]), "v2"));
    until("another tag", || tools(&store) == ["b"]).await;
}

#[tokio::test]
async fn a_document_that_was_rejected_is_sent_again_even_under_the_same_etag() {
    // L6, L7
    let (lines, _guard) = log::Lines::capture();
    let warnings = || lines.take().iter().filter(|line| line.starts_with("WARN ")).count();
    let server = Server::start(Says::Tagged(registry(&["a"]), "v1")).await;
    let store = started(&often(server.source())).await;
    lines.take();
    let not_modified = || server.shared.not_modified.load(Ordering::Relaxed);
    for (at, garbage) in ["<html>Sign in</html>", "{}"].into_iter().enumerate() {
        let (tag, name) = [("v2", "b"), ("v3", "c")][at];
        server.say(Says::Tagged(garbage.into(), tag));
        until("it is rejected", || store.status().last_error.is_some()).await;
        assert_eq!(warnings(), 1);
        let (before, asked) = (not_modified(), server.asked());
        until("asked again", || server.asked() >= asked + 2).await;
        assert_eq!(not_modified(), before, "it may be righted without another tag");
        assert_eq!(warnings(), 0, "the same document is not complained of again");
        server.say(Says::Tagged(registry(&[name]), tag));
        until("the good document under the same tag", || tools(&store) == [name]).await;
        assert_eq!(store.status().last_error, None);
        until("asked for news only", || not_modified() > before).await;
    }
    // The same text under another tag is no news, and the tag counts.
    server.say(Says::Tagged(registry(&["c"]), "v4"));
    let (before, version) = (not_modified(), store.current().unwrap().version);
    until("asked with the other tag", || not_modified() >= before + 2).await;
    assert_eq!(store.current().unwrap().version, version);
}

#[tokio::test]
async fn whatever_a_server_does_the_last_good_stays_and_the_next_good_is_taken() {
    // L6, F2, F4, F9, R-003-51, R-003-63, T13
    let good = registry(&["a"]);
    let server = Server::start(ok(&good)).await;
    let store = started(&often(server.source())).await;
    let cut_short = good.len() + 10;
    let table = [
        ("500 Internal Server Error", status("500 Internal Server Error")),
        ("check `registry.auth`", status("401 Unauthorized")),
        ("304 Not Modified", status("304 Not Modified")),
        ("broke off", Says::Raw(format!("HTTP/1.1 200 OK\r\ncontent-length: {cut_short}\r\n\r\n{good}"))),
        ("broke off", Says::Raw(format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{good}\r\n", good.len()))),
        ("broke off", Says::Raw("nonsense\r\n\r\n".into())),
        ("registry.test/tools:1:", ok(&good[..good.len() - 3])),
        ("registry.test/tools:1:", ok("<html>Sign in</html>")),
        ("would replace one that is not", ok("{}")),
        ("larger than 16 MiB", Says::Raw("HTTP/1.1 200 OK\r\ncontent-length: 17825792\r\n\r\n{".into())),
        ("larger than 16 MiB", Says::Raw(format!("HTTP/1.1 200 OK\r\n\r\n{}", " ".repeat(17 << 20)))),
    ];
    for (reason, says) in table {
        server.say(says);
        until(reason, || store.status().last_error.is_some_and(|error| error.contains(reason))).await;
        assert_eq!((tools(&store), store.current().unwrap().version, store.status().stale), (vec!["a".to_owned()], 1, true), "{reason}");
        server.say(ok(&good));
        until(reason, || !store.status().stale).await;
        assert_eq!(store.state().sources[0].failures, 0, "success resets the waits");
    }
    assert_eq!(store.current().unwrap().version, 1);
    // Waits grow: ten times a second for three seconds would be thirty.
    server.say(status("500 Internal Server Error"));
    let asked = server.asked();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert!((3..=8).contains(&(server.asked() - asked)), "{}", server.asked() - asked);
}

#[tokio::test]
async fn a_document_that_is_cut_off_at_any_byte_changes_nothing() {
    // F2, T13
    let good = registry(&["a"]);
    let server = Server::start(ok(&good)).await;
    let store = started(&config(vec![server.source()])).await;
    let other = registry(&["b", "c"]);
    for at in 0..other.len() {
        let cut = &other[..at];
        // The server says how much there is, or goes away in the middle; or it was given the half of it and does not know.
        let broken = [
            format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{cut}", other.len()),
            format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{cut}", other.len()),
            format!("HTTP/1.1 200 OK\r\ncontent-length: {at}\r\nconnection: close\r\n\r\n{cut}"),
            format!("HTTP/1.1 200 OK\r\n\r\n{cut}"),
        ];
        for answer in broken {
            server.say(Says::Raw(answer.clone()));
            assert!(store.reload().await.is_err(), "{answer}");
            assert_eq!((tools(&store), store.current().unwrap().version, store.status().stale), (vec!["a".to_owned()], 1, true), "{answer}");
        }
    }
    server.say(ok(&other));
    assert!(matches!(store.reload().await, Ok(Outcome::Adopted { .. })));
    assert_eq!((tools(&store), store.status().stale), (vec!["b".to_owned(), "c".to_owned()], false));
}

#[tokio::test]
async fn a_reload_or_an_update_that_succeeds_ends_the_long_wait_of_the_poll() {
    // L6: success resets, whoever had it
    let good = registry(&["a"]);
    let server = Server::start(ok(&good)).await;
    let store = started(&often(server.source())).await;
    for by_reload in [true, false] {
        server.say(status("500 Internal Server Error"));
        // After the fifth failure the next question is 1.4 s away at least.
        until("long waits", || store.state().sources[0].failures >= 5).await;
        server.say(ok(&good));
        let since = Instant::now();
        if by_reload {
            assert_eq!(store.reload().await, Ok(Outcome::Unchanged));
        } else {
            store.update(vec![fetched("http://registry.test/tools", good.clone())], Origin::Source).unwrap();
        }
        let asked = server.asked();
        until("the next poll", || server.asked() > asked).await;
        let waited = since.elapsed();
        assert!(waited < Duration::from_millis(1300), "the next poll came after {waited:?}, by_reload={by_reload}");
        // Nor is it asked at once: somebody just did.
        assert!(waited >= Duration::from_millis(90), "{waited:?}");
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_ten_seconds_and_holds_up_nobody() {
    // F4
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("registry.json");
    std::fs::write(&file, registry(&["f"])).unwrap();
    let server = Server::start(ok(&registry(&["a"]))).await;
    let mut config = often(server.source());
    config.registry.as_mut().unwrap().sources.push(file_source(&file));
    let store = started(&config).await;
    server.say(Says::Nothing);
    let (asked, since) = (server.asked(), Instant::now());
    until("it is asked", || server.asked() > asked).await;
    std::fs::write(&file, registry(&["g"])).unwrap();
    let took = until("a file beside it", || tools(&store) == ["a", "g"]).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    while store.status().last_error.is_none() {
        assert!(since.elapsed() < Duration::from_secs(12));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(store.status().last_error.unwrap().ends_with("no complete answer within 10 s"));
}

#[tokio::test]
async fn redirects_are_not_followed() {
    // F5
    let elsewhere = Server::start(ok(&registry(&["evil"]))).await;
    for code in [301, 302, 303, 307, 308] {
        let location = format!("http://{}/registry?token=CANARY", elsewhere.address);
        let server =
            Server::start(Says::Raw(format!("HTTP/1.1 {code} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")))
                .await;
        let refused = store(&config(vec![server.source()])).start().await.unwrap_err();
        assert!(refused.contains("redirects are not followed") && !refused.contains("CANARY"), "{refused}");
    }
    assert_eq!(elsewhere.asked(), 0);
}

#[tokio::test]
async fn no_error_tells_the_url_or_its_password() {
    // D3, L19
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let server = Server::start(status("500 Internal Server Error")).await;
    let rude = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let no_tls = rude.local_addr().unwrap();
    tokio::spawn(async move { while rude.accept().await.is_ok() {} });
    for url in [
        format!("http://u:CANARY@{closed}/?key=CANARY"),
        format!("https://u:CANARY@{no_tls}/?key=CANARY"),
        format!("http://u:CANARY@{}/?key=CANARY", server.address),
        "http://u:CANARY@name.invalid/?key=CANARY".to_owned(),
    ] {
        let store = store(&config(vec![source(&url)]));
        let refused = store.start().await.unwrap_err();
        assert!(refused.starts_with("registry http://registry.test/tools: "), "{refused}");
        let shown = format!("{refused} {:?} {:?}", store.status(), store.state().sources[0].client);
        assert!(!shown.contains("CANARY"), "{shown}");
    }
}

/// A config whose last known good is kept here.
fn kept_in(dir: &Path, source: RegistrySource, on_start: OnStart) -> Config {
    let mut config = Config { state_dir: Some(dir.into()), ..often(source) };
    config.registry.as_mut().unwrap().on_start = on_start;
    config
}

#[tokio::test]
async fn a_restart_during_an_outage_is_served_from_the_last_known_good() {
    // R-003-32, F10
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(ok(&registry(&["a"]))).await;
    let (address, source) = (server.address, server.source());
    drop(started(&kept_in(dir.path(), source.clone(), OnStart::Cached)).await);
    drop(server);

    let require = store(&kept_in(dir.path(), source.clone(), OnStart::Require)).start().await;
    assert!(require.unwrap_err().starts_with("registry http://registry.test/tools: cannot connect"));
    let retry = started(&kept_in(dir.path(), source.clone(), OnStart::Retry)).await;
    assert!(retry.current().is_none());

    let cached = started(&kept_in(dir.path(), source.clone(), OnStart::Cached)).await;
    assert_eq!((tools(&cached), cached.status().origin, cached.status().stale), (vec!["a".to_owned()], Some(Origin::Cache), true));
    assert!(cached.status().last_error.is_some());

    // The server is back and says the same: no longer stale, and nobody is told.
    let server = Server::on(TcpListener::bind(address).await.unwrap(), ok(&registry(&["a"])));
    until("it is no longer stale", || !cached.status().stale).await;
    assert_eq!((cached.status().origin, cached.status().version), (Some(Origin::Source), Some(1)));
    until("the one that retried has it too", || tools(&retry) == ["a"]).await;
    server.say(ok(&registry(&["b"])));
    until("news", || tools(&cached) == ["b"]).await;
}

#[tokio::test]
async fn the_last_known_good_is_private_whole_and_holds_no_value() {
    // F10, L19
    #[derive(Clone)]
    struct Canary;
    impl transom_registry::template::Environment for Canary {
        fn variable(&self, _: &str) -> Option<String> {
            Some("CANARY-value".into())
        }
        fn file(&self, _: &Path) -> Result<String, String> {
            Err("none".into())
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let text = registry(&["a"]).replace(r#""source""#, r#""defaults":{"key":"${KEY}"},"source""#);
    let server = Server::start(ok(&text)).await;
    let mut source = server.source();
    let RegistryLocation::Http { headers, .. } = &mut source.location else { unreachable!() };
    headers.push((header::AUTHORIZATION, Secret::new("Bearer CANARY-token")));
    let config = Config { environment: Surroundings::new(Canary), ..kept_in(dir.path(), source, OnStart::Cached) };
    drop(started(&config).await);
    drop(server);

    // What a killed process left behind is neither used nor kept for ever.
    let directory = dir.path().join("registry");
    let files: Vec<_> = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [file] = files.as_slice() else { panic!("{files:?}") };
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let kept = std::fs::read_to_string(file).unwrap();
    assert!(kept.contains("${KEY}") && !kept.contains("CANARY"), "{kept}");

    let [old, new] = ["1.tmp", "2.tmp"].map(|end| file.with_extension(end));
    std::fs::write(&new, &kept[..9]).unwrap();
    std::fs::File::create(&old).unwrap().set_modified(SystemTime::now() - Duration::from_secs(7200)).unwrap();
    let cached = started(&config).await;
    assert_eq!(tools(&cached), ["a"]);
    cached.state().cache.as_ref().unwrap().write(&cached.current().unwrap().documents).unwrap();
    assert!(!old.exists() && new.exists() && std::fs::read_to_string(file).unwrap() == kept);
    std::fs::remove_file(new).unwrap();
    // Another source has no part in it.
    let mut other = config.clone();
    let RegistryLocation::Http { url, .. } = &mut other.registry.as_mut().unwrap().sources[0].location else { unreachable!() };
    *url = format!("{url}?tenant=other").parse().unwrap();
    assert!(store(&other).start().await.unwrap_err().ends_with("there is no last known good to start with"));
    // Cut short or changed, it does not count.
    for damaged in [&kept[..kept.len() - 1], &kept.replace("raw_a", "raw_b"), ""] {
        std::fs::write(file, damaged).unwrap();
        assert!(store(&config).start().await.unwrap_err().ends_with("there is no last known good to start with"));
    }
}

#[tokio::test]
async fn a_rejected_document_at_start_falls_back_on_the_last_known_good_too() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(ok(&registry(&["a"]))).await;
    let config = kept_in(dir.path(), server.source(), OnStart::Cached);
    drop(started(&config).await);
    server.say(ok("<html>"));
    let store = started(&config).await;
    assert_eq!((tools(&store), store.status().origin), (vec!["a".to_owned()], Some(Origin::Cache)));
    assert!(store.status().last_error.unwrap().starts_with("http://registry.test/tools:1:1: "));
}

#[tokio::test]
async fn a_certificate_counts_only_if_its_authority_is_trusted() {
    // F6
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let chain = CertificateDer::pem_slice_iter(include_bytes!("../../../../upstream/tests/fixtures/localhost.pem")).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("../../../../upstream/tests/fixtures/localhost.key")).unwrap();
    let tls = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let other_name = TcpListener::bind(("127.0.0.2", port)).await.unwrap();
    let server = tokio::spawn(async move {
        loop {
            let (stream, _) = tokio::select! { each = listener.accept() => each.unwrap(), each = other_name.accept() => each.unwrap() };
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut head = vec![0; 4096];
            let _ = stream.read(&mut head).await;
            let Says::Raw(answer) = ok(&registry(&["a"])) else { unreachable!() };
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    let authority: &[u8] = include_bytes!("../../../../upstream/tests/fixtures/ca.pem");
    let table = [
        ("localhost", Some(authority), None),
        ("localhost", None, Some("certificate")),
        ("localhost", Some(&b"nonsense"[..]), Some("the CA file holds no certificate")),
        // The server is who it says, but that is not whom we asked for.
        ("127.0.0.2", Some(authority), Some("certificate")),
    ];
    for (host, ca, refused) in table {
        let location = RegistryLocation::Http { url: format!("https://{host}:{port}/").parse().unwrap(), headers: vec![], ca: ca.map(Into::into) };
        let outcome = store(&config(vec![RegistrySource { name: "r".into(), location }])).start().await;
        match refused {
            None => outcome.unwrap(),
            Some(reason) => assert!(outcome.as_ref().is_err_and(|error| error.contains(reason)), "{host} {outcome:?}"),
        }
    }
    server.abort();
}
