//! The golden cases, by the engine alone: what `transom test` says of them is the command line's, and this is what mutation testing of the
//! engine sees (`make mutants`).

#![allow(clippy::disallowed_methods, reason = "the engine is pure; its cases are files")]

use std::path::Path;
use transom_json::{Json, Tree};
use transom_registry::Document;
use transom_registry::suite::{Outcome, Subject, Suite};

/// Cases about the spelling of a number, which is lost on the way through [`yaml`]. The command line's own reader keeps it.
const SPELLED: &[&str] = &[
    "coerceArguments converts what is lossless",
    "a lone placeholder becomes a number",
    "F13 a mock gives its response",
    "J15 emoji and every kind of value",
];

fn yaml(text: &str) -> Result<serde_json::Value, serde_saphyr::Error> {
    serde_saphyr::from_str_with_options(text, serde_saphyr::options! { strict_booleans: true })
}

#[test]
fn the_engine_does_what_the_golden_cases_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let mut passed = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let json = match path.extension().and_then(|extension| extension.to_str()) {
            Some("yaml") => yaml(&text).unwrap_or_else(|error| panic!("{path:?}: {error}")).to_string(),
            _ => text,
        };
        let suite = Suite::read(&Tree::from(Json::trusted(&json))).unwrap_or_else(|faults| panic!("{path:?}: {faults:?}"));
        let Subject::Inline(registry) = &suite.registry else { panic!("{path:?}: the registry of a golden case stands in it") };
        let outcomes = suite.run(Document { name: "registry", text: registry }).unwrap_or_else(|problems| panic!("{path:?}: {problems:?}"));
        let failed: Vec<&Outcome> = outcomes.iter().filter(|outcome| !outcome.passed() && !SPELLED.contains(&&*outcome.name)).collect();
        assert!(failed.is_empty(), "{path:?}: {failed:#?}");
        passed += outcomes.len();
    }
    assert!(passed >= 250, "{passed} cases");
}
