//! What is said at the beginning, and what it tells us: `server/discover` for modern targets, `initialize` for the rest.

use crate::failure::Answer;
use crate::ident::Ident;
use crate::outgoing::{self, CLIENT_INFO};
use crate::state::Capabilities;
use bytes::Bytes;
use transom_protocol::error::{self, shorten};
use transom_protocol::json::Kind;
use transom_protocol::{Era, Json, Revision, meta, write};

/// More than any model should be told.
const LONGEST_INSTRUCTIONS: usize = 64 << 10;

/// What a target said about itself.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) era: Era,
    pub(crate) revision: Revision,
    /// `None`: it did not say, so it is asked for every list.
    pub(crate) capabilities: Option<Capabilities>,
    /// Which of its lists it says it will announce changes of.
    pub(crate) announces: Announces,
    pub(crate) instructions: Option<String>,
}

/// The lists a target announces changes of.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Announces {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
}

impl Announces {
    pub(crate) fn any(self) -> bool {
        self.tools || self.prompts || self.resources
    }
}

/// A legacy handshake that succeeded.
pub(crate) struct Initialized {
    pub(crate) revision: Revision,
    pub(crate) server: Server,
}

/// Which era an answer to `server/discover` speaks.
pub(crate) enum Verdict {
    Modern(Server),
    /// Something else; the text says what.
    Legacy(String),
}

pub(crate) fn discover(ident: Ident) -> Bytes {
    outgoing::control(ident, "server/discover", "{}", Era::Modern)
}

pub(crate) fn initialize(ident: Ident, questions: bool) -> Bytes {
    let capabilities = if questions { r#"{"sampling":{},"elicitation":{"form":{},"url":{}},"roots":{}}"# } else { "{}" };
    let client = String::from_utf8_lossy(CLIENT_INFO);
    let params = format!(r#"{{"protocolVersion":"{}","capabilities":{capabilities},"clientInfo":{client}}}"#, Revision::NEWEST_LEGACY.text());
    outgoing::control(ident, "initialize", &params, Era::Legacy)
}

pub(crate) fn initialized() -> Bytes {
    write::request(None, "notifications/initialized", None).into()
}

/// Reads the answer to `server/discover`.
pub(crate) fn verdict(answer: &Answer) -> Verdict {
    match answer {
        Ok(result) => {
            let result = view(result);
            let supported = result.get("supportedVersions");
            if !supported.is_some_and(names_modern) {
                return Verdict::Legacy("its `server/discover` names no modern revision".into());
            }
            Verdict::Modern(Server::read(Era::Modern, Revision::V2026_07_28, result))
        }
        Err(object) => match code(object) {
            Some(error::HEADER_MISMATCH | error::MISSING_CAPABILITY) => Verdict::Modern(Server::silent()),
            Some(error::UNSUPPORTED_VERSION) if view(object).get("data").and_then(|data| data.get("supported")).is_some_and(names_modern) => {
                Verdict::Modern(Server::silent())
            }
            _ => Verdict::Legacy(format!("it refused `server/discover`: {}", describe(object))),
        },
    }
}

/// Reads the answer to `initialize`.
pub(crate) fn read_initialized(answer: Answer) -> Result<Initialized, String> {
    let result = answer.map_err(|object| format!("it refused `initialize`: {}", describe(&object)))?;
    let result = view(&result);
    let offered = result.get("protocolVersion").and_then(Json::string);
    let revision = offered.as_deref().and_then(Revision::read).filter(|revision| revision.era() == Era::Legacy);
    let Some(revision) = revision else {
        let offered = shorten(offered.as_deref().unwrap_or("none"), 32).escape_default().to_string();
        return Err(format!("it answered `initialize` with a revision we do not speak: {offered}"));
    };
    Ok(Initialized { revision, server: Server::read(Era::Legacy, revision, result) })
}

impl Server {
    /// A modern server that says nothing about itself.
    pub(crate) fn silent() -> Server {
        Server { era: Era::Modern, revision: Revision::V2026_07_28, capabilities: None, announces: Announces::default(), instructions: None }
    }

    fn read(era: Era, revision: Revision, result: Json<'_>) -> Server {
        let declared = result.get("capabilities").unwrap_or(Json::trusted("{}"));
        let has = |name: &str| declared.get(name).is_some_and(|value| value.kind() == Kind::Object);
        let says = |name: &str, member: &str| declared.get(name).and_then(|value| value.get(member)).and_then(Json::bool) == Some(true);
        let object = |value: Option<Json<'_>>| value.is_some_and(|value| value.kind() == Kind::Object);
        let tasks = declared.get("tasks").filter(|_| era == Era::Legacy);
        let tool_tasks = tasks.and_then(|tasks| tasks.get("requests")?.get("tools")?.get("call"));
        let extension = declared.get("extensions").filter(|_| era == Era::Modern).and_then(|extensions| extensions.get(meta::TASKS));
        let capabilities = Capabilities {
            tools: has("tools"),
            prompts: has("prompts"),
            resources: has("resources"),
            subscribe: says("resources", "subscribe"),
            completions: has("completions"),
            logging: has("logging"),
            legacy_tasks: object(tool_tasks),
            legacy_task_cancel: object(tool_tasks) && object(tasks.and_then(|tasks| tasks.get("cancel"))),
            modern_tasks: object(extension),
        };
        let announces =
            Announces { tools: says("tools", "listChanged"), prompts: says("prompts", "listChanged"), resources: says("resources", "listChanged") };
        let instructions = result.get("instructions").and_then(Json::string).map(|text| shorten(&text, LONGEST_INSTRUCTIONS).to_owned());
        Server { era, revision, capabilities: Some(capabilities), announces, instructions }
    }
}

fn names_modern(versions: Json<'_>) -> bool {
    versions.elements().any(|version| version.string().as_deref() == Some(Revision::V2026_07_28.text()))
}

/// Checked bytes as a value.
pub(crate) fn view(bytes: &Bytes) -> Json<'_> {
    Json::trusted(std::str::from_utf8(bytes).unwrap_or("null"))
}

/// The code of an error object.
pub(crate) fn code(error: &Bytes) -> Option<i64> {
    view(error).get("code")?.raw().parse().ok()
}

/// The message of an error object, as the target wrote it: for [`Scrubber::clean`](crate::text::Scrubber::clean) before anybody reads it.
pub(crate) fn describe(error: &Bytes) -> String {
    let message = view(error).get("message").and_then(Json::string).unwrap_or_default();
    format!("{message} (code {})", code(error).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(answer: Result<&str, &str>) -> &'static str {
        let bytes = |text: &str| Bytes::from(text.to_owned());
        match verdict(&answer.map(bytes).map_err(bytes)) {
            Verdict::Modern(server) if server.capabilities.is_some() => "modern",
            Verdict::Modern(_) => "silent",
            Verdict::Legacy(_) => "legacy",
        }
    }

    #[test]
    fn only_a_recognised_modern_answer_is_modern() {
        assert_eq!(judged(Ok(r#"{"supportedVersions":["2025-11-25","2026-07-28"],"capabilities":{"tools":{}}}"#)), "modern");
        assert_eq!(judged(Err(r#"{"code":-32022,"message":"x","data":{"supported":["2026-07-28"]}}"#)), "silent");
        for legacy in [
            Ok(r#"{"supportedVersions":["2025-11-25"],"capabilities":{}}"#),
            Ok("{}"),
            Ok("null"),
            Err(r#"{"code":-32601,"message":"no"}"#),
            Err(r#"{"code":-32602,"message":"no"}"#),
            Err(r#"{"code":-32022,"message":"x","data":{"supported":["2025-11-25"]}}"#),
            Err("7"),
        ] {
            assert_eq!(judged(legacy), "legacy", "{legacy:?}");
        }
    }

    #[test]
    fn any_legacy_revision_will_do_and_no_other() {
        let read = |version: &str| {
            read_initialized(Ok(Bytes::from(format!(r#"{{"protocolVersion":"{version}","capabilities":{{"tools":{{"listChanged":true}}}}}}"#))))
        };
        for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
            let initialized = read(version).ok().unwrap();
            assert_eq!(initialized.revision.text(), version);
            assert!(initialized.server.announces.tools && !initialized.server.announces.prompts);
        }
        assert!(read("2026-07-28").is_err() && read("1999-01-01").is_err());
    }
}
