//! Tasks: calls that a target goes on with after it has answered.
//!
//! A task is known by an id. Ours is sealed around the target's and says whose task it is and by which tool it was made: nobody
//! else can ask for it, and whoever asks is judged by that tool's rules, now and not only when it was made. What a task of a
//! virtual tool delivers is given the same shape as the result of a call.

use crate::authenticate::Principal;
use crate::reply::{Failure, Reject};
use crate::seal::Seal;
use bytes::Bytes;
use memchr::memmem::Finder;
use std::collections::{HashMap, VecDeque};
use std::sync::{LazyLock, Mutex};
use transom_protocol::json::{Json, Key, Kind};
use transom_protocol::write::{self, Edit};
use transom_protocol::{Era, Method, RpcError, error, meta, result_type};
use transom_upstream::SessionKey;

const PURPOSE: &str = "transom task 1";
/// Tasks whose makers are remembered.
const REMEMBERED: usize = 10_000;
/// The longest id of a target that we pass on.
const LONGEST: usize = 1024;

/// What an id of ours stands for.
#[derive(Debug, PartialEq, Eq)]
pub struct TaskId {
    /// The target that has the task.
    pub target: String,
    /// The exposed name of the tool that made it.
    pub tool: String,
    /// The target's own id.
    pub inner: String,
}

impl TaskId {
    /// As clients know it.
    pub fn sealed(&self, seal: &Seal, principal: &Principal) -> Option<String> {
        let mut record = Vec::new();
        for part in [principal.key(), &self.target, &self.tool] {
            record.extend_from_slice(&u32::try_from(part.len()).ok()?.to_le_bytes());
            record.extend_from_slice(part.as_bytes());
        }
        record.extend_from_slice(self.inner.as_bytes());
        seal.seal(PURPOSE, &record)
    }

    /// From what a client sent. Somebody else's is none.
    pub fn opened(seal: &Seal, principal: &Principal, id: &str) -> Option<TaskId> {
        let record = seal.open(PURPOSE, id)?;
        let (owner, rest) = part(&record)?;
        let (target, rest) = part(rest)?;
        let (tool, inner) = part(rest)?;
        let inner = std::str::from_utf8(inner).ok()?;
        (owner == principal.key()).then(|| TaskId { target: target.into(), tool: tool.into(), inner: inner.into() })
    }
}

fn part(record: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = record.split_first_chunk::<4>()?;
    let (part, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    Some((std::str::from_utf8(part).ok()?, rest))
}

/// Who made which task, so that they can be told of it: the latest, and those that were made here.
#[derive(Default)]
pub struct TaskBook {
    inner: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    owners: HashMap<(String, String), (SessionKey, String)>,
    order: VecDeque<(String, String)>,
}

impl TaskBook {
    /// Notes a task, by its target and the target's id: the session that made it, and its id there.
    pub fn note(&self, task: &TaskId, session: SessionKey, id: String) {
        let Ok(mut book) = self.inner.lock() else { return };
        let key = (task.target.clone(), task.inner.clone());
        if book.owners.insert(key.clone(), (session, id)).is_none() {
            book.order.push_back(key);
        }
        while book.order.len() > REMEMBERED {
            if let Some(oldest) = book.order.pop_front() {
                book.owners.remove(&oldest);
            }
        }
    }

    /// Whom a target's notification about a task is for, and what they read: its state and nothing that the target says beside.
    pub fn status(&self, target: &str, params: &Bytes) -> Option<(SessionKey, Bytes)> {
        let task = Json::trusted(std::str::from_utf8(params).ok()?);
        let key = (target.to_owned(), inner_id(task)?);
        let (session, id) = self.inner.lock().ok()?.owners.get(&key)?.clone();
        let params = renamed(task, &id, true, &[("result", b"null"), ("error", b"null")]);
        Some((session, write::request(None, Method::TaskStatus.name(), Some(&params)).into()))
    }
}

/// Whether a method is about a task that exists.
pub fn is_about_task(method: Method) -> bool {
    matches!(method, Method::GetTask | Method::UpdateTask | Method::CancelTask | Method::TaskResult)
}

/// The one answer for every task that is not there, is somebody else's, or was made by a tool that may not be used any more.
pub fn unknown() -> Failure {
    Failure::Rejected { reason: Reject::UnknownTool, error: Box::new(RpcError::new(error::INVALID_PARAMS, "Task not found")) }
}

/// The answer to a modern client that did not say that it knows tasks.
pub fn undeclared() -> Failure {
    let data = format!("{{\"requiredCapabilities\":{{\"extensions\":{{\"{}\":{{}}}}}}}}", meta::TASKS);
    let error = RpcError::new(error::MISSING_CAPABILITY, "Missing required client capability").with_data(data);
    Failure::Rejected { reason: Reject::InvalidRequest, error: Box::new(error) }
}

/// Whether capabilities, as JSON, name the extension.
pub fn declared(capabilities: Option<&Bytes>) -> bool {
    let Some(capabilities) = capabilities.filter(|json| memchr::memmem::find(json, meta::TASKS.as_bytes()).is_some()) else { return false };
    let json = Json::trusted(std::str::from_utf8(capabilities).unwrap_or("{}"));
    json.get("extensions").and_then(|extensions| extensions.get(meta::TASKS)).is_some_and(|value| value.kind() == Kind::Object)
}

/// The task that a result announces instead of being one; nearly none has the word at all.
pub fn created(result: &Bytes, era: Era) -> Option<Json<'_>> {
    static WORD: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"task\""));
    let json = || std::str::from_utf8(result).ok().map(Json::trusted);
    match era {
        Era::Modern => (result_type(result) == Some("\"task\"")).then(json).flatten(),
        Era::Legacy => {
            WORD.find(result)?;
            json()?.get("task").filter(|task| task.kind() == Kind::Object)
        }
    }
}

/// The target's id in a task.
pub fn inner_id(task: Json<'_>) -> Option<String> {
    task.get("taskId").and_then(Json::string).filter(|id| !id.is_empty() && id.len() <= LONGEST).map(|id| id.into_owned())
}

/// The members that a task of a virtual tool keeps. A target might say in any other what the registry hides.
const MEMBERS: [&str; 12] = [
    "taskId",
    "status",
    "createdAt",
    "lastUpdatedAt",
    "ttl",
    "ttlMs",
    "pollInterval",
    "pollIntervalMs",
    "resultType",
    "inputRequests",
    "error",
    "result",
];

/// A task under our id, with these members in the place of its own.
pub fn renamed(task: Json<'_>, id: &str, is_virtual: bool, told: &[(&str, &[u8])]) -> Vec<u8> {
    let id = write::quoted(id);
    let edit = |key: Key<'_>, _: Json<'_>| match told.iter().find(|(name, _)| key.is(name)) {
        _ if key.is("taskId") => Edit::Set(id.as_bytes()),
        Some((_, told)) => Edit::Set(told),
        None if is_virtual && !MEMBERS.iter().any(|member| key.is(member)) => Edit::Drop,
        None => Edit::Keep,
    };
    write::edited(task, edit, &[])
}

/// An object whose `_meta` says which task it belongs to, with our id there; `None` if it does not say.
pub fn related(object: Json<'_>, id: &str) -> Option<Vec<u8>> {
    let said = object.get("_meta")?;
    said.get(meta::RELATED_TASK)?;
    Some(relate(object, said, id))
}

/// The same, whether it said so or not.
pub fn made_related(object: Json<'_>, id: &str) -> Vec<u8> {
    relate(object, object.get("_meta").filter(|said| said.kind() == Kind::Object).unwrap_or(Json::trusted("{}")), id)
}

fn relate(object: Json<'_>, said: Json<'_>, id: &str) -> Vec<u8> {
    let task = format!("{{\"taskId\":{}}}", write::quoted(id));
    let drop = |name: &'static str| move |key: Key<'_>, _: Json<'_>| if key.is(name) { Edit::Drop } else { Edit::Keep };
    let said = write::edited(said, drop(meta::RELATED_TASK), &[(meta::RELATED_TASK, task.as_bytes())]);
    write::edited(object, drop("_meta"), &[("_meta", &said)])
}

#[cfg(test)]
mod tests {
    use super::*;

    // H9, CVE-2026-52870
    #[test]
    fn an_id_opens_for_its_principal_only_and_not_if_a_bit_is_changed() {
        let seal = Seal::new(None).unwrap();
        let key = |id: &str| Principal::of_key(&crate::config::ApiKey { id: id.into(), hash: [0; 32], claims: serde_json::Map::new() });
        let task = TaskId { target: "t".into(), tool: "slow".into(), inner: "786512e2".into() };
        let id = task.sealed(&seal, &key("one")).unwrap();
        assert!(!id.contains("786512e2"));
        assert_eq!(TaskId::opened(&seal, &key("one"), &id).as_ref(), Some(&task));
        assert_eq!(TaskId::opened(&seal, &key("two"), &id), None);
        assert_eq!(TaskId::opened(&seal, &Principal::anonymous(), &id), None);
        for at in 0..id.len() {
            let mut bytes = id.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(TaskId::opened(&seal, &key("one"), std::str::from_utf8(&bytes).unwrap()), None, "changed at {at}");
        }
    }

    #[test]
    fn a_task_is_told_from_a_result_that_speaks_of_one() {
        let created = |text: &'static str, era| created(&Bytes::from_static(text.as_bytes()), era).is_some();
        assert!(created(r#"{"resultType":"task","taskId":"x"}"#, Era::Modern));
        assert!(!created(r#"{"resultType":"complete","structuredContent":{"resultType":"task"}}"#, Era::Modern));
        assert!(created(r#"{"task":{"taskId":"x"}}"#, Era::Legacy));
        assert!(!created(r#"{"content":[],"structuredContent":{"task":{}}}"#, Era::Legacy));
    }

    #[test]
    fn what_a_task_of_a_virtual_tool_says_beside_its_state_is_dropped() {
        let task = Json::trusted(r#"{"taskId":"inner","status":"completed","statusMessage":"cost 9","_meta":{},"result":{"cost":9}}"#);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert_eq!(text(renamed(task, "ours", true, &[("result", b"{}")])), r#"{"taskId":"ours","status":"completed","result":{}}"#);
        assert!(text(renamed(task, "ours", false, &[])).contains("cost 9"));
        let related = text(made_related(Json::trusted(r#"{"a":1,"_meta":{"b":2}}"#), "ours"));
        assert_eq!(related, r#"{"a":1,"_meta":{"b":2,"io.modelcontextprotocol/related-task":{"taskId":"ours"}}}"#);
    }
}
