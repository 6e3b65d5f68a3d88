//! `requestState` of calls that need more input: what a target wants to have back is sealed on its way to the client and
//! opened on its way back, so that it can only come back from the same principal, for the same thing, and soon.

use crate::authenticate::Principal;
use crate::parked::Ticket;
use crate::reply::Failure;
use crate::seal::Seal;
use bytes::Bytes;
use std::time::{Duration, SystemTime};
use transom_protocol::Method;
use transom_protocol::json::{Json, Key};
use transom_protocol::message::Params;
use transom_protocol::write::{self, Edit};

const PURPOSE: &str = "transom request state 3";
const LIFETIME: Duration = Duration::from_secs(10 * 60);
const MEMBER: &str = "requestState";
/// A state holds what a target wants to have back.
const OF_TARGET: u8 = 0;
/// A state holds the ticket of a call that waits here.
const OF_CALL: u8 = 1;

/// What a state is bound to.
#[derive(Clone, Copy)]
pub struct Binding<'b> {
    /// Who called.
    pub principal: &'b Principal,
    /// Which target.
    pub target: &'b str,
    /// By which method.
    pub method: Method,
    /// The target's own name for what was called.
    pub source: &'b [u8],
    /// The name it was called by: another tool over the same source has other arguments, and shows other parts of results.
    pub exposed: &'b str,
}

impl Binding<'_> {
    fn record(&self, kind: u8, expiry: u64) -> Vec<u8> {
        let mut record = vec![kind];
        record.extend_from_slice(&expiry.to_le_bytes());
        for part in [self.principal.key().as_bytes(), self.target.as_bytes(), self.method.name().as_bytes(), self.source, self.exposed.as_bytes()] {
            record.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes());
            record.extend_from_slice(part);
        }
        record
    }

    fn seal(&self, seal: &Seal, kind: u8, inner: &[u8]) -> Option<String> {
        let mut record = self.record(kind, now() + LIFETIME.as_secs());
        record.extend_from_slice(inner);
        seal.seal(PURPOSE, &record).map(|token| write::quoted(&token))
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A result that asks for input, with its state sealed; one without a state as it is.
pub fn sealed(seal: &Seal, binding: &Binding<'_>, result: Bytes) -> Bytes {
    let Ok(text) = std::str::from_utf8(&result) else { return result };
    let object = Json::trusted(text);
    let Some(state) = object.get(MEMBER) else { return result };
    // Only a text can come back; anything else is left out rather than shown.
    let token = state.string().and_then(|state| binding.seal(seal, OF_TARGET, state.as_bytes()));
    let edit = |key: Key<'_>, _: Json<'_>| match &token {
        _ if !key.is(MEMBER) => Edit::Keep,
        Some(token) => Edit::Set(token.as_bytes()),
        None => Edit::Drop,
    };
    write::edited(object, edit, &[]).into()
}

/// A question of a call that waits here, with the ticket that leads back to it.
pub fn ticketed(seal: &Seal, binding: &Binding<'_>, question: &Bytes, ticket: Ticket) -> Option<Bytes> {
    let token = binding.seal(seal, OF_CALL, &ticket.0.to_le_bytes())?;
    let object = Json::trusted(std::str::from_utf8(question).ok()?);
    Some(write::edited(object, |_, _| Edit::Keep, &[(MEMBER, token.as_bytes())]).into())
}

/// The params of a request as its target may read them, and the ticket if it leads back to a call that waits here. A state that
/// is not ours, or not for this, is refused.
pub fn opened(seal: &Seal, binding: &Binding<'_>, params: Params) -> Result<(Params, Option<Ticket>), Failure> {
    let Some(state) = params.json().get(MEMBER) else { return Ok((params, None)) };
    let refused = || Failure::InvalidParams("`requestState` is not valid for this call, or has expired".into());
    let token = state.string().ok_or_else(refused)?;
    let record = seal.open(PURPOSE, &token).ok_or_else(refused)?;
    let (&kind, rest) = record.split_first().ok_or_else(refused)?;
    let expiry = rest.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes)).filter(|expiry| *expiry > now()).ok_or_else(refused)?;
    let inner = record.strip_prefix(binding.record(kind, expiry).as_slice()).ok_or_else(refused)?;
    if kind == OF_CALL {
        let ticket = Ticket(u128::from_le_bytes(inner.try_into().map_err(|_| refused())?));
        return Ok((params, Some(ticket)));
    }
    let inner = write::quoted(std::str::from_utf8(inner).map_err(|_| refused())?);
    let params = write::edited(params.json(), |key, _| if key.is(MEMBER) { Edit::Set(inner.as_bytes()) } else { Edit::Keep }, &[]);
    Ok((Params::trusted(params), None))
}

/// Whether a client of the legacy era, which has no such thing, sent a state or answers of its own. A target of the modern era
/// would take them for what we had sealed.
pub fn smuggled(params: &Params) -> bool {
    params.json().members().any(|(key, _)| key.is(MEMBER) || key.is("inputResponses"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // H9
    #[test]
    fn a_state_comes_back_only_for_what_it_was_given_for() {
        let seal = Seal::new(None).unwrap();
        let binding = Binding { principal: &Principal::anonymous(), target: "t", method: Method::CallTool, source: b"tool", exposed: "name" };
        let asked = sealed(&seal, &binding, Bytes::from_static(br#"{"resultType":"input_required","requestState":"inner \"state\""}"#));
        let text = std::str::from_utf8(&asked).unwrap();
        assert!(!text.contains("inner"));
        let token = Json::trusted(text).get("requestState").unwrap().raw();
        let retry = || Params::trusted(format!(r#"{{"name":"x","requestState":{token}}}"#));
        let (back, ticket) = opened(&seal, &binding, retry()).unwrap();
        assert!(ticket.is_none());
        assert_eq!(back.string("requestState").as_deref(), Some(r#"inner "state""#));
        let robot = Principal::of_key(&crate::config::ApiKey { id: "robot".into(), hash: [0; 32], claims: serde_json::Map::new() });
        for other in [
            Binding { principal: &robot, ..binding },
            Binding { target: "u", ..binding },
            Binding { source: b"other", ..binding },
            Binding { exposed: "alias", ..binding },
            Binding { method: Method::GetPrompt, ..binding },
        ] {
            assert!(opened(&seal, &other, retry()).is_err());
        }
        for forged in [r#""inner""#, "7", "\"\""] {
            assert!(opened(&seal, &binding, Params::trusted(format!(r#"{{"requestState":{forged}}}"#))).is_err(), "{forged}");
        }
    }

    // H9
    #[test]
    fn a_ticket_leads_back_only_for_what_it_was_given_for_and_no_target_reads_it() {
        let seal = Seal::new(None).unwrap();
        let binding = Binding { principal: &Principal::anonymous(), target: "t", method: Method::CallTool, source: b"tool", exposed: "name" };
        let asked = ticketed(&seal, &binding, &Bytes::from_static(br#"{"resultType":"input_required"}"#), Ticket(7)).unwrap();
        let token = Json::trusted(std::str::from_utf8(&asked).unwrap()).get("requestState").unwrap().raw();
        let retry = || Params::trusted(format!(r#"{{"name":"x","requestState":{token}}}"#));
        assert_eq!(opened(&seal, &binding, retry()).unwrap().1, Some(Ticket(7)));
        assert!(opened(&seal, &Binding { target: "u", ..binding }, retry()).is_err());
        assert!(opened(&seal, &Binding { method: Method::ReadResource, ..binding }, retry()).is_err());
    }
}
