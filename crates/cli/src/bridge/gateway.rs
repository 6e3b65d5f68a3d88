//! The gateway's end: HTTP requests out, messages back.

use crate::client::{ClientError, Endpoint, Http, MAX_ANSWER, excerpt, http_client, innermost};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method as HttpMethod, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use std::time::Duration;
use transom_protocol::error::{INTERNAL, UPSTREAM_INVALID, UPSTREAM_LOST, UPSTREAM_UNAVAILABLE};
use transom_protocol::sse::{Decoder, Event};
use transom_protocol::{Executed, RpcError};

/// What the client is told that the trouble is with, in `data.server`.
const NAME: &str = "gateway";

/// A gateway, and what it is told on every request.
pub struct Gateway {
    http: Http,
    endpoint: Endpoint,
}

impl Gateway {
    /// No connection is made yet.
    pub fn new(endpoint: Endpoint) -> Result<Gateway, ClientError> {
        Ok(Gateway { http: http_client(&endpoint)?, endpoint })
    }

    /// How long an answer may take.
    pub fn patience(&self) -> Duration {
        self.endpoint.timeout
    }

    /// Sends one request and waits for the head of its reply.
    pub async fn send(&self, method: HttpMethod, headers: HeaderMap, body: Bytes) -> Result<Response<Incoming>, RpcError> {
        let events_only = method == HttpMethod::GET;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.endpoint.url.clone();
        let all = request.headers_mut();
        if events_only {
            all.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        } else {
            all.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            all.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        }
        all.extend(headers);
        all.extend(self.endpoint.headers.clone());
        self.http.request(request).await.map_err(|error| {
            let why = innermost(&error);
            if error.is_connect() { self.down(&why) } else { self.lost(&why) }
        })
    }

    /// Nobody is there; nothing was run.
    pub fn down(&self, why: &str) -> RpcError {
        let text = format!("the gateway at {} cannot be reached: {why}", self.endpoint.url);
        RpcError::upstream(UPSTREAM_UNAVAILABLE, text, NAME, Executed::No, None)
    }

    /// It went away after it was asked.
    pub fn lost(&self, why: &str) -> RpcError {
        let text = format!("the gateway at {} went away before it had answered: {why}", self.endpoint.url);
        RpcError::upstream(UPSTREAM_LOST, text, NAME, Executed::Unknown, None)
    }

    /// It did not answer in the time that it had.
    pub fn silent(&self, after: Duration) -> RpcError {
        let text = format!("the gateway at {} did not answer within {} seconds", self.endpoint.url, after.as_secs());
        RpcError::upstream(transom_protocol::error::UPSTREAM_TIMEOUT, text, NAME, Executed::Unknown, None)
    }

    /// What it answered is no MCP.
    pub fn strange(&self, what: &str) -> RpcError {
        let text = format!("{} does not answer as an MCP server: {what}", self.endpoint.url);
        RpcError::upstream(UPSTREAM_INVALID, text, NAME, Executed::Unknown, None)
    }

    /// What an HTTP status without a message of MCP means.
    pub fn refused(&self, status: StatusCode, body: &[u8]) -> RpcError {
        let said = format!("HTTP {status}, {}", excerpt(body));
        match status {
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => self.down(&said),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                RpcError::new(INTERNAL, format!("the gateway at {} does not let us in: {said}", self.endpoint.url))
            }
            _ => self.strange(&said),
        }
    }

    /// The whole of a reply.
    pub async fn body(&self, body: Incoming) -> Result<Bytes, RpcError> {
        match Limited::new(body, MAX_ANSWER).collect().await {
            Ok(whole) => Ok(whole.to_bytes()),
            Err(error) => Err(self.lost(&error.to_string())),
        }
    }
}

/// Whether a reply is a stream of events.
pub fn is_stream(response: &Response<Incoming>) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream")
}

/// A stream of events, read one by one.
pub struct Events {
    body: Incoming,
    decoder: Decoder,
    read: std::collections::VecDeque<Event>,
}

impl Events {
    /// The events of this reply.
    pub fn of(response: Response<Incoming>) -> Events {
        Events { body: response.into_body(), decoder: Decoder::new(MAX_ANSWER), read: Default::default() }
    }

    /// The next event that carries anything; `None` at the end, be it one in order or not.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(event) = self.read.pop_front() {
                // One that only gives a place to resume from carries nothing.
                if event.data.iter().any(|byte| !byte.is_ascii_whitespace()) {
                    return Some(event.data);
                }
                continue;
            }
            let frame = self.body.frame().await?.ok()?;
            let Ok(chunk) = frame.into_data() else { continue };
            let mut events = Vec::new();
            self.decoder.push(&chunk, &mut events).ok()?;
            self.read.extend(events);
        }
    }

    /// Where to go on if it is lost.
    pub fn last_id(&self) -> Option<HeaderValue> {
        HeaderValue::from_bytes(self.decoder.last_id()?).ok()
    }

    /// How long it wants to be left alone first.
    pub fn pause(&self) -> Option<Duration> {
        self.decoder.retry().map(Duration::from_millis)
    }
}
