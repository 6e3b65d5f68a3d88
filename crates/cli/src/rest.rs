//! The plain HTTP side of a gateway, for verbs that want more than an MCP list says.

use crate::client::{self, ClientError, Endpoint};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use tokio::time::timeout;
use transom_protocol::error::shorten;
use transom_protocol::json::{self, Json, Kind, Limits};

/// The largest answer read.
const MAX_ANSWER: usize = 64 << 20;

/// What is asked of a gateway whose MCP endpoint is known; `None` if its URL is not one of ours. `/mcp/weather` stands for one target.
pub fn beside(endpoint: &Endpoint, path: &str) -> Option<(Uri, Option<String>)> {
    let mut parts = endpoint.url.clone().into_parts();
    let own = endpoint.url.path();
    let (before, target) = own.rsplit_once("/mcp").filter(|(_, rest)| rest.is_empty() || rest.starts_with('/'))?;
    let target = target.trim_matches('/');
    parts.path_and_query = Some(format!("{before}{path}").parse().ok()?);
    Some((Uri::from_parts(parts).ok()?, Some(target.to_owned()).filter(|target| !target.is_empty())))
}

/// A JSON answer; `None` if whoever is there has no such page.
pub async fn get(endpoint: &Endpoint, url: &Uri) -> Result<Option<String>, ClientError> {
    let page = page(endpoint, url).await?.map(|(_, body)| body);
    let is_json = |body: &Bytes| json::check(body, &Limits::REPLY).is_ok_and(|answer| matches!(answer.kind(), Kind::Array | Kind::Object));
    Ok(page.filter(is_json).map(|body| String::from_utf8_lossy(&body).into_owned()))
}

/// The TypeScript module of a gateway; `None` if whoever is there has none.
pub async fn module(endpoint: &Endpoint, server: Option<&str>) -> Result<Option<String>, ClientError> {
    let Some((_, target)) = beside(endpoint, "/") else { return Ok(None) };
    let query = server.or(target.as_deref()).map(|server| format!("?server={}", encoded(server))).unwrap_or_default();
    let Some((url, _)) = beside(endpoint, &format!("/runtime/tools.ts{query}")) else { return Ok(None) };
    let page = page(endpoint, &url).await?.filter(|(kind, _)| kind.starts_with("application/typescript"));
    Ok(page.map(|(_, body)| String::from_utf8_lossy(&body).into_owned()))
}

/// As a part of a query.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// The type and the bytes of a page.
async fn page(endpoint: &Endpoint, url: &Uri) -> Result<Option<(String, Bytes)>, ClientError> {
    let late = || ClientError::TimedOut { url: url.clone(), after: endpoint.timeout };
    timeout(endpoint.timeout, asked(endpoint, url)).await.unwrap_or_else(|_| Err(late()))
}

async fn asked(endpoint: &Endpoint, url: &Uri) -> Result<Option<(String, Bytes)>, ClientError> {
    let unreachable = |why: String| ClientError::Unreachable { url: url.clone(), why };
    let mut request = Request::new(Full::new(Bytes::new()));
    *request.uri_mut() = url.clone();
    request.headers_mut().extend(endpoint.headers.clone());
    let response = client::http_client(endpoint)?.request(request).await.map_err(|error| unreachable(client::innermost(&error)))?;
    let status = response.status();
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("").to_owned();
    let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await.map_err(|error| unreachable(error.to_string()))?.to_bytes();
    match status {
        StatusCode::OK => Ok(Some((kind, body))),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let said = format!("HTTP {status}, {}", message(&body));
            Err(ClientError::NotAuthorised { url: url.clone(), said })
        }
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            Err(unreachable(format!("HTTP {status}, {}", message(&body))))
        }
        _ => Ok(None),
    }
}

/// What a refusal of a gateway says.
fn message(body: &[u8]) -> String {
    let said = json::check(body, &Limits::REPLY).ok().and_then(|body| body.get("error")?.get("message")?.string());
    said.map_or_else(|| shorten(String::from_utf8_lossy(body).trim(), 300).to_owned(), |said| said.into_owned())
}

/// The elements of an answer that is an array of objects.
pub fn objects(answer: &str) -> impl Iterator<Item = Json<'_>> {
    let answer = Json::trusted(answer);
    let elements = (answer.kind() == Kind::Array).then(|| answer.elements());
    elements.into_iter().flatten().filter(|element| element.kind() == Kind::Object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_stand_beside_the_mcp_endpoint() {
        let beside = |url: &str| {
            let endpoint = Endpoint { url: url.parse().unwrap(), headers: http::HeaderMap::new(), timeout: std::time::Duration::from_secs(1) };
            beside(&endpoint, "/tools").map(|(url, target)| (url.to_string(), target))
        };
        assert_eq!(beside("http://127.0.0.1:3000/mcp"), Some(("http://127.0.0.1:3000/tools".into(), None)));
        assert_eq!(beside("http://127.0.0.1:3000/mcp/"), Some(("http://127.0.0.1:3000/tools".into(), None)));
        assert_eq!(beside("https://h/gateway/mcp/weather?x=1"), Some(("https://h/gateway/tools".into(), Some("weather".into()))));
        assert_eq!(beside("https://h/mcpx"), None);
        assert_eq!(beside("https://h/"), None);
    }
}
