//! Fake servers on standard streams: the binary `fake-stdio`, told in one JSON argument how to behave.
//!
//! | member | meaning |
//! |---|---|
//! | `tools` | names of tools, or whole definitions; default `["echo"]` |
//! | `era` | `legacy` (default), `modern`, `both` |
//! | `mark` | a text to find the process by; copied to what it starts |
//! | `journal` | a file that gets a line per start, call (its tool, and its `nonce` if it has one), cancellation, end of input and SIGTERM |
//! | `record` | a file that gets everything it is given: arguments, variables, and each line it reads |
//! | `lifeSeconds` | how long it lives if nobody ends it; default 180 |
//! | `crash` | `start`, `idle`, `call`, `line`; with `exit` (code) or `signal` (number); `crashOnce`: a file, made at the first crash, that prevents the next |
//! | `startMs` | how long it takes before it reads anything |
//! | `hang` | a method that is never answered |
//! | `ignoreTerm`, `ignoreEof`, `grandchild`, `stopReading` | what they say |
//! | `stderr` | bytes to write to standard error without a newline, again and again |
//! | `garbage` | lines written to standard output before every answer |
//! | `partial` | milliseconds between the two halves of each answer to a call |
//! | `endless` | bytes of a line without an end, written when called |
//!
//! Tools by name: `echo`, `counter` (counts this process's calls), `env`, `pid`, `sleep {ms}`, `crash {exit}`, `fail`,
//! `progress {n}`, `limits`, `hog {mib}`, `bomb {n}`, `ask`, `log`, `foreign`, `cancelled`. Any other name echoes.

use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use transom_upstream::{EraChoice, Sessions, TargetSpec, Transport};

/// Where cargo put the binary.
pub fn binary() -> PathBuf {
    crate::process::beside("fake-stdio").expect("fake-stdio is built before the tests of this package")
}

/// A target that is such a child.
pub fn spec(name: &str, mut behaviour: Value) -> TargetSpec {
    if behaviour.get("name").is_none() {
        behaviour["name"] = json!(name);
    }
    TargetSpec {
        name: name.into(),
        transport: Transport::Stdio {
            cmd: binary().display().to_string(),
            args: vec![behaviour.to_string()],
            env: Vec::new(),
            cwd: None,
            limits: Default::default(),
        },
        era: EraChoice::Auto,
        sessions: Sessions::Shared,
        timeout: Duration::from_secs(20),
        allow_server_requests: false,
        aliases: Vec::new(),
    }
}

/// Lines of a journal that start with this word.
pub fn journal(path: &std::path::Path, word: &str) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter(|line| line.split(' ').next() == Some(word)).map(str::to_owned).collect()
}
