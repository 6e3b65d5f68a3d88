//! Fetches one source: a file, or what an HTTP server publishes.
//!
//! Gives bytes that arrived whole and are text. What they say is left to the compiler. No message here carries a URL, a
//! header or a value: the source goes by its name.

use super::documents::Fetched;
use crate::config::{RegistryLocation, RegistrySource};
use http::header::{ACCEPT, AUTHORIZATION, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED};
use http::{HeaderMap, HeaderValue, StatusCode};
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use transom_registry::file::DOCUMENT;

/// From the first byte sent to the last byte read.
const DEADLINE: Duration = Duration::from_secs(10);

/// Reads one source, again and again.
pub struct RegistryClient {
    source: RegistrySource,
    /// Why there is none is told with every fetch: a bad certificate file must not end a gateway that runs.
    http: Option<Result<reqwest::Client, String>>,
    last: Mutex<Option<Sent>>,
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// What the server gave us to ask whether anything is new.
#[derive(Clone, Default)]
struct Validators {
    etag: Option<HeaderValue>,
    last_modified: Option<HeaderValue>,
}

/// What the server sent last.
struct Sent {
    text: Arc<str>,
    validators: Validators,
    /// Only then nothing new is good news. What was rejected is sent again: a server may right it and keep the ETag.
    accepted: bool,
}

/// What a source says now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This.
    Document(Fetched),
    /// What it said last time.
    NotModified,
}

/// Why a source could not be read: its name, what happened, what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("registry {name}: {reason}")]
pub struct FetchError {
    /// The source.
    pub name: String,
    /// What happened.
    pub reason: String,
    /// Whether something arrived that cannot be a registry, so that it counts as rejected.
    pub rejected: bool,
}

impl RegistryClient {
    /// A client for this source. Nothing is read yet.
    pub fn new(source: &RegistrySource) -> RegistryClient {
        let http = match &source.location {
            RegistryLocation::File(_) => None,
            RegistryLocation::Http { url, ca, .. } => Some(crate::web::client(url, ca.as_deref(), DEADLINE)),
        };
        RegistryClient { source: source.clone(), http, last: Mutex::default(), turn: Arc::default() }
    }

    /// The source it reads.
    pub fn source(&self) -> &RegistrySource {
        &self.source
    }

    /// The file, if it is one.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.source.location {
            RegistryLocation::File(path) => Some(path),
            RegistryLocation::Http { .. } => None,
        }
    }

    /// To be held from the fetch until its answer is taken in.
    pub(super) async fn turn(&self) -> tokio::sync::OwnedMutexGuard<()> {
        self.turn.clone().lock_owned().await
    }

    /// This text of the source can go live: from now on only what differs from it needs to be sent.
    pub(super) fn accept(&self, text: &str) {
        if let Some(last) = self.last().as_mut().filter(|last| *last.text == *text) {
            last.accepted = true;
        }
    }

    fn last(&self) -> MutexGuard<'_, Option<Sent>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the source once. A server is asked only for news if it gave us something to ask with, along with a document that was accepted.
    pub async fn fetch(&self) -> Result<Answer, FetchError> {
        match &self.source.location {
            RegistryLocation::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || read_file(&path)).await;
                let bytes = read.unwrap_or_else(|_| Err(Fault::failed("reading it was interrupted"))).map_err(|fault| self.error(fault))?;
                self.document(bytes).map(Answer::Document)
            }
            RegistryLocation::Http { url, headers, .. } => {
                let client = match &self.http {
                    Some(Ok(client)) => client,
                    Some(Err(reason)) => return Err(self.error(Fault::failed(reason.clone()))),
                    None => return Err(self.error(Fault::failed("it is not an HTTP source"))),
                };
                let mut request = HeaderMap::new();
                request.insert(ACCEPT, HeaderValue::from_static("application/json"));
                for (name, value) in headers {
                    let mut value = HeaderValue::from_str(value.expose()).map_err(|_| {
                        self.error(Fault::failed(format!("the value of header `{name}` cannot be sent: it holds a control character")))
                    })?;
                    value.set_sensitive(true);
                    request.insert(name.clone(), value);
                }
                let known = self.last().as_ref().filter(|last| last.accepted).map(|last| last.validators.clone()).unwrap_or_default();
                match get(client, url, request, known).await.map_err(|fault| self.error(fault))? {
                    None => Ok(Answer::NotModified),
                    Some((bytes, validators)) => {
                        let document = self.document(bytes)?;
                        *self.last() = Some(Sent { text: document.text.clone(), validators, accepted: false });
                        Ok(Answer::Document(document))
                    }
                }
            }
        }
    }

    /// Whether a token travels in the open.
    pub(super) fn sends_secrets_in_the_open(&self) -> bool {
        match &self.source.location {
            RegistryLocation::Http { url, headers, .. } => {
                let userinfo = url.authority().is_some_and(|authority| authority.as_str().contains('@'));
                url.scheme_str() != Some("https") && (userinfo || headers.iter().any(|(name, _)| *name == AUTHORIZATION || is_key(name.as_str())))
            }
            RegistryLocation::File(_) => false,
        }
    }

    /// Who else may change the file, if that is somebody an operator may not think of.
    #[cfg(unix)]
    pub(super) fn writable_by_others(&self) -> Option<&'static str> {
        use std::os::unix::fs::MetadataExt;
        let file = self.path()?.metadata().ok()?;
        if file.mode() & 0o002 != 0 {
            return Some("every user of this machine may change the registry file; take the right to write from others");
        }
        // The files of a process belong to whom it runs as; where there is no such directory, nothing is said.
        let own = std::fs::metadata("/proc/self").ok()?.uid();
        (file.uid() != own && file.uid() != 0).then_some("the registry file belongs to another user, who may change it; change its owner")
    }

    #[cfg(not(unix))]
    pub(super) fn writable_by_others(&self) -> Option<&'static str> {
        None
    }

    fn document(&self, bytes: Vec<u8>) -> Result<Fetched, FetchError> {
        let text = String::from_utf8(bytes)
            .map_err(|error| self.error(Fault::rejected(format!("it is not UTF-8 text, from byte {} on", error.utf8_error().valid_up_to()))))?;
        Ok(Fetched { name: self.source.name.clone(), text: text.into() })
    }

    fn error(&self, fault: Fault) -> FetchError {
        FetchError { name: self.source.name.clone(), reason: fault.reason, rejected: fault.rejected }
    }
}

impl std::fmt::Debug for RegistryClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RegistryClient").field(&self.source.name).finish()
    }
}

/// Headers that carry a key under a name of their own.
fn is_key(name: &str) -> bool {
    ["key", "token", "secret", "cookie"].iter().any(|word| name.contains(word))
}

struct Fault {
    reason: String,
    rejected: bool,
}

impl Fault {
    fn failed(reason: impl Into<String>) -> Fault {
        Fault { reason: reason.into(), rejected: false }
    }

    fn rejected(reason: impl Into<String>) -> Fault {
        Fault { reason: reason.into(), rejected: true }
    }

    fn too_large() -> Fault {
        Fault::rejected(format!("it is larger than {} MiB", DOCUMENT >> 20))
    }
}

/// The whole file, read once.
fn read_file(path: &Path) -> Result<Vec<u8>, Fault> {
    let told = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Fault::failed(format!("there is no such file ({})", path.display())),
        _ => Fault::failed(format!("the file {} cannot be read: {}", path.display(), reason(&error))),
    };
    // A named pipe or a device would be read for ever, and opening a pipe alone waits.
    if !path.metadata().map_err(told)?.is_file() {
        return Err(Fault::failed(format!("{} is not a file", path.display())));
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(DOCUMENT).unwrap_or(u64::MAX);
    std::fs::File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes)).map_err(told)?;
    if bytes.len() > DOCUMENT { Err(Fault::too_large()) } else { Ok(bytes) }
}

/// Asks a server. `None`: nothing is new.
async fn get(client: &reqwest::Client, url: &http::Uri, mut headers: HeaderMap, known: Validators) -> Result<Option<(Vec<u8>, Validators)>, Fault> {
    let conditional = known.etag.is_some() || known.last_modified.is_some();
    headers
        .extend([(IF_NONE_MATCH, known.etag), (IF_MODIFIED_SINCE, known.last_modified)].into_iter().filter_map(|(name, value)| Some((name, value?))));
    let mut response = client.get(url.to_string()).headers(headers).send().await.map_err(told)?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::NOT_MODIFIED if conditional => return Ok(None),
        status => return Err(Fault::failed(refusal(status))),
    }
    if response.content_length().is_some_and(|length| length > DOCUMENT as u64) {
        return Err(Fault::too_large());
    }
    let validators = Validators { etag: response.headers().get(ETAG).cloned(), last_modified: response.headers().get(LAST_MODIFIED).cloned() };
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(told)? {
        if bytes.len() + chunk.len() > DOCUMENT {
            return Err(Fault::too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some((bytes, validators)))
}

fn refusal(status: StatusCode) -> String {
    let hint = match status.as_u16() {
        401 | 403 => "; check `registry.auth`",
        300..=399 => "; redirects are not followed, put the final URL into `registry.source`",
        404 => "; check the URL",
        _ => "",
    };
    format!("the server answered {status}{hint}")
}

fn told(error: reqwest::Error) -> Fault {
    if error.is_timeout() {
        return Fault::failed(if error.is_connect() {
            format!("no connection within {} s", crate::web::CONNECT.as_secs())
        } else {
            format!("no complete answer within {} s", DEADLINE.as_secs())
        });
    }
    let what = if error.is_connect() {
        "cannot connect"
    } else if error.is_builder() {
        "the URL cannot be used"
    } else {
        "the answer broke off"
    };
    // The URL may hold a password.
    Fault::failed(format!("{what}: {}", reason(&error.without_url())))
}

/// The innermost cause, without the number of an I/O error: it is what a person needs to know, and it names no URL.
fn reason(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(inner) = innermost.source() {
        innermost = inner;
    }
    innermost.to_string().split(" (os error").next().unwrap_or_default().to_lowercase()
}
