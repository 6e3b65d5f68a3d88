//! Says who sends a message: by a token of an issuer we trust, by an API key, or nobody in particular.
//!
//! Knows credentials, and nothing else: they are read at the edge, before the body is, and never travel further. What a
//! principal may do is the business of [`crate::authorize`].
//!
//! In reading order: [`credentials`] (what a request carries) · `keys` (API keys) · `jwt` (tokens) · `jwks` (the keys that
//! sign them) · `verified` (tokens seen before) · [`metadata`] (what clients read to get a token) · [`validity`] (how long
//! a principal stays one) · [`shares`] (how much of something each principal may hold).

pub mod credentials;
mod jwks;
mod jwt;
mod keys;
pub mod metadata;
pub mod shares;
pub mod validity;
mod verified;

pub use jwt::ALGORITHMS;

use crate::authenticate::credentials::{Credentials, Refusal};
use crate::authenticate::jwt::Issuer;
use crate::authenticate::keys::ApiKeys;
use crate::authenticate::metadata::Metadata;
use crate::authenticate::validity::Validity;
use crate::authenticate::verified::Verified;
use crate::authorize::Memo;
use crate::config::{ApiKey, Authentication, JwtIssuer};
use crate::message::{Identified, Incoming};
use crate::reply::{Challenge, Failure, Reject};
use crate::stage::{Next, Stage};
use arc_swap::ArcSwap;
use aws_lc_rs::digest;
use http::{HeaderMap, Uri};
use serde_json::{Map, Value};
use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;
use tokio::sync::watch;

/// The longest key of a principal that is written out; a longer one is hashed, so that session ids stay short.
const LONGEST_KEY: usize = 256;

/// Who calls. Cheap to clone; only this room can make one that is somebody.
#[derive(Clone)]
pub struct Principal(Arc<Identity>);

struct Identity {
    key: String,
    log_name: String,
    claims: Map<String, Value>,
    expires: Option<SystemTime>,
    by: Credential,
    memo: Memo,
}

/// What made somebody a principal.
#[derive(Clone, PartialEq)]
enum Credential {
    Nothing,
    ApiKey(Arc<ApiKey>),
    Token(Arc<JwtIssuer>),
}

impl Principal {
    /// Nobody in particular.
    pub fn anonymous() -> Principal {
        static NOBODY: LazyLock<Principal> = LazyLock::new(|| {
            let name = || "anonymous".to_owned();
            Principal(Arc::new(Identity {
                key: name(),
                log_name: name(),
                claims: Map::new(),
                expires: None,
                by: Credential::Nothing,
                memo: Memo::default(),
            }))
        });
        NOBODY.clone()
    }

    /// The owner of an API key.
    pub(crate) fn of_key(key: &ApiKey) -> Principal {
        Principal(Arc::new(Identity {
            key: short(format!("key\0{}", key.id)),
            log_name: format!("key:{}", key.id),
            claims: key.claims.clone(),
            expires: None,
            by: Credential::ApiKey(Arc::new(key.clone())),
            memo: Memo::default(),
        }))
    }

    /// The subject of a token.
    fn of_token(issuer: &Arc<JwtIssuer>, subject: &str, claims: Map<String, Value>, expires: SystemTime) -> Principal {
        let key = format!("jwt\0{}\0{subject}", issuer.issuer);
        let [a, b, c, d, ..] = sha256(key.as_bytes());
        Principal(Arc::new(Identity {
            log_name: format!("jwt:{a:02x}{b:02x}{c:02x}{d:02x}"),
            key: short(key),
            claims,
            expires: Some(expires),
            by: Credential::Token(issuer.clone()),
            memo: Memo::default(),
        }))
    }

    /// What sessions and sealed tokens are bound to.
    pub fn key(&self) -> &str {
        &self.0.key
    }

    /// Whether it is nobody in particular.
    pub fn is_anonymous(&self) -> bool {
        self.0.by == Credential::Nothing
    }

    /// What its token claims, or what the config says of the owner of its API key.
    pub fn claims(&self) -> &Map<String, Value> {
        &self.0.claims
    }

    /// Which API key it showed, if it did.
    pub fn api_key_id(&self) -> Option<&str> {
        match &self.0.by {
            Credential::ApiKey(key) => Some(&key.id),
            _ => None,
        }
    }

    /// What was decided about it last.
    pub(crate) fn memo(&self) -> &Memo {
        &self.0.memo
    }

    /// When its credentials end, the skew of clocks included.
    pub fn expires(&self) -> Option<SystemTime> {
        self.0.expires
    }

    /// What logs call it: a subject is not written out.
    pub fn log_name(&self) -> &str {
        &self.0.log_name
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.log_name())
    }
}

impl PartialEq for Principal {
    /// The same somebody, whichever credentials were shown this time.
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Principal {}

fn short(key: String) -> String {
    if key.len() <= LONGEST_KEY {
        return key;
    }
    let kind = key.split('\0').next().unwrap_or_default();
    let hash: String = sha256(key.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    // No issuer and no id is empty, so that this is nobody else's key.
    format!("{kind}\0\0{hash}")
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    hash
}

/// The stage. Who calls was found out at the edge, before the body was read; here the message learns it.
#[derive(Clone, Default)]
pub struct Authenticate;

impl<M: Send + 'static, N: Next<Identified<M>>> Stage<Incoming<M>, N> for Authenticate {
    type Reply = N::Reply;

    async fn handle(&self, incoming: Incoming<M>, next: &N) -> Result<N::Reply, Failure> {
        let Incoming { context, message } = incoming;
        let principal = context.principal.clone();
        next.run(Identified { context, principal, message }).await
    }
}

/// What decides who a request comes from; one per config.
pub struct Authenticator {
    accepted: Option<Accepted>,
}

/// What counts as credentials.
struct Accepted {
    config: Authentication,
    keys: ApiKeys,
    issuers: Vec<Issuer>,
    verified: Verified,
    metadata: Metadata,
}

impl Authenticator {
    /// As configured. Keys of issuers that `before` knew as well are kept; others are fetched in the background.
    fn new(config: Option<Authentication>, secure: bool, before: Option<&Authenticator>) -> Authenticator {
        let known: &[Issuer] = before.and_then(|before| before.accepted.as_ref()).map_or(&[], |accepted| &accepted.issuers);
        let accepted = config.map(|config| Accepted {
            keys: ApiKeys::new(&config.api_keys),
            issuers: config.jwt.iter().map(|issuer| Issuer::new(issuer, known)).collect(),
            verified: Verified::default(),
            metadata: Metadata::new(&config, secure),
            config,
        });
        Authenticator { accepted }
    }

    /// Whether credentials are asked for at all.
    pub fn is_configured(&self) -> bool {
        self.accepted.is_some()
    }

    /// Who sends a request with this head. Without authentication everybody is anonymous, whatever they send.
    pub async fn identify(&self, headers: &HeaderMap, uri: &Uri) -> Result<Principal, Failure> {
        let Some(accepted) = &self.accepted else { return Ok(Principal::anonymous()) };
        match accepted.identify(headers, uri).await {
            Ok(principal) => Ok(principal),
            Err(refusal) => Err(accepted.failure(refusal, headers, uri)),
        }
    }

    /// Whether a principal would still be one under this config; its credentials were good once.
    pub fn admits(&self, principal: &Principal) -> bool {
        match (&self.accepted, &principal.0.by) {
            (None, by) => *by == Credential::Nothing,
            (Some(_), Credential::Nothing) => false,
            (Some(accepted), Credential::ApiKey(key)) => accepted.config.api_keys.contains(key),
            (Some(accepted), Credential::Token(issuer)) => accepted.config.jwt.contains(issuer),
        }
    }

    /// The protected-resource metadata at this path; `None` if there is none.
    pub fn metadata(&self, headers: &HeaderMap, uri: &Uri) -> Option<String> {
        self.accepted.as_ref()?.metadata.document(headers, uri)
    }
}

impl Accepted {
    async fn identify(&self, headers: &HeaderMap, uri: &Uri) -> Result<Principal, Refusal> {
        let credentials = Credentials::read(headers, uri)?;
        let hash = sha256(credentials.secret().as_bytes());
        if let Some(principal) = self.keys.find(&hash) {
            return Ok(principal);
        }
        let Credentials::Bearer(token) = credentials else { return Err(Refusal::Invalid("the API key is not known")) };
        if let Some(principal) = self.verified.find(&hash) {
            return Ok(principal);
        }
        let (principal, keys) = jwt::verify(&self.issuers, token).await?;
        self.verified.remember(hash, &principal, keys);
        Ok(principal)
    }

    /// What a client reads that showed no good credentials, and how it may get some.
    fn failure(&self, refusal: Refusal, headers: &HeaderMap, uri: &Uri) -> Failure {
        let challenge = |reason, message: &str, error: Option<(&str, &str)>| {
            let header = self.metadata.challenge(headers, uri, error);
            Failure::Challenged(Box::new(Challenge { reason, message: message.to_owned(), header }))
        };
        match refusal {
            Refusal::Missing => {
                let message = "Authentication is needed: send a token or an API key as Authorization: Bearer …, or an API key as X-API-Key";
                challenge(Reject::Unauthenticated, message, None)
            }
            Refusal::Invalid(why) => challenge(Reject::Unauthenticated, &format!("Authentication failed: {why}"), Some(("invalid_token", why))),
            Refusal::InsufficientScope => {
                let why = "the token does not carry every scope that is needed here";
                challenge(Reject::InsufficientScope, &format!("Not allowed: {why}"), Some(("insufficient_scope", why)))
            }
            Refusal::QueryToken => Failure::rejected(
                Reject::QueryToken,
                "Invalid request: access_token in the address; addresses end up in logs, send it as Authorization: Bearer … instead",
            ),
            Refusal::KeysUnavailable(issuer) => Failure::rejected(
                Reject::KeysUnavailable,
                format!("The keys of issuer {issuer} are not available, so that its tokens cannot be checked; try again later"),
            ),
        }
    }
}

/// The authenticator in force.
pub struct InForce {
    current: ArcSwap<Authenticator>,
    changed: watch::Sender<u64>,
    /// Whether clients speak TLS to us, for the addresses we tell them.
    secure: bool,
}

impl InForce {
    /// As configured at the start.
    pub fn new(config: Option<Authentication>, secure: bool) -> Arc<InForce> {
        let current = Authenticator::new(config, secure, None);
        Arc::new(InForce { current: ArcSwap::from_pointee(current), changed: watch::Sender::new(0), secure })
    }

    /// From now on this config counts. Streams of principals that are none any more end.
    pub fn replace(&self, config: Option<Authentication>) {
        let before = self.current.load_full();
        if before.accepted.as_ref().map(|accepted| &accepted.config) == config.as_ref() {
            return;
        }
        self.current.store(Arc::new(Authenticator::new(config, self.secure, Some(&before))));
        self.changed.send_modify(|times| *times += 1);
    }

    /// What counts now.
    pub fn now(&self) -> Arc<Authenticator> {
        self.current.load_full()
    }

    /// Whether credentials are asked for at all.
    pub fn is_configured(&self) -> bool {
        self.current.load().is_configured()
    }

    /// Who sends a request with this head; see [`Authenticator::identify`].
    pub async fn identify(&self, headers: &HeaderMap, uri: &Uri) -> Result<Principal, Failure> {
        let current = self.current.load();
        if !current.is_configured() {
            return Ok(Principal::anonymous());
        }
        arc_swap::Guard::into_inner(current).identify(headers, uri).await
    }

    /// How long this principal stays one, for whoever holds a stream open for it.
    pub fn validity(self: &Arc<Self>, principal: &Principal) -> Validity {
        Validity::new(self.clone(), self.changed.subscribe(), principal.clone())
    }
}

#[cfg(test)]
mod tests;
