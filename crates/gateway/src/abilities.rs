//! What a client declared it can do for servers, and whether a server's question may be put to it.

use bytes::Bytes;
use transom_protocol::json::Json;
use transom_protocol::{RpcError, error};

/// What a client declared it can do for servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// `sampling`
    pub sampling: bool,
    /// `elicitation`, by a form
    pub elicitation: bool,
    /// `elicitation`, by opening a page
    pub pages: bool,
    /// `roots`
    pub roots: bool,
}

impl Abilities {
    /// From `capabilities`.
    pub fn read(capabilities: Option<Json<'_>>) -> Abilities {
        let member = |name| capabilities.and_then(|capabilities| capabilities.get(name)).filter(|value| value.raw() != "null");
        let elicitation = member("elicitation");
        let mode = |name| elicitation.is_some_and(|modes| modes.get(name).is_some());
        Abilities {
            sampling: member("sampling").is_some(),
            // An empty object stands for forms, as it did when there was nothing else.
            elicitation: elicitation.is_some() && (mode("form") || !mode("url")),
            pages: mode("url"),
            roots: member("roots").is_some(),
        }
    }

    /// As `capabilities`.
    pub fn json(self) -> Bytes {
        let elicitation = match (self.elicitation, self.pages) {
            (true, true) => Some(r#""elicitation":{"form":{},"url":{}}"#),
            (true, false) => Some(r#""elicitation":{}"#),
            (false, true) => Some(r#""elicitation":{"url":{}}"#),
            (false, false) => None,
        };
        let members = [self.sampling.then_some(r#""sampling":{}"#), elicitation, self.roots.then_some(r#""roots":{}"#)];
        let members: Vec<&str> = members.into_iter().flatten().collect();
        if members.is_empty() { Bytes::from_static(b"{}") } else { format!("{{{}}}", members.join(",")).into() }
    }

    /// Whether a client with these can be asked anything at all.
    pub fn any(self) -> bool {
        self != Abilities::default()
    }

    /// Whether this question may be put to a client with these; `Err` is what the server gets instead.
    pub fn judge(self, method: &str, params: Json<'_>) -> Result<(), RpcError> {
        let opens_page = method == "elicitation/create" && params.get("mode").and_then(Json::string).as_deref() == Some("url");
        let able = match method {
            "sampling/createMessage" => self.sampling,
            "elicitation/create" if opens_page => self.pages,
            "elicitation/create" => self.elicitation,
            "roots/list" => self.roots,
            _ => false,
        };
        if !able {
            let method = error::shorten(method, 64);
            let how = if opens_page { " in the mode `url`" } else { "" };
            return Err(RpcError::new(error::METHOD_NOT_FOUND, format!("the client that made this call cannot answer {method}{how}")));
        }
        // E10: a page is something a browser fetches, never something it executes.
        if opens_page && !params.get("url").and_then(Json::string).is_some_and(|url| is_web_address(&url)) {
            return Err(RpcError::new(error::INVALID_PARAMS, "the page of an elicitation must have an http or https address"));
        }
        Ok(())
    }

    /// As one byte of a session's record.
    pub fn bits(self) -> u8 {
        u8::from(self.sampling) | u8::from(self.elicitation) << 1 | u8::from(self.roots) << 2 | u8::from(self.pages) << 3
    }

    /// From that byte.
    pub fn from_bits(bits: u8) -> Abilities {
        let bit = |at: u8| bits & (1 << at) != 0;
        Abilities { sampling: bit(0), elicitation: bit(1), roots: bit(2), pages: bit(3) }
    }
}

fn is_web_address(url: &str) -> bool {
    let parsed = url.parse::<http::Uri>().ok();
    parsed.is_some_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_declares_survives_the_record_and_comes_out_as_it_was_meant() {
        for (declared, json) in [
            ("{}", "{}"),
            (r#"{"sampling":{"tools":{}}}"#, r#"{"sampling":{}}"#),
            (r#"{"elicitation":{}}"#, r#"{"elicitation":{}}"#),
            (r#"{"elicitation":{"form":{}},"roots":{"listChanged":true}}"#, r#"{"elicitation":{},"roots":{}}"#),
            (r#"{"elicitation":{"url":{}}}"#, r#"{"elicitation":{"url":{}}}"#),
            (r#"{"elicitation":{"url":{},"form":{}}}"#, r#"{"elicitation":{"form":{},"url":{}}}"#),
            (r#"{"elicitation":null}"#, "{}"),
        ] {
            let read = Abilities::read(Some(Json::trusted(declared)));
            assert_eq!(Abilities::from_bits(read.bits()), read, "{declared}");
            assert_eq!(read.json(), json, "{declared}");
        }
    }

    // E10
    #[test]
    fn a_question_is_put_only_to_a_client_that_can_answer_it_and_a_page_is_a_web_address() {
        let all = Abilities { sampling: true, elicitation: true, pages: true, roots: true };
        let page = |url: &str| format!(r#"{{"mode":"url","message":"?","url":"{url}"}}"#);
        let judge = |can: Abilities, method: &str, params: &str| can.judge(method, Json::trusted(params)).map_err(|error| error.code);
        for method in ["sampling/createMessage", "elicitation/create", "roots/list"] {
            assert_eq!(judge(all, method, "{}"), Ok(()), "{method}");
            assert_eq!(judge(Abilities::default(), method, "{}"), Err(error::METHOD_NOT_FOUND), "{method}");
        }
        assert_eq!(judge(all, "tools/call", "{}"), Err(error::METHOD_NOT_FOUND));
        assert_eq!(judge(all, "elicitation/create", &page("https://example.com/x?y=1")), Ok(()));
        for url in ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "//example.com", "https:", "", " https://example.com"] {
            assert_eq!(judge(all, "elicitation/create", &page(url)), Err(error::INVALID_PARAMS), "{url}");
        }
        let forms = Abilities { pages: false, ..all };
        assert_eq!(judge(forms, "elicitation/create", &page("https://example.com")), Err(error::METHOD_NOT_FOUND));
    }
}
