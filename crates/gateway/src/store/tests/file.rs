//! Registries in files: every way to write them, and to write them badly.

use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

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
