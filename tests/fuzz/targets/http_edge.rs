//! The first line is a request target, each line after it a header: who may come in is decided for all of them, by the same rules
//! told in another way. A `Host`, an `Origin` or a header of MCP that stands twice lets nobody in. The same bytes are the beginning
//! of a connection as well: the parser sees the same of them however they are cut.

use http::{HeaderMap, HeaderName, HeaderValue, Uri, Version};
use std::net::{IpAddr, Ipv4Addr};
use transom_gateway::fuzzing::{content_is_read, framing_is_plain, shown};
use transom_gateway::listener::gate::{Gate, Verdict};
use transom_gateway::listener::headers::McpHeaders;
use transom_protocol::header;

pub const WORDS: &[&str] = &[
    "host: ",
    "origin: ",
    "mcp-session-id: ",
    "mcp-protocol-version: ",
    "mcp-method: ",
    "mcp-name: ",
    "mcp-param-a: ",
    "mcp_session_id: ",
    "accept: ",
    "content-type: ",
    "content-length: ",
    "transfer-encoding: ",
    "content-encoding: ",
    "upgrade: ",
    "localhost",
    "127.0.0.1",
    "[::1]",
    ":3000",
    "http://",
    "https://",
    "null",
    "mcp.corp.example",
    "app.example",
    "@",
    "/",
    ".evil.example",
    "=?base64?",
    "?=",
    "application/json",
    "text/event-stream",
    "*/*",
    ";q=0",
    "chunked",
    "identity",
    "LOCALHOST",
    "%00",
    "\\",
    ":",
    "10.1.2.3",
    "\r\n",
    "\r\n\r\n",
    "0\r\n\r\n",
    "GET / HTTP/1.1\r\n",
];

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3));

pub fn run(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let uri = lines.next().and_then(|line| Uri::try_from(line).ok()).unwrap_or_else(|| Uri::from_static("/mcp"));
    let mut headers = HeaderMap::new();
    for line in lines {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (line.get(..colon).unwrap_or_default(), line.get(colon + 1..).unwrap_or_default().trim_ascii());
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    gate(&uri, &headers);
    mcp(&headers);
    framing(&headers);
    messages(bytes);
}

/// All is shown up to some byte, and nothing after it.
fn messages(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), [b"POST / HTTP/1.1\r\n", bytes].concat(), [b"POST / HTTP/1.1\r\ntransfer-encoding:chunked\r\n\r\n", bytes].concat()]
    {
        let whole = shown(&bytes, bytes.len());
        let same = whole.iter().zip(&bytes).take_while(|(after, before)| after == before).count();
        assert!(whole.iter().skip(same).all(|byte| *byte == 0), "changed and shown");
        for part in [1, 2, 7] {
            assert_eq!(shown(&bytes, part), whole, "in parts of {part}");
        }
    }
}

fn texts<'h>(headers: &'h HeaderMap, name: &str) -> Vec<Option<&'h str>> {
    headers.get_all(name).iter().map(|value| value.to_str().ok()).collect()
}

/// Whether `host`, with or without a port, is one of these names.
fn is_one_of(authority: &str, names: &[&str]) -> bool {
    let authority = authority.to_ascii_lowercase();
    names.iter().any(|name| match authority.strip_prefix(name) {
        Some("") => true,
        Some(port) => port.strip_prefix(':').is_some_and(|port| port.is_empty() || port.trim_start_matches('+').parse::<u16>().is_ok()),
        None => false,
    })
}

fn gate(uri: &Uri, headers: &HeaderMap) {
    let names = ["localhost", "127.0.0.1", "[::1]", "mcp.corp.example"];
    for bind in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::UNSPECIFIED)] {
        let gate = Gate::new(&["mcp.corp.example".into()], &["https://app.example".into()], bind);
        let verdict = gate.judge(uri, headers, LOCAL, false);
        let (hosts, origins) = (texts(headers, "host"), texts(headers, "origin"));
        if hosts.len() > 1 {
            assert_eq!(verdict, Verdict::BadHost);
        }
        if verdict == Verdict::BadHost {
            continue;
        }
        // An address that we were reached at, or are bound to, is ours, however it is written.
        let is_address = |authority: &str| {
            let host = authority
                .rsplit_once(':')
                .filter(|(host, _)| !host.ends_with(':') && !host.contains("::") || host.ends_with(']'))
                .map_or(authority, |(host, _)| host);
            let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
            address.is_ok_and(|address| address == LOCAL || address == bind)
        };
        for authority in hosts.iter().flatten().copied().chain(uri.authority().map(http::uri::Authority::as_str)) {
            assert!(is_one_of(authority, &names) || is_address(authority), "{authority} is not ours");
        }
        assert!(hosts.iter().flatten().count() == 1 || uri.authority().is_some(), "nobody was named");
        match verdict {
            Verdict::Pass(None) => assert!(origins.is_empty(), "{origins:?} was not looked at"),
            Verdict::Pass(Some(origin)) => {
                assert_eq!(origins, [Some(origin.as_str())]);
                let lower = origin.to_ascii_lowercase();
                let local = lower.strip_prefix("http://").or_else(|| lower.strip_prefix("https://")).is_some_and(|rest| is_one_of(rest, &names[..3]));
                assert!(lower == "https://app.example" || local && bind.is_loopback(), "{origin} may come in");
            }
            Verdict::BadOrigin => assert!(!origins.is_empty()),
            Verdict::BadHost => {}
        }
    }
}

fn mcp(headers: &HeaderMap) {
    let read = McpHeaders::read(headers);
    for name in headers.keys().filter(|name| name.as_str().starts_with("mcp")) {
        let twice = headers.get_all(name).iter().count() > 1;
        let known =
            matches!(name.as_str(), "mcp-session-id" | "mcp-protocol-version" | "mcp-method" | "mcp-name") || name.as_str().starts_with("mcp-param-");
        let underscored = name.as_str().replace('_', "-");
        let looks_alike = name.as_str() != underscored && matches!(underscored.as_str(), "mcp-session-id" | "mcp-protocol-version");
        assert!(read.is_err() || !(looks_alike || twice && known), "{name} is accepted");
    }
    let Ok(read) = read else { return };
    for (slot, name) in
        [(&read.session, "mcp-session-id"), (&read.version, "mcp-protocol-version"), (&read.method, "mcp-method"), (&read.name, "mcp-name")]
    {
        let sent = texts(headers, name).first().copied().flatten().map(|text| text.trim_matches([' ', '\t']));
        assert_eq!(slot.as_deref(), sent, "{name}");
    }
    for value in read.name.iter().chain(read.params.iter().map(|(_, value)| value)) {
        if let Some(text) = header::decode(value) {
            assert_eq!(header::decode(&header::encode(&text)).as_deref(), Some(&*text), "{value} does not come back");
        }
    }
}

fn framing(headers: &HeaderMap) {
    let twice = |name: &str| headers.get_all(name).iter().count() > 1;
    for version in [Version::HTTP_10, Version::HTTP_11] {
        if framing_is_plain(headers, version) {
            assert!(!twice("content-length") && !twice("transfer-encoding") && !headers.contains_key("upgrade"));
            assert!(texts(headers, "transfer-encoding").iter().all(|coding| coding.is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"))));
        }
    }
    if content_is_read(headers) {
        assert!(!twice("content-type"));
        // One that was named is one that changes nothing.
        assert!(texts(headers, "content-encoding").iter().all(|coding| coding.is_some_and(|coding| coding.eq_ignore_ascii_case("identity"))));
    }
}
