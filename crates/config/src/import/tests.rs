use super::*;

fn source(name: &str, text: &str) -> Source {
    Source { name: name.into(), text: text.into(), base_dir: "/".into() }
}

fn imported(text: &str) -> Imported {
    import(&source("file", text), &Options::default()).unwrap_or_else(|report| panic!("{report}\n{text}"))
}

fn lines(imported: &Imported) -> String {
    imported.findings.iter().map(|finding| format!("{}: {}\n", finding.fit, finding.what)).collect()
}

/// What was made can be read again.
fn is_read_again(imported: &Imported) -> bool {
    crate::tree(&source("made.yaml", &imported.whole)).is_ok()
}

#[test]
fn a_secret_reaches_neither_the_output_nor_a_finding_whatever_it_stands_in() {
    for server in [
        r#"{"command":"npx","args":["mcp-remote","https://x.example/sse","--header","Authorization: Bearer CANARY1abc"]}"#,
        r#"{"command":"npx","env":{"OPENAPI_MCP_HEADERS":"{\"Authorization\": \"Bearer ntn_CANARY2\", \"Notion-Version\": \"2022-06-28\" }"}}"#,
        r#"{"command":"docker","args":["run","-i","-e","API_KEY=CANARY3","-e","GITHUB_PERSONAL_ACCESS_TOKEN=CANARY4x","img"]}"#,
        r#"{"command":"x","env":{"PGPASSWORD":"CANARY5","DB_PASS":"CANARY6","MYSQL_PASS":"CANARY7"}}"#,
        r#"{"command":"x","env":{"CONNECTION_STRING":"Server=a;User=b;Password=CANARY8;"}}"#,
        r#"{"url":"https://h.example/mcp?api_key=CANARY9&secret=CANARY10"}"#,
        r#"{"url":"https://ghp_CANARY11aaaaaaaaaaaaaaaa@github.com/x"}"#,
        r#"{"url":"https://u:CANARY12@h/mcp?token=CANARY13"}"#,
        r#"{"url":"https://mcp.zapier.com/api/mcp/s/OGZiMDQxCANARY14MjktNDY3OC04YWM0LWRmZjE/mcp"}"#,
        r#"{"command":"x","env":{"API_TOKEN":"CANARY15-${USER}", "TOKEN2":"${TOKEN2:-CANARY16}"}}"#,
        r#"{"command":"x","env":{"A":"${B:-${TOKEN:-CANARY}}", "C":"${TOKEN:=CANARY}", "D": "${input:d:-CANARY}"}}"#,
        r#"{"url":"https://u:CANARY17@${HOST}/mcp"}"#,
        r#"{"command":"x","args":["-k","CANARY18","--password","CANARY19","-pCANARY20"]}"#,
        r#"{"command":"x","env":{"SENTRY_DSN":"https://CANARY21@sentry.io/1","SLACK_WEBHOOK_TOKEN":"https://hooks.slack.com/services/T0/B0/CANARY22"}}"#,
        r#"{"command":"API_KEY=CANARY23 node x.js"}"#,
        r#"{"command":"sh","args":["-c","TOKEN=CANARY24 exec node server.js"]}"#,
        r#"{"command":"x","env":{"AUTH_HEADER":"CANARY25","X_API_KEY_HEADER":"CANARY26","TOKEN_NAME":"n"}}"#,
        r#"{"command":"x","env":["API_KEY=CANARY", "A=1"]}"#,
        r#"{"url":"https://h/mcp","headers":{"X-Auth":"CANARY27","Cookie":"sid=CANARY28","x-goog":"CANARY29","Authorization":"CANARY30","X-Session":"CANARY31"}}"#,
        r#"{"command":"x","args":["--api-key=CANARY32","--headers={\"k\":\"CANARY33\"}","token:CANARY34"]}"#,
        r#"{"url":"https://h/mcp","tools":{"get":{"arguments":{"api_key":{"default":"CANARY"},"cfg":{"default":{"token":"CANARY"}},"hdrs":{"default":["Bearer CANARY"]}}}}}"#,
        r#"{"url":"https://h/mcp","tools":{"get":{"meta":{"password":"CANARY"},"arguments":{"password":{"default":{"a":["CANARY"]}}}}}}"#,
        r#"{"command":"x","env":{"PASSWORD":"a$CANARY","TOKEN":"$CANARY"}}"#,
    ] {
        let made = imported(&format!("{{\"mcpServers\":{{\"s\":{server}}}}}"));
        let everything = format!("{made:?}");
        assert!(!everything.contains("CANARY"), "{server}\n{}{}", made.whole, lines(&made));
        assert!(!made.variables.is_empty() || lines(&made).contains("looks like it has a secret"), "{server}");
        assert!(is_read_again(&made), "{}", made.whole);
    }
}

#[test]
fn secrets_of_agentgateway_and_toolhive_stay_where_they_are() {
    for file in [
        "mcp: {targets: [{name: a, mcp: {host: 'https://h/mcp'}, policies: {backendAuth: {key: {value: CANARY}}, requestHeaderModifier: {set: {X-Session: CANARY}}}}]}",
        "mcp: {targets: [{name: b, mcp: {host: 'user:CANARY@h', port: 1, path: '/mcp?api_key=CANARY2'}}]}",
        "mcp: {targets: [{name: c, stdio: {cmd: 'x --token CANARY', args: ['--header', 'X-Api-Key: CANARY']}}]}",
        r#"{"name":"gh","image":"ghcr.io/x","transport":"stdio","cmd_args":["-t","CANARY"],"env_vars":{"DB_PASS":"CANARY"},"toolsOverride":{"a":{"name":"b"}}}"#,
    ] {
        let made = imported(file);
        assert!(!format!("{made:?}").contains("CANARY") && !made.variables.is_empty(), "{file}\n{}{}", made.whole, lines(&made));
    }
}

#[test]
fn what_is_copied_is_said_in_a_line_for_each_server() {
    let made = imported(r#"{"mcpServers":{"s":{"command":"x","env":{"A":"one","B":"two","C":"3","D":"true","E":"${E}"}}}}"#);
    assert!(lines(&made).contains("approximate: `A`, `B` of `s` are copied word by word\n"), "{}", lines(&made));
}

#[test]
fn what_is_not_of_the_kind_it_should_be_is_said_and_left_out() {
    for (file, says, made_of_it) in [
        (r#"{"mcpServers":{"s":{"command":"x","args":"a b"}}}"#, "`args` of `s` is text, not a list; it is left out", Some("cmd: x")),
        (r#"{"mcpServers":{"s":{"command":"x","args":[null,{"a":1}]}}}"#, "an argument of `s` is a map, not text", Some("cmd: x")),
        (r#"{"mcpServers":{"s":{"command":"x","env":3}}}"#, "`env` of `s` is a number, not a map", Some("cmd: x")),
        (r#"{"mcpServers":{"s":{"command":"x","env":["A=1"]}}}"#, "server `s` is target `s`", Some("A: \"1\"")),
        (r#"{"mcpServers":{"s":{"command":["npx","x"]}}}"#, "`command` of `s` is a list, not text", None),
        (r#"{"mcpServers":{"s":{"url":{"x":1}}}}"#, "server `s` has neither `command` nor `url` that could be used", None),
        (r#"{"mcpServers":{"s":"x"}}"#, "server `s` is text, not a map", None),
        (r#"{"mcpServers":{"s":null}}"#, "server `s` says nothing", None),
        (r#"{"mcpServers":{"s":{"command":"x","headers":{"X":1}}}}"#, "`headers` of `s` means nothing to a server that is started", Some("cmd: x")),
        (r#"{"mcpServers":[]}"#, "`mcpServers` is a list, not a map", None),
        (r#"{"mcpServers":{"s":{"command":"x","tools":{"a":3}}}}"#, "the transform of tool `a` is a number", Some("cmd: x")),
        ("{binds: {a: 1}}", "`binds` is a map, not a list", None),
        ("{binds: [], mcp: 3}", "`mcp` is a number, not a map", None),
        ("{mcp: {targets: [1]}}", "a target is a number, not a map", None),
        ("{mcp: {targets: [{name: a, stdio: 3}]}}", "`stdio` of target `a` has no `cmd`", None),
        ("{mcp: {targets: [{name: a, mcp: {host: [1]}}]}}", "`mcp` of target `a` has no `host`", None),
        ("{mcp: {targets: [{name: a, mcp: {host: h, port: 99999}}]}}", "`port` of target `a` is no port", None),
        ("{mcp: {targets: [{name: a, mcp: {host: h, port: 9, path: x}}]}}", "target `a`", Some("http://h:9/x")),
        ("{mcp: {port: abc, targets: [{name: a, mcp: {host: h}}]}}", "`port` is no port", Some("http://h/")),
        ("{mcp: {policies: {cors: 3}, targets: [{name: a, mcp: {host: h}}]}}", "`cors` is a number, not a map", Some("http://h/")),
        ("{openapi: 3.1.0, paths: 3}", "`paths` is a number, not a map", None),
        ("{openapi: 3.1.0, paths: {/a: {$ref: x}}}", "what `/a` refers to is left out", None),
        ("{openapi: 3.1.0, paths: {/a: [1]}}", "`/a` is a list, not a map", None),
        ("{openapi: 3.1.0, paths: {/a: {get: 3}}}", "`get /a` is a number, not a map", None),
        ("{swagger: '2.0', paths: {}}", "only OpenAPI 3.0 and 3.1 are read", None),
    ] {
        let made = imported(file);
        assert!(lines(&made).contains(says), "{file}\n{}", lines(&made));
        assert_eq!(made.is_empty, made_of_it.is_none(), "{file}\n{}", made.whole);
        assert!(made_of_it.is_none_or(|part| made.whole.contains(part)), "{file}\n{}", made.whole);
    }
}

#[test]
fn rules_that_are_lost_open_nothing() {
    let short = |policies: &str| format!("mcp: {{targets: [{{name: a, stdio: {{cmd: x}}}}], policies: {policies}}}");
    let long = |route: &str| {
        format!("binds: [{{listeners: [{{routes: [{{backends: [{{mcp: {{targets: [{{name: a, stdio: {{cmd: x}}}}]}}}}], {route}}}]}}]}}]")
    };
    let denied = "deny: \"true\"";
    for (file, rule, says) in [
        (short("{mcpAuthorization: {rules: 'mcp.tool.name == \"read\"'}}"), "allow: \"mcp.tool.name == \\\"read\\\"\"", "is text, not a list"),
        (short("{mcpAuthorization: {rules: 3}}"), denied, "refused to everybody"),
        (short("{mcpAuthorization: 3}"), denied, "refused to everybody"),
        (short("{mcpAuthorization: {rules: [{allow: {cel: x}}]}}"), denied, "refused to everybody"),
        (short("{mcpAuthorization: {rules: ['true', {deny: {cel: x}}]}}"), denied, "refused to everybody"),
        (short("{mcpAuthorization: {rules: ['true', {refuse: x}]}}"), denied, "refused to everybody"),
        (long("policies: [{mcpAuthorization: {rules: ['false']}}]"), "allow: \"false\"", "`policies` is a list, not a map"),
        (
            "mcp: {targets: [{name: a, stdio: {cmd: x}, policies: {mcpAuthorization: {rules: ['true']}}}]}".to_owned(),
            "deny: \"has(mcp.tool) && mcp.tool.target == \\\"a\\\"",
            "everything of `a` is refused",
        ),
    ] {
        let made = imported(&file);
        assert!(made.whole.contains(rule), "{file}\n{}", made.whole);
        assert!(lines(&made).contains(says), "{file}\n{}", lines(&made));
    }
    let open = imported(&short("{mcpAuthorization: {rules: []}}"));
    assert!(!open.whole.contains("authorization"), "no rules are no limits: {}", open.whole);
    let made = imported(&long("matches: [{path: {pathPrefix: /mcp}, headers: [{name: x}], method: POST, query: [{name: a}]}]"));
    for key in ["headers", "method", "query"] {
        assert!(lines(&made).contains(&format!("unsupported: requests are not told apart by `{key}` here")), "{}", lines(&made));
    }
}

#[test]
fn every_tool_has_a_name_of_its_own_however_many_want_the_same() {
    let long = "x".repeat(128);
    for wanted in ["dup", long.as_str()] {
        let operation = format!("{{operationId: {wanted}}}");
        let made =
            imported(&format!("{{openapi: 3.1.0, paths: {{/a: {{get: {operation}, put: {operation}, post: {operation}, delete: {operation}}}}}}}"));
        let registry: serde_json::Value = serde_json::from_str(made.registry.as_deref().unwrap_or_default()).unwrap();
        let names: std::collections::BTreeSet<&str> = registry["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
        assert_eq!(names.len(), 4, "{names:?}");
        assert!(names.iter().all(|name| name.len() <= 128), "{names:?}");
        assert!(names.contains(wanted) && names.iter().any(|name| name.ends_with("_4")), "{names:?}");
    }
}

#[test]
fn a_byte_order_mark_and_comments_get_along() {
    let made = imported("\u{feff}// mine\n{\"mcpServers\": {\"s\": {\"command\": \"x\", /* y */ \"args\": [\"\\u007f\", \"\\u0085\"]}}}");
    assert!(made.whole.contains(r#"args: ["\u007f", "\u0085"]"#), "{}", made.whole);
    assert!(is_read_again(&made));
}

#[test]
fn what_is_more_than_a_gateway_reads_is_said() {
    let big = "x".repeat(3 << 20);
    let schema = format!(
        "{{openapi: 3.1.0, components: {{schemas: {{A: {{description: {big}}}}}}}, paths: {{/a: {{get: &g {{parameters: [{{name: p, schema: {{$ref: '#/components/schemas/A'}}}}]}}, put: *g}}}}}}"
    );
    let made = imported(&schema);
    assert!(lines(&made).contains("manual: what is made of this file is larger than the 4 MiB that a gateway reads"), "{}", lines(&made));
}
