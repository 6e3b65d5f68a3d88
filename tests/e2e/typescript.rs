//! The TypeScript module, with the compiler and the runtime of others.

use crate::gateway::{gateway, wait_for_url};
use crate::servers::{HttpServer, everything_stdio, fetch, filesystem, git, memory, modern, time};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tokio::process::Command;
use transom_protocol::json::Json;
use transom_tests::children::{Background, stdout};
use transom_tests::install::{folder, have, node, package};
use transom_tests::process::{binary, process};
use transom_tests::{Http, evidence, target};
use transom_views::Tool;
use transom_views::typescript::{Options, module};

/// What the compiler says of modules; see `clients/module.mjs`.
async fn compiled(directory: &Path, modules: &[&str]) -> Value {
    let empty = directory.join("empty.ts");
    std::fs::write(&empty, module(&[], &Options::default())).expect("a file");
    let mut command = Command::new(node());
    command
        .arg("--max-old-space-size=3000")
        .arg(folder("e2e").join("clients/module.mjs"))
        .arg(&empty)
        .args(modules.iter().map(|name| directory.join(name)));
    let found: Value = serde_json::from_str(&stdout(&mut command).await).expect("JSON");
    assert_eq!(found["faults"], json!([]), "{found:#}");
    found
}

/// Runs a TypeScript program as it stands: Node takes the types away.
async fn run_program(program: &Path, variables: &[(&str, &str)]) -> Value {
    let mut command = Command::new(node());
    command.arg("--disable-warning=ExperimentalWarning").arg(program);
    for name in ["TRANSOM_URL", "TOOLSCRIPT_GATEWAY_URL", "TRANSOM_TOKEN"] {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied());
    serde_json::from_str(&stdout(&mut command).await).expect("JSON")
}

fn save(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, text).expect("a file");
    path
}

async fn get(url: &str) -> String {
    let reply = Http::new().get(url).await;
    assert_eq!((reply.status, reply.header("content-type")), (200, "application/typescript"), "{}", reply.text());
    reply.text()
}

fn repository(directory: &Path) -> PathBuf {
    let repository = directory.join("repository");
    let done = std::process::Command::new("git").args(["init", "--quiet"]).arg(&repository).status();
    assert!(done.is_ok_and(|status| status.success()), "git init");
    repository
}

// Issue 6: the module for all real servers passes the compiler, and a program calls tools through it
#[tokio::test]
async fn a_program_calls_the_tools_of_every_real_server_through_the_module() {
    if !have(&["node", "venv"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let files = directory.path().join("files");
    std::fs::create_dir(&files).expect("a folder");
    let modern: HttpServer = modern().await;
    let targets = vec![
        everything_stdio("everything"),
        memory(&directory.path().join("graph.jsonl")),
        filesystem(&files),
        time(),
        git(&repository(directory.path())),
        fetch(),
        modern.target("modern"),
    ];
    let gateway = gateway(targets).await;
    let base = gateway.process.url("");
    let text = get(&format!("{base}/runtime/tools.ts")).await;
    save(directory.path(), "tools.ts", &text);
    save(directory.path(), "compact.ts", &get(&format!("{base}/runtime/tools.ts?compact=true")).await);
    let program = std::fs::read_to_string(folder("e2e").join("clients/use_module.ts")).expect("the program");
    let program = save(directory.path(), "program.ts", &program);

    let demo_url = directory.path().join("demo-url");
    let mut command = Command::new(binary());
    let _demo = Background::start("transom demo", command.args(["demo", "--port", "0", "--url-file"]).arg(&demo_url));
    let demo = wait_for_url(&demo_url).await;
    save(directory.path(), "demo.ts", &get(&format!("{demo}/runtime/tools.ts")).await);

    let found = compiled(directory.path(), &["tools.ts", "demo.ts"]).await;
    let listed = |tools: Value| tools.as_array().map_or(0, Vec::len);
    let tools = listed(gateway.process.get("/tools").await.json()) + listed(Http::new().get(&format!("{demo}/tools")).await.json());
    assert_eq!(found["functions"], json!(tools), "a function for each tool that is listed");
    assert!(tools > 50, "{tools}");
    // As anybody would: the compiler from a shell, and over the program that uses it.
    let options =
        ["--strict", "--noEmit", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler", "--allowImportingTsExtensions"];
    let mut tsc = Command::new(node());
    tsc.current_dir(directory.path()).arg(package("typescript/bin/tsc")).args(options).args(["tools.ts", "demo.ts", "compact.ts", "program.ts"]);
    assert_eq!(stdout(&mut tsc).await, "");

    for (name, value) in [("TRANSOM_URL", base.clone()), ("TOOLSCRIPT_GATEWAY_URL", format!("{base}/mcp"))] {
        let got = run_program(&program, &[(name, &value)]).await;
        assert_eq!(
            got["weather"]["conditions"].is_string().then_some(&got["temperature"]),
            Some(&got["weather"]["temperature"]),
            "structured content: {got}"
        );
        assert_eq!(got["text"], "Echo: hi", "{got}");
        assert_eq!(got["graph"], json!({"entities": [], "relations": []}), "{got}");
        assert!(got["time"].to_string().contains("T21:00:00+09:00"), "{got}");
        assert_eq!((&got["refused"]["code"], &got["refused"]["server"]), (&json!("invalid_arguments"), &json!("everything")), "{got}");
        assert_eq!((&got["failed"]["code"], &got["failed"]["retryable"]), (&json!("tool_error"), &json!(false)), "{got}");
        assert_eq!(got["unreachable"]["code"], "no_answer", "{got}");
    }
    let nowhere = run_program(&save(directory.path(), "nowhere.ts", "import { tools } from './tools.ts';\ntools.everything.echo({ message: 'hi' }).catch((error) => console.log(JSON.stringify({ code: error.code })));"), &[]).await;
    assert_eq!(nowhere["code"], "no_gateway");
    evidence::say(&json!({"tools": tools, "statements": found["statements"], "typescript": found["version"]}));
}

#[tokio::test]
async fn a_program_shows_its_credentials() {
    if !have(&["node"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (key, hash) = ("key-of-a-program", "HASH");
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, key.as_bytes());
    let hash = hash.replace("HASH", &digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    let gateway = process()
        .entry(everything_stdio("everything"))
        .config(|config| config["policies"]["authentication"]["apiKeys"] = json!([{"id": "program", "hash": format!("sha256:{hash}")}]))
        .start_ready()
        .await;
    let reply = Http::new().send("GET", &gateway.url("/runtime/tools.ts"), &[("authorization", &format!("Bearer {key}"))], "").await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    save(directory.path(), "tools.ts", &reply.text());
    let program = |settings: &str| {
        format!(
            "import {{ configure, tools }} from './tools.ts';\nconfigure({settings});\n\
             tools.everything.echo({{ message: 'hi' }}).then((got) => console.log(JSON.stringify({{ got }})), (error) => console.log(JSON.stringify({{ code: error.code }})));"
        )
    };
    let plain = save(directory.path(), "plain.ts", &program("{}"));
    let with_headers = save(directory.path(), "headers.ts", &program(&json!({"url": gateway.url("/"), "headers": {"X-Api-Key": key}}).to_string()));
    let url = gateway.url("");
    assert_eq!(run_program(&plain, &[("TRANSOM_URL", &url)]).await["code"], "unauthenticated");
    assert_eq!(run_program(&plain, &[("TRANSOM_URL", &url), ("TRANSOM_TOKEN", key)]).await["got"], "Echo: hi");
    assert_eq!(run_program(&with_headers, &[]).await["got"], "Echo: hi");
}

// surfaces.md 7: structured content first, else the text read as JSON, else the text; what fails is thrown
#[tokio::test]
async fn results_and_failures_come_as_a_program_expects_them() {
    if !have(&["node"]) {
        return;
    }
    let content = |text: &str| json!([{"type": "text", "text": text}]);
    let image = json!([{"type": "image", "data": "AA==", "mimeType": "image/png"}]);
    let a = target("a")
        .tool("structured", [])
        .reply("structured", json!({"content": content("prose"), "structuredContent": {"n": 1}}))
        .tool("json", [])
        .reply("json", json!({"content": content("{\"n\": [2]}")}))
        .tool("prose", [])
        .reply("prose", json!({"content": content("just words")}))
        .tool("picture", [])
        .reply("picture", json!({"content": image}))
        .tool("sad", [])
        .reply("sad", json!({"content": content("no luck"), "isError": true}));
    let gateway = transom_tests::gateway().target(&a).start().await;
    let directory = tempfile::tempdir().expect("a temporary directory");
    save(directory.path(), "tools.ts", &get(&gateway.url("/runtime/tools.ts")).await);
    let program = "import { tools, ToolError } from './tools.ts';
        const got: { [name: string]: unknown } = {};
        for (const [name, call] of Object.entries(tools.a)) {
          got[name] = await call().catch((e) => e instanceof ToolError && [e.code, e.server, e.retryable, e.message]);
        }
        console.log(JSON.stringify(got));";
    let program = save(directory.path(), "program.ts", program);
    let url = gateway.url("");
    let got = run_program(&program, &[("TRANSOM_URL", &url)]).await;
    let sad = json!(["tool_error", "a", false, "no luck"]);
    assert_eq!(got, json!({"json": {"n": [2]}, "picture": image, "prose": "just words", "sad": sad, "structured": {"n": 1}}));

    a.stop();
    gateway.until("a", "unavailable").await;
    let got = run_program(&program, &[("TRANSOM_URL", &url)]).await;
    for name in ["json", "structured"] {
        let failure = got[name].as_array().map(|failure| &failure[..3]);
        assert_eq!(failure, Some(&[json!("upstream_unavailable"), json!("a"), json!(true)][..]), "{got}");
    }
}

/// A small generator of numbers: the same tools every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap_or(0) % sides
    }

    fn pick<'p, T>(&mut self, among: &'p [T]) -> &'p T {
        &among[self.roll(among.len())]
    }

    fn text(&mut self) -> String {
        const PIECES: [&str; 40] = [
            "a",
            "b",
            "get_user",
            "get-user",
            "delete",
            "new",
            "class",
            "constructor",
            "__proto__",
            "toString",
            "then",
            "async",
            "static",
            "readonly",
            "await",
            "*/ evil(); /*",
            "x(){};import(\"fs\")//",
            "`${evil()}`",
            "</script>",
            "<!--",
            "@ts-ignore",
            "@ts-expect-error",
            "@jsx evil",
            "\u{2028}",
            "\u{2029}",
            "\u{202e}",
            "\n",
            "\r\n",
            "\\",
            "\\u0022",
            "\"",
            "'",
            "日本",
            "é",
            "🎉",
            "\0",
            "\u{feff}",
            "///",
            " ",
            "",
        ];
        (0..=self.roll(3)).map(|_| *self.pick(&PIECES)).collect()
    }

    fn schema(&mut self, depth: usize) -> Value {
        const KINDS: [&str; 8] = ["string", "number", "integer", "boolean", "null", "array", "object", "nonsense"];
        const PLACES: [&str; 8] = ["#", "#/$defs/a", "#/$defs/b", "#/$defs/c", "#/properties/a", "#here", "#/nowhere", "https://example.com/x.json"];
        let mut schema = serde_json::Map::new();
        let deeper = |dice: &mut Dice| if depth == 0 { json!({"type": *dice.pick(&KINDS)}) } else { dice.schema(depth - 1) };
        for _ in 0..=self.roll(3) {
            let (key, value) = match self.roll(22) {
                0..=2 => ("type", json!(*self.pick(&KINDS))),
                3 => ("type", json!([*self.pick(&KINDS), *self.pick(&KINDS)])),
                4 => ("enum", (0..self.roll(4)).map(|_| self.value(2)).collect()),
                5 => ("const", self.value(2)),
                6..=8 => ("properties", Value::Object((0..self.roll(4)).map(|_| (self.text(), deeper(self))).collect())),
                9 => ("required", (0..self.roll(3)).map(|_| json!(self.text())).collect()),
                10 => ("additionalProperties", deeper(self)),
                11 => ("patternProperties", json!({"^a": deeper(self)})),
                12 => ("items", deeper(self)),
                13 => ("items", (0..self.roll(3)).map(|_| deeper(self)).collect()),
                14 => ("prefixItems", (0..self.roll(3)).map(|_| deeper(self)).collect()),
                15 => ("minItems", json!(self.roll(3))),
                16 => (*self.pick(&["anyOf", "oneOf", "allOf"]), (0..self.roll(4)).map(|_| deeper(self)).collect()),
                17 | 18 => (*self.pick(&["$ref", "$dynamicRef"]), json!(*self.pick(&PLACES))),
                19 => ("description", json!(self.text())),
                20 => ("additionalProperties", json!(self.roll(2) == 0)),
                _ => (*self.pick(&["nullable", "items", "not"]), json!(self.roll(2) == 0)),
            };
            schema.insert(key.to_owned(), value);
        }
        Value::Object(schema)
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.roll(if depth == 0 { 6 } else { 8 }) {
            0 | 1 => json!(self.text()),
            2 => json!(self.roll(10)),
            3 => json!(-2.5),
            4 => json!(self.roll(2) == 0),
            5 => Value::Null,
            6 => (0..self.roll(3)).map(|_| self.value(depth - 1)).collect(),
            _ => Value::Object((0..self.roll(3)).map(|_| (self.text(), self.value(depth - 1))).collect()),
        }
    }

    fn tool(&mut self) -> Value {
        let mut input = self.schema(3);
        input["$defs"] =
            json!({"a": self.schema(1), "b": self.schema(1), "c": {"$anchor": "here", "anyOf": [self.schema(1), {"$ref": "#/$defs/a"}]}});
        let mut tool = json!({"name": self.text(), "description": self.text(), "inputSchema": input});
        if self.roll(2) == 0 {
            tool["outputSchema"] = self.schema(2);
        }
        tool
    }
}

// D10, issue 6: ten thousand tools that mean harm
#[tokio::test]
async fn the_module_of_ten_thousand_hostile_tools_holds_nothing_but_functions_and_types() {
    const TOOLS: usize = 10_000;
    const MODULES: usize = 10;
    if !have(&["node"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut dice = Dice(0x5d98_fea0_1234_5678);
    let mut names = Vec::new();
    for at in 0..MODULES {
        let servers: Vec<String> = (0..20).map(|_| dice.text()).collect();
        let given: Vec<(String, String, String)> = (0..TOOLS / MODULES)
            .map(|_| {
                let tool = dice.tool();
                (dice.pick(&servers).clone(), tool["name"].as_str().unwrap_or_default().to_owned(), tool.to_string())
            })
            .collect();
        let tools: Vec<Tool<'_>> = given
            .iter()
            .map(|(server, name, definition)| Tool {
                name,
                server: (server != "a").then_some(server.as_str()),
                own_name: name,
                qualified: None,
                is_virtual: server == "a",
                definition: Json::trusted(definition),
            })
            .collect();
        let text = module(&tools, &Options::default());
        names.push(format!("tools{at}.ts"));
        save(directory.path(), &names[at], &text);
    }
    let found = compiled(directory.path(), &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(found["functions"], json!(TOOLS), "{found}");
    // Loaded, it does nothing but declare.
    let program = save(
        directory.path(),
        "load.ts",
        "import { tools } from './tools0.ts';\nconsole.log(JSON.stringify(Object.values(tools).flatMap((server) => Object.values(server)).length));",
    );
    assert_eq!(run_program(&program, &[]).await, json!(TOOLS / MODULES));
    evidence::say(&json!({"sent": TOOLS, "ok": found["functions"], "statements": found["statements"]}));
}

// surfaces.md 7: schemas that compilers stumble over
#[tokio::test]
async fn schemas_that_would_stop_a_compiler_do_not() {
    if !have(&["node"]) {
        return;
    }
    let choices =
        |prefix: &str| (0..300).map(|at| json!({"type": "object", "properties": {"kind": {"const": format!("{prefix}{at}")}}})).collect::<Vec<_>>();
    let chain: serde_json::Map<String, Value> = (0..400)
        .map(|at| (format!("d{at}"), json!({"anyOf": [{"$ref": format!("#/$defs/d{}", (at + 1) % 400)}, {"type": "array", "items": {"$ref": format!("#/$defs/d{}", (at * 7) % 400)}}]})))
        .collect();
    let mut deep = json!({"type": "string"});
    for at in 0..28 {
        deep = if at % 2 == 0 {
            json!({"type": "array", "items": deep})
        } else {
            json!({"type": "object", "properties": {"x": deep}, "additionalProperties": {"type": "number"}})
        };
    }
    let reserved = [
        "new",
        "get",
        "set",
        "static",
        "readonly",
        "constructor",
        "__proto__",
        "prototype",
        "async",
        "await",
        "export",
        "default",
        "in",
        "of",
        "is",
        "asserts",
        "infer",
        "0",
        "-1",
        "1e3",
        "a b",
        "#x",
        "",
    ];
    let schemas = [
        json!({"allOf": [{"anyOf": choices("a")}, {"oneOf": choices("b")}, {"anyOf": choices("c")}]}),
        json!({"$ref": "#/$defs/d0", "$defs": chain}),
        json!({"type": "object", "properties": {"deep": deep}}),
        json!({"type": "object", "properties": reserved.iter().map(|name| ((*name).to_owned(), json!({"type": "number"}))).collect::<serde_json::Map<_, _>>(), "additionalProperties": {"type": "string"}}),
        json!({"type": "object", "properties": {"toString": {"type": "number"}, "valueOf": {"enum": [1]}, "hasOwnProperty": false}, "additionalProperties": {"type": "object", "properties": {"a": {"$ref": "#"}}}}),
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}], "$defs": {"a": {"type": "object", "properties": {"b": {"$ref": "#/$defs/b"}}}, "b": {"oneOf": [{"$ref": "#/$defs/a"}, {"type": "null"}, {"type": "array", "items": {"$ref": "#"}}]}}}),
        json!({"type": "array", "prefixItems": [{"$ref": "#"}, {"enum": [-1, "x"]}], "minItems": 1}),
        json!({"enum": (0..3000).map(|at| format!("value {at}")).collect::<Vec<_>>()}),
        json!({"type": "object", "properties": (0..2000).map(|at| (format!("p{at}"), json!({"type": "object", "properties": {format!("q{at}"): {"type": "string"}}}))).collect::<serde_json::Map<_, _>>(), "additionalProperties": {"type": "boolean"}}),
    ];
    let names = ["new", "get", "set", "static", "async", "constructor", "to_string", "then", "delete", "class"];
    let given: Vec<(&str, String)> = names
        .iter()
        .zip(&schemas)
        .map(|(name, schema)| (*name, json!({"name": name, "inputSchema": schema, "outputSchema": schema}).to_string()))
        .collect();
    let tools: Vec<Tool<'_>> = given
        .iter()
        .map(|(name, definition)| Tool {
            name,
            server: Some("new"),
            own_name: name,
            qualified: None,
            is_virtual: false,
            definition: Json::trusted(definition),
        })
        .collect();
    let directory = tempfile::tempdir().expect("a temporary directory");
    save(directory.path(), "tools.ts", &module(&tools, &Options::default()));
    assert_eq!(compiled(directory.path(), &["tools.ts"]).await["functions"], json!(10));
    save(directory.path(), "compact.ts", &module(&tools, &Options { compact: true, ..Options::default() }));
    let mut tsc = Command::new(node());
    tsc.current_dir(directory.path()).arg(package("typescript/bin/tsc")).args([
        "--strict",
        "--noEmit",
        "--target",
        "es2022",
        "--module",
        "esnext",
        "compact.ts",
    ]);
    assert_eq!(stdout(&mut tsc).await, "");
}
