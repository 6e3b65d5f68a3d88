//! Who answers which path of the main listener, and what is refused before anybody does.

use crate::authenticate::{Principal, metadata};
use crate::authorize::{Circumstances, Viewer};
use crate::listener::answer::{Reply, failed, json, not_allowed, status};
use crate::listener::body::{self, ReplyBody};
use crate::listener::gate::Verdict;
use crate::listener::headers::McpHeaders;
use crate::listener::legacy_sse::LegacySse;
use crate::listener::mcp::{Endpoint, Head};
use crate::listener::{Ends, Handler};
use crate::message::Scope;
use crate::reply::{Failure, Reject};
use crate::surface;
use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use percent_encoding::percent_decode_str;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use transom_protocol::Era;
use transom_upstream::via;

/// The main listener.
pub struct Edge {
    /// MCP.
    pub endpoint: Endpoint,
    /// MCP of 2024-11-05.
    pub legacy: LegacySse,
}

impl Handler for Edge {
    fn unreadable(&self) {
        self.endpoint.runtime.rejected(Reject::Framing);
    }

    async fn handle(&self, request: Request<Incoming>, ends: Ends) -> Response<ReplyBody> {
        // A fault of ours costs the one request it happens in.
        let reader = Reader::at(request.uri().path());
        match AssertUnwindSafe(self.answer(request, ends, reader)).catch_unwind().await {
            Ok(reply) => reply,
            Err(_) => {
                self.endpoint.runtime.metrics.panics.inc();
                let mut reply = reader.told(&Failure::Internal);
                *reply.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                reply
            }
        }
    }
}

/// Who reads a refusal.
#[derive(Clone, Copy)]
enum Reader {
    /// An MCP client: an error of JSON-RPC.
    Client,
    /// A script: an object that says whether it worked.
    Script,
}

impl Reader {
    fn at(path: &str) -> Reader {
        if surface::is_for_scripts(path) { Reader::Script } else { Reader::Client }
    }

    fn told(self, failure: &Failure) -> Reply {
        match self {
            Reader::Client => failed(failure, Era::Legacy, None),
            Reader::Script => surface::refused(failure),
        }
    }
}

/// What a path is.
enum Place {
    Mcp(Option<String>),
    Sse,
    Messages,
    Surface(surface::Route),
    Metadata,
}

impl Place {
    /// Whether anybody may come here: probes, and clients that are yet to get a token.
    fn is_open(&self) -> bool {
        matches!(self, Place::Metadata | Place::Surface(surface::Route::Health | surface::Route::Ready))
    }
}

impl Edge {
    async fn answer(&self, request: Request<Incoming>, ends: Ends, reader: Reader) -> Reply {
        let (parts, body) = request.into_parts();
        let place = place(parts.uri.path());
        let exempt = matches!(place, Some(Place::Surface(surface::Route::Health | surface::Route::Ready)));
        let origin = match self.endpoint.runtime.gate.load().judge(&parts.uri, &parts.headers, ends.local, exempt) {
            Verdict::Pass(origin) => origin,
            Verdict::BadHost => {
                return self.refuse(reader, Reject::Host, "This name is not ours: add it to allowedHosts in the config if it should be");
            }
            Verdict::BadOrigin => {
                return self.refuse(
                    reader,
                    Reject::Origin,
                    "Pages of this origin are not allowed: add it to allowedOrigins in the config if they should be",
                );
            }
        };
        let Some(place) = place else { return self.refuse(reader, Reject::UnknownPath, "Not found: MCP is at /mcp") };
        if origin.is_some() && parts.method == Method::OPTIONS {
            return with_origin(preflight(&parts.headers), origin);
        }
        let reply = if let Err(failure) = check_framing(&parts.headers, parts.version) {
            self.refused(reader, &failure)
        } else {
            self.answer_at(place, &parts, ends.peer, body, reader).await
        };
        with_origin(reply, origin)
    }

    async fn answer_at(&self, place: Place, parts: &http::request::Parts, peer: IpAddr, body: Incoming, reader: Reader) -> Reply {
        if self.endpoint.runtime.closing.load(Relaxed) && !place.is_open() {
            return self.refuse(reader, Reject::Draining, "The gateway is shutting down; try again elsewhere or later");
        }
        // Before the body is read: strangers cost us a head.
        let principal = if place.is_open() {
            Principal::anonymous()
        } else {
            match self.endpoint.runtime.authentication.identify(&parts.headers, &parts.uri).await {
                Ok(principal) => principal,
                Err(failure) => return self.refused(reader, &failure),
            }
        };
        let asked = self.endpoint.runtime.policy.load().reads_request();
        let viewer = Viewer { principal, circumstances: asked.then(|| Arc::new(Circumstances::read(parts, peer))) };
        if self.endpoint.runtime.pressure.is_full() && parts.method == Method::GET && matches!(place, Place::Mcp(_) | Place::Sse) {
            return self.refuse(reader, Reject::Overloaded, "Memory is short; try again later");
        }
        let via = match &place {
            // Reads all its headers once.
            Place::Mcp(_) => None,
            _ => match self.endpoint.runtime.via.pass_any(&parts.headers) {
                Ok(via) => via,
                Err(failure) => return self.refused(reader, &failure),
            },
        };
        match place {
            Place::Metadata if parts.method == Method::GET => {
                let found = self.endpoint.runtime.authentication.now().metadata(&parts.headers, &parts.uri);
                found.map_or_else(
                    || self.refuse(reader, Reject::UnknownPath, "Not found: there is nothing here that needs a token"),
                    |found| json(StatusCode::OK, found),
                )
            }
            Place::Metadata => not_allowed("Method not allowed", "GET"),
            Place::Mcp(server) => {
                let headers = match McpHeaders::read(&parts.headers) {
                    Ok(headers) => headers,
                    Err(failure) => return self.refused(reader, &failure),
                };
                let scope = match self.scope(&viewer, server, parts.uri.query().unwrap_or("")) {
                    Ok(scope) => scope,
                    Err(failure) => return self.refused(reader, &failure),
                };
                let via = match headers.via.as_deref().map(|came| self.endpoint.runtime.via.pass(came)).transpose() {
                    Ok(via) => via,
                    Err(failure) => return self.refused(reader, &failure),
                };
                let is_gateway = via.is_some();
                let Viewer { principal, circumstances } = viewer;
                let head = Head { headers, principal, circumstances, via };
                let mut reply = match parts.method {
                    Method::POST => match self.read(&parts.headers, body).await {
                        Ok((bytes, admitted)) => self.endpoint.post(head, scope, bytes, admitted).await,
                        Err(failure) => self.refused(reader, &failure),
                    },
                    Method::GET => self.endpoint.get(head, scope).await,
                    Method::DELETE => self.endpoint.delete(head).await,
                    _ => not_allowed("Method not allowed", "GET, POST, DELETE"),
                };
                if is_gateway && let Some(behind) = self.endpoint.runtime.gateways() {
                    reply.headers_mut().insert(via::HEADER, behind);
                }
                reply
            }
            Place::Sse if parts.method == Method::GET => self.legacy.open(&self.endpoint, &viewer),
            Place::Sse => not_allowed("Method not allowed", "GET"),
            Place::Messages if parts.method == Method::POST => match self.read(&parts.headers, body).await {
                Ok((bytes, admitted)) => {
                    let Viewer { principal, circumstances } = viewer;
                    let head = Head { headers: McpHeaders::plain(), principal, circumstances, via };
                    self.legacy.post(&self.endpoint, head, parts.uri.query().unwrap_or(""), bytes, admitted)
                }
                Err(failure) => self.refused(reader, &failure),
            },
            Place::Messages => not_allowed("Method not allowed", "POST"),
            Place::Surface(route) => {
                // What was admitted counts until it is answered.
                let (bytes, _admitted) = match parts.method {
                    Method::POST => match self.read(&parts.headers, body).await {
                        Ok((bytes, admitted)) => (bytes, Some(admitted)),
                        Err(failure) => return self.refused(reader, &failure),
                    },
                    _ => (Bytes::new(), None),
                };
                surface::answer(&self.endpoint, &viewer, route, parts, bytes).await
            }
        }
    }

    /// Reads a body that says it is JSON.
    async fn read(&self, headers: &HeaderMap, body: Incoming) -> Result<(Bytes, crate::runtime::Admitted), Failure> {
        check_content(headers)?;
        let mut admitted =
            self.endpoint.runtime.admit().ok_or_else(|| Failure::rejected(Reject::Overloaded, "Too many requests in flight; try again later"))?;
        let bytes = body::collect(body, &mut admitted).await?;
        Ok((bytes, admitted))
    }

    fn scope(&self, viewer: &Viewer, path: Option<String>, query: &str) -> Result<Scope, Failure> {
        if path.is_none() && query.is_empty() {
            return Ok(Scope::default());
        }
        let parameter = |name: &str| surface::parameter(query, name).filter(|value| !value.is_empty());
        if let Some(server) = &path
            && !self.endpoint.runtime.has_target(viewer, server)
        {
            return Err(Failure::rejected(Reject::UnknownPath, "Not found: no such target"));
        }
        let server = match (path, parameter("server")) {
            (Some(path), Some(other)) if path != other => Some(String::new()),
            (path, other) => path.or(other),
        };
        Ok(Scope { server, prefix: parameter("prefix") })
    }

    fn refuse(&self, reader: Reader, reason: Reject, message: &str) -> Reply {
        self.refused(reader, &Failure::rejected(reason, message))
    }

    fn refused(&self, reader: Reader, failure: &Failure) -> Reply {
        if let Some(reason) = failure.reason() {
            self.endpoint.runtime.rejected(reason);
        }
        reader.told(failure)
    }
}

/// Paths match exactly; nothing is normalised, nothing is redirected.
fn place(path: &str) -> Option<Place> {
    match path {
        "/mcp" => Some(Place::Mcp(None)),
        "/sse" => Some(Place::Sse),
        "/messages" => Some(Place::Messages),
        _ if path.starts_with(metadata::WELL_KNOWN) => Some(Place::Metadata),
        _ => match path.strip_prefix("/mcp/") {
            Some(target) if !target.is_empty() && !target.contains('/') => {
                percent_decode_str(target).decode_utf8().ok().map(|target| Place::Mcp(Some(target.into_owned())))
            }
            Some(_) => None,
            None => surface::route(path).map(Place::Surface),
        },
    }
}

/// What intermediaries could read in two ways is not read at all.
pub(crate) fn check_framing(headers: &HeaderMap, version: http::Version) -> Result<(), Failure> {
    let twice = |name| headers.get_all(name).iter().nth(1).is_some();
    let coding = headers.get(header::TRANSFER_ENCODING);
    let odd_coding = coding.is_some_and(|coding| {
        version == http::Version::HTTP_10 || twice(header::TRANSFER_ENCODING) || !coding.as_bytes().eq_ignore_ascii_case(b"chunked")
    });
    // That there is no length beside the coding was seen by `io::Guarded`: hyper forgets the length.
    if odd_coding || twice(header::CONTENT_LENGTH) || headers.contains_key(header::UPGRADE) {
        return Err(Failure::rejected(Reject::Framing, "Invalid request: ambiguous framing or an upgrade"));
    }
    Ok(())
}

/// What a body must call itself to be read.
pub(crate) fn check_content(headers: &HeaderMap) -> Result<(), Failure> {
    if headers.get_all(header::CONTENT_ENCODING).iter().any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(Failure::rejected(Reject::ContentEncoding, "Compressed request bodies are not accepted"));
    }
    if headers.get_all(header::CONTENT_TYPE).iter().count() > 1 {
        return Err(Failure::rejected(Reject::HeaderMismatch, "Header mismatch: content-type appears more than once"));
    }
    let kind = headers.get(header::CONTENT_TYPE).map_or("", |value| value.to_str().unwrap_or("?"));
    if kind == "application/json" {
        return Ok(());
    }
    let kind = kind.split(';').next().unwrap_or("").trim();
    let is = |name: &str| kind.eq_ignore_ascii_case(name);
    // `curl -d` calls everything a form. A page could send that too, but a page has an origin, and that was checked.
    let accepted =
        kind.is_empty() || is("application/json") || is("application/x-www-form-urlencoded") || kind.to_ascii_lowercase().ends_with("+json");
    if accepted { Ok(()) } else { Err(Failure::rejected(Reject::ContentType, "Content-Type must be application/json")) }
}

fn preflight(asked: &HeaderMap) -> Reply {
    let mut reply = status(StatusCode::NO_CONTENT);
    let headers = reply.headers_mut();
    // The page is allowed; which of MCP's headers it needs depends on the tool.
    let usual =
        || HeaderValue::from_static("authorization, content-type, accept, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name, last-event-id");
    let wanted = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned().unwrap_or_else(usual);
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted);
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    reply
}

/// Tells a browser that this page may read the reply.
fn with_origin(mut reply: Reply, origin: Option<String>) -> Reply {
    if let Some(origin) = origin.and_then(|origin| HeaderValue::from_str(&origin).ok()) {
        let headers = reply.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::VARY, HeaderValue::from_static("origin"));
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("mcp-session-id, www-authenticate, etag, retry-after"));
    }
    reply
}
