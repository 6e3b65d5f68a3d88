//! Pooled HTTP clients. One serves every plain target; a TLS target has one for its trust anchors. Redirects are never
//! followed: a target's headers and bodies go where the config says and nowhere else.

use crate::failure::Failure;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::error::Error as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const CONNECT: Duration = Duration::from_secs(5);
const IDLE: Duration = Duration::from_secs(90);
const KEEP_ALIVE: Duration = Duration::from_secs(10);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);
const IDLE_PER_HOST: usize = 512;

#[derive(Clone)]
pub(crate) enum HttpClient {
    Plain(Client<HttpConnector, Full<Bytes>>),
    Tls(Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
}

impl HttpClient {
    /// A client for this URL. `ca`: the only authorities to trust, PEM.
    pub(crate) fn new(url: &http::Uri, ca: Option<&[u8]>) -> Result<HttpClient, String> {
        static PLAIN: OnceLock<Client<HttpConnector, Full<Bytes>>> = OnceLock::new();
        static SYSTEM: OnceLock<Result<Arc<RootCertStore>, String>> = OnceLock::new();
        if url.scheme_str() != Some("https") {
            return Ok(HttpClient::Plain(PLAIN.get_or_init(|| builder().build(connector())).clone()));
        }
        let roots = match ca {
            Some(pem) => Arc::new(authorities(pem)?),
            None => SYSTEM.get_or_init(system_authorities).clone()?,
        };
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be set up: {error}"))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut connector = connector();
        connector.enforce_http(false);
        let connector =
            hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(config).https_only().enable_http1().enable_http2().wrap_connector(connector);
        Ok(HttpClient::Tls(builder().build(connector)))
    }

    /// Sends a request and waits for the head of its response.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Failure> {
        let sent = match self {
            HttpClient::Plain(client) => client.request(request).await,
            HttpClient::Tls(client) => client.request(request).await,
        };
        sent.map_err(|error| {
            let reason = reason(&error);
            if error.is_connect() {
                Failure::NotSent(format!("cannot connect: {reason}"))
            } else {
                Failure::Lost(format!("the connection broke: {reason}"))
            }
        })
    }
}

fn builder() -> hyper_util::client::legacy::Builder {
    let mut builder = Client::builder(TokioExecutor::new());
    builder
        .pool_timer(TokioTimer::new())
        .timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(IDLE_PER_HOST)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .http2_keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        // Repeats a request only if not a byte of it was written: the pooled connection turned out to be closed. After
        // the first byte nothing is ever sent twice.
        .retry_canceled_requests(true);
    builder
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT));
    connector.set_keepalive(Some(KEEP_ALIVE));
    connector
}

fn authorities(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| format!("the CA file is not PEM: {error:?}"))?;
        roots.add(certificate).map_err(|error| format!("the CA file holds a certificate that cannot be used: {error}"))?;
    }
    if roots.is_empty() { Err("the CA file holds no certificate".into()) } else { Ok(roots) }
}

fn system_authorities() -> Result<Arc<RootCertStore>, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err("the system has no trusted certificate authorities; install them or give the target a `ca`".into());
    }
    Ok(Arc::new(roots))
}

/// The innermost cause: it names no URL, and it is what a person needs to know.
fn reason(error: &hyper_util::client::legacy::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = match inner.downcast_ref::<std::io::Error>() {
            Some(io) => describe(io),
            None => inner.to_string(),
        };
        source = inner.source();
    }
    text
}

/// An I/O error without its number.
pub(crate) fn describe(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    text.to_lowercase()
}
