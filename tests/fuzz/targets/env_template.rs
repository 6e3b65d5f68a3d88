//! One pass: what a value says is never expanded again, text without a placeholder does not change, and no error tells a value.

use crate::world::CANARY;
use std::path::Path;
use transom_registry::template::{Environment, Expanded, expand, is_one_placeholder};

pub const WORDS: &[&str] = &[
    "${",
    "}",
    "$<",
    ">",
    "$$",
    ":-",
    ":?",
    "${A}",
    "$<A>",
    "${KEY:-x}",
    "${MISSING:?m}",
    "${env.A}",
    "${env:KEY}",
    "${file:/run/x}",
    "A",
    "KEY",
    "file:",
];

/// Every variable and every file has this value.
struct Says<'v>(&'v str);

impl Environment for Says<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        matches!(name, "A" | "KEY").then(|| self.0.to_owned())
    }

    fn file(&self, path: &Path) -> Result<String, String> {
        if path == Path::new("/run/x") { Ok(self.0.to_owned()) } else { Err("no such file".into()) }
    }
}

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // A value that would mean something if it were read again, and one that means nothing and stands in no input.
    let tempting = format!("${{KEY}}{CANARY}$$<A>${{MISSING");
    const MARK: &str = "\u{e000}\u{e001}";
    if text.contains('\u{e000}') {
        return;
    }
    match (expand(text, &Says(MARK)), expand(text, &Says(&tempting))) {
        (Ok(marked), Ok(tempted)) => {
            assert_eq!(tempted.text, marked.text.replace(MARK, &tempting), "a value was read again");
            let Expanded { text: expanded, secret, unclosed, read } = &marked;
            assert!(*secret || !expanded.contains(MARK), "a value that counts as no secret");
            assert_eq!(read.len(), expanded.matches(MARK).count(), "a value that is not known to be in the text");
            if !text.contains('$') {
                assert_eq!(expanded, text);
                assert!(!secret && unclosed.is_empty());
            }
            assert!(!format!("{tempted:?}").contains(CANARY), "a value is shown to whoever debugs");
            if is_one_placeholder(text) {
                assert!(*secret);
            }
        }
        (Err(marked), Err(tempted)) => {
            assert_eq!(marked, tempted, "errors depend on values");
            for fault in &tempted {
                assert!(fault.at.start <= fault.at.end && fault.at.end <= text.len());
                assert!(text.is_char_boundary(fault.at.start) && text.is_char_boundary(fault.at.end));
                assert!(!fault.to_string().contains(CANARY) && !format!("{fault:?}").contains(CANARY));
            }
        }
        (marked, tempted) => panic!("{} depends on values: {marked:?} {tempted:?}", if marked.is_ok() { "failure" } else { "success" }),
    }
}
