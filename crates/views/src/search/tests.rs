use super::*;
use transom_json::Json;

/// A tool with this name, target and definition.
fn tool<'t>(name: &'t str, server: &'t str, definition: &'t str) -> Tool<'t> {
    Tool { name, server: Some(server), own_name: name, qualified: None, is_virtual: false, definition: Json::trusted(definition) }
}

static FEW: [(&str, &str, &str); 8] = [
    ("read_file", "files", r#"{"description":"Read the content of a file","inputSchema":{"properties":{"path":{"type":"string"}}}}"#),
    ("write_file", "files", r#"{"description":"Write text into a file","inputSchema":{"properties":{"path":{},"content":{}}}}"#),
    ("list_directory", "files", r#"{"description":"List what is in a folder","inputSchema":{"properties":{"path":{}}}}"#),
    ("create_repository", "github", r#"{"description":"Create a new repository","inputSchema":{"properties":{"name":{},"private":{}}}}"#),
    ("createIssue", "github", r#"{"title":"Open an issue","description":"Report a bug","inputSchema":{"properties":{"title":{},"labels":{}}}}"#),
    ("list_issues", "github", r#"{"description":"All issues of a repository"}"#),
    ("send_message", "slack", r#"{"description":"Post to a channel","inputSchema":{"properties":{"to":{"properties":{"channelName":{}}}}}}"#),
    ("get_weather", "weather", r#"{"description":"Conditions now","inputSchema":{"properties":{"city":{}}}}"#),
];

fn few() -> Index {
    Index::build(FEW.iter().map(|(name, server, definition)| tool(name, server, definition)))
}

fn names(index: &Index, text: &str) -> Vec<&'static str> {
    let hits = index.search(&Query { text, limit: 3, threshold: 0.0 }, |_| true);
    hits.iter().filter_map(|hit| FEW.get(hit.tool)).map(|(name, ..)| *name).collect()
}

// G15
#[test]
fn a_tool_is_found_by_its_name_by_part_of_it_by_a_typo_and_by_what_it_is_about() {
    let index = few();
    for (text, expected) in [
        ("read_file", "read_file"),
        ("read_fil", "read_file"),
        ("readfile", "read_file"),
        ("READ FILE", "read_file"),
        ("raed file", "read_file"),
        ("github repository", "create_repository"),
        ("repositories", "create_repository"),
        ("create issue", "createIssue"),
        ("createissue", "createIssue"),
        ("list isues", "list_issues"),
        ("report bug", "createIssue"),
        ("channel name", "send_message"),
        ("what is the weather in a city", "get_weather"),
        ("wether", "get_weather"),
        ("folder", "list_directory"),
    ] {
        assert_eq!(names(&index, text).first(), Some(&expected), "{text}: {:?}", names(&index, text));
    }
    assert!(!names(&index, "git").is_empty());
}

#[test]
fn nothing_is_found_where_nothing_fits() {
    let index = few();
    for text in ["", "   ", "___", "zzzzzz", "quantum chromodynamics", "🦀"] {
        assert_eq!(names(&index, text), Vec::<&str>::new(), "{text}");
    }
    assert_eq!(names(&Index::build([]), "file"), Vec::<&str>::new());
}

#[test]
fn a_hit_says_where_it_was_hit() {
    let index = few();
    let hits = index.search(&Query { text: "channel", limit: 1, threshold: 0.0 }, |_| true);
    assert_eq!(hits.first().map(|hit| hit.matched.clone()), Some(vec![Field::Arguments, Field::Description]));
}

// G18
#[test]
fn limit_and_threshold_are_kept_and_no_score_reaches_one() {
    let index = few();
    let search = |limit, threshold| index.search(&Query { text: "read file path", limit, threshold }, |_| true);
    assert_eq!(search(1, 0.0).len(), 1);
    assert_eq!(search(0, 0.0), []);
    let all = search(100, 0.0);
    assert!(all.len() > 2 && all.is_sorted_by(|a, b| a.score >= b.score));
    assert!(all.iter().all(|hit| hit.score > 0.0 && hit.score < 1.0), "{all:?}");
    assert_eq!(search(100, 1.0), []);
    let middle = all.get(1).map_or(0.0, |hit| hit.score);
    assert!(search(100, middle).iter().all(|hit| hit.score >= middle) && search(100, middle).len() >= 2);
}

#[test]
fn of_two_that_fit_alike_the_name_decides() {
    let same = r#"{"description":"the same"}"#;
    let index = Index::build([tool("b_copy", "x", same), tool("c_copy", "x", same), tool("a_copy", "x", same)]);
    let hits = index.search(&Query { text: "same", limit: 10, threshold: 0.0 }, |_| true);
    assert_eq!(hits.iter().map(|hit| hit.tool).collect::<Vec<_>>(), [2, 0, 1]);
}

// B6
#[test]
fn what_is_not_seen_counts_in_nothing() {
    // Words that only hidden tools have, words that they make common, words that they spell differently.
    let hidden = [
        ("delete_repository", "github", r#"{"description":"Repository repository file issue weather city"}"#),
        ("secret_fil", "vault", r#"{"description":"raed isues wether folder"}"#),
        ("readfile", "vault", r#"{"description":"github hub git channelname"}"#),
    ];
    let (mut all, mut seen) = (Vec::new(), Vec::new());
    for (at, (name, server, definition)) in FEW.iter().enumerate() {
        if let Some((name, server, definition)) = hidden.get(at / 2).filter(|_| at % 2 == 0) {
            all.push(tool(name, server, definition));
            seen.push(false);
        }
        all.push(tool(name, server, definition));
        seen.push(true);
    }
    let (part, whole) = (few(), Index::build(all));
    let places: Vec<usize> = seen.iter().enumerate().filter(|(_, seen)| **seen).map(|(place, _)| place).collect();
    for text in [
        "read_fil",
        "raed",
        "raed file",
        "isues",
        "wether",
        "secret",
        "vault",
        "repository",
        "delete repository",
        "GitHub",
        "git hub",
        "fil",
        "file",
        "path city folder",
        "channelName",
        "the",
        "readfile",
    ] {
        for limit in [1, 3, 100] {
            let query = Query { text, limit, threshold: 0.0 };
            let alone = part.search(&query, |_| true);
            let mut among = whole.search(&query, |place| seen.get(place) == Some(&true));
            for hit in &mut among {
                hit.tool = places.iter().position(|place| *place == hit.tool).unwrap_or(usize::MAX);
            }
            assert_eq!(alone, among, "{text}");
        }
    }
}

#[test]
fn hostile_queries_and_tools_end_soon() {
    let deep = format!("{{\"inputSchema\":{}{}}}", "{\"properties\":{\"a\":".repeat(500), "{}}}".repeat(500));
    let wide = format!("{{\"description\":\"{}\"}}", "word1Two ".repeat(20_000));
    let long = format!("{{\"description\":\"{}\"}}", "a1".repeat(100_000));
    let index = Index::build([tool("deep", "x", &deep), tool("wide", "x", &wide), tool("long", "x", &long), tool("", "", "null")]);
    for text in ["a ".repeat(10_000), "a1B".repeat(10_000), "ü".repeat(10_000), "\0\0".into(), "wor".into()] {
        assert!(index.search(&Query { text: &text, limit: usize::MAX, threshold: f64::NAN }, |_| true).len() <= 4);
    }
}

#[test]
fn arguments_are_found_however_a_schema_spells_its_keywords() {
    let index = Index::build([tool("t", "s", r#"{"inputSchema":{"pr\u006fperties":{"city":{}}}}"#)]);
    assert_eq!(index.search(&Query { text: "city", limit: 3, threshold: 0.0 }, |_| true).len(), 1);
}
