//! The examples do what they say: each transcript is played against the real binary, each config is valid, each registry passes its
//! own tests. What no machine reads, rots.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use transom_config::{Node, Source, Value, tree};
use transom_tests::Http;
use transom_tests::transcript::Session;

macro_rules! transcripts {
    ($($sentence:ident: $path:literal,)*) => {
        /// Every transcript, from `examples/`.
        const TRANSCRIPTS: &[&str] = &[$($path),*];
        $(#[tokio::test]
        async fn $sentence() {
            let examples = copy();
            let transcript = examples.path().join($path);
            let mut session = Session::new(transcript.parent().expect("a transcript stands in a folder"));
            session.play(&transcript).await;
            session.end().await;
        })*
    };
}

transcripts! {
    the_quickstart_goes_as_its_transcript_says: "quickstart/transcript",
    a_registry_in_a_file_is_edited_torn_repaired_and_rolled_back: "registry/transcript",
    a_registry_on_a_server_is_followed_and_outlives_the_server: "registry/http.transcript",
    two_principals_see_different_tools: "rbac/transcript",
    many_targets_share_one_list_of_names: "many-targets/transcript",
    what_happened_can_be_scraped: "prometheus/transcript",
    a_large_catalog_is_searched_and_not_listed: "search/transcript",
    // R-001-17, R-001-18, R-001-20, R-001-21, R-001-24, R-001-25
    sessions_of_a_coding_agent_start_and_stop_gateways_by_hooks: "coding-agent/transcript",
}

/// Examples that are not played, and why.
const WITHOUT_TRANSCRIPT: [(&str, &str); 3] = [
    ("desktop-client", "its servers would have to be fetched; the file is validated"),
    ("http-targets", "its servers are on a network; the config is validated"),
    ("kubernetes", "there is no cluster; the manifests are held against the config and against each other"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is a folder of the repository").to_owned()
}

/// All examples in a folder of their own, where a transcript may write.
fn copy() -> TempDir {
    fn copy_into(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).expect("a folder");
        for entry in std::fs::read_dir(from).expect("examples").map(|entry| entry.expect("readable").path()) {
            let name = entry.file_name().expect("a name");
            if entry.is_dir() {
                copy_into(&entry, &to.join(name));
            } else {
                std::fs::copy(&entry, to.join(name)).expect("a copy");
            }
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    copy_into(&root().join("examples"), folder.path());
    folder
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("readable").path()).collect();
    entries.sort();
    entries
}

/// Every file of every example, from `examples/`.
fn files() -> Vec<String> {
    let folder = root().join("examples");
    let below = |path: PathBuf| path.strip_prefix(&folder).expect("below").to_str().expect("a plain name").to_owned();
    entries(&folder).iter().flat_map(|example| entries(example)).map(below).collect()
}

fn text(path: &str) -> String {
    let path = root().join("examples").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_example_is_explained_and_played_or_says_why_not() {
    let files: BTreeSet<String> = files().into_iter().collect();
    let written: BTreeSet<&str> = files.iter().map(String::as_str).filter(|file| file.ends_with("transcript")).collect();
    assert_eq!(written, TRANSCRIPTS.iter().copied().collect(), "a transcript without a test, or the other way round");
    for example in entries(&root().join("examples")) {
        let name = example.file_name().and_then(|name| name.to_str()).expect("a plain name");
        assert!(files.contains(&format!("{name}/README.md")), "examples/{name} has no README.md");
        let played = files.contains(&format!("{name}/transcript"));
        let excused = WITHOUT_TRANSCRIPT.iter().any(|(other, _)| *other == name);
        assert!(played != excused, "examples/{name} needs a transcript, or a reason why it has none; not both");
    }
}

#[tokio::test]
async fn every_registry_passes_its_own_tests() {
    let examples = copy();
    let session = Session::new(examples.path());
    let files: BTreeSet<String> = files().into_iter().collect();
    let registries: Vec<&String> = files.iter().filter(|file| file.ends_with("/registry.json")).collect();
    assert!(registries.len() >= 5, "{registries:?}");
    for registry in registries {
        let tests = registry.replace("registry.json", "registry.test.yaml");
        assert!(files.contains(&tests), "examples/{registry} has no tests beside it");
        let printed = session.run(&format!("transom test {tests}")).await;
        assert!(matches!(printed.as_slice(), [line] if line.ends_with(" passed, 0 failed") && !line.starts_with('0')), "{tests}: {printed:#?}");
    }
}

#[tokio::test]
async fn every_config_is_valid_together_with_the_registry_it_names() {
    let examples = copy();
    std::fs::copy(root().join("crates/upstream/tests/fixtures/ca.pem"), examples.path().join("http-targets/ca.pem")).expect("a certificate");
    // Where the cluster mounts the registry.
    let config = examples.path().join("kubernetes/config.yaml");
    let mounted = text("kubernetes/config.yaml");
    assert!(mounted.contains(MOUNTED_REGISTRY));
    std::fs::write(&config, mounted.replace(MOUNTED_REGISTRY, "file://./registry.json")).expect("a config");

    let mut session = Session::new(examples.path());
    session.set("SEARCH_TOKEN", "example");
    session.set("SESSION_KEY", "0123456789abcdef0123456789abcdef");
    session.set("AGENTS_KEY_HASH", "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
    session.set("WEATHER_API_KEY", "example");
    for file in files().iter().filter(|file| ["/config.yaml", "/http.yaml", "/mcp.json", "/registry.json"].iter().any(|end| file.ends_with(end))) {
        let printed = session.run(&format!("transom validate {file}")).await;
        assert!(printed.is_empty(), "{file}: {}", printed.join("\n"));
    }
}

/// What a page shows of a config can be pasted into one.
#[tokio::test]
async fn every_piece_of_config_on_the_pages_is_valid() {
    let examples = copy();
    let mut session = Session::new(examples.path());
    session.set("REGISTRY_TOKEN", "example");
    let targets = "\nbackends: [{ mcp: { targets: [{ name: weather, mcp: { host: a:1 } }, { name: tickets, mcp: { host: b:1 } }] } }]\n";
    let mut seen = 0;
    for page in files().iter().filter(|file| file.ends_with("/README.md")) {
        let text = text(page);
        let pieces = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
        // What is indented is a part of something that stands elsewhere.
        for piece in pieces.filter(|piece| !piece.starts_with(' ')) {
            let file = page.replace("README.md", "piece.yaml");
            std::fs::write(examples.path().join(&file), piece.to_owned() + targets).expect("a config");
            let printed = session.run(&format!("transom validate {file}")).await;
            assert!(printed.is_empty(), "{page}:\n{piece}\n{}", printed.join("\n"));
            seen += 1;
        }
    }
    assert!(seen >= 3, "{seen}");
}

/// What `demo --write` leaves is the quickstart, and works where it was written.
#[tokio::test]
async fn the_demo_can_be_written_down_and_goes_as_the_quickstart_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = Session::new(folder.path());
    let printed = session.run("transom demo --write 'my gateway'").await;
    assert!(printed.iter().any(|line| line.contains("run -f 'my gateway/config.yaml'")), "{printed:#?}");
    let written = folder.path().join("my gateway");
    assert!(session.run("transom demo --write 'my gateway'").await.last().is_some_and(|line| line == "[exit 1]"), "nothing is written over");

    let mut session = Session::new(&written);
    assert_eq!(session.run("transom validate config.yaml registry.json").await, Vec::<String>::new());
    session.play(&root().join("examples/quickstart/transcript")).await;
    session.end().await;
}

/// The registry and the rules that the README shows, over the demo's targets.
#[tokio::test]
async fn the_snippets_of_the_readme_work_as_shown() {
    let page = std::fs::read_to_string(root().join("README.md")).expect("a README");
    let block = |language: &str, holding: &str| {
        let fence = format!("```{language}\n");
        let mut blocks = page.split(&fence).skip(1).filter_map(|rest| rest.split("```").next());
        blocks.find(|block| block.contains(holding)).unwrap_or_else(|| panic!("no {language} with {holding} in the README")).to_owned()
    };
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("a file");
    let targets = "\nbackends: [{ mcp: { targets: [{ name: weather, stdio: { cmd: transom, args: [demo-target, weather] } }] } }]\n";
    write("registry.json", &block("json", "wx_forecast_v2"));
    write("config.yaml", &(block("yaml", "registry:") + targets));
    write("rules.yaml", &block("yaml", "policies:\n  authentication:").replace("HASH", &"0".repeat(64)));
    let mut session = Session::new(folder.path());
    assert_eq!(session.run("transom validate config.yaml registry.json rules.yaml").await, Vec::<String>::new());
    session.gateway("transom run -f config.yaml 2> gateway.log").await;
    let printed = session.run("transom call get_forecast city=Oslo").await;
    assert!(matches!(printed.as_slice(), [line] if line.starts_with(r#"{"temperature":"#) && line.contains(r#""sky":"#)), "{printed:?}");
    session.end().await;
}

/// A rule over a metric that does not exist never fires, and nobody notices.
#[tokio::test]
async fn every_metric_that_is_alerted_on_exists() {
    let examples = copy();
    let mut session = Session::new(&examples.path().join("prometheus"));
    session.gateway("transom run -f config.yaml 2> gateway.log").await;
    // A family that has counted nothing yet is not told.
    session.run("transom call get_forecast city=Oslo; curl -s $URL/nowhere").await;
    let scraped = Http::new().get(&format!("{}/metrics", session.get("METRICS"))).await.text();
    let families: BTreeSet<&str> = scraped.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let pages = text("prometheus/alerts.yml") + &text("prometheus/README.md") + &text("kubernetes/README.md");
    let words = pages.split(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'));
    let named: BTreeSet<&str> = words.filter(|word| ["transom_", "mcp_server_", "mcp_client_"].iter().any(|start| word.starts_with(start))).collect();
    assert!(named.len() > 8, "{named:?}");
    let exists = |name: &str| {
        let family = ["_bucket", "_count", "_sum"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
        families.contains(family) || families.contains(name)
    };
    let missing: Vec<&str> = named.into_iter().filter(|name| !exists(name)).collect();
    assert!(missing.is_empty(), "no such metrics: {missing:?}; there are {families:#?}");
    session.end().await;
}

const MOUNTED_REGISTRY: &str = "file:///etc/transom-registry/registry.json";

/// A YAML file of the cluster.
struct Manifest(Node);

impl Manifest {
    fn read(name: &str) -> Manifest {
        let source = Source::read(&root().join("examples/kubernetes").join(name)).expect("a manifest");
        Manifest(tree(&source).unwrap_or_else(|report| panic!("{report}")))
    }

    /// What stands at the end of these keys; a number is the position in a list.
    fn at(&self, path: &str) -> &Node {
        path.split('/').fold(&self.0, |node, step| match &node.value {
            Value::List(items) => step.parse().ok().and_then(|at: usize| items.get(at)).unwrap_or_else(|| panic!("no item {step} in {path}")),
            Value::Map(members) => {
                let member = members.iter().find(|(key, _)| key.spelling() == Some(step));
                member.map(|(_, value)| value).unwrap_or_else(|| panic!("no key {step} in {path}"))
            }
            _ => panic!("nothing below {step} in {path}"),
        })
    }

    fn text(&self, path: &str) -> &str {
        self.at(path).spelling().unwrap_or_else(|| panic!("{path} is no text"))
    }

    fn items(&self, path: &str) -> usize {
        match &self.at(path).value {
            Value::List(items) => items.len(),
            _ => panic!("{path} is no list"),
        }
    }
}

#[test]
fn the_manifests_agree_with_the_config_and_with_each_other() {
    let deployment = Manifest::read("deployment.yaml");
    let container = "spec/template/spec/containers/0";
    let at = |path: &str| deployment.text(&format!("{container}/{path}"));
    assert_eq!(
        (at("livenessProbe/httpGet/path"), at("startupProbe/httpGet/path"), at("readinessProbe/httpGet/path")),
        ("/health", "/health", "/ready")
    );
    // Five seconds to be noticed, 25 for calls under way.
    let grace: u64 = deployment.text("spec/template/spec/terminationGracePeriodSeconds").parse().expect("seconds");
    assert!(grace > 30, "{grace}");

    let config = Manifest::read("config.yaml");
    assert!(config.text("listen").ends_with(&format!(":{}", at("ports/0/containerPort"))));
    assert!(config.text("metrics/listen").ends_with(&format!(":{}", at("ports/1/containerPort"))));
    assert_eq!(config.text("registry/source"), MOUNTED_REGISTRY);
    let mounts: Vec<&str> =
        (0..deployment.items(&format!("{container}/volumeMounts"))).map(|number| at(&format!("volumeMounts/{number}/mountPath"))).collect();
    assert_eq!(mounts, ["/etc/transom", "/etc/transom-registry", config.text("stateDir")]);
    assert!(!text("kubernetes/deployment.yaml").contains("subPath:"), "a file mounted that way never changes");
    assert_eq!((at("args/1"), at("args/2")), ("-f", "/etc/transom/config.yaml"));

    // What the config reads from the environment, the pod has.
    let given: BTreeSet<&str> = (0..deployment.items(&format!("{container}/env"))).map(|number| at(&format!("env/{number}/name"))).collect();
    let read = text("kubernetes/config.yaml") + &text("kubernetes/registry.json");
    let wanted: BTreeSet<&str> = read.split("${").skip(1).filter_map(|rest| rest.split(['}', ':']).next()).collect();
    assert_eq!(given, wanted);

    let kustomization = Manifest::read("kustomization.yaml");
    let maps: Vec<(&str, &str)> = (0..kustomization.items("configMapGenerator"))
        .map(|number| {
            let map = format!("configMapGenerator/{number}");
            (kustomization.text(&format!("{map}/name")), kustomization.text(&format!("{map}/files/0")))
        })
        .collect();
    assert_eq!(maps, [("transom-config", "config.yaml"), ("transom-registry", "registry.json")]);
    for (number, (name, _)) in maps.iter().enumerate() {
        assert_eq!(deployment.text(&format!("spec/template/spec/volumes/{number}/configMap/name")), *name);
    }
    assert_eq!(kustomization.text("generatorOptions/disableNameSuffixHash"), "true", "another name would replace the pods");
    let service = Manifest::read("service.yaml");
    assert_eq!(service.text("spec/ports/0/targetPort"), at("ports/0/name"));
    let label = "{ app.kubernetes.io/name: transom }";
    assert!(text("kubernetes/service.yaml").contains(&format!("selector: {label}")));
    assert!(text("kubernetes/deployment.yaml").contains(&format!("matchLabels: {label}")));
}
