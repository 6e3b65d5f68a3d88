//! Whether a request goes in circles: gateways can stand behind gateways, and somebody may have put one behind itself.
//!
//! Every gateway has an id. Towards targets it says through which gateways a request came, itself last: to HTTP servers in a
//! header, to children in a variable, which a gateway that is such a child takes over. A request that comes back, or that has
//! come too far, ends here. Towards a gateway in front it says who stands behind, so that it can leave out a target that leads
//! back to itself before the lists of both grow by each other's tools.

use crate::reply::{Failure, Reject};
use http::{HeaderMap, HeaderValue, Uri};
use std::net::{IpAddr, SocketAddr};
use transom_upstream::via::{HEADER, MOST, ids};

/// A request may have come through this many gateways.
const HOPS: usize = 4;

/// This gateway among others.
pub struct Via {
    own: String,
    /// What every request says that came through no other gateway.
    chain: String,
}

impl Via {
    /// A new id. `inherited`: what whoever started this process said of itself.
    pub fn new(inherited: Option<&str>) -> Via {
        let own = format!("{:016x}", rand::random::<u64>());
        let chain = ids(inherited.unwrap_or_default()).take(MOST).chain([own.as_str()]).collect::<Vec<_>>().join(", ");
        Via { own, chain }
    }

    /// Our id.
    pub fn own(&self) -> &str {
        &self.own
    }

    /// What targets are told by default.
    pub fn chain(&self) -> &str {
        &self.chain
    }

    /// What targets are told of a request that came with this header.
    pub fn pass(&self, came: &str) -> Result<HeaderValue, Failure> {
        let refuse = |message| Err(Failure::rejected(Reject::Loop, message));
        if ids(came).any(|id| id == self.own) {
            return refuse("Loop detected: this request has come through this gateway before");
        }
        if ids(came).count() > HOPS {
            return refuse("Loop detected: this request has come through too many gateways");
        }
        HeaderValue::from_str(&format!("{came}, {}", self.chain)).or_else(|_| refuse("Loop detected: the list of gateways cannot be read"))
    }

    /// The same for a request whose headers nobody has read yet.
    pub fn pass_any(&self, headers: &HeaderMap) -> Result<Option<HeaderValue>, Failure> {
        let Some(came) = headers.get(&HEADER) else { return Ok(None) };
        self.pass(came.to_str().unwrap_or("?")).map(Some)
    }

    /// What a gateway in front is told: who answers, and who stands behind.
    pub fn behind(&self, others: impl Iterator<Item = String>) -> Option<HeaderValue> {
        let mut all = vec![self.own.clone()];
        for id in others.take(MOST) {
            if !all.contains(&id) {
                all.push(id);
            }
        }
        HeaderValue::from_str(&all.join(", ")).ok()
    }
}

/// Whether a URL is that of a listener.
pub fn is_own(url: &Uri, listen: SocketAddr, names: &[String]) -> bool {
    let port = url.port_u16().unwrap_or(if url.scheme_str() == Some("https") { 443 } else { 80 });
    if listen.port() == 0 || port != listen.port() {
        return false;
    }
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']).to_ascii_lowercase();
    let here = listen.ip().is_loopback() || listen.ip().is_unspecified();
    match host.parse::<IpAddr>() {
        // All of 127/8 reaches a listener on all addresses; one on an address of its own is reached by that.
        Ok(address) => address == listen.ip() || (address.is_loopback() && listen.ip().is_unspecified()),
        Err(_) => (host == "localhost" && here) || names.iter().any(|name| *name == host || *name == format!("{host}:{port}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // L12
    #[test]
    fn a_request_that_comes_back_or_comes_too_far_is_refused() {
        let via = Via::new(Some("parent"));
        assert_eq!(via.chain(), format!("parent, {}", via.own()));
        assert_eq!(via.pass("a, b,c ,d").unwrap(), format!("a, b,c ,d, parent, {}", via.own()));
        for refused in ["a,b,c,d,e", via.own(), &format!("a, {},b", via.own())] {
            assert_eq!(via.pass(refused).unwrap_err().reason(), Some(Reject::Loop), "{refused}");
        }
        assert_eq!(via.behind(["x".to_owned(), "x".to_owned()].into_iter()).unwrap(), format!("{}, x", via.own()));
    }

    // L12
    #[test]
    fn a_listener_knows_its_own_addresses() {
        let own = |url: &str, listen: &str| is_own(&url.parse().unwrap(), listen.parse().unwrap(), &["mcp.corp.example".to_owned()]);
        for (url, listen, expected) in [
            ("http://127.0.0.1:3000/mcp", "127.0.0.1:3000", true),
            ("http://localhost:3000/x", "127.0.0.1:3000", true),
            ("http://localhost:3000/mcp", "0.0.0.0:3000", true),
            ("http://127.0.0.9:3000/mcp", "0.0.0.0:3000", true),
            ("http://[::1]:3000/mcp", "[::1]:3000", true),
            ("http://10.0.0.1:3000/mcp", "10.0.0.1:3000", true),
            ("http://mcp.corp.example:3000/mcp", "0.0.0.0:3000", true),
            ("https://mcp.corp.example/mcp", "0.0.0.0:443", true),
            ("http://127.0.0.1:3001/mcp", "127.0.0.1:3000", false),
            ("http://127.0.0.1:3000/mcp", "10.0.0.1:3000", false),
            ("http://10.0.0.2:3000/mcp", "10.0.0.1:3000", false),
            ("http://other.example:3000/mcp", "0.0.0.0:3000", false),
            ("http://127.0.0.1/mcp", "127.0.0.1:0", false),
        ] {
            assert_eq!(own(url, listen), expected, "{url} {listen}");
        }
    }
}
