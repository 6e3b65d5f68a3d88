//! Legacy SSE, revision 2024-11-05: one GET stream brings everything, POSTs to the endpoint it names take everything.

use crate::body::{self, Events};
use crate::courier::Courier;
use crate::down::Down;
use crate::ears::Ears;
use crate::failure::Failure;
use crate::http_client::HttpClient;
use crate::mux::{Audience, Mux, Pipe};
use crate::tuning::Tuning;
use crate::via;
use crate::wire::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Uri, header};
use http_body_util::Full;
use std::sync::Arc;

/// Longer than any receipt.
const RECEIPT: usize = 64 << 10;

/// The way to the server: POSTs to its endpoint.
pub(crate) struct SsePipe {
    client: HttpClient,
    courier: Courier,
    endpoint: Uri,
    headers: HeaderMap,
}

impl SsePipe {
    /// Posts a message and waits until it was taken.
    pub(crate) async fn post(&self, body: Bytes) -> Result<(), Failure> {
        let response = self.client.send(self.request(body)).await?;
        let status = response.status;
        // Reading the receipt keeps the connection usable; what it says does not matter.
        let _receipt = body::whole(response.body, RECEIPT).await;
        if status.is_success() { Ok(()) } else { Err(Failure::Status { status, error: None, retry_after: None }) }
    }

    pub(crate) fn dispatch(&self, body: Bytes) {
        self.courier.dispatch(self.request(body));
    }

    fn request(&self, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.endpoint.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }
}

/// Opens the stream and waits for the endpoint. `headers` are the target's own.
pub(crate) async fn open(
    client: HttpClient,
    url: &Uri,
    headers: &HeaderMap,
    audience: Audience,
    ears: Arc<Ears>,
    tuning: Arc<Tuning>,
) -> Result<(Arc<Mux>, tokio::task::AbortHandle), Failure> {
    let mut request = Request::new(Full::default());
    *request.uri_mut() = url.clone();
    let mut headers = headers.clone();
    if let Some(via) = Some(ears.host.via()).filter(|via| !via.is_empty()).and_then(|via| HeaderValue::from_str(via).ok()) {
        headers.insert(via::HEADER, via);
    }
    *request.headers_mut() = headers.clone();
    request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
    let response = client.send(request).await?;
    if !response.status.is_success() {
        return Err(Failure::Status { status: response.status, error: None, retry_after: None });
    }
    if !is_event_stream(&response) {
        return Err(Failure::Invalid("a GET was answered with something else than an event stream".into()));
    }
    let mut events = Events::new(response.body, tuning.message);
    let endpoint = loop {
        match events.next().await? {
            Some(event) if event.name == "endpoint" => break endpoint(url, std::str::from_utf8(&event.data).unwrap_or_default())?,
            Some(_) => {}
            None => return Err(Failure::Lost("the event stream ended before it named its endpoint".into())),
        }
    };

    let mut post_headers = headers;
    post_headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let courier = Courier::new(client.clone(), tokio::runtime::Handle::current());
    let pipe = SsePipe { client, courier, endpoint, headers: post_headers };
    let mux = Mux::new(Pipe::Sse(Box::new(pipe)), audience, ears, Down::new(), tuning);
    let reader = tokio::spawn(read(events, mux.clone()));
    Ok((mux, reader.abort_handle()))
}

async fn read(mut events: Events, mux: Arc<Mux>) {
    let reason = loop {
        match events.next().await {
            Ok(Some(event)) if event.name.is_empty() || event.name == "message" => mux.incoming(event.data),
            Ok(Some(_)) => {}
            Ok(None) => break "the event stream ended".to_owned(),
            Err(failure) => break format!("the event stream broke: {failure}"),
        }
        if let Some(reason) = mux.down.reason() {
            break reason.to_string();
        }
    };
    mux.close(&reason);
}

/// Whether a response is a stream of events.
pub(crate) fn is_event_stream(response: &Response) -> bool {
    response.header(&header::CONTENT_TYPE).get(..17).is_some_and(|kind| kind.eq_ignore_ascii_case(b"text/event-stream"))
}

/// The URL messages go to. It must have the origin of the configured one: a server does not get to send our requests,
/// with their credentials, somewhere else.
fn endpoint(base: &Uri, reference: &str) -> Result<Uri, Failure> {
    let foreign = || Failure::Invalid("the endpoint named by the event stream has another origin than the configured URL".into());
    let unreadable = || Failure::Invalid("the endpoint named by the event stream is no URL".into());
    let reference = reference.trim();
    let scheme = base.scheme_str().unwrap_or("http");
    let authority = base.authority().map_or("", |authority| authority.as_str());
    let path = base.path();
    let absolute = if reference.contains("://") && !reference.starts_with(['/', '?', '.']) {
        reference.to_owned()
    } else if reference.starts_with("//") {
        format!("{scheme}:{reference}")
    } else if reference.starts_with('/') {
        format!("{scheme}://{authority}{reference}")
    } else if reference.starts_with('?') {
        format!("{scheme}://{authority}{path}{reference}")
    } else {
        let folder = path.rfind('/').and_then(|at| path.get(..=at)).unwrap_or("/");
        format!("{scheme}://{authority}{folder}{}", reference.strip_prefix("./").unwrap_or(reference))
    };
    let uri: Uri = absolute.parse().map_err(|_| unreadable())?;
    if origin(&uri).is_none() {
        return Err(unreadable());
    }
    if origin(&uri) == origin(base) { Ok(uri) } else { Err(foreign()) }
}

fn origin(uri: &Uri) -> Option<(String, String, u16)> {
    let scheme = uri.scheme_str()?.to_ascii_lowercase();
    let port = uri.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
    Some((scheme, uri.host()?.to_ascii_lowercase(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    // L9
    #[test]
    fn an_endpoint_stays_at_its_origin() {
        let base: Uri = "http://user:pw@tools.test:8080/a/sse?x=1".parse().unwrap();
        for (reference, meant) in [
            ("/messages?id=1", "/messages?id=1"),
            ("messages?id=1", "/a/messages?id=1"),
            ("./m", "/a/m"),
            ("?id=1", "/a/sse?id=1"),
            ("http://tools.test:8080/m", "/m"),
            ("HTTP://TOOLS.test:8080/m", "/m"),
            ("//tools.test:8080/m", "/m"),
        ] {
            let uri = endpoint(&base, reference).unwrap();
            assert_eq!(uri.path_and_query().unwrap().as_str(), meant, "{reference}");
            assert_eq!((uri.host().map(str::to_lowercase).as_deref(), uri.port_u16()), (Some("tools.test"), Some(8080)));
        }
        for reference in [
            "http://evil.test/m",
            "https://tools.test:8080/m",
            "//evil.test/m",
            "http://tools.test/m",
            "http://169.254.169.254/latest",
            "http://tools.test:8080@evil.test/",
        ] {
            assert!(endpoint(&base, reference).is_err(), "{reference}");
        }
    }
}
