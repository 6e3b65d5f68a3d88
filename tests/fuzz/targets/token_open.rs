//! Of everything that can be written only the tokens we made open, each for its own purpose and, if it names a session, for its own
//! principal. The first byte says how the token is made: any text, any bytes in base64, one of ours with changes, two of ours spliced.

use std::sync::Arc;
use transom_gateway::abilities::Abilities;
use transom_gateway::authenticate::Principal;
use transom_gateway::request_state::{self, Binding};
use transom_gateway::seal::Seal;
use transom_gateway::session::{Opened, Sessions};
use transom_protocol::message::Params;
use transom_protocol::{Method, Revision};

pub const WORDS: &[&str] = &["AAAA", "=", "-_", "+/", "A"];

const PURPOSES: [&str; 3] = ["session", "cursor", "request state"];

struct Ours {
    seal: Arc<Seal>,
    sealed: Vec<(usize, String)>,
    sessions: Sessions,
    session: String,
    state: String,
}

impl Ours {
    fn new() -> Ours {
        let seal = Arc::new(Seal::new(Some("a secret of the fuzzer")).expect("there is randomness"));
        let sealed = (0..6).map(|n| (n % 3, seal.seal(PURPOSES[n % 3], format!("record {n} {}", "x".repeat(n * 7)).as_bytes()).expect("it seals")));
        let sealed = sealed.collect();
        let sessions = Sessions::new(seal.clone());
        let revision = Revision::ALL[1];
        let (session, _) = sessions.create(revision, Abilities::default(), None, &Principal::anonymous()).expect("there is room");
        let asked = request_state::sealed(&seal, &binding(&Principal::anonymous()), r#"{"requestState":"inner"}"#.into());
        let asked: serde_json::Value = serde_json::from_slice(&asked).expect("a result is JSON");
        let state = asked["requestState"].as_str().expect("a state is text").to_owned();
        let back = Params::trusted(asked.to_string());
        assert!(request_state::opened(&seal, &binding(&Principal::anonymous()), back).is_ok(), "what we sealed opens");
        Ours { seal, sealed, sessions, session, state }
    }

    fn all(&self) -> Vec<&str> {
        self.sealed.iter().map(|(_, token)| token.as_str()).chain([self.session.as_str(), self.state.as_str()]).collect()
    }
}

fn binding(principal: &Principal) -> Binding<'_> {
    Binding { principal, target: "t", method: Method::CallTool, source: b"tool", exposed: "name" }
}

pub fn run(bytes: &[u8]) {
    std::thread_local! {
        static OURS: Ours = Ours::new();
    }
    OURS.with(|ours| judge(ours, bytes));
}

fn judge(ours: &Ours, bytes: &[u8]) {
    let Some((how, rest)) = bytes.split_first() else { return };
    let all = ours.all();
    let pick = |byte: Option<&u8>| all[byte.map_or(0, |byte| usize::from(*byte)) % all.len()];
    let token = match how % 4 {
        0 => String::from_utf8_lossy(rest).into_owned(),
        1 => base64(rest),
        2 => {
            let mut token = pick(rest.first()).as_bytes().to_vec();
            for change in rest.get(1..).unwrap_or_default().chunks_exact(2) {
                let at = usize::from(change[0]) % (token.len() + 1);
                match change[1] {
                    0..=63 if at < token.len() => token[at] = ALPHABET[usize::from(change[1])],
                    64..=99 => token.insert(at, change[1]),
                    100..=119 if at < token.len() => drop(token.remove(at)),
                    120..=139 => token.truncate(at),
                    140..=159 => token.push(b'='),
                    _ => {}
                }
            }
            String::from_utf8_lossy(&token).into_owned()
        }
        _ => {
            let (head, tail) = (pick(rest.first()), pick(rest.get(1)));
            let at = rest.get(2).map_or(0, |byte| usize::from(*byte));
            format!("{}{}", head.get(..at).unwrap_or(head), tail.get(at..).unwrap_or(""))
        }
    };
    for (number, purpose) in PURPOSES.iter().enumerate() {
        let expected = ours.sealed.iter().any(|(of, known)| *of == number && *known == token);
        assert_eq!(ours.seal.open(purpose, &token).is_some(), expected, "{token} for {purpose}");
    }
    // One session manager knows it; the other, of another replica, has only the key.
    for sessions in [&ours.sessions, &Sessions::new(ours.seal.clone())] {
        let opened = matches!(sessions.open(&token, &Principal::anonymous()), Opened::Yes(_));
        assert_eq!(opened, token == ours.session, "{token} as a session");
        assert!(!matches!(sessions.open(&token, &robot()), Opened::Yes(_)), "{token} as a session of another");
    }
    let params = || Params::trusted(serde_json::json!({ "requestState": token }).to_string());
    let opened = request_state::opened(&ours.seal, &binding(&Principal::anonymous()), params());
    // Ours opens for ten minutes, and a run may take longer.
    assert!(opened.is_err() || token == ours.state, "{token} as a state");
    assert!(request_state::opened(&ours.seal, &binding(&robot()), params()).is_err(), "{token} as a state of another");
}

fn robot() -> Principal {
    transom_gateway::fuzzing::principal(&transom_gateway::config::ApiKey { id: "robot".into(), hash: [0; 32], claims: serde_json::Map::new() })
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// URL-safe and without padding, written here so that the product's reader has another writer.
fn base64(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().enumerate().fold(0u32, |bits, (at, byte)| bits | u32::from(*byte) << (16 - 8 * at));
        for at in 0..=chunk.len() {
            out.push(char::from(ALPHABET[(bits >> (18 - 6 * at)) as usize & 63]));
        }
    }
    out
}
