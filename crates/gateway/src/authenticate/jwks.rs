//! The keys that issuers sign with: fetched or read, and again when they change. Whoever is not reached keeps the keys it
//! had; keys that were never seen let nobody in.

use crate::authenticate::sha256;
use crate::config::Jwks;
use arc_swap::ArcSwapOption;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use reqwest::Client;
use std::io::Read;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::AbortHandle;

const TIMEOUT: Duration = Duration::from_secs(10);
const LARGEST: usize = 512 * 1024;
const KEYS: usize = 100;
/// The most keys a token without `kid` is tried with.
const TRIED: usize = 8;
/// How often a server is asked again.
const HOURLY: Duration = Duration::from_secs(3600);
/// How often a file is looked at.
const LOOK: Duration = Duration::from_secs(2);
/// How often tokens with an unknown `kid` may have the keys looked up again.
const PAUSE: Duration = Duration::from_secs(30);
/// How many requests wait for such a look.
const WAITING: usize = 64;
/// After a failure: at first, and at most.
const BACKOFF: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// The keys of one issuer, kept current for as long as anybody holds them.
pub(super) struct KeySet {
    issuer: String,
    place: Jwks,
    keys: ArcSwapOption<Keys>,
    /// Counts the changes of the keys.
    version: AtomicU64,
    looking: Mutex<Looking>,
    waiting: Semaphore,
    task: OnceLock<AbortHandle>,
}

#[derive(Default)]
struct Looking {
    client: Option<Client>,
    asked: Option<Instant>,
}

/// Keys as they were at some time.
pub(super) struct Keys {
    version: u64,
    digest: [u8; 32],
    keys: Vec<Key>,
}

struct Key {
    id: Option<String>,
    algorithm: Option<Algorithm>,
    curve: Option<EllipticCurve>,
    key: DecodingKey,
}

/// Which keys a token was checked with.
pub(super) struct KeysUsed {
    set: Arc<KeySet>,
    version: u64,
}

impl KeysUsed {
    pub(super) fn new(set: &Arc<KeySet>, keys: &Keys) -> KeysUsed {
        KeysUsed { set: set.clone(), version: keys.version }
    }

    /// Whether the issuer still has exactly these.
    pub(super) fn are_current(&self) -> bool {
        self.set.version.load(Relaxed) == self.version
    }
}

impl Key {
    fn fits(&self, algorithm: Algorithm) -> bool {
        let curve = match algorithm {
            Algorithm::ES256 => Some(EllipticCurve::P256),
            Algorithm::ES384 => Some(EllipticCurve::P384),
            Algorithm::EdDSA => Some(EllipticCurve::Ed25519),
            _ => None,
        };
        self.key.family() == algorithm.family() && self.curve == curve && self.algorithm.is_none_or(|own| own == algorithm)
    }
}

impl Keys {
    /// The keys a token may be signed with. A `kid` is compared and nothing else is done with it.
    pub(super) fn fitting(&self, kid: Option<&str>, algorithm: Algorithm) -> impl Iterator<Item = &DecodingKey> {
        let named = move |key: &&Key| kid.is_none_or(|kid| key.id.as_deref() == Some(kid));
        self.keys.iter().filter(named).filter(move |key| key.fits(algorithm)).take(TRIED).map(|key| &key.key)
    }

    /// Whether there is any.
    pub(super) fn have(&self, kid: Option<&str>, algorithm: Algorithm) -> bool {
        self.fitting(kid, algorithm).next().is_some()
    }
}

impl KeySet {
    /// Reads a file now, so that its keys are there from the first request on; asks a server in the background.
    pub(super) fn start(issuer: &str, place: Jwks) -> Arc<KeySet> {
        let set = Arc::new(KeySet {
            issuer: issuer.to_owned(),
            place,
            keys: ArcSwapOption::empty(),
            version: AtomicU64::new(0),
            looking: Mutex::default(),
            waiting: Semaphore::new(WAITING),
            task: OnceLock::new(),
        });
        if let Jwks::File(path) = &set.place {
            set.told(read_file(path).and_then(|bytes| set.take(&bytes)), false);
        }
        // Housekeeping must not keep alive what it keeps current.
        let task = tokio::spawn(keep_current(Arc::downgrade(&set)));
        let _ = set.task.set(task.abort_handle());
        set
    }

    /// The keys; `None` if there never were any.
    pub(super) fn current(&self) -> Option<Arc<Keys>> {
        self.keys.load_full()
    }

    /// A token has a `kid` that is not among these: looks whether the issuer has new keys. Whether there are other keys
    /// now. One look serves all who wait for it, and strangers cannot cause more than one in a while.
    pub(super) async fn look_beyond(&self, seen: &Keys) -> bool {
        let Ok(_place) = self.waiting.try_acquire() else { return false };
        let mut looking = self.looking.lock().await;
        let changed = || self.version.load(Relaxed) != seen.version;
        if changed() || looking.asked.is_some_and(|at| at.elapsed() < PAUSE) {
            return changed();
        }
        looking.asked = Some(Instant::now());
        self.look(&mut looking).await;
        changed()
    }

    async fn look(&self, looking: &mut Looking) -> bool {
        let had = self.keys.load().is_some();
        let bytes = match &self.place {
            Jwks::File(path) => {
                let path = path.clone();
                tokio::task::spawn_blocking(move || read_file(&path)).await.unwrap_or_else(|error| Err(error.to_string()))
            }
            Jwks::Url { url, ca } => match &looking.client {
                Some(client) => fetch(client, url).await,
                None => match client(url, ca.as_deref()) {
                    Ok(client) => fetch(looking.client.insert(client), url).await,
                    Err(error) => Err(error),
                },
            },
        };
        self.told(bytes.and_then(|bytes| self.take(&bytes)), had)
    }

    /// Logs how a look went; whether it went well.
    fn told(&self, outcome: Result<Option<usize>, String>, had: bool) -> bool {
        let (issuer, place) = (&*self.issuer, self.place_text());
        match outcome {
            Ok(None) => true,
            Ok(Some(0)) => {
                tracing::warn!(issuer, place, "the issuer has no keys that can be used; its tokens are refused");
                true
            }
            Ok(Some(keys)) => {
                tracing::info!(issuer, place, keys, "keys of the issuer are in use");
                true
            }
            Err(error) if had => {
                tracing::warn!(issuer, place, error, "keys of the issuer not refreshed; the ones from before stay");
                false
            }
            Err(error) => {
                tracing::warn!(issuer, place, error, "the issuer has no keys yet; its tokens are refused until they can be read");
                false
            }
        }
    }

    /// Uses these keys from now on: how many, or `None` if they are the same as before.
    fn take(&self, bytes: &[u8]) -> Result<Option<usize>, String> {
        let digest = sha256(bytes);
        if self.keys.load().as_ref().is_some_and(|keys| keys.digest == digest) {
            return Ok(None);
        }
        let keys = parse(bytes)?;
        let (count, version) = (keys.len(), self.version.load(Relaxed) + 1);
        self.keys.store(Some(Arc::new(Keys { version, digest, keys })));
        self.version.store(version, Relaxed);
        Ok(Some(count))
    }

    /// Where the keys are, for logs: no user, no query.
    fn place_text(&self) -> String {
        match &self.place {
            Jwks::File(path) => path.display().to_string(),
            Jwks::Url { url, .. } => format!("{}://{}{}", url.scheme_str().unwrap_or("?"), url.host().unwrap_or("?"), url.path()),
        }
    }
}

impl Drop for KeySet {
    fn drop(&mut self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }
}

async fn keep_current(set: Weak<KeySet>) {
    let [first, longest] = BACKOFF;
    let mut backoff = first;
    let file = set.upgrade().is_some_and(|set| matches!(set.place, Jwks::File(_)));
    // A file has just been read.
    let mut wait = if file { LOOK } else { Duration::ZERO };
    loop {
        tokio::time::sleep(wait).await;
        let Some(set) = set.upgrade() else { return };
        let well = set.look(&mut *set.looking.lock().await).await;
        wait = match (well, file) {
            (true, true) => LOOK,
            // Replicas that started together should not ask together.
            (true, false) => HOURLY.mul_f64(rand::random_range(0.9..1.1)),
            (false, _) => backoff,
        };
        backoff = if well { first } else { (backoff * 2).min(longest) };
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(LARGEST as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("cannot read the file: {error}"))?;
    if bytes.len() > LARGEST { Err(too_large()) } else { Ok(bytes) }
}

fn too_large() -> String {
    format!("it is larger than {} KiB", LARGEST / 1024)
}

fn client(url: &http::Uri, ca: Option<&[u8]>) -> Result<Client, String> {
    check_place(url)?;
    crate::web::client(url, ca, TIMEOUT)
}

/// Whether keys may come from there at all.
fn check_place(url: &http::Uri) -> Result<(), String> {
    match url.scheme_str() {
        Some("https") => Ok(()),
        Some("http") if is_near(url.host().unwrap_or_default()) => {
            tracing::warn!(host = url.host(), "keys are fetched over plain http: whoever is on the way can let anybody in");
            Ok(())
        }
        _ => Err("keys are fetched over https only, except from this machine or a private network".into()),
    }
}

/// Whether a host is on this machine or in a private network, as far as its name says.
fn is_near(host: &str) -> bool {
    match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => address.is_loopback() || address.is_private(),
        Ok(IpAddr::V6(address)) => address.is_loopback() || address.is_unique_local(),
        // A name that is a number may be an address in disguise.
        Err(_) if host.starts_with(|first: char| first.is_ascii_digit()) => false,
        Err(_) => !host.contains('.') || [".localhost", ".local", ".internal", ".svc"].iter().any(|suffix| host.ends_with(suffix)),
    }
}

async fn fetch(client: &Client, url: &http::Uri) -> Result<Vec<u8>, String> {
    let told = |error: reqwest::Error| {
        let error = error.without_url();
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        format!("cannot fetch: {error}{cause}")
    };
    let mut reply = client.get(url.to_string()).header("accept", "application/jwk-set+json, application/json").send().await.map_err(told)?;
    if !reply.status().is_success() {
        return Err(format!("the server answered {}", reply.status()));
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = reply.chunk().await.map_err(told)? {
        if bytes.len() + chunk.len() > LARGEST {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// The keys of a set that can be used. One we do not understand is passed over: issuers add kinds that others need.
fn parse(bytes: &[u8]) -> Result<Vec<Key>, String> {
    #[derive(serde::Deserialize)]
    struct Set {
        keys: Vec<serde_json::Value>,
    }
    let set: Set = serde_json::from_slice(bytes).map_err(|error| format!("it is not a set of keys, {{\"keys\": […]}}: {error}"))?;
    Ok(set.keys.into_iter().filter_map(usable).take(KEYS).collect())
}

fn usable(value: serde_json::Value) -> Option<Key> {
    let jwk: Jwk = serde_json::from_value(value).ok()?;
    if jwk.common.public_key_use.as_ref().is_some_and(|purpose| *purpose != PublicKeyUse::Signature) {
        return None;
    }
    let curve = match &jwk.algorithm {
        AlgorithmParameters::EllipticCurve(key) => Some(key.curve.clone()),
        AlgorithmParameters::OctetKeyPair(key) => Some(key.curve.clone()),
        _ => None,
    };
    // An algorithm we do not know makes the key one we do not use.
    let algorithm = match &jwk.common.key_algorithm {
        Some(named) => Some(named.to_string().parse().ok()?),
        None => None,
    };
    let key = DecodingKey::from_jwk(&jwk).ok().filter(|key| key.family() != AlgorithmFamily::Hmac)?;
    Some(Key { id: jwk.common.key_id, algorithm, curve, key })
}

#[cfg(test)]
mod tests {
    use super::*;

    // I5
    #[test]
    fn keys_come_over_https_or_from_nearby() {
        for url in [
            "https://login.example/keys",
            "https://8.8.8.8/keys",
            "http://localhost:8080/keys",
            "http://127.0.0.1/keys",
            "http://[::1]:1/keys",
            "http://10.1.2.3/keys",
            "http://192.168.0.9/keys",
            "http://[fd00::1]/keys",
            "http://keycloak:8080/keys",
            "http://keycloak.auth.svc/keys",
        ] {
            assert!(check_place(&url.parse().unwrap()).is_ok(), "{url}");
        }
        for url in [
            "http://login.example/keys",
            "http://8.8.8.8/keys",
            "http://169.254.169.254/latest/meta-data/",
            "http://[::ffff:169.254.169.254]/",
            "http://[fe80::1]/",
            "http://0.0.0.0/",
            "http://134744072/keys",
            "http://0x08080808/keys",
            "http://0251.0376.0251.0376/",
            "http://localhost.evil.example/",
            "ftp://localhost/keys",
        ] {
            assert!(client(&url.parse().unwrap(), Some(b"")).is_err(), "{url}");
            assert!(check_place(&url.parse().unwrap()).is_err(), "{url}");
        }
        let nobody = client(&"https://login.example/keys".parse().unwrap(), Some(b"")).unwrap_err();
        assert_eq!(nobody, "the CA file holds no certificate");
    }

    #[test]
    fn keys_that_cannot_be_used_are_passed_over() {
        let set = br#"{"keys":[
            {"kty":"oct","k":"c2VjcmV0","kid":"symmetric"},
            {"kty":"RSA","n":"AQAB","e":"AQAB","use":"enc","kid":"for encryption"},
            {"kty":"RSA","n":"AQAB","e":"AQAB","alg":"RSA-OAEP","kid":"for encryption too"},
            {"kty":"new","kid":"from the future"}, 7,
            {"kty":"RSA","n":"AQAB","e":"AQAB","kid":"good"}]}"#;
        let keys = parse(set).unwrap();
        assert_eq!(keys.iter().map(|key| key.id.as_deref()).collect::<Vec<_>>(), [Some("good")]);
        assert!(keys.iter().all(|key| key.fits(Algorithm::RS256) && !key.fits(Algorithm::ES256) && !key.fits(Algorithm::HS256)));
        for bad in [&b""[..], b"[]", b"{}", b"{\"keys\":{}}", b"{\"keys\":["] {
            assert!(parse(bad).is_err());
        }
    }
}
