//! What is live, and how it changes hands.

use super::*;
use crate::config::OwnTools;
use std::sync::atomic::AtomicBool;

fn adopted(version: u64, added: usize, removed: usize, changed: usize) -> Result<Outcome, Rejected> {
    Ok(Outcome::Adopted { version, added, removed, changed })
}

#[test]
fn without_a_registry_there_is_never_a_plan() {
    // R-003-28, L14
    let store = store(&Config::default());
    assert!(!store.is_configured());
    assert!(store.current().is_none());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(store.start()).unwrap();
    assert!(store.current().is_none());
    assert_eq!(runtime.block_on(store.reload()), Ok(Outcome::Unchanged));
    let page = store.metrics.page(false);
    assert!(!page.lines().any(|line| line.starts_with("transom_registry")), "nothing to alert on: {page}");
}

#[test]
fn an_update_compiles_first_and_swaps_only_on_success() {
    // R-003-29, F9, L8
    let store = store(&config(vec![]));
    let mut changes = store.changes();
    assert_eq!(store.update(vec![fetched("r.json", registry(&["a", "b"]))], Origin::Source), adopted(1, 2, 0, 0));
    assert_eq!(*changes.borrow_and_update(), 1);

    let rejected = store.update(vec![fetched("r.json", "{\"tools\":\n  7}")], Origin::Source).unwrap_err();
    assert!(rejected.to_string().starts_with("r.json:2:3: "), "{rejected}");
    assert_eq!(store.update(vec![fetched("r.json", registry(&["a", "b"]))], Origin::Source), Ok(Outcome::Unchanged));
    assert!(!changes.has_changed().unwrap(), "nobody is told of what did not happen");
    assert_eq!(tools(&store), ["a", "b"]);

    let other = registry(&["b", "c"]).replace("raw_b", "new_b");
    assert_eq!(store.update(vec![fetched("r.json", other)], Origin::Source), adopted(2, 1, 1, 1));
    assert_eq!(*changes.borrow_and_update(), 2);
    assert_eq!(
        store.history().last().unwrap().difference,
        Difference { added: vec!["c".into()], removed: vec!["a".into()], changed: vec!["b".into()] }
    );
    assert_eq!(metric(&store, &format!("transom_registry_info{{digest=\"{}\"}}", store.current().unwrap().digest)), Some(1.0));
    assert!(metric(&store, "transom_registry_last_reload_success_timestamp_seconds").unwrap() > 1.7e9);
    assert!(metric(&store, "transom_registry_plan_age_seconds").unwrap() > 0.0);
    assert_eq!(metric(&store, "transom_registry_reloads_total{result=\"success\"}"), Some(2.0));
    assert_eq!(metric(&store, "transom_registry_reloads_total{result=\"rejected\"}"), Some(1.0));
}

#[test]
fn one_bad_tool_never_costs_another() {
    // L16, L17, registry.md 2
    let bad = r#"{"tools":[
        {"name":"a","source":{"target":"t","tool":"x"}},
        {"name":"a","source":{"target":"t","tool":"y"}},
        {"name":"b","source":{"target":"nowhere","tool":"y"}}]}"#;
    let lenient = store(&config(vec![]));
    assert_eq!(lenient.update(vec![fetched("r.json", bad)], Origin::Source), adopted(1, 1, 0, 0));
    let problems = lenient.current().unwrap().problems.clone();
    assert!(problems[0].starts_with("r.json:3:17: tool `a` is defined twice"), "{problems:?}");
    assert_eq!(problems.len(), 2);

    let strict = store(&Config { reading: crate::config::Reading { strict: true, ..Default::default() }, ..config(vec![]) });
    let rejected = strict.update(vec![fetched("r.json", bad)], Origin::Source).unwrap_err();
    assert_eq!((rejected.reasons.len(), rejected.at_fault), (2, vec![0]));
    assert!(strict.current().is_none());
}

#[test]
fn an_empty_registry_replaces_a_full_one_only_where_that_is_allowed() {
    // F2
    for allow_empty in [false, true] {
        let mut config = config(vec![]);
        config.registry.as_mut().unwrap().allow_empty = allow_empty;
        let store = store(&config);
        for empty in ["{}", r#"{"tools":[]}"#] {
            store.update(vec![fetched("r.json", registry(&["a"]))], Origin::Source).unwrap();
            let outcome = store.update(vec![fetched("r.json", empty)], Origin::Source);
            assert_eq!(outcome.is_ok(), allow_empty, "{outcome:?}");
            assert_eq!(tools(&store).is_empty(), allow_empty);
            // One source among several is no different, nor is another source in its place.
            store.update(vec![fetched("r.json", registry(&["a"])), fetched("s.json", registry(&["b"]))], Origin::Source).unwrap();
            assert_eq!(store.update(vec![fetched("r.json", registry(&["a"])), fetched("s.json", empty)], Origin::Source).is_ok(), allow_empty);
            assert_eq!(store.update(vec![fetched("other.json", empty)], Origin::Source).is_ok(), allow_empty);
        }
    }
    let store = store(&config(vec![]));
    assert_eq!(store.update(vec![fetched("r.json", "{}")], Origin::Source), adopted(1, 0, 0, 0), "the first one may be empty");
}

#[test]
fn the_configs_own_tools_come_first() {
    let own = OwnTools { name: "config.yaml".into(), text: registry(&["a"]), places: vec![(3, 5)] };
    let store = store(&Config { own_tools: Some(own), ..Config::default() });
    assert!(store.is_configured());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(store.start()).unwrap();
    assert_eq!(tools(&store), ["a"]);
    store.update(vec![fetched("r.json", registry(&["a", "b"]).replace("raw_a", "other"))], Origin::Source).unwrap();
    let current = store.current().unwrap();
    assert_eq!(current.plan.get_tool("a").unwrap().source(), Some(("t", "raw_a")));
    assert_eq!(tools(&store), ["a", "b"]);
    assert!(current.problems[0].starts_with("r.json:1:"), "{:?}", current.problems);
}

#[test]
fn a_rollback_is_a_version_of_its_own() {
    // F7
    let store = store(&config(vec![]));
    for names in [&["a"][..], &["b"], &["c"]] {
        store.update(vec![fetched("r.json", registry(names))], Origin::Source).unwrap();
    }
    assert_eq!(store.rollback(1), Ok(Outcome::Adopted { version: 4, added: 1, removed: 1, changed: 0 }));
    assert_eq!(tools(&store), ["a"]);
    let status = store.status();
    assert_eq!((status.version, status.origin, status.stale), (Some(4), Some(Origin::Rollback), true));
    assert_eq!(store.rollback(77).unwrap_err(), "version 77 of the registry is not remembered; versions 1 to 4 are");
    let kept: Vec<_> = store.history().iter().map(|version| (version.version, version.tools, version.origin)).collect();
    assert_eq!(kept, [(1, 1, Origin::Source), (2, 1, Origin::Source), (3, 1, Origin::Source), (4, 1, Origin::Rollback)]);
}

#[test]
fn twenty_versions_are_remembered_and_64_mib_of_text() {
    let store = store(&config(vec![]));
    for version in 0..30 {
        store.update(vec![fetched("r.json", registry(&[&format!("t{version}")]))], Origin::Source).unwrap();
    }
    assert_eq!(store.history().iter().map(|version| version.version).collect::<Vec<_>>(), (11..=30).collect::<Vec<_>>());
    let mut history = History::default();
    let loaded = store.current().unwrap();
    for version in 1..=6 {
        let large = vec![fetched("r.json", " ".repeat(15 << 20))];
        history.remember(&Loaded { version, documents: large, ..(*loaded).clone() }, Difference::default());
    }
    assert_eq!(history.versions().iter().map(|version| version.version).collect::<Vec<_>>(), [3, 4, 5, 6]);
    assert!(history.documents(2).is_none() && history.documents(3).is_some());
}

#[test]
fn each_reader_sees_one_whole_generation_during_a_thousand_swaps() {
    // L11, R-003-52
    let store = store(&config(vec![]));
    let texts = [registry(&["a1", "a2"]), registry(&["b1", "b2"])];
    store.update(vec![fetched("r.json", texts[0].clone())], Origin::Source).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let (mut seen, mut last) = (0_u64, 0);
                    while !over.load(Ordering::Relaxed) {
                        let current = store.current().unwrap();
                        let letters: Vec<_> = current.plan.tools().map(|tool| tool.name()[..1].to_owned()).collect();
                        assert!(letters.len() == 2 && letters[0] == letters[1], "{letters:?}");
                        assert!(current.documents[0].text.contains(&format!("{}1", letters[0])));
                        assert!(current.version >= last);
                        last = current.version;
                        seen += 1;
                    }
                    seen
                })
            })
            .collect();
        for swap in 1..=1000 {
            store.update(vec![fetched("r.json", texts[swap % 2].clone())], Origin::Source).unwrap();
        }
        over.store(true, Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
    assert_eq!(store.current().unwrap().version, 1001);
}

#[test]
fn a_text_that_would_overflow_a_stack_is_only_a_bad_tool() {
    // F3, security.md 0.4
    let path = format!("$[?{}1==1{}]", "(".repeat(10_000), ")".repeat(10_000));
    let text = serde_json::json!({"tools": [{"name": "a", "source": {"target": "t", "tool": "x"},
        "outputSchema": {"type": "object", "properties": {"p": {"sourceField": path}}}}, {"name": "b", "source": {"target": "t", "tool": "y"}}]});
    let store = store(&config(vec![]));
    store.update(vec![fetched("r.json", text.to_string())], Origin::Source).unwrap();
    assert_eq!(tools(&store), ["b"]);
    let deep = format!("{{\"tools\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    store.update(vec![fetched("r.json", deep)], Origin::Source).unwrap_err();
    assert_eq!(tools(&store), ["b"]);
}
