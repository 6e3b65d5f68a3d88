//! The headers of MCP: read once, doubles and look-alikes refused.

use crate::reply::{Failure, Reject};
use http::{HeaderMap, header};

/// What MCP's headers and `Accept` say.
#[derive(Debug, Default)]
pub struct McpHeaders {
    /// `Mcp-Session-Id`
    pub session: Option<String>,
    /// `MCP-Protocol-Version`
    pub version: Option<String>,
    /// `Mcp-Method`
    pub method: Option<String>,
    /// `Mcp-Name`, as sent
    pub name: Option<String>,
    /// `Mcp-Gateway-Via`
    pub via: Option<String>,
    /// `Mcp-Param-*`, name in lower case and value as sent
    pub params: Vec<(String, String)>,
    /// `Last-Event-ID`; none if it is empty
    pub last_event: Option<String>,
    /// Whether `Accept` admits a JSON reply.
    pub json: bool,
    /// Whether `Accept` admits an event stream.
    pub events: bool,
}

impl McpHeaders {
    /// None at all, from somebody who takes any answer.
    pub fn plain() -> McpHeaders {
        McpHeaders { json: true, events: true, ..McpHeaders::default() }
    }

    /// Reads them.
    pub fn read(headers: &HeaderMap) -> Result<McpHeaders, Failure> {
        let mut read = McpHeaders::default();
        let refuse = |name: &str, what: &str| Err(Failure::rejected(Reject::HeaderMismatch, format!("Header mismatch: {name} {what}")));
        for (name, value) in headers {
            let name = name.as_str();
            let Some(rest) = name.strip_prefix("mcp") else {
                if name == "last-event-id" && !value.is_empty() {
                    // One that is not ours in spelling is not ours at all, and is refused where it would be used.
                    let text = value.to_str().unwrap_or("?").to_owned();
                    if read.last_event.replace(text).is_some() {
                        return refuse(name, "appears more than once");
                    }
                }
                continue;
            };
            if rest.starts_with('_') || matches!(rest, "-protocol_version" | "-session_id") {
                return refuse(name, "is written with underscores");
            }
            let Ok(text) = value.to_str() else { return refuse(name, "has characters that are not ASCII") };
            let text = text.trim_matches([' ', '\t']);
            let slot = match rest {
                "-session-id" => &mut read.session,
                "-protocol-version" => &mut read.version,
                "-method" => &mut read.method,
                "-name" => &mut read.name,
                "-gateway-via" => &mut read.via,
                _ => {
                    if rest.starts_with("-param-") {
                        if read.params.iter().any(|(other, _)| other == name) {
                            return refuse(name, "appears more than once");
                        }
                        read.params.push((name.to_owned(), text.to_owned()));
                    }
                    continue;
                }
            };
            if slot.replace(text.to_owned()).is_some() {
                return refuse(name, "appears more than once");
            }
        }
        (read.json, read.events) = accepts(headers);
        Ok(read)
    }
}

/// What `Accept` admits: JSON, an event stream. None at all counts as JSON.
fn accepts(headers: &HeaderMap) -> (bool, bool) {
    // What nearly every client says.
    if headers.get(header::ACCEPT).is_some_and(|value| value == "application/json, text/event-stream") {
        return (true, true);
    }
    let (mut any, mut json, mut events) = (false, false, false);
    for value in headers.get_all(header::ACCEPT) {
        any = true;
        for range in value.to_str().unwrap_or("").split(',') {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or("");
            if parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000")) {
                continue;
            }
            let is = |name: &str| kind.eq_ignore_ascii_case(name);
            let any = is("*/*");
            json |= any || is("application/json") || is("application/*");
            events |= any || is("text/event-stream") || is("text/*");
        }
    }
    if any { (json, events) } else { (true, false) }
}
