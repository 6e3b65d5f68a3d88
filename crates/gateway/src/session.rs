//! Legacy sessions: sealed ids, who owns them, what is in flight in them. Also the messages that end at the gateway
//! itself: handshakes, pings, cancellations, streams.
//!
//! A session id is a sealed record, so any replica with the same key can serve it and nothing a client proposes is ever
//! used. What this replica keeps beside it (calls in flight, questions to the client) is bounded and may be forgotten.

use crate::abilities::Abilities;
use crate::authenticate::Principal;
use crate::authenticate::shares::{Share, Shares};
use crate::authenticate::validity::Validity;
use crate::authorize::{Sight, Viewer};
use crate::generation::Generation;
use crate::hub::{Stream, Watcher};
use crate::message::{Call, Context, Control, Identified, InSession, List};
use crate::replay::{Reader, Shelf, Total};
use crate::reply::{Failure, Reject};
use crate::runtime::Runtime;
use crate::seal::Seal;
use crate::stage::{Next, Stage};
use bytes::Bytes;
use foldhash::fast::RandomState;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::oneshot;
use transom_protocol::error::shorten;
use transom_protocol::json::{Json, Kind as JsonKind};
use transom_protocol::{Era, Id, Revision, RpcError, meta, write};
use transom_upstream::{Capabilities, SessionKey};

const PURPOSE: &str = "transom session 1";
const LIFETIME: Duration = Duration::from_secs(24 * 3600);
const IDLE: Duration = Duration::from_secs(30 * 60);
const OPENING: Duration = Duration::from_secs(10);
const SESSIONS: usize = 10_000;
/// Sessions of one authenticated principal.
const SESSIONS_EACH: usize = 100;
const IN_FLIGHT: usize = 1_024;
const OWED: usize = 64;
const ENDED: usize = 100_000;
/// Tasks that a session can list.
const TASKS: usize = 100;
const SHARDS: usize = 16;
/// A principal with too many sessions gives up those that have rested for so long, and so many at a time.
const RESTED: Duration = Duration::from_secs(5);
const FORGOTTEN: usize = 25;
/// The longest session id we look at.
const LONGEST: usize = 1024;
/// As much of a client's name and of its version goes into a session id, and is shown to rules.
const NAME: usize = 128;
/// A `clientInfo` that is larger is told to targets by name and version alone.
const INFO: usize = 4096;
/// In place of the length of a name that was not given.
const ABSENT: u8 = u8::MAX;

/// What a client calls itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// `name`, or its beginning.
    pub name: String,
    /// `version`, or its beginning.
    pub version: String,
    /// `clientInfo`, JSON, as far as it is known here.
    pub info: Bytes,
}

impl Client {
    /// From its `clientInfo`.
    pub fn read(info: Json<'_>) -> Client {
        let (name, version) = Client::names(info);
        let client = Client::named(name, version);
        if info.raw().len() > INFO {
            return client;
        }
        // A copy: a slice would keep the whole request for as long as the session lives.
        Client { info: Bytes::copy_from_slice(info.raw().as_bytes()), ..client }
    }

    /// Name and version of a `clientInfo`, each as much as a session keeps of it.
    pub fn names(info: Json<'_>) -> (String, String) {
        let member = |name| info.get(name).and_then(Json::string).map(|text| shorten(&text, NAME).to_owned()).unwrap_or_default();
        (member("name"), member("version"))
    }

    fn named(name: String, version: String) -> Client {
        let info = format!("{{\"name\":{},\"version\":{}}}", write::quoted(&name), write::quoted(&version)).into();
        Client { name, version, info }
    }

    /// As it stands in a session's record.
    fn write(client: Option<&Client>, record: &mut Vec<u8>) {
        let Some(client) = client else { return record.push(ABSENT) };
        for text in [&client.name, &client.version] {
            record.push(u8::try_from(text.len()).unwrap_or(0));
            record.extend_from_slice(text.as_bytes());
        }
    }

    /// From a session's record, and what comes after it.
    fn restore(record: &[u8]) -> Option<(Option<Client>, &[u8])> {
        let text = |record: &'_ [u8]| -> Option<(String, usize)> {
            let (length, rest) = record.split_first()?;
            let length = usize::from(*length);
            Some((std::str::from_utf8(rest.get(..length)?).ok()?.to_owned(), 1 + length))
        };
        if let Some((&ABSENT, rest)) = record.split_first() {
            return Some((None, rest));
        }
        let (name, after) = text(record)?;
        let rest = record.get(after..)?;
        let (version, after) = text(rest)?;
        Some((Some(Client::named(name, version)), rest.get(after..)?))
    }
}

/// One legacy session on this replica.
pub struct Session {
    /// Which session.
    pub key: SessionKey,
    /// The revision agreed on.
    pub revision: Revision,
    client: OnceLock<Client>,
    abilities: AtomicU8,
    principal: String,
    level: Mutex<Option<Bytes>>,
    ready: AtomicBool,
    last_used: AtomicU64,
    in_flight: Mutex<HashMap<Id, oneshot::Sender<()>, RandomState>>,
    owed: Mutex<HashMap<Bytes, oneshot::Sender<Result<Bytes, RpcError>>>>,
    /// Streams of calls, to be taken up again.
    pub shelf: Arc<Shelf>,
    /// Ids of the tasks it made, the latest last.
    tasks: Mutex<VecDeque<String>>,
}

impl Session {
    /// A session that belongs to this principal.
    pub fn new(
        key: SessionKey,
        revision: Revision,
        abilities: Abilities,
        client: Option<Client>,
        principal: &Principal,
        shelf: Arc<Shelf>,
    ) -> Session {
        Session {
            key,
            revision,
            abilities: AtomicU8::new(abilities.bits()),
            client: client.map_or_else(OnceLock::new, OnceLock::from),
            principal: principal.key().to_owned(),
            level: Mutex::default(),
            ready: AtomicBool::new(false),
            last_used: AtomicU64::new(now()),
            in_flight: Mutex::default(),
            owed: Mutex::default(),
            shelf,
            tasks: Mutex::default(),
        }
    }

    /// What the client can do for servers.
    pub fn abilities(&self) -> Abilities {
        Abilities::from_bits(self.abilities.load(Relaxed))
    }

    /// What its client calls itself, once that is known.
    pub fn client(&self) -> Option<&Client> {
        self.client.get()
    }

    /// The log level it asked for, a JSON string.
    pub fn level(&self) -> Option<Bytes> {
        self.level.lock().ok()?.clone()
    }

    /// Whether this principal owns it.
    pub fn belongs_to(&self, principal: &Principal) -> bool {
        self.principal == principal.key()
    }

    fn touch(&self) {
        self.last_used.store(now(), Relaxed);
    }

    /// Notes a request; the receiver is told when the client takes it back.
    fn begin(self: &Arc<Self>, id: &Id) -> Result<(InFlight, oneshot::Receiver<()>), Failure> {
        let Ok(mut in_flight) = self.in_flight.lock() else { return Err(Failure::Internal) };
        if in_flight.contains_key(id) {
            return Err(Failure::rejected(Reject::IdInUse, "Invalid request: id in use by a request that has not been answered"));
        }
        if in_flight.len() >= IN_FLIGHT {
            return Err(Failure::rejected(Reject::Overloaded, "Too many requests in flight in this session; try again later"));
        }
        let (cancel, cancelled) = oneshot::channel();
        in_flight.insert(id.clone(), cancel);
        Ok((InFlight { session: self.clone(), id: id.clone() }, cancelled))
    }

    /// Notes a task that was made in this session.
    pub fn note_task(&self, id: String) {
        if let Ok(mut tasks) = self.tasks.lock() {
            if tasks.len() >= TASKS {
                tasks.pop_front();
            }
            tasks.push_back(id);
        }
    }

    /// Forgets a task that is no more.
    pub fn forget_task(&self, id: &str) {
        if let Ok(mut tasks) = self.tasks.lock() {
            tasks.retain(|known| known != id);
        }
    }

    /// Notes a question to the client: its id, and where the answer will come. `None` if it owes too many.
    pub fn ask(&self) -> Option<(Bytes, oneshot::Receiver<Result<Bytes, RpcError>>)> {
        let (answer, answered) = oneshot::channel();
        let id = Bytes::from(format!("\"transom-{:032x}\"", rand::random::<u128>()));
        let mut owed = self.owed.lock().ok()?;
        owed.retain(|_, waiting| !waiting.is_closed());
        if owed.len() >= OWED {
            return None;
        }
        owed.insert(id.clone(), answer);
        Some((id, answered))
    }
}

/// A request under way; dropping it takes it off the session's books.
struct InFlight {
    session: Arc<Session>,
    id: Id,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Ok(mut in_flight) = self.session.in_flight.lock() {
            in_flight.remove(&self.id);
        }
    }
}

/// How a session id was judged.
pub enum Opened {
    /// A session of this principal.
    Yes(Arc<Session>),
    /// Not ours, expired, ended, or somebody else's: all the same to the client.
    Unknown,
    /// Ours, but there is no room.
    Full,
}

type Shard = Mutex<HashMap<String, Held, RandomState>>;

/// A session and its place among those of its principal.
struct Held {
    session: Arc<Session>,
    _share: Share,
}

/// Every session this replica knows.
pub struct Sessions {
    seal: Arc<Seal>,
    shards: [Shard; SHARDS],
    ended: Mutex<(HashSet<u128>, VecDeque<u128>)>,
    count: AtomicU64,
    shares: Arc<Shares>,
    replayed: Total,
}

fn now() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_secs()
}

fn unix_now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Sessions {
    /// With the key that seals ids.
    pub fn new(seal: Arc<Seal>) -> Sessions {
        Sessions {
            seal,
            shards: Default::default(),
            ended: Mutex::default(),
            count: AtomicU64::new(0),
            shares: Shares::new(SESSIONS_EACH),
            replayed: Total::default(),
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    #[allow(clippy::indexing_slicing, reason = "the remainder is below what it is divided by")]
    fn shard(&self, token: &str) -> &Shard {
        // The last characters of a token are its authentication tag: as good as random.
        let at = token.bytes().rev().take(4).fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
        &self.shards[at % SHARDS]
    }

    /// A new session and its id; `None` if there is no room.
    pub fn create(&self, revision: Revision, abilities: Abilities, client: Option<Client>, principal: &Principal) -> Option<(String, Arc<Session>)> {
        let key = SessionKey(rand::random());
        let mut record = vec![2, revision as u8, abilities.bits()];
        record.extend_from_slice(&(unix_now() + LIFETIME.as_secs()).to_le_bytes());
        record.extend_from_slice(&key.0.to_le_bytes());
        Client::write(client.as_ref(), &mut record);
        record.extend_from_slice(principal.key().as_bytes());
        let token = self.seal.seal(PURPOSE, &record)?;
        let session = Arc::new(Session::new(key, revision, abilities, client, principal, Shelf::new(self.replayed.clone())));
        self.insert(token.clone(), session.clone(), principal).then_some((token, session))
    }

    fn insert(&self, token: String, session: Arc<Session>, principal: &Principal) -> bool {
        if self.count.load(Relaxed) >= SESSIONS as u64 {
            return false;
        }
        let Some(share) = self.shares.take(principal) else { return false };
        let Ok(mut shard) = self.shard(&token).lock() else { return false };
        if shard.insert(token, Held { session, _share: share }).is_none() {
            self.count.fetch_add(1, Relaxed);
        }
        true
    }

    /// The session behind an id, for this principal.
    pub fn open(&self, token: &str, principal: &Principal) -> Opened {
        if let Ok(shard) = self.shard(token).lock()
            && let Some(Held { session, .. }) = shard.get(token)
        {
            if !session.belongs_to(principal) {
                return Opened::Unknown;
            }
            session.touch();
            return Opened::Yes(session.clone());
        }
        let Some((key, revision, abilities, client)) = self.read(token, principal) else { return Opened::Unknown };
        if self.ended.lock().is_ok_and(|ended| ended.0.contains(&key.0)) {
            return Opened::Unknown;
        }
        let session = Arc::new(Session::new(key, revision, abilities, client, principal, Shelf::new(self.replayed.clone())));
        session.ready.store(true, Relaxed);
        if self.insert(token.to_owned(), session.clone(), principal) { Opened::Yes(session) } else { Opened::Full }
    }

    fn read(&self, token: &str, principal: &Principal) -> Option<(SessionKey, Revision, Abilities, Option<Client>)> {
        let record = (token.len() <= LONGEST).then(|| self.seal.open(PURPOSE, token))??;
        let (head, rest) = record.split_at_checked(27)?;
        let (client, owner) = Client::restore(rest)?;
        let (&[2, revision, abilities], rest) = head.split_first_chunk::<3>()? else { return None };
        let (expiry, key) = rest.split_first_chunk::<8>()?;
        let key = u128::from_le_bytes(key.try_into().ok()?);
        let revision = Revision::ALL.into_iter().find(|r| *r as u8 == revision)?;
        (u64::from_le_bytes(*expiry) > unix_now() && owner == principal.key().as_bytes()).then_some((
            SessionKey(key),
            revision,
            Abilities::from_bits(abilities),
            client,
        ))
    }

    /// Ends a session on this replica.
    fn end(&self, token: &str, session: &Session) {
        if let Ok(mut shard) = self.shard(token).lock()
            && shard.remove(token).is_some()
        {
            self.count.fetch_sub(1, Relaxed);
        }
        if let Ok(mut ended) = self.ended.lock() {
            if ended.0.insert(session.key.0) {
                ended.1.push_back(session.key.0);
            }
            while ended.1.len() > ENDED {
                if let Some(oldest) = ended.1.pop_front() {
                    ended.0.remove(&oldest);
                }
            }
        }
    }

    /// Forgets those of a principal's sessions that have rested longest, to make room for another one of its own. Their ids
    /// stay good; sessions of others are never touched.
    fn make_room(&self, principal: &Principal, listening: &HashSet<SessionKey>) -> Vec<SessionKey> {
        let now = now();
        let rests = |session: &Session| {
            session.belongs_to(principal)
                && now.saturating_sub(session.last_used.load(Relaxed)) >= RESTED.as_secs()
                && session.in_flight.lock().is_ok_and(|calls| calls.is_empty())
                && !listening.contains(&session.key)
        };
        let mut resting: Vec<(u64, SessionKey, String)> = Vec::new();
        for shard in &self.shards {
            let Ok(shard) = shard.lock() else { continue };
            let own = shard.iter().filter(|(_, held)| rests(&held.session));
            resting.extend(own.map(|(token, held)| (held.session.last_used.load(Relaxed), held.session.key, token.clone())));
        }
        resting.sort_unstable_by_key(|(last_used, ..)| *last_used);
        let mut forgotten = Vec::new();
        for (_, key, token) in resting.into_iter().take(FORGOTTEN) {
            if let Ok(mut shard) = self.shard(&token).lock()
                && shard.remove(&token).is_some()
            {
                self.count.fetch_sub(1, Relaxed);
                forgotten.push(key);
            }
        }
        forgotten
    }

    /// Forgets sessions that nobody has used for long or that never got past `initialize`. Their ids stay good.
    pub fn sweep(&self, listening: &HashSet<SessionKey>) -> Vec<SessionKey> {
        let now = now();
        let mut gone = Vec::new();
        for shard in &self.shards {
            let Ok(mut shard) = shard.lock() else { continue };
            shard.retain(|_, Held { session, .. }| {
                session.shelf.tidy();
                let idle = now.saturating_sub(session.last_used.load(Relaxed));
                let limit = if session.ready.load(Relaxed) { IDLE } else { OPENING };
                let keep =
                    idle <= limit.as_secs() || session.in_flight.lock().is_ok_and(|calls| !calls.is_empty()) || listening.contains(&session.key);
                if !keep {
                    gone.push(session.key);
                }
                keep
            });
        }
        self.count.fetch_sub(gone.len() as u64, Relaxed);
        gone
    }
}

/// The stage.
#[derive(Clone)]
pub struct SessionStage {
    runtime: Arc<Runtime>,
}

impl SessionStage {
    /// With the sessions of this replica.
    pub fn new(runtime: Arc<Runtime>) -> SessionStage {
        SessionStage { runtime }
    }

    fn viewer(&self, context: &Context, session: Option<&Session>) -> Viewer {
        crate::authorize::viewer(&self.runtime.policy.load(), context, session)
    }

    /// What a handshake tells of the targets, as far as this client may know of them.
    fn instructions(&self, context: &Context, session: Option<&Session>) -> Option<String> {
        let policy = self.runtime.policy.load();
        let viewer = crate::authorize::viewer(&policy, context, session);
        instructions(&policy.sight(&context.generation, &viewer, &self.runtime.metrics), context.scope.server.as_deref())
    }

    /// Forgets sessions of a principal that rest, so that it can have another; whether there were any.
    fn make_room(&self, principal: &Principal) -> bool {
        if principal.is_anonymous() {
            return false;
        }
        let forgotten = self.runtime.sessions.make_room(principal, &self.runtime.hub.listening());
        for session in &forgotten {
            self.runtime.session_ended(*session);
        }
        !forgotten.is_empty()
    }

    /// The session of a message. An id that is present must be good, whatever the era claims to be.
    fn session_of<M>(&self, message: &Identified<M>) -> Result<Option<Arc<Session>>, Failure> {
        let session = self.find_session(message)?;
        if let Some(session) = &session {
            let _ = message.context.session.set(session.clone());
        }
        Ok(session)
    }

    fn find_session<M>(&self, message: &Identified<M>) -> Result<Option<Arc<Session>>, Failure> {
        if let Some(session) = &message.context.attached {
            session.touch();
            return Ok(Some(session.clone()));
        }
        let Some(token) = &message.context.session_id else { return Ok(None) };
        let open = || self.runtime.sessions.open(token, &message.principal);
        let opened = match open() {
            Opened::Full if self.make_room(&message.principal) => open(),
            opened => opened,
        };
        match opened {
            Opened::Yes(session) => {
                session.ready.store(true, Relaxed);
                Ok(Some(session).filter(|_| message.context.era == Era::Legacy))
            }
            Opened::Unknown => Err(Failure::rejected(Reject::UnknownSession, "Session not found: start a new one with initialize")),
            Opened::Full => Err(Failure::rejected(Reject::SessionCap, "Too many sessions; try again later")),
        }
    }
}

impl<N: Next<InSession<Box<Call>>>> Stage<Identified<Box<Call>>, N> for SessionStage {
    type Reply = N::Reply;

    async fn handle(&self, request: Identified<Box<Call>>, next: &N) -> Result<N::Reply, Failure> {
        let session = self.session_of(&request)?;
        let Identified { context, principal, message } = request;
        match (&session, &message.id) {
            (Some(owner), Some(id)) => {
                let (_in_flight, cancelled) = owner.begin(id)?;
                tokio::select! {
                    biased;
                    reply = next.run(InSession { context, principal, session: session.clone(), message }) => reply,
                    Ok(()) = cancelled => Err(Failure::Cancelled),
                }
            }
            _ => next.run(InSession { context, principal, session, message }).await,
        }
    }
}

impl<N: Next<InSession<List>>> Stage<Identified<List>, N> for SessionStage {
    type Reply = N::Reply;

    async fn handle(&self, request: Identified<List>, next: &N) -> Result<N::Reply, Failure> {
        let session = self.session_of(&request)?;
        let Identified { context, principal, message } = request;
        next.run(InSession { context, principal, session, message }).await
    }
}

/// The answer to a message that ends here.
pub enum Answer {
    /// A result, JSON.
    Result(Bytes),
    /// The result of `initialize` and the new session's id.
    Session(Bytes, String),
    /// Taken; nothing to say.
    Accepted,
    /// The session is over.
    Ended,
    /// A stream, and what opens it (the acknowledgement of a modern subscription).
    Stream(Listening),
    /// Ids of tasks.
    Tasks(Vec<String>),
    /// The rest of a call's stream, for as long as whoever came back for it may listen.
    Replay(Reader, Validity),
}

/// An open stream together with the books it must be taken off.
pub struct Listening {
    /// The stream.
    pub stream: Stream,
    /// The first message on it.
    pub first: Option<Bytes>,
    /// The last message on it, when it is ended from our side.
    pub last: Option<Bytes>,
    /// How long whoever opened it may listen.
    pub validity: Validity,
    runtime: Arc<Runtime>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.runtime.unwatch_all(self.stream.watcher());
    }
}

impl<N: Send + Sync + 'static> Stage<Identified<Control>, N> for SessionStage {
    type Reply = Answer;

    async fn handle(&self, request: Identified<Control>, _: &N) -> Result<Answer, Failure> {
        let era = request.context.era;
        // Nothing a client proposes as its session id is used.
        let session = if matches!(request.message, Control::Initialize { .. }) { None } else { self.session_of(&request)? };
        let Identified { context, principal, message } = request;
        match message {
            Control::Initialize { requested, params } => {
                let revision = negotiated(&requested);
                let json = params.json();
                let client = json.get("clientInfo").filter(|info| info.kind() == JsonKind::Object).map(Client::read);
                let abilities = Abilities::read(json.get("capabilities"));
                if let Some(session) = &context.attached {
                    session.abilities.store(abilities.bits(), Relaxed);
                    if let Some(client) = client
                        && session.client.set(client).is_ok()
                    {
                        // Its stream was opened before anybody knew who reads it.
                        self.runtime.hub.introduce(session.key, &self.viewer(&context, Some(session)));
                    }
                    return Ok(Answer::Result(initialize_result(&context.generation, self.instructions(&context, Some(session)), revision)));
                }
                let create = || self.runtime.sessions.create(revision, abilities, client.clone(), &principal);
                let created = match create() {
                    None if self.make_room(&principal) => create(),
                    created => created,
                };
                let (token, session) = created.ok_or_else(|| Failure::rejected(Reject::SessionCap, "Too many sessions; try again later"))?;
                Ok(Answer::Session(initialize_result(&context.generation, self.instructions(&context, Some(&session)), revision), token))
            }
            Control::Ping => Ok(Answer::Result(Bytes::from_static(b"{}"))),
            Control::SetLevel(level) => {
                if !LEVELS.contains(&level.as_str()) {
                    return Err(Failure::InvalidParams(format!("`level` must be one of {}", LEVELS.join(", "))));
                }
                if let Some(session) = session
                    && let Ok(mut current) = session.level.lock()
                {
                    *current = Some(write::quoted(&level).into());
                }
                Ok(Answer::Result(Bytes::from_static(b"{}")))
            }
            Control::Discover => {
                let public = self.runtime.policy.load().allows_all();
                Ok(Answer::Result(discover_result(&context.generation, self.instructions(&context, None), public)))
            }
            Control::Cancelled(id) => {
                if let Some(session) = session
                    && let Some(cancel) = session
                        .in_flight
                        .lock()
                        .ok()
                        .and_then(|mut calls| calls.get_mut(&id).map(|slot| std::mem::replace(slot, oneshot::channel().0)))
                {
                    // The request may have just ended; then there is nothing to take back.
                    let _ = cancel.send(());
                }
                Ok(Answer::Accepted)
            }
            Control::Notification(_) => Ok(Answer::Accepted),
            Control::Answer(response) => {
                let waiting = session.zip(response.id).and_then(|(session, id)| session.owed.lock().ok()?.remove(&id));
                let waiting = waiting.ok_or_else(|| {
                    Failure::rejected(Reject::InvalidRequest, "Invalid request: a response to a request that this session was not asked")
                })?;
                let _ = waiting.send(response.outcome.map_err(|error| rpc_error(&error)));
                Ok(Answer::Accepted)
            }
            Control::Watch { uri, on } => {
                let session = session.ok_or_else(|| Failure::InvalidParams("subscriptions need a session: send initialize first".into()))?;
                let viewer = self.viewer(&context, Some(&session));
                self.runtime.watch(&context.generation, &viewer, Watcher::Session(session.key), &uri, on)?;
                Ok(Answer::Result(Bytes::from_static(b"{}")))
            }
            Control::Listen(mut wants) => {
                if era == Era::Legacy && session.is_none() {
                    return Err(Failure::rejected(Reject::MethodNotAllowed, "GET needs a session: send initialize first"));
                }
                let (asked, subscription) = (std::mem::take(&mut wants.uris), wants.subscription.clone());
                if subscription.is_some() {
                    let can = offered(&context.generation);
                    wants.prompts &= can.prompts;
                    wants.resources &= can.resources;
                }
                let mut honoured = wants.clone();
                let last = subscription.as_ref().map(|id| {
                    let result =
                        format!("{{\"resultType\":\"complete\",\"_meta\":{{\"{}\":{}}}}}", meta::SUBSCRIPTION_ID, String::from_utf8_lossy(id.raw()));
                    write::result(id.raw(), result.as_bytes())
                });
                let viewer = self.viewer(&context, session.as_deref());
                let stream = self.runtime.hub.open(wants, session.map(|session| session.key), context.scope.clone(), viewer.clone());
                let stream = stream.ok_or_else(|| Failure::rejected(Reject::StreamCap, "Too many streams; try again later"))?;
                let watcher = stream.watcher();
                let validity = self.runtime.authentication.validity(&principal);
                let mut listening = Listening { stream, first: None, last, validity, runtime: self.runtime.clone() };
                // A resource nobody offers is not an error of the subscription; the client is told that it hears nothing of it.
                honoured.uris = asked;
                honoured.uris.retain(|uri| self.runtime.watch(&context.generation, &viewer, watcher, uri, true).is_ok());
                listening.first = subscription.map(|id| acknowledgement(&id, &honoured));
                Ok(Answer::Stream(listening))
            }
            Control::Tasks => {
                let tasks = session.and_then(|session| Some(session.tasks.lock().ok()?.iter().cloned().collect()));
                Ok(Answer::Tasks(tasks.unwrap_or_default()))
            }
            Control::Resume(after) => {
                let session = session.ok_or_else(|| Failure::rejected(Reject::MethodNotAllowed, "GET needs a session: send initialize first"))?;
                let reader = session.shelf.resume(&after).ok_or_else(|| {
                    let message = "Last-Event-ID: no stream of this session can be taken up there; it has ended long ago, lost what came after it, or never was";
                    Failure::rejected(Reject::UnknownEvent, message)
                })?;
                Ok(Answer::Replay(reader, self.runtime.authentication.validity(&principal)))
            }
            Control::End => {
                let (Some(session), Some(token)) = (session, &context.session_id) else {
                    return Err(Failure::rejected(Reject::MethodNotAllowed, "DELETE needs a session"));
                };
                self.runtime.sessions.end(token, &session);
                self.runtime.session_ended(session.key);
                Ok(Answer::Ended)
            }
        }
    }
}

/// Levels of log messages, least important first.
pub const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The revision for a legacy client that asks for this one.
pub fn negotiated(requested: &str) -> Revision {
    Revision::read(requested).filter(|revision| revision.era() == Era::Legacy).unwrap_or(Revision::NEWEST_LEGACY)
}

fn rpc_error(raw: &Bytes) -> RpcError {
    let json = std::str::from_utf8(raw).map_or(Json::trusted("{}"), Json::trusted);
    let code = json.get("code").and_then(|code| code.raw().parse().ok()).unwrap_or(transom_protocol::error::INTERNAL);
    let message = json.get("message").and_then(Json::string).unwrap_or_default().into_owned();
    RpcError { code, message, data: json.get("data").map(|data| Bytes::copy_from_slice(data.raw().as_bytes())) }
}

fn acknowledgement(id: &Id, wants: &crate::hub::Wants) -> Bytes {
    let mut honoured = Vec::new();
    for (wanted, name) in [(wants.tools, "toolsListChanged"), (wants.prompts, "promptsListChanged"), (wants.resources, "resourcesListChanged")] {
        if wanted {
            honoured.push(format!("\"{name}\":true"));
        }
    }
    if !wants.uris.is_empty() {
        let uris: Vec<String> = wants.uris.iter().map(|uri| write::quoted(uri)).collect();
        honoured.push(format!("\"resourceSubscriptions\":[{}]", uris.join(",")));
    }
    let params = format!("{{\"notifications\":{{{}}}}}", honoured.join(","));
    crate::hub::notification("notifications/subscriptions/acknowledged", Some(id), Json::trusted(&params))
}

/// Who we are, on both eras' handshakes.
pub const SERVER_INFO: &str = concat!(r#"{"name":"transom","title":"Transom MCP gateway","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

/// What we say we can do.
fn offered(generation: &Generation) -> Capabilities {
    let can = generation.capabilities;
    match generation.number {
        // Nobody knows yet what the targets can do; better to be asked in vain than not at all.
        0 => Capabilities { tools: true, prompts: true, resources: true, subscribe: true, completions: true, logging: true, ..can },
        _ => can,
    }
}

fn capabilities(generation: &Generation, revision: Revision) -> String {
    let can = offered(generation);
    let mut members = vec![r#""tools":{"listChanged":true}"#];
    if can.prompts {
        members.push(r#""prompts":{"listChanged":true}"#);
    }
    if can.resources {
        members.push(if can.subscribe { r#""resources":{"subscribe":true,"listChanged":true}"# } else { r#""resources":{"listChanged":true}"# });
    }
    if can.completions {
        members.push(r#""completions":{}"#);
    }
    if can.logging {
        members.push(r#""logging":{}"#);
    }
    // Each era has tasks of its own, and only targets of the same era make them.
    if revision == Revision::V2025_11_25 && can.legacy_tasks {
        members.push(if can.legacy_task_cancel {
            r#""tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}"#
        } else {
            r#""tasks":{"list":{},"requests":{"tools":{"call":{}}}}"#
        });
    }
    if revision.era() == Era::Modern && can.modern_tasks {
        members.push(r#""extensions":{"io.modelcontextprotocol/tasks":{}}"#);
    }
    format!("{{{}}}", members.join(","))
}

/// What a client is told first where its lists are short.
const SHORT: &str = "Most tools are not listed: find them with catalog_search, read a definition with describe_tool and call it with invoke_tool.";

/// What the targets have to say about themselves, each under its name where there are several; before it, that lists are short where they are.
fn instructions(sight: &Sight<'_>, server: Option<&str>) -> Option<String> {
    const LONGEST: usize = 8 * 1024;
    let short = sight.is_short(server).then_some(SHORT);
    let said: Vec<(&str, &str)> = sight
        .generation()
        .views()
        .iter()
        .filter(|view| view.available() && sight.sees_target(&view.slot.name))
        .filter_map(|view| Some((&*view.slot.name, view.offer.as_ref()?.instructions.as_deref()?)))
        .collect();
    let said = match said.as_slice() {
        [] => None,
        [(_, only)] => Some((*only).to_owned()),
        several => Some(several.iter().map(|(name, text)| format!("{name}: {text}")).collect::<Vec<_>>().join("\n\n")),
    };
    let text = match (short, said) {
        (None, said) => said?,
        (Some(short), None) => short.to_owned(),
        (Some(short), Some(said)) => format!("{short}\n\n{said}"),
    };
    Some(shorten(&text, LONGEST).to_owned())
}

fn initialize_result(generation: &Generation, instructions: Option<String>, revision: Revision) -> Bytes {
    let instructions = instructions.map_or(String::new(), |text| format!(",\"instructions\":{}", write::quoted(&text)));
    format!(
        r#"{{"protocolVersion":"{}","capabilities":{},"serverInfo":{SERVER_INFO}{instructions}}}"#,
        revision.text(),
        capabilities(generation, revision)
    )
    .into()
}

fn discover_result(generation: &Generation, instructions: Option<String>, public: bool) -> Bytes {
    let shared = if public { "public" } else { "private" };
    let versions: Vec<String> = Revision::ALL.iter().map(|revision| format!("\"{}\"", revision.text())).collect();
    let instructions = instructions.map_or(String::new(), |text| format!(",\"instructions\":{}", write::quoted(&text)));
    format!(
        r#"{{"resultType":"complete","supportedVersions":[{}],"capabilities":{}{instructions},"ttlMs":0,"cacheScope":"{shared}","_meta":{{"{}":{SERVER_INFO}}}}}"#,
        versions.join(","),
        capabilities(generation, Revision::V2026_07_28),
        meta::SERVER_INFO
    )
    .into()
}
