//! The demo as files: the example `quickstart` is what `transom demo` serves and what `transom demo --write` leaves behind, so that
//! whoever liked the demo begins with exactly that.

use crate::failure::{Exit, Failure};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use transom_gateway::config::OwnTools;

const CONFIG: &str = include_str!("../../../../examples/quickstart/config.yaml");
const REGISTRY: &str = include_str!("../../../../examples/quickstart/registry.json");
const TESTS: &str = include_str!("../../../../examples/quickstart/registry.test.yaml");
const README: &str = include_str!("../../../../examples/quickstart/README.md");

/// The demo's registry, for a gateway without any file.
pub fn tools() -> OwnTools {
    OwnTools { name: "the demo's registry".into(), text: REGISTRY.into(), places: Vec::new() }
}

/// Writes a setup into a folder, made if need be. Nothing that is there already is touched.
pub fn write(folder: &Path, program: &Path) -> Result<(), Failure> {
    let files = files(program);
    let taken = files.iter().map(|(name, _)| folder.join(name)).find(|path| path.symlink_metadata().is_ok());
    if let Some(path) = taken {
        return Err(Failure::new(Exit::Negative, format!("`{}` is there already", path.display())).hint("name a folder that is empty or new"));
    }
    let failed = |what: &Path, error| Failure::new(Exit::Negative, format!("cannot write `{}`: {error}", what.display()));
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    for (name, text) in files {
        let path = folder.join(name);
        let written = OpenOptions::new().write(true).create_new(true).open(&path).and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

/// The example without what only holds inside this repository: the way to the schemas, and `transom` without a path.
fn files(program: &Path) -> [(&'static str, String); 4] {
    let without_schema = |text: &str| text.lines().filter(|line| !line.contains("../../schema/")).map(|line| format!("{line}\n")).collect::<String>();
    let program = serde_json::Value::from(program.to_string_lossy()).to_string();
    [
        ("config.yaml", without_schema(CONFIG).replace("cmd: transom,", &format!("cmd: {program},"))),
        ("registry.json", without_schema(REGISTRY)),
        ("registry.test.yaml", TESTS.into()),
        ("README.md", README.into()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("transom-demo-{}-{name}", std::process::id()))
    }

    #[test]
    fn what_is_written_says_what_the_demo_serves() {
        let folder = folder("written");
        write(&folder, Path::new("/opt/my tools/transom")).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        let config = read("config.yaml");
        assert_eq!(config.matches(r#"cmd: "/opt/my tools/transom", args: [demo-target, "#).count(), 4, "{config}");
        assert!(!config.contains("schema") && !read("registry.json").contains("../"));
        let (written, served): (serde_json::Value, serde_json::Value) =
            (serde_json::from_str(&read("registry.json")).unwrap(), serde_json::from_str(&tools().text).unwrap());
        assert_eq!(written["tools"], served["tools"]);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_there_already_is_not_touched() {
        let folder = folder("taken");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("README.md"), "mine").unwrap();
        let failure = write(&folder, Path::new("transom")).unwrap_err();
        assert_eq!(failure.exit, Exit::Negative);
        assert!(failure.to_string().contains("README.md` is there already"), "{failure}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing else was written");
        assert_eq!(std::fs::read_to_string(folder.join("README.md")).unwrap(), "mine");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
