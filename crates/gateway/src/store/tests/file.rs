//! Registries in files: every way to write them, and to write them badly.

use super::*;
use crate::config::{Reading, Surroundings};
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Barrier;
use transom_registry::template::Environment;

#[tokio::test]
async fn a_file_is_loaded_at_start_and_again_when_it_changes() {
    // R-003-2, R-003-3, R-003-26, R-003-31
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("registry.json");
    fs::write(&file, registry(&["a"])).unwrap();
    let store = RegistryStore::new(&config(vec![file_source(&file)]), vec!["t".into()], Metrics::new());
    store.start().await.unwrap();
    assert_eq!(tools(&store), ["a"]);

    fs::write(&file, registry(&["a", "b"])).unwrap();
    let took = until("the change is live", || tools(&store) == ["a", "b"]).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    let status = store.status();
    assert_eq!((status.sources, status.version, status.stale, status.last_error), (vec!["registry.json".to_owned()], Some(2), false, None));
}

#[tokio::test]
async fn the_first_load_fails_with_the_place_and_a_later_one_changes_nothing() {
    // R-003-32, R-003-51, L5
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("registry.json");
    let store = store(&config(vec![file_source(&file)]));
    let missing = store.start().await.unwrap_err();
    let expected = format!("registry registry.json: there is no such file ({}); and there is no last known good to start with", file.display());
    assert_eq!(missing, expected);

    fs::write(&file, "{\n  \"tools\": 7\n}").unwrap();
    let wrong = store.start().await.unwrap_err();
    assert!(wrong.starts_with("registry.json:2:12: "), "{wrong}");
    fs::write(&file, b"\xff\xfe").unwrap();
    assert!(store.start().await.unwrap_err().contains("not UTF-8"));

    fs::write(&file, registry(&["a"])).unwrap();
    store.start().await.unwrap();
    fs::remove_file(&file).unwrap();
    assert!(store.reload().await.unwrap_err().contains("there is no such file"));
    assert_eq!(tools(&store), ["a"]);
    let status = store.status();
    assert!(status.stale && status.last_error.unwrap().contains("there is no such file"));
    assert_eq!(metric(&store, "transom_registry_last_reload_successful"), Some(0.0));

    fs::write(&file, registry(&["b"])).unwrap();
    until("it is there again", || tools(&store) == ["b"]).await;
    until("all is well", || !store.status().stale).await;
}

#[tokio::test]
async fn bad_then_good_applies_the_good() {
    // F9, L10: a partial write, then the complete one, is exactly one good generation.
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("registry.json");
    fs::write(&file, registry(&["a"])).unwrap();
    let store = started(&config(vec![file_source(&file)])).await;
    let next = registry(&["a", "b"]);
    for bad in [&next[..next.len() / 2], "", "{}", "[]", "null", r#"{"tools":{}}"#] {
        let before = store.current().unwrap().version;
        fs::write(&file, bad).unwrap();
        until(bad, || store.status().last_error.is_some()).await;
        assert_eq!((tools(&store), store.status().stale), (vec!["a".to_owned()], true), "{bad}");

        fs::write(&file, &next).unwrap();
        until(bad, || tools(&store) == ["a", "b"]).await;
        until(bad, || store.status().last_error.is_none()).await;
        assert_eq!(store.current().unwrap().version, before + 1, "{bad}");

        fs::write(&file, registry(&["a"])).unwrap();
        until(bad, || tools(&store) == ["a"]).await;
    }
}

#[tokio::test]
async fn a_file_torn_at_a_thousand_offsets_is_never_half_applied() {
    // F2, T13
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("registry.json");
    let names: Vec<String> = (0..20).map(|at| format!("tool_{at}")).collect();
    let whole = registry(&names.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(whole.len() > 1000);
    fs::write(&file, registry(&["a"])).unwrap();
    let store = started(&config(vec![file_source(&file)])).await;
    for offset in 0..1000 {
        let torn = &whole[..offset * whole.len() / 1000];
        fs::write(&file, torn).unwrap();
        assert!(store.reload().await.is_err(), "{offset}");
        assert_eq!(tools(&store), ["a"], "{offset}");
    }
    fs::write(&file, &whole).unwrap();
    store.reload().await.unwrap();
    assert_eq!((tools(&store).len(), store.current().unwrap().version), (20, 2));
}

#[tokio::test]
async fn a_hundred_swaps_of_a_kubernetes_volume_are_all_applied() {
    // L9, F11, T13
    let dir = tempfile::tempdir().unwrap();
    let publish = |version: usize| {
        let data = dir.path().join(format!("..{version}"));
        fs::create_dir(&data).unwrap();
        fs::write(data.join("registry.json"), registry(&[&format!("v{version}")])).unwrap();
        symlink(format!("..{version}"), dir.path().join("..data_tmp")).unwrap();
        fs::rename(dir.path().join("..data_tmp"), dir.path().join("..data")).unwrap();
    };
    publish(0);
    symlink("..data/registry.json", dir.path().join("registry.json")).unwrap();
    let store = started(&config(vec![file_source(&dir.path().join("registry.json"))])).await;
    for version in 1..=100 {
        publish(version);
        fs::remove_dir_all(dir.path().join(format!("..{}", version - 1))).unwrap();
        until(&format!("swap {version}"), || tools(&store) == [format!("v{version}")]).await;
    }
    assert_eq!(store.current().unwrap().version, 101);
}

#[tokio::test]
async fn the_same_content_again_is_no_news() {
    // L8, F11
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("registry.json");
    fs::write(&file, registry(&["a"])).unwrap();
    let store = started(&config(vec![file_source(&file)])).await;
    let mut changes = store.changes();
    changes.mark_unchanged();
    fs::write(&file, registry(&["a"])).unwrap();
    assert_eq!(store.reload().await, Ok(Outcome::Unchanged));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!changes.has_changed().unwrap());
}

#[tokio::test]
async fn what_is_not_a_registry_file_is_refused_before_it_is_read() {
    // F3: 17 MiB; a directory; a device that never ends.
    let dir = tempfile::tempdir().unwrap();
    let large = dir.path().join("large.json");
    fs::write(&large, " ".repeat(17 << 20)).unwrap();
    for (path, reason) in [(large.as_path(), "larger than 16 MiB"), (dir.path(), "is not a file"), (Path::new("/dev/zero"), "is not a file")] {
        let refused = store(&config(vec![file_source(path)])).start().await.unwrap_err();
        assert!(refused.contains(reason), "{refused}");
    }
}

#[tokio::test]
async fn of_two_sources_the_first_wins_and_a_bad_one_costs_the_other_nothing() {
    // R-003-65, operations.md 3
    let dir = tempfile::tempdir().unwrap();
    let [one, two] = ["one.json", "two.json"].map(|name| dir.path().join(name));
    fs::write(&one, registry(&["a"])).unwrap();
    fs::write(&two, registry(&["a", "b"]).replace("raw_a", "other")).unwrap();
    let store = started(&config(vec![file_source(&one), file_source(&two)])).await;
    assert_eq!(tools(&store), ["a", "b"]);
    assert_eq!(store.current().unwrap().plan.get_tool("a").unwrap().source(), Some(("t", "raw_a")));

    fs::write(&one, "{").unwrap();
    until("it is bad", || store.status().last_error.is_some()).await;
    fs::write(&two, registry(&["c"])).unwrap();
    until("the other goes on", || tools(&store) == ["a", "c"]).await;
    assert!(store.status().last_error.unwrap().starts_with("one.json:1:"), "and the bad one is not forgotten");

    fs::write(&one, registry(&["d"])).unwrap();
    until("it is good again", || tools(&store) == ["d", "c"]).await;
    assert_eq!(store.status().last_error, None);
}

#[tokio::test]
async fn a_rollback_stays_until_the_source_says_something_new() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("registry.json");
    fs::write(&file, registry(&["a"])).unwrap();
    let store = started(&config(vec![file_source(&file)])).await;
    fs::write(&file, registry(&["b"])).unwrap();
    until("b", || tools(&store) == ["b"]).await;
    store.rollback(1).unwrap();
    assert_eq!(store.reload().await, Ok(Outcome::Unchanged));
    store.reconfigure(&Config { naming: Default::default(), ..config(vec![file_source(&file)]) }, vec!["t".into(), "u".into()]).await;
    assert_eq!((tools(&store), store.status().origin), (vec!["a".to_owned()], Some(Origin::Rollback)));

    fs::write(&file, registry(&["c"])).unwrap();
    until("c", || tools(&store) == ["c"]).await;
    assert_eq!((store.status().origin, store.status().stale), (Some(Origin::Source), false));
}

#[tokio::test]
async fn a_rollback_is_not_ended_by_what_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let [file, other] = ["registry.json", "other.json"].map(|name| dir.path().join(name));
    fs::write(&file, registry(&["a"])).unwrap();
    fs::write(&other, registry(&["o"])).unwrap();
    let both = config(vec![file_source(&file), file_source(&other)]);
    let store = started(&both).await;
    fs::write(&file, registry(&["b"])).unwrap();
    until("b", || tools(&store) == ["b", "o"]).await;
    store.rollback(1).unwrap();
    let version = store.current().unwrap().version;
    let rolled_back = |because: &str| {
        assert_eq!((tools(&store), store.status().origin), (vec!["a".to_owned(), "o".to_owned()], Some(Origin::Rollback)), "{because}");
    };

    for (text, reason) in [("{", "registry.json:1:"), ("{}", "would replace one that is not")] {
        fs::write(&file, text).unwrap();
        until(reason, || store.status().last_error.is_some_and(|error| error.contains(reason))).await;
        rolled_back(text);
        assert!(store.reload().await.unwrap_err().contains(reason), "asking again does not make it better");
        rolled_back(text);
        assert_eq!(store.current().unwrap().version, version, "nobody was told of anything");
    }
    // The config counts for what was gone back to as well.
    store.reconfigure(&both, vec!["u".into()]).await;
    assert_eq!((tools(&store), store.status().origin), (vec![], Some(Origin::Rollback)));
    store.reconfigure(&both, vec!["t".into()]).await;
    rolled_back("the targets are there again");

    // The source is well again, and says what somebody went back from.
    fs::write(&file, registry(&["b"])).unwrap();
    until("it is well", || store.status().last_error.is_none()).await;
    rolled_back("it is nothing new");

    fs::write(&file, registry(&["c"])).unwrap();
    until("c", || tools(&store) == ["c", "o"]).await;
    assert_eq!((store.status().origin, store.status().stale), (Some(Origin::Source), false));

    // A source that left the config takes its tools along.
    store.rollback(1).unwrap();
    store.reconfigure(&config(vec![file_source(&file)]), vec!["t".into()]).await;
    assert_eq!((tools(&store), store.status().origin), (vec!["c".to_owned()], Some(Origin::Source)));
}

/// Variables that a test can change, and the machine's files.
#[derive(Clone, Default)]
struct Settable(Arc<Mutex<BTreeMap<String, String>>>);

impl Settable {
    fn set(&self, name: &str, value: &str) {
        self.0.lock().unwrap().insert(name.into(), value.into());
    }
}

impl Environment for Settable {
    fn variable(&self, name: &str) -> Option<String> {
        self.0.lock().unwrap().get(name).cloned()
    }

    fn file(&self, path: &Path) -> Result<String, String> {
        fs::read_to_string(path).map_err(|error| error.to_string())
    }
}

fn with_key(placeholder: &str) -> String {
    registry(&["a"]).replace(r#""source""#, &format!(r#""defaults":{{"key":"{placeholder}"}},"source""#))
}

#[tokio::test]
async fn who_asks_for_a_reload_and_hangs_up_does_not_lose_it_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("registry.json");
    fs::write(&file, registry(&["a"])).unwrap();
    let store = started(&config(vec![file_source(&file)])).await;
    let (turn, held, ended) = (store.compiling.clone(), Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let busy = std::thread::spawn({
        let (held, ended) = (held.clone(), ended.clone());
        move || {
            let _busy = turn.lock().unwrap();
            held.wait();
            ended.wait();
        }
    });
    held.wait();
    fs::write(&file, registry(&["b"])).unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(200), store.reload()).await.is_err(), "it waits for its turn");
    ended.wait();
    busy.join().unwrap();
    let live = async {
        while tools(&store) != ["b"] {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), live).await.expect("what was asked for");
    assert_eq!(store.reload().await, Ok(Outcome::Unchanged));
    assert_eq!(store.status().last_error, None);
}

#[tokio::test]
async fn a_reload_reads_the_environment_again() {
    // registry.md 5, D6
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("registry.json");
    fs::write(&file, with_key("${KEY}")).unwrap();
    let environment = Settable::default();
    let allow = |patterns: &[&str]| Reading { env_allow: Some(patterns.iter().map(|each| (*each).to_owned()).collect()), ..Reading::default() };
    let config = Config { environment: Surroundings::new(environment.clone()), reading: allow(&["KEY"]), ..config(vec![file_source(&file)]) };
    let store = started(&config).await;
    assert_eq!(tools(&store), [""; 0], "KEY is not set, and its tool is quarantined");
    assert!(store.current().unwrap().problems[0].contains("`KEY`"));

    environment.set("KEY", "CANARY-1");
    assert_eq!(store.reload().await, Ok(Outcome::Adopted { version: 2, added: 1, removed: 0, changed: 0 }));
    assert_eq!(store.reload().await, Ok(Outcome::Unchanged));
    environment.set("KEY", "CANARY-2");
    assert!(matches!(store.reload().await, Ok(Outcome::Adopted { version: 3, .. })));
    environment.set("OTHER", "x");
    assert_eq!(store.reload().await, Ok(Outcome::Unchanged), "nobody reads OTHER");
    // L19
    let shown = format!("{:?} {:?} {:?}", store.current(), store.status(), store.history());
    assert!(!shown.contains("CANARY"), "{shown}");
    assert!(!format!("{:?}", store.current().unwrap().readings).contains("CANARY"));

    store.reconfigure(&Config { reading: allow(&["WEATHER_*"]), ..config }, vec!["t".into()]).await;
    assert_eq!(tools(&store), [""; 0], "and now it may not read KEY any more");
}

#[tokio::test]
async fn a_secret_in_a_file_is_read_again_when_the_file_changes() {
    // registry.md 5
    let dir = tempfile::tempdir().unwrap();
    let [file, secret, later] = ["registry.json", "secret", "later"].map(|name| dir.path().join(name));
    fs::write(&secret, "one").unwrap();
    fs::write(&file, with_key(&format!("${{file:{}}}", secret.display()))).unwrap();
    let reading = Reading { env_allow: Some(vec![format!("file:{}/*", dir.path().display())]), ..Reading::default() };
    let config = Config { environment: Surroundings::new(Settable::default()), reading, ..config(vec![file_source(&file)]) };
    let store = started(&config).await;
    assert_eq!(tools(&store), ["a"]);
    fs::write(&secret, "two").unwrap();
    until("the other secret", || store.current().unwrap().version == 2).await;

    // A file that is named later, and is not there yet.
    fs::write(&file, with_key(&format!("${{file:{}}}", later.display()))).unwrap();
    until("it is missing", || tools(&store).is_empty()).await;
    fs::write(&later, "three").unwrap();
    until("it is there", || tools(&store) == ["a"]).await;
}

#[tokio::test]
async fn another_config_counts_at_once_and_restarts_nothing_that_stays() {
    // L13, L14
    let dir = tempfile::tempdir().unwrap();
    let [file, other] = ["registry.json", "other.json"].map(|name| dir.path().join(name));
    fs::write(&file, registry(&["a"])).unwrap();
    let first = config(vec![file_source(&file)]);
    let store = started(&first).await;
    let client = Arc::downgrade(&store.state().sources[0].client);
    for _ in 0..50 {
        store.reconfigure(&first, vec!["t".into()]).await;
    }
    assert_eq!(store.state().tasks.iter().filter(|task| task.is_running()).count(), 1);
    assert!(client.upgrade().is_some(), "the source is still the same one");
    assert_eq!(store.current().unwrap().version, 1, "and nobody was told of anything");

    // The targets are others: the same text means something else.
    store.reconfigure(&first, vec!["u".into()]).await;
    assert_eq!(tools(&store), [""; 0]);
    store.reconfigure(&first, vec!["t".into()]).await;
    assert_eq!(tools(&store), ["a"]);

    // Another source that cannot be read: the old plan stays until it can.
    store.reconfigure(&config(vec![file_source(&other)]), vec!["t".into()]).await;
    assert_eq!((tools(&store), store.status().stale), (vec!["a".to_owned()], true));
    fs::write(&other, registry(&["o"])).unwrap();
    until("the other source", || tools(&store) == ["o"]).await;
    assert!(client.upgrade().is_none());

    // Two configs at once: what is watched in the end is what the last one says.
    let [back, forth] = [first.clone(), config(vec![file_source(&other)])];
    tokio::join!(store.reconfigure(&back, vec!["t".into()]), store.reconfigure(&forth, vec!["t".into()]));
    assert_eq!(tools(&store), ["o"]);
    fs::write(&other, registry(&["p"])).unwrap();
    until("it is watched", || tools(&store) == ["p"]).await;
    assert_eq!(store.state().tasks.iter().filter(|task| task.is_running()).count(), 1);

    let before = *store.changes().borrow();
    store.reconfigure(&Config::default(), vec!["t".into()]).await;
    assert!(!store.is_configured() && store.current().is_none() && *store.changes().borrow() > before);
    assert!(store.state().tasks.is_empty());
}

#[tokio::test]
async fn a_plan_that_stands_in_for_new_sources_is_not_settled_until_they_are_live() {
    let dir = tempfile::tempdir().unwrap();
    let [file, other, same] = ["registry.json", "other.json", "same.json"].map(|name| dir.path().join(name));
    fs::write(&file, registry(&["a"])).unwrap();
    let first = config(vec![file_source(&file)]);
    assert!(store(&Config::default()).is_settled(), "there is nothing to wait for");
    assert!(!store(&first).is_settled(), "nothing is live yet");
    let store = started(&first).await;
    assert!(store.is_settled());
    let targets = || vec!["t".to_owned()];

    // Neither silence nor nonsense of the new source settles anything, and compiling the old plan again does not either.
    store.reconfigure(&config(vec![file_source(&file), file_source(&other)]), targets()).await;
    assert!(!store.is_settled());
    store.reconfigure(&config(vec![file_source(&file), file_source(&other)]), vec!["t".into(), "u".into()]).await;
    fs::write(&other, "{").unwrap();
    store.reload().await.unwrap_err();
    assert_eq!((tools(&store), store.is_settled()), (vec!["a".to_owned()], false));
    let mut changes = store.changes();
    changes.mark_unchanged();
    fs::write(&other, registry(&["o"])).unwrap();
    tokio::time::timeout(Duration::from_secs(10), changes.changed()).await.expect("a new plan").unwrap();
    assert_eq!((tools(&store), store.is_settled()), (vec!["a".to_owned(), "o".to_owned()], true), "whoever is told finds it settled");

    // A source that is gone counts too, and so does going back.
    store.reconfigure(&config(vec![file_source(&same)]), vec!["t".into(), "u".into()]).await;
    assert!(!store.is_settled());
    store.reconfigure(&first, targets()).await;
    assert_eq!((tools(&store), store.is_settled()), (vec!["a".to_owned()], true));

    // A new source that says what the old one said: another plan is not needed, but who waits is told.
    store.reconfigure(&config(vec![file_source(&same)]), targets()).await;
    assert!(!store.is_settled());
    let version = store.current().unwrap().version;
    let mut changes = store.changes();
    changes.mark_unchanged();
    fs::write(&same, registry(&["a"])).unwrap();
    tokio::time::timeout(Duration::from_secs(10), changes.changed()).await.expect("who waits is told").unwrap();
    assert_eq!((store.current().unwrap().version, store.is_settled()), (version, true));

    store.reconfigure(&Config::default(), targets()).await;
    assert!(store.is_settled());
}

#[tokio::test]
async fn retry_starts_without_a_registry_and_takes_it_when_it_comes() {
    // F10
    let dir = tempfile::tempdir().unwrap();
    let [one, two] = ["one.json", "two.json"].map(|name| dir.path().join(name));
    let mut config = config(vec![file_source(&one), file_source(&two)]);
    config.registry.as_mut().unwrap().on_start = OnStart::Retry;
    let store = started(&config).await;
    assert!(store.is_configured() && store.current().is_none());
    fs::write(&one, registry(&["a"])).unwrap();
    until("the first is read", || store.state().sources[0].latest.is_some()).await;
    assert!(store.current().is_none(), "nothing is shown before both are there");
    fs::write(&two, registry(&["b"])).unwrap();
    until("both are live", || tools(&store) == ["a", "b"]).await;
}

#[tokio::test]
async fn of_a_thousand_versions_in_a_row_the_last_one_wins_and_few_are_compiled() {
    // F13
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("registry.json");
    fs::write(&file, registry(&["v0"])).unwrap();
    let store = started(&config(vec![file_source(&file)])).await;
    let since = Instant::now();
    for version in 1..=1000 {
        fs::write(dir.path().join(".next"), registry(&[&format!("v{version}")])).unwrap();
        fs::rename(dir.path().join(".next"), &file).unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    until("the last one", || tools(&store) == ["v1000"]).await;
    let bound = 3 + since.elapsed().as_millis() / QUICK.quiet.as_millis();
    assert!(u128::from(store.current().unwrap().version) <= bound, "{} of {bound}", store.current().unwrap().version);
}
