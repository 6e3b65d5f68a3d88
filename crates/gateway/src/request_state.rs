//! `requestState` of calls that need more input: what a target wants to have back is sealed on its way to the client and
//! opened on its way back, so that it can only come back from the same principal, for the same thing, and soon.

use crate::authenticate::Principal;
use crate::reply::Failure;
use crate::seal::Seal;
use bytes::Bytes;
use std::time::{Duration, SystemTime};
use transom_protocol::json::Json;
use transom_protocol::message::Params;
use transom_protocol::write::{self, Edit};

const PURPOSE: &str = "transom request state 1";
const LIFETIME: Duration = Duration::from_secs(10 * 60);
const MEMBER: &str = "requestState";

/// What a state is bound to.
pub struct Binding<'b> {
    /// Who called.
    pub principal: &'b Principal,
    /// Which target.
    pub target: &'b str,
    /// The target's own name for what was called.
    pub source: &'b [u8],
}

impl Binding<'_> {
    fn record(&self, expiry: u64) -> Vec<u8> {
        let mut record = expiry.to_le_bytes().to_vec();
        for part in [self.principal.key().as_bytes(), self.target.as_bytes(), self.source] {
            record.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes());
            record.extend_from_slice(part);
        }
        record
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A result that asks for input, with its state sealed; any other result as it is.
pub fn sealed(seal: &Seal, binding: &Binding<'_>, result: Bytes) -> Bytes {
    let Ok(text) = std::str::from_utf8(&result) else { return result };
    let object = Json::trusted(text);
    let Some(state) = object.get(MEMBER).and_then(Json::string) else { return result };
    let mut record = binding.record(now() + LIFETIME.as_secs());
    record.extend_from_slice(state.as_bytes());
    let Some(token) = seal.seal(PURPOSE, &record) else { return result };
    let token = write::quoted(&token);
    write::edited(object, |key, _| if key.is(MEMBER) { Edit::Set(token.as_bytes()) } else { Edit::Keep }, &[]).into()
}

/// The params of a retry with the target's own state; a state that is not ours, or not for this, is refused.
pub fn opened(seal: &Seal, binding: &Binding<'_>, params: Params) -> Result<Params, Failure> {
    let Some(state) = params.json().get(MEMBER) else { return Ok(params) };
    let refused = || Failure::InvalidParams("`requestState` is not valid for this call, or has expired".into());
    let token = state.string().ok_or_else(refused)?;
    let record = seal.open(PURPOSE, &token).ok_or_else(refused)?;
    let expiry = record.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes)).filter(|expiry| *expiry > now()).ok_or_else(refused)?;
    let inner = record.strip_prefix(binding.record(expiry).as_slice()).and_then(|inner| std::str::from_utf8(inner).ok()).ok_or_else(refused)?;
    let inner = write::quoted(inner);
    Ok(Params::trusted(write::edited(params.json(), |key, _| if key.is(MEMBER) { Edit::Set(inner.as_bytes()) } else { Edit::Keep }, &[])))
}

#[cfg(test)]
mod tests {
    use super::*;

    // H9
    #[test]
    fn a_state_comes_back_only_for_what_it_was_given_for() {
        let seal = Seal::new(None).unwrap();
        let binding = Binding { principal: &Principal::anonymous(), target: "t", source: b"tool" };
        let asked = sealed(&seal, &binding, Bytes::from_static(br#"{"resultType":"input_required","requestState":"inner \"state\""}"#));
        let text = std::str::from_utf8(&asked).unwrap();
        assert!(!text.contains("inner"));
        let token = Json::trusted(text).get("requestState").unwrap().raw();
        let retry = || Params::trusted(format!(r#"{{"name":"x","requestState":{token}}}"#));
        let back = opened(&seal, &binding, retry()).unwrap();
        assert_eq!(back.string("requestState").as_deref(), Some(r#"inner "state""#));
        let robot = Principal::of_key(&crate::config::ApiKey { id: "robot".into(), hash: [0; 32], claims: serde_json::Map::new() });
        for other in [
            Binding { principal: &robot, ..binding_of(&binding) },
            Binding { target: "u", ..binding_of(&binding) },
            Binding { source: b"other", ..binding_of(&binding) },
        ] {
            assert!(opened(&seal, &other, retry()).is_err());
        }
        for forged in [r#""inner""#, "7", "\"\""] {
            assert!(opened(&seal, &binding, Params::trusted(format!(r#"{{"requestState":{forged}}}"#))).is_err(), "{forged}");
        }
    }

    fn binding_of<'b>(binding: &Binding<'b>) -> Binding<'b> {
        Binding { principal: binding.principal, target: binding.target, source: binding.source }
    }
}
