//! What a client reads to find out where it gets a token (RFC 9728), and the challenge that sends it there.

use crate::config::Authentication;
use http::{HeaderMap, HeaderValue, Uri, header};
use serde_json::json;

/// Where the metadata is; the path of the resource follows.
pub const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Who issues tokens for us.
pub(super) struct Metadata {
    /// Our own URL as clients know it, with the place of its metadata.
    resource: Option<Resource>,
    issuers: Vec<String>,
    scopes: Vec<String>,
    scheme: &'static str,
}

struct Resource {
    url: String,
    origin: String,
    path: String,
}

impl Metadata {
    pub(super) fn new(config: &Authentication, secure: bool) -> Metadata {
        let mut scopes: Vec<String> = config.jwt.iter().flat_map(|issuer| issuer.scopes.iter().cloned()).collect();
        scopes.sort();
        scopes.dedup();
        let mut issuers: Vec<String> = config.jwt.iter().map(|issuer| issuer.issuer.clone()).collect();
        issuers.dedup();
        let resource = config.resource.as_ref().and_then(|url| {
            let parsed: Uri = url.parse().ok()?;
            let origin = format!("{}://{}", parsed.scheme_str()?, parsed.authority()?);
            Some(Resource { url: url.clone(), origin, path: parsed.path().trim_end_matches('/').to_owned() })
        });
        Metadata { resource, issuers, scopes, scheme: if secure { "https" } else { "http" } }
    }

    /// The document at this address. Without issuers there is none: a client would look for a server that gives tokens.
    #[allow(clippy::indexing_slicing, reason = "an object takes a member of any name")]
    pub(super) fn document(&self, headers: &HeaderMap, uri: &Uri) -> Option<String> {
        if self.issuers.is_empty() {
            return None;
        }
        let path = uri.path().strip_prefix(WELL_KNOWN)?;
        let resource = match &self.resource {
            Some(resource) if path.is_empty() || path == resource.path || is_mcp(path) => resource.url.clone(),
            None if path.is_empty() || is_mcp(path) => format!("{}{path}", self.origin(headers, uri)?),
            _ => return None,
        };
        let mut document = json!({
            "resource": resource,
            "authorization_servers": self.issuers,
            "bearer_methods_supported": ["header"],
        });
        if !self.scopes.is_empty() {
            document["scopes_supported"] = json!(self.scopes);
        }
        Some(document.to_string())
    }

    /// The value of `WWW-Authenticate` for a request to this address.
    pub(super) fn challenge(&self, headers: &HeaderMap, uri: &Uri, error: Option<(&str, &str)>) -> HeaderValue {
        let mut parameters = Vec::new();
        if !self.issuers.is_empty()
            && let Some(place) = self.place(headers, uri)
        {
            parameters.push(format!("resource_metadata=\"{place}\""));
        }
        if let Some((code, description)) = error {
            parameters.push(format!("error=\"{code}\", error_description=\"{description}\""));
        }
        if !self.scopes.is_empty() {
            parameters.push(format!("scope=\"{}\"", self.scopes.join(" ")));
        }
        if parameters.is_empty() {
            parameters.push("realm=\"transom\"".to_owned());
        }
        HeaderValue::from_str(&format!("Bearer {}", parameters.join(", "))).unwrap_or(HeaderValue::from_static("Bearer"))
    }

    /// Where the metadata for a request to this address is.
    fn place(&self, headers: &HeaderMap, uri: &Uri) -> Option<String> {
        if let Some(Resource { origin, path, .. }) = &self.resource {
            return Some(format!("{origin}{WELL_KNOWN}{path}"));
        }
        let path = if is_mcp(uri.path()) { uri.path() } else { "" };
        Some(format!("{}{WELL_KNOWN}{path}", self.origin(headers, uri)?))
    }

    /// How the client addressed us. That the name is ours was checked before.
    fn origin(&self, headers: &HeaderMap, uri: &Uri) -> Option<String> {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let authority = uri.authority().map(http::uri::Authority::as_str).or(host)?;
        Some(format!("{}://{authority}", self.scheme))
    }
}

/// Whether MCP is spoken at this path, and it can stand between quotes.
fn is_mcp(path: &str) -> bool {
    let plain = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'%' | b'/'));
    plain && (matches!(path, "/mcp" | "/sse") || path.strip_prefix("/mcp/").is_some_and(|target| !target.is_empty() && !target.contains('/')))
}
