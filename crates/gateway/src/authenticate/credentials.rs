//! What a request carries to say who sends it. Exactly one thing in exactly one place, or it is refused: what could be
//! read in two ways is not read at all, and a request that tried to say who it is never counts as anonymous.

use http::{HeaderMap, HeaderName, Uri, header};
use percent_encoding::percent_decode_str;

/// The longest token we look at.
const LONGEST: usize = 8 * 1024;
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// What a request carries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Credentials<'r> {
    /// `Authorization: Bearer …`: a token or an API key.
    Bearer(&'r str),
    /// `X-API-Key: …`
    ApiKey(&'r str),
}

/// Why credentials do not count. The texts are for the client and hold nothing of what it sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There are none.
    Missing,
    /// They are not good, for this reason.
    Invalid(&'static str),
    /// They are good, but lack a scope.
    InsufficientScope,
    /// They came in the address.
    QueryToken,
    /// They cannot be judged: the keys of this issuer are not there.
    KeysUnavailable(String),
}

impl<'r> Credentials<'r> {
    /// Reads them.
    pub fn read(headers: &'r HeaderMap, uri: &Uri) -> Result<Credentials<'r>, Refusal> {
        if uri.query().is_some_and(names_a_token) {
            return Err(Refusal::QueryToken);
        }
        let authorization = only(headers, &header::AUTHORIZATION, "the Authorization header appears more than once")?;
        let api_key = only(headers, &API_KEY, "the X-API-Key header appears more than once")?;
        match (authorization, api_key) {
            (None, None) => Err(Refusal::Missing),
            (Some(_), Some(_)) => Err(Refusal::Invalid("both Authorization and X-API-Key were sent; send one")),
            (Some(value), None) => bearer(value).map(Credentials::Bearer),
            (None, Some(value)) => secret(value).map(Credentials::ApiKey),
        }
    }

    /// The secret itself.
    pub fn secret(self) -> &'r str {
        match self {
            Credentials::Bearer(secret) | Credentials::ApiKey(secret) => secret,
        }
    }
}

fn only<'r>(headers: &'r HeaderMap, name: &HeaderName, doubled: &'static str) -> Result<Option<&'r [u8]>, Refusal> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => Ok(Some(value.as_bytes())),
        (Some(_), Some(_)) => Err(Refusal::Invalid(doubled)),
    }
}

/// `Bearer`, in any case, then spaces, then the token.
fn bearer(value: &[u8]) -> Result<&str, Refusal> {
    let (scheme, rest) = value.split_at(value.iter().position(|byte| *byte == b' ').unwrap_or(value.len()));
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        return Err(Refusal::Invalid("the Authorization header is not of the form: Bearer TOKEN"));
    }
    secret(rest.trim_ascii_start())
}

/// Visible ASCII and nothing that could separate two of them.
fn secret(value: &[u8]) -> Result<&str, Refusal> {
    if value.len() > LONGEST {
        return Err(Refusal::Invalid("the token is too long"));
    }
    let plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b',' | b'"');
    match std::str::from_utf8(value) {
        Ok(text) if !text.is_empty() && value.iter().all(plain) => Ok(text),
        _ => Err(Refusal::Invalid("the token is missing or malformed")),
    }
}

fn names_a_token(query: &str) -> bool {
    query.split('&').any(|pair| {
        let key = pair.split('=').next().unwrap_or_default();
        percent_decode_str(key).decode_utf8_lossy().eq_ignore_ascii_case("access_token")
    })
}
