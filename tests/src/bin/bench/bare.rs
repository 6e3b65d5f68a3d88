//! The limit to measure against: proxies on hyper that forward bytes and read nothing.

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, header};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::sync::{mpsc, oneshot};

type Reply = Response<BoxBody<Bytes, hyper::Error>>;

/// Where requests go.
pub enum To {
    Http(SocketAddr),
    /// A `stdio-server` of its own, as a child.
    Pipe,
}

/// Prints the address in the first line and serves until it is killed.
pub fn run(to: To) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        println!("{}", listener.local_addr().expect("its address"));
        match to {
            To::Http(to) => {
                let mut connector = HttpConnector::new();
                connector.set_nodelay(true);
                let pool = Client::builder(TokioExecutor::new()).build(connector);
                serve(listener, move |request| forward(pool.clone(), to, request)).await;
            }
            To::Pipe => {
                let child = pipe();
                serve(listener, move |request| exchange(child.clone(), request)).await;
            }
        }
    });
}

async fn serve<F, R>(listener: TcpListener, answer: F)
where
    F: Fn(Request<Incoming>) -> R + Clone + Send + 'static,
    R: Future<Output = Result<Reply, std::io::Error>> + Send + 'static,
{
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).ok();
        tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer.clone())));
    }
}

async fn forward(pool: Client<HttpConnector, Incoming>, to: SocketAddr, mut request: Request<Incoming>) -> Result<Reply, std::io::Error> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = format!("http://{to}{path}").parse().map_err(std::io::Error::other)?;
    request.headers_mut().remove(header::HOST);
    Ok(pool.request(request).await.map_err(std::io::Error::other)?.map(BodyExt::boxed))
}

type Exchange = (Bytes, Option<oneshot::Sender<String>>);

/// Starts the child. It answers in order, so replies need no ids: the first to ask is the first to be answered.
fn pipe() -> mpsc::Sender<Exchange> {
    let this = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(this);
    let mut child = command.arg("stdio-server").stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("a child process");
    let (mut stdin, stdout) = (child.stdin.take().expect("its stdin"), child.stdout.take().expect("its stdout"));
    let (ask, mut asked) = mpsc::channel::<Exchange>(1024);
    let (expect, mut expected) = mpsc::channel::<oneshot::Sender<String>>(1024);
    tokio::spawn(async move {
        while let Some((message, answer)) = asked.recv().await {
            if let Some(answer) = answer {
                expect.send(answer).await.ok();
            }
            let line = [&message[..], b"\n"].concat();
            if stdin.write_all(&line).await.is_err() {
                return;
            }
        }
    });
    tokio::spawn(async move {
        let _child = child;
        let mut lines = BufReader::new(stdout).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if let Some(answer) = expected.recv().await {
                answer.send(line).ok();
            }
        }
    });
    ask
}

async fn exchange(child: mpsc::Sender<Exchange>, request: Request<Incoming>) -> Result<Reply, std::io::Error> {
    let message = request.into_body().collect().await.map_err(std::io::Error::other)?.to_bytes();
    let gone = || std::io::Error::other("the child is gone");
    let full = |text: String| Full::from(text).map_err(|never| match never {}).boxed();
    // The load generator's notifications are the messages without an id.
    if !message.windows(5).any(|window| window == b"\"id\":") {
        child.send((message, None)).await.map_err(|_| gone())?;
        return Response::builder().status(StatusCode::ACCEPTED).body(full(String::new())).map_err(std::io::Error::other);
    }
    let (answer, answered) = oneshot::channel();
    child.send((message, Some(answer))).await.map_err(|_| gone())?;
    let line = answered.await.map_err(|_| gone())?;
    Response::builder().header(header::CONTENT_TYPE, "application/json").body(full(line)).map_err(std::io::Error::other)
}
