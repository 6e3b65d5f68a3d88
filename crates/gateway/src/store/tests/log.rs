//! What an operator reads in the log.

use super::*;
use crate::config::Reading;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use tracing_subscriber::fmt::MakeWriter;
use transom_upstream::Secret;

/// The lines of this thread; the runtime of a test has no other.
#[derive(Clone, Default)]
pub(super) struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Lines;

    fn make_writer(&'a self) -> Lines {
        self.clone()
    }
}

impl Lines {
    pub(super) fn capture() -> (Lines, tracing::subscriber::DefaultGuard) {
        let lines = Lines::default();
        let subscriber = tracing_subscriber::fmt().with_writer(lines.clone()).with_ansi(false).without_time().with_target(false).finish();
        (lines, tracing::subscriber::set_default(subscriber))
    }

    pub(super) fn take(&self) -> Vec<String> {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap().lines().map(|line| line.trim().to_owned()).collect()
    }
}

#[tokio::test]
async fn a_reload_and_a_rejection_are_visible() {
    // R-003-59
    let (lines, _guard) = Lines::capture();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("registry.json");
    fs::write(&file, registry(&["a"])).unwrap();
    let store = started(&config(vec![file_source(&file)])).await;
    let digest = store.current().unwrap().digest[..12].to_owned();
    assert_eq!(
        lines.take(),
        [format!(r#"INFO registry refreshed successfully generation=1 digest="{digest}" added=1 removed=0 changed=0 origin="source""#)]
    );

    fs::write(&file, registry(&["a", "b"])).unwrap();
    until("b", || tools(&store) == ["a", "b"]).await;
    let digest = store.current().unwrap().digest[..12].to_owned();
    assert_eq!(
        lines.take(),
        [
            r#"INFO registry changed, reloading source="registry.json""#.to_owned(),
            format!(r#"INFO registry refreshed successfully generation=2 digest="{digest}" added=1 removed=0 changed=0 origin="source""#),
        ]
    );

    fs::write(&file, "{\n \"tools\": 1}").unwrap();
    until("the rejection", || store.status().last_error.is_some()).await;
    let told = lines.take();
    assert!(told[1].starts_with("WARN registry.json:2:11: ") && told[1].contains("; what was live stays"), "{told:?}");
    assert_eq!(told.len(), 2, "{told:?}");
}

#[test]
fn problems_are_told_once_per_version_and_not_without_end() {
    let (lines, _guard) = Lines::capture();
    let store = store(&config(vec![]));
    let names: Vec<String> = (0..150).map(|at| format!("t{at}")).collect();
    let text = registry(&names.iter().map(String::as_str).collect::<Vec<_>>()).replace(r#""t""#, r#""tt""#);
    store.update(vec![fetched("r.json", text.clone())], Origin::Source).unwrap();
    store.update(vec![fetched("r.json", text)], Origin::Source).unwrap();
    let told = lines.take();
    assert_eq!(told.len(), 1 + 20 + 1, "{told:?}");
    assert!(told[1].starts_with("WARN r.json:1:"), "{}", told[1]);
    assert!(told[21].contains("the registry has more problems") && told[21].contains("more=130"), "{}", told[21]);
    assert_eq!(store.current().unwrap().problems.len(), 101);
}

#[tokio::test]
async fn open_doors_are_told_at_start_and_secrets_never() {
    // F6, F14, D3, L19
    let (lines, _guard) = Lines::capture();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("registry.json");
    fs::write(&file, registry(&["a"])).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let http = RegistrySource {
        name: "http://registry.test/".into(),
        location: RegistryLocation::Http {
            url: "http://u:CANARY@127.0.0.1:1/?CANARY".parse().unwrap(),
            headers: vec![(::http::header::AUTHORIZATION, Secret::new("Bearer CANARY"))],
            ca: None,
        },
    };
    let mut config = config(vec![file_source(&file), http]);
    config.registry.as_mut().unwrap().on_start = OnStart::Retry;
    let _store = started(&config).await;
    let told = lines.take().join("\n");
    for warning in ["travels over plain http", "`registry.env.allow`", "every user of this machine", "cannot connect"] {
        assert_eq!(told.matches(warning).count(), 1, "{warning}: {told}");
    }
    assert!(!told.contains("CANARY"), "{told}");

    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    config.reading = Reading { env_allow: Some(vec![]), ..Reading::default() };
    config.registry.as_mut().unwrap().sources.truncate(1);
    let _quiet = started(&config).await;
    assert_eq!(lines.take().iter().filter(|line| line.contains("WARN")).count(), 0);
}
