//! cases.md 6.4; security.md 0.4, 0.5, E12; RFC 9535 feature by feature.

use super::*;
use proptest::prelude::*;
use serde_json::Value;

const PLAIN: Rules = Rules { full: false };
const FULL: Rules = Rules { full: true };

/// A document for every feature.
const SHOP: &str = r#"{"books":[{"t":"A","p":8.95,"tags":["x","y"],"isbn":"1"},{"t":"B","p":12.99,"tags":[]},{"t":"C","p":8.99,"isbn":null,"tags":["x"]},{"t":"D","p":22.99}],"bike":{"p":399,"color":"red"},"n":[0,1,2,3,4,5],"k":{"a b":1,"it's":2,"\"q\"":3,"é":4,"":5,"\\":6,"☺":7},"max":10,"f":false,"z":null}"#;

fn run(path: &Path, document: &str) -> Result<Vec<String>, TooMuchWork> {
    let indexed = Indexed::whole(document).expect(document);
    let forms = Forms::default();
    let document = Document::new(&indexed, &forms);
    let places = match path.select(&document, indexed.root(), &mut 0)? {
        Found::One(place) => place.into_iter().collect(),
        Found::Many(places) => places,
    };
    Ok(places.into_iter().map(|place| indexed.json(place).raw().to_owned()).collect())
}

fn select(path: &str, document: &str, rules: &Rules) -> String {
    let path = Path::parse(path, rules).unwrap_or_else(|bad| panic!("{path}: {bad:?}"));
    run(&path, document).unwrap_or_else(|_| panic!("{path}: too much work")).join(" ")
}

#[test]
fn every_feature_of_rfc_9535_that_the_limits_allow() {
    let table = [
        // 2.2 root
        ("$", SHOP),
        // 2.3.1 names, in each way to write them
        ("$.bike.color", r#""red""#),
        ("$['bike']['color']", r#""red""#),
        (r#"$["bike"]["color"]"#, r#""red""#),
        ("$.bike['color']", r#""red""#),
        ("$ .bike [ 'color' ]", r#""red""#),
        ("$.k['a b']", "1"),
        (r"$.k['it\'s']", "2"),
        (r#"$.k["it's"]"#, "2"),
        (r#"$.k['"q"']"#, "3"),
        (r#"$.k["\"q\""]"#, "3"),
        ("$.k.é", "4"),
        (r"$.k['\u00e9']", "4"),
        ("$.k['']", "5"),
        (r"$.k['\\']", "6"),
        ("$.k.☺", "7"),
        ("$.missing", ""),
        ("$.max.deeper", ""),
        ("$.n.a", ""),
        // 2.3.2 wildcard
        ("$.bike.*", r#"399 "red""#),
        ("$.bike[*]", r#"399 "red""#),
        ("$.n[*]", "0 1 2 3 4 5"),
        ("$.max.*", ""),
        // 2.3.3 index
        ("$.n[0]", "0"),
        ("$.n[-1]", "5"),
        ("$.n[6]", ""),
        ("$.n[-7]", ""),
        ("$.bike[0]", ""),
        // 2.3.4 slices
        ("$.n[1:3]", "1 2"),
        ("$.n[:2]", "0 1"),
        ("$.n[4:]", "4 5"),
        ("$.n[::2]", "0 2 4"),
        ("$.n[::-2]", "5 3 1"),
        ("$.n[-2:]", "4 5"),
        ("$.n[5:1:-2]", "5 3"),
        ("$.n[ 1 : 5 : 2 ]", "1 3"),
        ("$.n[0:0]", ""),
        ("$.n[::0]", ""),
        // 2.3.5 filters: existence, comparison, logic, precedence, parentheses
        ("$.books[?@.isbn].t", r#""A" "C""#),
        ("$.books[?!@.isbn].t", r#""B" "D""#),
        ("$.books[?@.p < 9].t", r#""A" "C""#),
        ("$.books[?@.p<=8.95].t", r#""A""#),
        ("$.books[?@.p > 9 && @.p < 20].t", r#""B""#),
        ("$.books[?@.p >= 22.99 || @.t == 'A'].t", r#""A" "D""#),
        ("$.books[?@.t != 'A' && (@.isbn || @.p > 20)].t", r#""C" "D""#),
        ("$.books[?!(@.t == 'A' || @.t == 'B')].t", r#""C" "D""#),
        ("$.books[?@['t']==\"B\"].p", "12.99"),
        ("$.books[?@.isbn == null].t", r#""C""#),
        ("$.books[?@.tags[0] == 'x'].t", r#""A" "C""#),
        ("$.books[?@.missing == @.gone].t", r#""A" "B" "C" "D""#),
        ("$.books[?@.tags == @.tags].t", r#""A" "B" "C" "D""#),
        ("$.n[?@ > 3]", "4 5"),
        ("$[?@ == false]", "false"),
        ("$.bike[?@ == 'red']", r#""red""#),
        ("$.n[?@ == 1.0]", "1"),
        ("$.n[?@ == 1e0]", "1"),
        ("$.books[?@.tags[?@ == 'y']].t", r#""A""#),
        ("$.n[?@ == -1, ?@ == 2]", "2"),
        // 2.4 functions
        ("$.books[?length(@.tags) == 2].t", r#""A""#),
        ("$.books[?count(@.tags[*]) == 1].t", r#""C""#),
        ("$.books[?count(@.*) > 3].t", r#""A" "C""#),
        ("$.books[?length(@.t) == 1 && value(@.tags[*]) == 'x'].t", r#""C""#),
        ("$.k[?length(@) == 1]", ""),
        // 2.5.1 several selectors
        ("$.n[0, 2]", "0 2"),
        ("$.n[2,0,0]", "2 0 0"),
        ("$.n[0:2, -1]", "0 1 5"),
        ("$.bike['p','color','p']", r#"399 "red" 399"#),
        ("$.books[?@.t=='A', 3].t", r#""A" "D""#),
        // 2.5.2 descendants
        ("$..color", r#""red""#),
        ("$..p", "8.95 12.99 8.99 22.99 399"),
        ("$.books..[0]", r#"{"t":"A","p":8.95,"tags":["x","y"],"isbn":"1"} "x" "x""#),
        ("$..tags[*]", r#""x" "y" "x""#),
        ("$..['t','color']", r#""red" "A" "B" "C" "D""#),
        ("$..books..t", r#""A" "B" "C" "D""#),
        ("$.books..[?@ == 'x']", r#""x" "x""#),
        // 2.6 null is a value
        ("$.z", "null"),
        ("$.z.a", ""),
        ("$.books[*].isbn", r#""1" null"#),
    ];
    for (path, expected) in table {
        let sorted = |text: &str| {
            let mut words: Vec<&str> = text.split(' ').collect();
            words.sort_unstable();
            words.join(" ")
        };
        for rules in [PLAIN, FULL] {
            let found = select(path, SHOP, &rules);
            // RFC 9535 leaves open in which order descendants of different members are visited.
            if path.contains("..") {
                assert_eq!(sorted(&found), sorted(expected), "{path}");
            } else {
                assert_eq!(found, expected, "{path}");
            }
        }
    }
}

#[test]
fn what_is_banned_by_default_works_when_the_rules_are_full() {
    // E12
    let table = [
        ("$.books[?match(@.t, '[AB]')].t", r#""A" "B""#, 9..14),
        ("$.books[?search(@.t, 'C')].t", r#""C""#, 9..15),
        ("$.books[?@.p > $.max].t", r#""B" "D""#, 15..16),
        ("$.books[?@.tags[?@ == $.books[0].tags[0]]].t", r#""A" "C""#, 22..23),
        ("$..books..tags..[0]", r#""x" "x""#, 14..16),
    ];
    for (path, expected, at) in table {
        let bad = Path::parse(path, &PLAIN).unwrap_err();
        assert_eq!(bad.at, at, "{path}: {bad:?}");
        assert!(bad.help.is_some_and(|help| help.contains("jsonpath: full")), "{path}");
        assert_eq!(select(path, SHOP, &FULL), expected, "{path}");
    }
    // A name is not a function, and a text is not a path.
    for path in ["$.books[?@.match == '$.a..b..c..d']", "$['$']", "$['match(']", "$.search"] {
        assert_eq!(select(path, SHOP, &PLAIN), "", "{path}");
    }
}

// Found by fuzzing: the library panics on such a text, and was asked whether it would be a repair.
#[test]
fn a_text_that_ends_within_an_escape_is_refused_like_any_other() {
    for path in [r"$]..['\u", r"['\u", r"a['\ud83d", r"$.a b['\", r"x\u", r"$['\u"] {
        let bad = Path::parse(path, &PLAIN).unwrap_err();
        assert!(!bad.help.unwrap_or_default().contains("did you mean"), "{path}");
    }
}

#[test]
fn what_is_no_path_is_refused_with_its_place_and_a_hint() {
    let table = [
        ("a", 0..1, "did you mean `$.a`?"),                    // P19
        ("items[0].n", 0..10, "did you mean `$.items[0].n`?"), // P19
        ("a.b", 0..3, "did you mean `$.a.b`?"),
        (".a", 0..2, "did you mean `$.a`?"),
        ("['a']", 0..5, "did you mean `$['a']`?"),
        (" $.a", 0..4, "did you mean `$.a`?"),
        ("$.", 1..2, "for example `$.name`"), // P20
        ("$.a..", 3..5, "for example `$.name`"),
        ("$.items[", 7..8, "a `]` is missing"),              // P20
        ("$.odd key", 5..9, "did you mean `$['odd key']`?"), // P20
        ("$.a-b.c", 3..5, "did you mean `$['a-b'].c`?"),
        ("$.x.a-b[0]", 5..7, "did you mean `$.x['a-b'][0]`?"),
        ("$..a-b", 4..6, "did you mean `$..['a-b']`?"),
        ("$.0", 2..3, "did you mean `$[0]`?"),
        ("$.a.0.b", 4..5, "did you mean `$.a[0].b`?"),
        ("$.@type", 2..7, "did you mean `$['@type']`?"),
        ("$['a", 2..3, "a `'` is missing"),
        ("$[?(@.a]", 3..4, "a `)` is missing"),
        ("$[?@.a", 1..2, "a `]` is missing"),
        ("$[a]", 2..3, "inside `[ ]` stand a quoted name, an index, a slice, `*` or a filter `?…`"),
        ("$.a ", 3..4, "did you mean `$['a']`?"),
    ];
    for (path, at, help) in table {
        let bad = Path::parse(path, &PLAIN).unwrap_err();
        assert_eq!((bad.at, bad.help.as_deref()), (at, Some(help)), "{path}: {}", bad.message);
    }
    let others = [
        "",
        "$$",
        "$a",
        "$[]",
        "$[0",
        "$.a]",
        "$[01]",
        "$[-0]",
        "$[1 2]",
        "$[1:2:3:4]",
        "$['a' 'b']",
        "$[,]",
        "$['a',]",
        "$.*a",
        "$...a",
        "$[?]",
        "$[?@.a=1]",
        "$[?@.a===1]",
        "$[?@.*==1]",
        "$[?a]",
        "$[?nothing(@)]",
        "$[?length(@)]",
        "$[?length(@.*)>1]",
        "$[?count(1)>1]",
        "$[?!!@.a]",
        "$[?@.a)]",
        "$[99999999999999999999]",
        "$[9007199254740992]",
        r"$['\x']",
        r"$['\ud800']",
        "$[\"\n\"]",
        "$.a\u{0}",
        "$[?'a']",
        "$[?1]",
        "$[?true]",
        "@.a",
        "$.'a'",
        "$.[0]",
        "$[.a]",
    ];
    for path in others {
        for rules in [PLAIN, FULL] {
            let bad = Path::parse(path, &rules).map(|path| panic!("{path}")).unwrap_err();
            assert!(!bad.message.is_empty() && path.get(bad.at.clone()).is_some(), "{path}: {bad:?}");
        }
    }
}

#[test]
fn length_and_nesting_are_bounded_before_the_library_reads_a_path() {
    // security.md 0.4: this aborted the process.
    let parentheses = |n: usize| format!("$[?{}@.a{}]", "(".repeat(n), ")".repeat(n));
    assert!(Path::parse(&parentheses(15), &PLAIN).is_ok());
    for rules in [PLAIN, FULL] {
        assert_eq!(Path::parse(&parentheses(16), &rules).unwrap_err().at, 18..19);
        assert!(Path::parse(&parentheses(1_000), &rules).unwrap_err().message.contains("512 bytes"));
        for opening in ["(", "!(", "[?(", "@[?(", "count(", "['", "[\"", "[", "{", "!", "..", "?"] {
            assert!(Path::parse(&format!("$[?{}", opening.repeat(480 / opening.len())), &rules).is_err(), "{opening}");
        }
        // Filters in filters double the work of the library each time.
        let filters = |n: usize| format!("${}@.a{}", "[?@".repeat(n).trim_end_matches('@'), "]".repeat(n));
        assert!(Path::parse(&filters(4), &rules).is_ok());
        assert!(Path::parse(&filters(5), &rules).unwrap_err().message.contains("filters"));
    }
    assert!(Path::parse(&format!("$.{}", "é".repeat(255)), &PLAIN).is_ok());
    let bad = Path::parse(&format!("$.{}x", "é".repeat(255)), &PLAIN).unwrap_err();
    assert_eq!(bad.at, 512..513);
}

#[test]
fn a_path_that_would_cost_too_much_is_not_run() {
    // security.md 0.5, E12
    let deep = format!("{}1{}", "[".repeat(64), "]".repeat(64));
    let wide = format!("[{}0]", "{\"a\":0},".repeat(10_000));
    let huge = format!("[{}0]", "0,".repeat(400_000));
    let table = [
        ("$..*..*..*..*..*", &deep, true),
        ("$..*..*", &deep, false),
        ("$[?count($..a)>1]", &wide, true),
        ("$[?match(@.a, 'x')]", &wide, true),
        ("$[?@.a == 0].a", &wide, false),
        ("$..a", &wide, false),
        ("$[*].a", &wide, false),
        ("$[*,*,*,*][*,*,*,*][*,*,*,*][*,*,*,*][*,*,*,*]", &wide, true),
        ("$[*]", &huge, false),
        ("$..*", &huge, false),
        ("$[?@.a == 0]", &huge, true),
        ("$[0]", &huge, false),
        ("$[-1]", &huge, false),
        ("$[?@..*]", &deep, false),
        ("$..*[?@..[?@..a]]", &deep, false),
        ("$..*[?@..[?@..[?@..a]]]", &deep, true),
    ];
    for (path, document, too_much) in table {
        let path = Path::parse(path, &FULL).unwrap();
        assert_eq!(run(&path, document).is_err(), too_much, "{path}");
    }
    assert!(Path::parse("$..*..*", &PLAIN).is_ok());
}

#[test]
fn numbers_keep_their_spelling_and_none_breaks_a_query() {
    let document = r#"[1.0,1e400,-1e400,18446744073709551616,0.1e1,-0]"#;
    assert_eq!(select("$[*]", document, &PLAIN), "1.0 1e400 -1e400 18446744073709551616 0.1e1 -0");
    assert_eq!(select("$[?@ == 1]", document, &PLAIN), "1.0 0.1e1");
    assert_eq!(select("$[?@ > 1e300]", document, &PLAIN), "1e400");
    assert_eq!(select("$[?@ < 0]", document, &PLAIN), "-1e400");
}

#[test]
fn of_equal_keys_the_last_counts_in_every_kind_of_path() {
    let document = r#"{"a":1,"b":{"c":1},"a":{"c":2},"\u0062":{"c":3}}"#;
    assert_eq!(select("$.a.c", document, &PLAIN), "2");
    assert_eq!(select("$.b", document, &PLAIN), r#"{"c":3}"#);
    assert_eq!(select("$..c", document, &PLAIN), "2 3");
    assert_eq!(select("$[*].c", document, &PLAIN), "2 3");
}

fn documents() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-c\"\\\\é\n]{0,3}".prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec(("[abc'\"\\\\ é]{0,2}", inner), 0..5).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Our own walk and the library agree on singular queries, however names are written.
    #[test]
    fn the_walk_finds_what_the_library_finds(document in documents(), steps in prop::collection::vec(prop_oneof![
        (-3i64..4).prop_map(|index| format!("[{index}]")),
        "[abc'\"\\\\ é]{0,2}".prop_map(|name| format!("[{}]", transom_json::write::quoted(&name))),
        "[abc\" é]{0,2}".prop_map(|name| format!("['{name}']")),
        "[abcé]{1,2}".prop_map(|name| format!(".{name}")),
    ], 0..4)) {
        let text = format!("${}", steps.concat());
        let path = Path::parse(&text, &PLAIN).unwrap();
        prop_assert!(path.is_singular());
        let expected: Vec<String> = JsonPath::parse(&text).unwrap().query(&document).iter().map(|value| value.to_string()).collect();
        prop_assert_eq!(run(&path, &document.to_string()).unwrap(), expected, "{}", text);
    }

    /// What the library finds is found again in the text.
    #[test]
    fn the_text_has_what_the_library_finds(document in documents(), text in prop::sample::select(vec![
        "$.*", "$..*", "$[*][*]", "$..a", "$..[0]", "$[?@.a]", "$..[?@ > 0]", "$[0:3]", "$[::-1]", "$[0,0,'a']", "$..[*].b",
    ])) {
        let expected: Vec<String> = JsonPath::parse(text).unwrap().query(&document).iter().map(|value| value.to_string()).collect();
        prop_assert_eq!(run(&Path::parse(text, &PLAIN).unwrap(), &document.to_string()).unwrap(), expected);
    }

    /// Whatever is written, the answer is a path or an error that points into the text.
    #[test]
    fn reading_a_path_never_panics(text in r#"\$?([.@$*?()!,:'"\[\] &|=<>~0-9a-cé\\-]|\.\.|\[\?|\['|count\(|match\(){0,24}"#, full: bool) {
        if let Err(bad) = Path::parse(&text, &Rules { full }) {
            prop_assert!(text.get(bad.at.clone()).is_some(), "{:?}", bad);
        }
    }
}
