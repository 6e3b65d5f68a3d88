//! Who may knock: `Host` and `Origin` rules, the defence against DNS rebinding and foreign web pages.

use http::{HeaderMap, Uri, header};
use std::net::IpAddr;

/// The rules, as configured.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    hosts: Vec<String>,
    origins: Vec<String>,
    bind: Option<IpAddr>,
}

/// What the gate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Come in; the origin, if a browser page sent one.
    Pass(Option<String>),
    /// The `Host` is not ours.
    BadHost,
    /// The page is not allowed.
    BadOrigin,
}

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

impl Gate {
    /// Hosts and origins beside the defaults, and the address we are bound to.
    pub fn new(hosts: &[String], origins: &[String], bind: IpAddr) -> Gate {
        let lower = |list: &[String]| list.iter().map(|text| text.trim().to_ascii_lowercase()).collect();
        Gate { hosts: lower(hosts), origins: lower(origins), bind: Some(bind) }
    }

    /// Judges a request that arrived at `local`. `exempt` leaves the `Host` unchecked.
    pub fn judge(&self, uri: &Uri, headers: &HeaderMap, local: IpAddr, exempt: bool) -> Verdict {
        if !exempt && !self.host_is_ours(uri, headers, local) {
            return Verdict::BadHost;
        }
        let mut origins = headers.get_all(header::ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => Verdict::Pass(None),
            (Some(origin), None) => match origin.to_str().ok().filter(|origin| self.origin_is_allowed(origin)) {
                Some(origin) => Verdict::Pass(Some(origin.to_owned())),
                None => Verdict::BadOrigin,
            },
            (Some(_), Some(_)) => Verdict::BadOrigin,
        }
    }

    fn host_is_ours(&self, uri: &Uri, headers: &HeaderMap, local: IpAddr) -> bool {
        let mut values = headers.get_all(header::HOST).iter();
        let header = match (values.next(), values.next()) {
            (Some(value), None) => value.to_str().ok(),
            (None, None) => None,
            _ => return false,
        };
        // HTTP/2 and absolute targets name the host in the target; where both speak, both must be ours.
        let target = uri.authority().map(http::uri::Authority::as_str);
        match (header, target) {
            (None, None) => false,
            (header, target) => [header, target].into_iter().flatten().all(|authority| self.is_ours(authority, local)),
        }
    }

    fn is_ours(&self, authority: &str, local: IpAddr) -> bool {
        let Some(host) = host_of(authority) else { return false };
        let is = |own: &str| own.eq_ignore_ascii_case(host);
        if LOOPBACK.into_iter().any(is) || self.hosts.iter().any(|own| is(own) || own.eq_ignore_ascii_case(authority)) {
            return true;
        }
        // An address cannot be rebound: the one we were reached at, or are bound to, is ours.
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>().ok();
        address.is_some_and(|address| address == local || Some(address) == self.bind)
    }

    fn origin_is_allowed(&self, origin: &str) -> bool {
        let origin = origin.to_ascii_lowercase();
        if self.origins.contains(&origin) {
            return true;
        }
        let Some(authority) = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")) else { return false };
        let loopback_bind = self.bind.is_some_and(|bind| bind.is_loopback());
        loopback_bind && host_of(authority).is_some_and(|host| LOOPBACK.contains(&host))
    }
}

/// The host of `host[:port]`; `None` if it is anything else.
fn host_of(authority: &str) -> Option<&str> {
    let length = match authority.strip_prefix('[') {
        Some(rest) => {
            let address = rest.get(..rest.find(']')?)?;
            address.parse::<std::net::Ipv6Addr>().ok()?;
            address.len() + 2
        }
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at_checked(length)?;
    let port_is_fine = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.is_empty() || port.parse::<u16>().is_ok());
    let plain = !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'[' | b']' | b':'));
    (port_is_fine && plain).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn judge(gate: &Gate, pairs: &[(&str, &str)]) -> Verdict {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        gate.judge(&Uri::from_static("/mcp"), &headers, IpAddr::V4(Ipv4Addr::LOCALHOST), false)
    }

    // I1
    #[test]
    fn names_that_are_not_ours_are_turned_away_on_loopback() {
        let gate = Gate::new(&["mcp.corp.example".into()], &["https://app.example".into()], IpAddr::V4(Ipv4Addr::LOCALHOST));
        for host in ["localhost", "localhost:3000", "127.0.0.1:3000", "[::1]:3000", "LOCALHOST", "mcp.corp.example", "mcp.corp.example:443"] {
            assert_eq!(judge(&gate, &[("host", host)]), Verdict::Pass(None), "{host}");
        }
        for host in [
            "evil.com",
            "localhost.evil.com",
            "127.0.0.1.evil.com",
            "",
            "localhost:x",
            "user@localhost",
            "[::1].evil.example",
            "10.0.0.1",
            "127.0.0.2",
        ] {
            assert_eq!(judge(&gate, &[("host", host)]), Verdict::BadHost, "{host}");
        }
        assert_eq!(judge(&gate, &[]), Verdict::BadHost);
        assert_eq!(judge(&gate, &[("host", "localhost"), ("host", "localhost")]), Verdict::BadHost);
        for origin in ["http://localhost", "http://localhost:5173", "https://127.0.0.1:1", "http://[::1]:3000", "https://app.example"] {
            assert_eq!(judge(&gate, &[("host", "localhost"), ("origin", origin)]), Verdict::Pass(Some(origin.into())), "{origin}");
        }
        for origin in [
            "http://evil.com",
            "null",
            "",
            "http://localhost.evil.com",
            "http://[::1].evil.example",
            "http://localhost:80@evil",
            "file://",
            "http://app.example",
            "http://localhost/path",
            "ftp://localhost",
        ] {
            assert_eq!(judge(&gate, &[("host", "localhost"), ("origin", origin)]), Verdict::BadOrigin, "{origin}");
        }
        assert_eq!(judge(&gate, &[("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://localhost")]), Verdict::BadOrigin);
    }

    #[test]
    fn no_page_is_allowed_by_default_where_others_can_reach_us() {
        let gate = Gate::new(&[], &[], IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        assert_eq!(judge(&gate, &[("host", "localhost"), ("origin", "http://localhost")]), Verdict::BadOrigin);
        assert_eq!(judge(&gate, &[("host", "10.1.2.3")]), Verdict::BadHost);
        let reached = gate.judge(&Uri::from_static("http://10.1.2.3:3000/mcp"), &HeaderMap::new(), "10.1.2.3".parse().unwrap(), false);
        assert_eq!(reached, Verdict::Pass(None));
    }
}
