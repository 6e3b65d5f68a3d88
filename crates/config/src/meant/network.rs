//! Servers that the gateway reaches over the network: their URLs, what they are sent, whom to trust.

use super::Meaning;
use super::value::Resolved;
use crate::file::{ClientTls, Text};
use crate::problem::Problem;
use crate::written::Entries;
use http::header::{self, HeaderName, HeaderValue};
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use transom_upstream::Secret;

/// Headers that the gateway writes itself: a value from a config would break the connection or the session.
const OUR_HEADERS: [HeaderName; 10] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::TRANSFER_ENCODING,
    header::ACCEPT,
    HeaderName::from_static("mcp-session-id"),
    HeaderName::from_static("mcp-protocol-version"),
    HeaderName::from_static("mcp-method"),
    transom_upstream::via::HEADER,
];

/// Headers whose values are secret even where the file spells them out.
const CREDENTIALS: [HeaderName; 4] = [header::AUTHORIZATION, header::PROXY_AUTHORIZATION, header::COOKIE, HeaderName::from_static("x-api-key")];

/// What messages say of the URL of a server.
pub(super) struct Server<'a> {
    /// What it is: `a target`.
    pub(super) what: &'static str,
    /// For a URL that has none.
    pub(super) default_path: &'a str,
    /// Where a user name and password go instead of into the URL.
    pub(super) credentials: &'static str,
    /// How such a URL looks.
    pub(super) example: &'static str,
}

impl Meaning<'_> {
    /// A URL to reach a server by. Without a scheme it is http.
    pub(super) fn url(&self, host: &Resolved<'_>, server: &Server<'_>) -> Option<http::Uri> {
        let refuse = |message: String, help: &str| {
            self.note(Problem::error(host.place, message).help(help));
            None
        };
        let text = host.text.trim();
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let scheme = scheme.to_ascii_lowercase();
        if scheme != "http" && scheme != "https" {
            return refuse(
                format!("`{}` is neither an http nor an https URL", host.written),
                &format!("{} on the network speaks http or https", server.what),
            );
        }
        let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(authority_end);
        if authority.contains('@') {
            // The URL is not quoted: it holds a password.
            return refuse(format!("the URL of {} may not contain a user name or password", server.what), server.credentials);
        }
        if path.contains('#') {
            return refuse(format!("`{}` has a fragment, which is never sent to a server", host.written), "remove the part from `#` on");
        }
        let path = match path.chars().next() {
            None => server.default_path.to_owned(),
            Some('?') => format!("{}{path}", server.default_path),
            Some(_) => path.to_owned(),
        };
        let url: Option<http::Uri> = format!("{scheme}://{authority}{path}").parse().ok();
        let is_complete =
            |url: &http::Uri| url.host().is_some_and(|name| !name.is_empty() && (name.len() == authority.len() || url.port_u16().is_some()));
        match url.filter(is_complete) {
            Some(url) => Some(url),
            None => refuse(format!("`{}` is not a URL", host.written), &format!("write it like `{}`", server.example)),
        }
    }

    /// Headers of every request to a server.
    pub(super) fn headers(&self, entries: Option<&Entries<Text>>) -> Vec<(HeaderName, Secret)> {
        let mut headers = Vec::new();
        let mut seen = HashSet::new();
        for (key, value) in entries.iter().flat_map(|entries| &entries.0) {
            let Some((written, place)) = key.get() else { continue };
            let name = HeaderName::from_bytes(written.as_bytes()).ok();
            match &name {
                None => self.note(
                    Problem::error(place, format!("`{}` is not the name of a header", written.escape_debug()))
                        .help("names of headers consist of letters, digits and `-`, like `X-Api-Key`"),
                ),
                Some(name) if OUR_HEADERS.contains(name) => {
                    self.note(Problem::error(place, format!("header `{written}` is written by the gateway itself")).help("remove it"));
                }
                Some(name) if !seen.insert(name.clone()) => {
                    self.note(
                        Problem::error(place, format!("header `{written}` is given twice"))
                            .help("upper and lower case make no difference in the name of a header"),
                    );
                }
                Some(_) => {}
            }
            let Some(value) = self.text(value) else { continue };
            if HeaderValue::from_str(&value.text).is_err() {
                self.note(
                    Problem::error(value.place, format!("the value of header `{written}` cannot be sent"))
                        .help("a header holds printable ASCII on one line; look for a line break at the end of a variable"),
                );
            }
            // What stands in the file for everybody to read is no secret, unless it is there to prove who we are.
            let secret = value.secret || name.as_ref().is_some_and(|name| CREDENTIALS.contains(name));
            let value = if secret { Secret::made_of(value.text, value.values) } else { Secret::plain(value.text) };
            headers.extend(name.map(|name| (name, value)));
        }
        headers
    }

    /// The certificate authorities to trust.
    pub(super) fn authorities(&self, tls: &ClientTls) -> Option<Arc<[u8]>> {
        let (_, content) = self.pem("ca", &tls.ca, "certificate", "-----BEGIN CERTIFICATE-----")?;
        Some(content.into_bytes().into())
    }
}

/// Whether what goes to this server can be read on the way.
pub(super) fn is_readable_on_the_way(url: &http::Uri) -> bool {
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    url.scheme_str() == Some("http") && !is_here
}
