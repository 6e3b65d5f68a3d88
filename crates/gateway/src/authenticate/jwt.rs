//! Tokens: whose they are, for whom, how long, and that somebody we trust signed them.

use crate::authenticate::Principal;
use crate::authenticate::credentials::Refusal;
use crate::authenticate::jwks::{KeySet, KeysUsed};
use crate::config::JwtIssuer;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Header, Validation, dangerous, decode, decode_header};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The algorithms we know, in the names of RFC 7518. None is symmetric: whoever can check a token must not be able to
/// make one.
pub const ALGORITHMS: [&str; 9] = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];

/// How far clocks may be apart.
const SKEW: Duration = Duration::from_secs(60);
/// No token is good for longer than this, whatever it says: such times cannot all be counted with.
const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Somebody whose tokens count, and its keys.
pub(super) struct Issuer {
    rules: Arc<JwtIssuer>,
    algorithms: Vec<Algorithm>,
    keys: Arc<KeySet>,
}

impl Issuer {
    /// With the keys of an issuer that is known already, if it gets them from the same place.
    pub(super) fn new(rules: &JwtIssuer, known: &[Issuer]) -> Issuer {
        let kept = known.iter().find(|known| known.rules.jwks == rules.jwks && known.rules.issuer == rules.issuer);
        let keys = kept.map_or_else(|| KeySet::start(&rules.issuer, rules.jwks.clone()), |known| known.keys.clone());
        let named = |name: &str| name.parse().ok().filter(|algorithm: &Algorithm| algorithm.family() != AlgorithmFamily::Hmac);
        let algorithms = if rules.algorithms.is_empty() {
            ALGORITHMS.into_iter().filter_map(named).collect()
        } else {
            rules.algorithms.iter().filter_map(|name| named(name)).collect()
        };
        Issuer { rules: Arc::new(rules.clone()), algorithms, keys }
    }

    async fn verify(&self, token: &str, header: &Header) -> Result<(Principal, KeysUsed), Refusal> {
        if !self.algorithms.contains(&header.alg) {
            return Err(Refusal::Invalid("the algorithm of the token is not accepted"));
        }
        let mut keys = self.keys.current().ok_or_else(|| Refusal::KeysUnavailable(self.rules.issuer.clone()))?;
        if !keys.have(header.kid.as_deref(), header.alg) && self.keys.look_beyond(&keys).await {
            keys = self.keys.current().unwrap_or(keys);
        }
        let mut refusal = Refusal::Invalid("the token is signed with a key that its issuer does not have");
        for key in keys.fitting(header.kid.as_deref(), header.alg) {
            match self.check(token, header.alg, key) {
                Ok(principal) => return Ok((principal, KeysUsed::new(&self.keys, &keys))),
                Err(why) => refusal = why,
            }
        }
        Err(refusal)
    }

    fn check(&self, token: &str, algorithm: Algorithm, key: &DecodingKey) -> Result<Principal, Refusal> {
        let mut validation = Validation::new(algorithm);
        validation.leeway = SKEW.as_secs();
        validation.validate_nbf = true;
        validation.set_audience(&self.rules.audiences);
        validation.set_issuer(&[&self.rules.issuer]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        let claims: Map<String, Value> = decode(token, key, &validation).map_err(|error| refusal(error.kind()))?.claims;
        let subject = claims.get("sub").and_then(Value::as_str).filter(|subject| !subject.is_empty());
        let subject = subject.ok_or(Refusal::Invalid("the token names no subject"))?.to_owned();
        let expires = claims.get("exp").and_then(Value::as_f64).ok_or(Refusal::Invalid("the token does not say when it ends"))?;
        let expires = Duration::try_from_secs_f64(expires).unwrap_or(FAR).min(FAR) + SKEW;
        if !self.rules.scopes.iter().all(|scope| carries(&claims, scope)) {
            return Err(Refusal::InsufficientScope);
        }
        Ok(Principal::of_token(&self.rules, &subject, claims, SystemTime::UNIX_EPOCH + expires))
    }
}

/// Whose token it is, before anything of it is believed. The issuer is one string, not a choice of them.
#[derive(Deserialize)]
struct Claimed {
    iss: String,
}

/// The subject of a token of one of these issuers, and the keys it was checked with.
pub(super) async fn verify(issuers: &[Issuer], token: &str) -> Result<(Principal, KeysUsed), Refusal> {
    let malformed = |_| Refusal::Invalid("the token is neither a known API key nor a token that can be read");
    let header = decode_header(token).map_err(malformed)?;
    if header.crit.is_some() || header.enc.is_some() || header.zip.is_some() {
        return Err(Refusal::Invalid("the token needs extensions that are not supported"));
    }
    let claimed: Claimed = dangerous::insecure_decode_claims(token).map_err(malformed)?;
    let mut refusal = Refusal::Invalid("the issuer of the token is not trusted here");
    for issuer in issuers.iter().filter(|issuer| issuer.rules.issuer == claimed.iss) {
        match issuer.verify(token, &header).await {
            Ok(verified) => return Ok(verified),
            Err(why) => refusal = why,
        }
    }
    Err(refusal)
}

fn refusal(kind: &ErrorKind) -> Refusal {
    Refusal::Invalid(match kind {
        ErrorKind::ExpiredSignature => "the token has expired",
        ErrorKind::ImmatureSignature => "the token is not valid yet",
        ErrorKind::InvalidAudience => "the token is for another audience",
        ErrorKind::InvalidIssuer => "the issuer of the token is not trusted here",
        ErrorKind::InvalidSignature => "the signature of the token is not valid",
        ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) => "the token lacks exp, iss, aud or sub, or has it in a wrong form",
        _ => "the token is not valid",
    })
}

/// Whether a token carries a scope: in `scope`, words in a string, or in `scp`, the same or a list.
fn carries(claims: &Map<String, Value>, scope: &str) -> bool {
    ["scope", "scp"].into_iter().filter_map(|name| claims.get(name)).any(|value| match value {
        Value::String(words) => words.split(' ').any(|word| word == scope),
        Value::Array(list) => list.iter().any(|word| word == scope),
        _ => false,
    })
}
