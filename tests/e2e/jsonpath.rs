//! The compliance suite of RFC 9535, as a package of another implementation ships it.

use serde_json::Value;
use transom_registry::path::{Document, Forms, Found, Indexed, Path, Rules};
use transom_tests::install::{have, package};

/// What a path finds in a document; `None` if it is refused, or would be too dear.
fn found(path: &str, document: &str, rules: Rules) -> Option<Value> {
    let path = Path::parse(path, &rules).ok()?;
    let indexed = Indexed::whole(document).expect("a document");
    let forms = Forms::default();
    let places = match path.select(&Document::new(&indexed, &forms), indexed.root(), &mut 0).ok()? {
        Found::One(place) => place.into_iter().collect(),
        Found::Many(places) => places,
    };
    Some(places.into_iter().map(|place| serde_json::from_str::<Value>(indexed.json(place).raw()).expect("a part of JSON is JSON")).collect())
}

// security.md 3.1
#[test]
fn paths_find_what_the_compliance_suite_of_the_rfc_says() {
    if !have(&["node"]) {
        return;
    }
    let suite = std::fs::read(package("jsonpath-rfc9535/src/__tests__/jsonpath-compliance-test-suite/cts.json")).expect("the suite");
    let suite: Value = serde_json::from_slice(&suite).expect("JSON");
    let cases = suite["tests"].as_array().expect("cases");
    assert!(cases.len() >= 687, "{}", cases.len());
    let mut wrong = Vec::new();
    for case in cases {
        let (name, path) = (&case["name"], case["selector"].as_str().expect("a path"));
        if case["invalid_selector"] == true {
            if Path::parse(path, &Rules { full: true }).is_ok() {
                wrong.push(format!("{name}: {path} is accepted"));
            }
            continue;
        }
        let document = case["document"].to_string();
        let may_be = |result: &Value| *result == case["result"] || case["results"].as_array().is_some_and(|all| all.contains(result));
        match found(path, &document, Rules { full: true }) {
            Some(result) if may_be(&result) => {}
            other => wrong.push(format!("{name}: {path} finds {other:?} in {document}")),
        }
        // By itself a registry allows less; what it allows means the same.
        if let Some(result) = found(path, &document, Rules::default())
            && !may_be(&result)
        {
            wrong.push(format!("{name}: {path} finds {result} in {document} if not all is allowed"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
