//! Fake ends for the tests: a host that remembers what it was told, HTTP servers made of one function, and children.

#![allow(dead_code)]

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use transom_protocol::json::{Limits, check};
use transom_protocol::message::Params;
use transom_upstream::tuning::Tuning;
use transom_upstream::{Call, CallError, Caller, EraChoice, Host, Outbox, Secret, Sessions, Status, Target, TargetSpec, TargetState, Transport};

/// Remembers what it was told.
#[derive(Default)]
pub struct Recorder {
    pub changes: Mutex<u64>,
    pub updates: Mutex<Vec<String>>,
    pub connects: Mutex<Vec<bool>>,
    pub losses: Mutex<u64>,
    pub faults: Mutex<Vec<&'static str>>,
    changed: Notify,
}

impl Host for Recorder {
    fn changed(&self) {
        *self.changes.lock().unwrap() += 1;
        self.changed.notify_waiters();
    }
    fn resource_updated(&self, _target: &str, params: Bytes) {
        self.updates.lock().unwrap().push(String::from_utf8(params.to_vec()).unwrap());
        self.changed.notify_waiters();
    }
    fn connected(&self, _target: &str, success: bool) {
        self.connects.lock().unwrap().push(success);
    }
    fn lost(&self, _target: &str) {
        *self.losses.lock().unwrap() += 1;
    }
    fn protocol_error(&self, _target: &str, kind: &'static str) {
        self.faults.lock().unwrap().push(kind);
        self.changed.notify_waiters();
    }
}

impl Recorder {
    pub fn count(&self, kind: &str) -> usize {
        self.faults.lock().unwrap().iter().filter(|other| **other == kind).count()
    }
}

/// A target under test.
pub struct Subject {
    pub target: Target,
    pub host: Arc<Recorder>,
}

impl Subject {
    pub fn start(spec: TargetSpec, tuning: Tuning) -> Subject {
        let host = Arc::new(Recorder::default());
        Subject { target: Target::start_tuned(spec, host.clone(), tuning), host }
    }

    pub fn state(&self) -> Arc<TargetState> {
        self.target.state()
    }

    /// Waits until the state is like this.
    pub async fn until(&self, what: &str, is: impl Fn(&TargetState) -> bool) -> Arc<TargetState> {
        let begin = Instant::now();
        loop {
            let state = self.target.state();
            if is(&state) {
                return state;
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "never {what}: {state:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub async fn connected(&self) -> Arc<TargetState> {
        self.until("connected", |state| state.status == Status::Connected).await
    }

    pub async fn down(&self) -> Arc<TargetState> {
        self.until("down", |state| state.status != Status::Connected).await
    }

    pub async fn call(&self, name: &str, arguments: &str) -> Result<String, CallError> {
        self.target.call(call(name, arguments)).await.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
    }
}

/// Waits until this is so.
pub async fn eventually(what: &str, is: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_secs(20), "never {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

pub fn call(name: &str, arguments: &str) -> Call {
    Call {
        method: "tools/call".into(),
        params: Params::trusted(format!(r#"{{"name":"{name}","arguments":{arguments}}}"#)),
        rename: None,
        arguments: None,
        name_header: Some(Bytes::from(name.to_owned())),
        param_headers: vec![],
        caller: Caller::default(),
        outbox: None,
        timeout: Duration::from_secs(10),
    }
}

/// A call whose client wants progress under this token.
pub fn listened(name: &str, arguments: &str, token: &str) -> (Call, Arc<Outbox>) {
    let outbox = Arc::new(Outbox::default());
    let mut call = call(name, arguments);
    call.params = Params::trusted(format!(r#"{{"name":"{name}","arguments":{arguments},"_meta":{{"progressToken":{token}}}}}"#));
    call.caller.progress_token = Some(Bytes::from(token.to_owned()));
    call.outbox = Some(outbox.clone());
    (call, outbox)
}

/// Waits shortened so that a test takes no longer than it must.
pub fn quick() -> Tuning {
    Tuning {
        probe: Duration::from_secs(5),
        refresh_pause: Duration::from_millis(50),
        shortest_ttl: Duration::from_millis(100),
        backoff_first: Duration::from_millis(10),
        stop_politely: Duration::from_millis(300),
        stop_firmly: Duration::from_millis(300),
        watch_pause: Duration::from_millis(100),
        stream_pause: Duration::from_millis(50),
        ..Tuning::default()
    }
}

pub fn spec(name: &str, transport: Transport) -> TargetSpec {
    TargetSpec {
        name: name.into(),
        transport,
        era: EraChoice::Auto,
        sessions: Sessions::Shared,
        timeout: Duration::from_secs(60),
        allow_server_requests: false,
        aliases: vec![],
    }
}

/// A child that runs this Python program with these arguments.
pub fn python(program: &str, args: &[&str]) -> Transport {
    let mut all = vec!["-u".to_owned(), "-c".to_owned(), program.to_owned()];
    all.extend(args.iter().map(|arg| (*arg).to_owned()));
    Transport::Stdio {
        cmd: "python3".into(),
        args: all,
        env: vec![("MARK".into(), Secret::new("a-marked-value"))],
        cwd: None,
        limits: Default::default(),
    }
}

pub fn http(url: &str) -> Transport {
    Transport::Http { url: url.parse().unwrap(), headers: vec![(http::header::AUTHORIZATION, Secret::new("Bearer t0ken-value"))], tls: None }
}

/// What a fake server got.
#[derive(Clone, Debug)]
pub struct Got {
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Got {
    /// A member of the message, as JSON text; dots lead inside.
    pub fn get(&self, path: &str) -> Option<String> {
        let mut json = check(&self.body, &Limits::REQUEST).ok()?;
        for key in path.split('.') {
            json = json.get(key)?;
        }
        Some(json.raw().to_owned())
    }

    pub fn rpc(&self) -> String {
        self.get("method").unwrap_or_default().trim_matches('"').to_owned()
    }

    pub fn id(&self) -> String {
        self.get("id").unwrap_or_default()
    }

    pub fn tool(&self) -> String {
        self.get("params.name").unwrap_or_default().trim_matches('"').to_owned()
    }

    pub fn header(&self, name: &str) -> Option<String> {
        self.headers.get(name).map(|value| value.to_str().unwrap().to_owned())
    }

    /// The answer with this result.
    pub fn result(&self, result: &str) -> Res {
        json(StatusCode::OK, format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, self.id()))
    }

    pub fn error(&self, status: u16, code: i64) -> Res {
        json(StatusCode::from_u16(status).unwrap(), format!(r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":{code},"message":"no"}}}}"#, self.id()))
    }
}

pub type Res = Response<BoxBody<Bytes, Infallible>>;

pub fn json(status: StatusCode, body: String) -> Res {
    Response::builder().status(status).header("content-type", "application/json").body(Full::from(body).boxed()).unwrap()
}

pub fn empty(status: u16) -> Res {
    Response::builder().status(status).body(Full::default().boxed()).unwrap()
}

/// A stream of events; the sender feeds it, dropping it ends it.
pub fn events() -> (mpsc::UnboundedSender<String>, Res) {
    let (sender, mut receiver) = mpsc::unbounded_channel::<String>();
    let stream = futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx).map(|event| event.map(|event| Ok(Frame::data(Bytes::from(event))))));
    let body = BodyExt::boxed(StreamBody::new(stream));
    (sender, Response::builder().header("content-type", "text/event-stream").body(body).unwrap())
}

/// One message as an event.
pub fn event(message: &str) -> String {
    format!("event: message\ndata: {message}\n\n")
}

/// A server that is one function.
pub struct Server {
    pub addr: SocketAddr,
    pub got: Arc<Mutex<Vec<Got>>>,
    connections: Arc<Mutex<Vec<JoinHandle<()>>>>,
    accept: JoinHandle<()>,
}

impl Server {
    pub async fn start<F, R>(answer: F) -> Server
    where
        F: Fn(Got) -> R + Send + Sync + 'static,
        R: Future<Output = Res> + Send,
    {
        Server::start_at("127.0.0.1:0".parse().unwrap(), answer).await
    }

    pub async fn start_at<F, R>(addr: SocketAddr, answer: F) -> Server
    where
        F: Fn(Got) -> R + Send + Sync + 'static,
        R: Future<Output = Res> + Send,
    {
        Server::serve(addr, None, answer).await
    }

    /// A server with a certificate for localhost by the authority in `fixtures/ca.pem`; it offers HTTP/2 and HTTP/1.1.
    pub async fn start_tls<F, R>(answer: F) -> Server
    where
        F: Fn(Got) -> R + Send + Sync + 'static,
        R: Future<Output = Res> + Send,
    {
        use rustls::pki_types::pem::PemObject;
        use rustls::pki_types::{CertificateDer, PrivateKeyDer};
        let certificate = CertificateDer::from_pem_slice(include_bytes!("../fixtures/localhost.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_slice(include_bytes!("../fixtures/localhost.key")).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut config = builder.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Server::serve("127.0.0.1:0".parse().unwrap(), Some(tokio_rustls::TlsAcceptor::from(Arc::new(config))), answer).await
    }

    async fn serve<F, R>(addr: SocketAddr, tls: Option<tokio_rustls::TlsAcceptor>, answer: F) -> Server
    where
        F: Fn(Got) -> R + Send + Sync + 'static,
        R: Future<Output = Res> + Send,
    {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(addr).unwrap();
        let listener = socket.listen(1024).unwrap();
        let addr = listener.local_addr().unwrap();
        let got: Arc<Mutex<Vec<Got>>> = Arc::default();
        let connections: Arc<Mutex<Vec<JoinHandle<()>>>> = Arc::default();
        let answer = Arc::new(answer);
        let (log, all) = (got.clone(), connections.clone());
        let accept = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                let (answer, log) = (answer.clone(), log.clone());
                let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                    let (answer, log) = (answer.clone(), log.clone());
                    async move {
                        let (head, body) = request.into_parts();
                        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
                        let got = Got { method: head.method, path: head.uri.to_string(), headers: head.headers, body };
                        log.lock().unwrap().push(got.clone());
                        Ok::<_, Infallible>(answer(got).await)
                    }
                });
                let tls = tls.clone();
                let connection = tokio::spawn(async move {
                    let builder = hyper_util::server::conn::auto::Builder::new(hyper_util::rt::TokioExecutor::new());
                    match tls {
                        None => {
                            let _ended = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                        }
                        Some(tls) => {
                            let Ok(stream) = tls.accept(stream).await else { return };
                            let _ended = builder.serve_connection(TokioIo::new(stream), service).await;
                        }
                    }
                });
                all.lock().unwrap().push(connection);
            }
        });
        Server { addr, got, connections, accept }
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.addr)
    }

    /// As if the process had been killed.
    pub async fn kill(self) {
        self.accept.abort();
        let _ended = self.accept.await;
        let all = std::mem::take(&mut *self.connections.lock().unwrap());
        for connection in all {
            connection.abort();
            let _ended = connection.await;
        }
    }

    /// How many requests with this method came.
    pub fn count(&self, rpc: &str) -> usize {
        self.got.lock().unwrap().iter().filter(|got| got.rpc() == rpc).count()
    }

    pub fn find(&self, rpc: &str) -> Vec<Got> {
        self.got.lock().unwrap().iter().filter(|got| got.rpc() == rpc).cloned().collect()
    }
}

pub const INITIALIZED: &str =
    r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"fake","version":"1"}}"#;
pub const DISCOVERED: &str =
    r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":3600000,"cacheScope":"public"}"#;
pub const TOOLS: &str = r#"{"tools":[{"name":"echo","inputSchema":{"type":"object"}}],"ttlMs":3600000}"#;

/// What a legacy server without sessions answers to everything but calls.
pub fn legacy(got: &Got) -> Option<Res> {
    if got.method == Method::GET {
        return Some(empty(405));
    }
    Some(match got.rpc().as_str() {
        "initialize" => got.result(INITIALIZED),
        "tools/list" => got.result(TOOLS),
        "ping" => got.result("{}"),
        "tools/call" => return None,
        "" => empty(202),
        rpc if rpc.starts_with("notifications/") => empty(202),
        _ => got.error(400, -32600),
    })
}

/// What a modern server answers to everything but calls.
pub fn modern(got: &Got) -> Option<Res> {
    if got.method != Method::POST {
        return Some(empty(405));
    }
    Some(match got.rpc().as_str() {
        "server/discover" => got.result(DISCOVERED),
        "tools/list" => got.result(TOOLS),
        "tools/call" => return None,
        _ => got.error(404, -32601),
    })
}
