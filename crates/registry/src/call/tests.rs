use super::fold::{fold, is_invisible};
use super::*;
use crate::file::HiddenArguments;
use crate::testing::{catalog, compiled, json, registry, sent, source, tool};
use crate::{Options, Tools};
use proptest::prelude::*;
use transom_json::Tree;

const S: &str = r#"{"type":"object","properties":{"city":{"type":"string"},"units":{"type":["string","null"]},"debug":{"type":"boolean"},"limit":{"type":"number"}},"required":["city"]}"#;

fn reason(tools: &Tools, arguments: &str) -> Rejected {
    match tools.call("t", Some(json(arguments))) {
        Err(Refusal::Arguments { reason, .. }) => reason,
        other => panic!("{arguments}: {other:?}"),
    }
}

// security.md: one word for each reason, in metrics and in tests
#[test]
fn every_reason_to_reject_has_a_word_of_its_own() {
    use Rejected::*;
    let words = [NotAnObject, DuplicateKey, Lookalike, HiddenArgument, UnknownArgument, Invalid].map(Rejected::label);
    assert_eq!(words, ["not_an_object", "duplicate_key", "hidden_arg_lookalike", "hidden_arg", "unknown_arg", "invalid_arguments"]);
}

#[test]
fn a_number_that_no_float_holds_is_nobodys_fault() {
    let takes = Takes::by(r#"{"name":"t","inputSchema":{"type":"object","properties":{"n":{"type":"number","maximum":1e400}}}}"#);
    for fine in [r#"{}"#, r#"{"n":7}"#, r#"{"n":1e400}"#] {
        assert_eq!(takes.judge(Some(json(fine))), Ok(()), "{fine}");
    }
    assert!(takes.judge(Some(json(r#"{"n":"x"}"#))).is_err() && takes.judge(Some(json("[]"))).is_err());
    assert_eq!(takes.judge(None), Ok(()));
}

// S11 to S19, R-003-24, R-003-48, R-003-60
#[test]
fn defaults_fill_in_what_the_caller_left_out_and_numbers_keep_their_spelling() {
    for (members, arguments, expected) in [
        (r#""defaults":{"units":"metric","limit":30}"#, r#"{"city":"Oslo"}"#, r#"{"city":"Oslo","units":"metric","limit":30}"#),
        (r#""defaults":{"units":"metric"}"#, r#"{"city":"Oslo","units":"imperial"}"#, r#"{"city":"Oslo","units":"imperial"}"#),
        (r#""defaults":{"units":"metric"}"#, r#"{"city":"Oslo","units":null}"#, r#"{"city":"Oslo","units":null}"#),
        (r#""defaults":{"units":"metric"}"#, r#"{"city":"Oslo","units":""}"#, r#"{"city":"Oslo","units":""}"#),
        (r#""defaults":{"limit":1e400}"#, r#"{"city":"Oslo"}"#, r#"{"city":"Oslo","limit":1e400}"#),
        (r#""defaults":{"limit":30.0}"#, r#"{"city":"Oslo"}"#, r#"{"city":"Oslo","limit":30.0}"#),
        ("", r#"{"city":"Oslo","limit":18446744073709551616}"#, r#"{"city":"Oslo","limit":18446744073709551616}"#),
        ("", r#"{"city":"Oslo","limit":1e400}"#, r#"{"city":"Oslo","limit":1e400}"#),
        ("", r#"{"city":"Oslo","limit":-0}"#, r#"{"city":"Oslo","limit":-0}"#),
        ("", r#"{ "c\u0069ty" : "\u004fslo" }"#, r#"{"c\u0069ty":"\u004fslo"}"#),
        (r#""defaults":{"limit":"${TIMEOUT}"}"#, r#"{"city":"Oslo"}"#, r#"{"city":"Oslo","limit":30}"#),
        (r#""hideFields":["units"],"defaults":{"units":null}"#, r#"{"city":"Oslo"}"#, r#"{"city":"Oslo","units":null}"#),
    ] {
        assert_eq!(sent(&tool(S, members), "t", arguments).as_deref(), Ok(expected), "{members}");
    }
}

// A2
#[test]
fn a_member_that_a_lenient_peer_reads_as_a_hidden_one_is_refused_whatever_happens_inside_it() {
    let tools = tool(r#"{"type":"object"}"#, r#""hideFields":["O"],"defaults":{"o.secret":1}"#);
    assert_eq!(reason(&tools, r#"{"o":{"a":1}}"#), Rejected::Lookalike);
    assert_eq!(sent(&tools, "t", "{}").as_deref(), Ok(r#"{"o":{"secret":1}}"#));
}

// S17, S18, A8
#[test]
fn arguments_are_an_object_or_absent() {
    let tools = tool(r#"{"type":"object","properties":{"a":{}}}"#, r#""defaults":{"a":1}"#);
    for arguments in [None, Some(json("null")), Some(json("{}"))] {
        let Ok(Step::Call(call)) = tools.call("t", arguments) else { panic!() };
        assert_eq!(call.arguments, br#"{"a":1}"#);
    }
    for arguments in ["[1]", "42", "\"{}\"", "true", "[[\"a\",1]]"] {
        assert_eq!(sent(&tools, "t", arguments), Err("arguments must be an object".into()));
        assert_eq!(reason(&tools, arguments), Rejected::NotAnObject);
    }
}

// A1, A5, S22: the refusal reads the same for a hidden and for a made-up name, whatever else is wrong
#[test]
fn a_hidden_name_and_a_made_up_one_read_the_same() {
    let tools = tool(S, r#""hideFields":["debug"]"#);
    for template in [r#"{"city":"Oslo","NAME":true}"#, r#"{"NAME":true}"#, r#"{"limit":"x","NAME":{"a":[]},"city":5}"#] {
        let hidden = sent(&tools, "t", &template.replace("NAME", "debug")).unwrap_err();
        let made_up = sent(&tools, "t", &template.replace("NAME", "zzzzz")).unwrap_err();
        assert_eq!(hidden.replace("debug", "zzzzz"), made_up);
        assert!(hidden.starts_with("Unknown argument \"debug\""), "{hidden}");
    }
    assert_eq!(reason(&tools, r#"{"city":"Oslo","debug":true}"#), Rejected::HiddenArgument);
    assert_eq!(reason(&tools, r#"{"city":"Oslo","zzz":true}"#), Rejected::UnknownArgument);
    let Err(Refusal::Arguments { result, .. }) = tools.call("t", Some(json(r#"{"city":"Oslo","zzz":1}"#))) else { panic!() };
    assert_eq!(result, br#"{"content":[{"type":"text","text":"Unknown argument \"zzz\""}],"isError":true}"#);
}

// A2, A4, CVE-2026-27896
#[test]
fn whatever_a_lenient_peer_would_read_as_a_hidden_name_is_refused() {
    let schema = r#"{"type":"object","properties":{"city":{"type":"string"},"api_key":{"type":"string"},"straße":{}}}"#;
    let rejecting = tool(schema, r#""hideFields":["api_key","straße","absent_ſ"],"defaults":{"api_key":"forced"}"#);
    let dropping = tool(schema, r#""hideFields":["api_key","straße","absent_ſ"],"defaults":{"api_key":"forced"},"hiddenArguments":"drop""#);
    for name in [
        "API_KEY",
        "Api_Key",
        "api_\u{212a}ey",
        "\u{ff41}pi_key",
        "api_key\u{200b}",
        "api_key\\u0000",
        "\u{feff}api_key",
        "ap\u{ad}i_key",
        "api\u{ff3f}key",
        "\u{1d41a}pi_key",
        "a\u{2060}pi_key",
        "\\u0041pi_key",
        "STRASSE",
        "strasse",
        "Straße",
        "ABSENT_S",
        "absent_s",
    ] {
        for tools in [&rejecting, &dropping] {
            let arguments = format!(r#"{{"city":"X","{name}":"mine"}}"#);
            assert!(sent(tools, "t", &arguments).is_err_and(|text| text.contains("Unknown argument")), "{name}");
            assert_eq!(reason(tools, &arguments), Rejected::Lookalike, "{name}");
        }
    }
    for name in ["api_key", "\\u0061pi_key", "api\\u005fkey", "absent_ſ"] {
        let arguments = format!(r#"{{"city":"X","{name}":"mine"}}"#);
        assert_eq!(reason(&rejecting, &arguments), Rejected::HiddenArgument, "{name}");
        assert_eq!(sent(&dropping, "t", &arguments).as_deref(), Ok(r#"{"city":"X","api_key":"forced"}"#), "{name}");
    }
    // The hidden name is folded as well.
    let capital = tool(r#"{"type":"object","properties":{"Api_Key":{}}}"#, r#""hideFields":["Api_Key"]"#);
    for name in ["api_key", "\u{ff41}pi_key", "API\u{ff3f}KEY"] {
        assert_eq!(reason(&capital, &format!(r#"{{"{name}":"x"}}"#)), Rejected::Lookalike, "{name}");
    }
    // Not alike after folding, but unknown.
    for arguments in [r#"{"apiKey":"x"}"#, r#"{"größe":"x"}"#] {
        assert_eq!(reason(&rejecting, arguments), Rejected::UnknownArgument, "{arguments}");
    }
}

// A2: by the standard's own rule for names that differ in compatibility forms and case (D146), which is written in another way than ours
#[test]
fn letters_that_unicode_takes_for_the_same_are_the_same() {
    use caseless::Caseless;
    use unicode_normalization::UnicodeNormalization;
    for letter in (char::MIN..=char::MAX).filter(|letter| !is_invisible(*letter)) {
        let same: String = std::iter::once(letter).nfd().default_case_fold().nfkd().default_case_fold().nfkd().collect();
        assert_eq!(fold(&same), fold(&letter.to_string()), "{letter:?}");
    }
}

// A2, A6
#[test]
fn what_could_be_taken_for_the_way_to_a_hidden_field_is_refused() {
    let schema = r#"{"type":"object","properties":{"o":{"type":"object","properties":{"a":{},"secret":{}}},"l":{"type":"array","items":{"type":"object","properties":{"secret":{}}}}}}"#;
    let tools = tool(schema, r#""hideFields":["o.secret","l[].secret"],"defaults":{"o.secret":1}"#);
    for arguments in [r#"{"O":{"secret":2}}"#, r#"{"o\u200b":{"secret":2}}"#, r#"{"L":[{"secret":2}]}"#, r#"{"\uff4f":{"SECRET":2}}"#] {
        assert_eq!(reason(&tools, arguments), Rejected::Lookalike, "{arguments}");
    }
    assert_eq!(sent(&tools, "t", r#"{"o":{"a":2},"p":3}"#).as_deref(), Ok(r#"{"o":{"a":2,"secret":1},"p":3}"#));
}

// A3
#[test]
fn a_key_that_stands_twice_is_refused_at_any_depth() {
    let tools = tool(r#"{"type":"object"}"#, "");
    for arguments in [r#"{"a":1,"a":2}"#, r#"{"a":1,"\u0061":2}"#, r#"{"o":[{"b":1,"b":1}]}"#] {
        assert_eq!(reason(&tools, arguments), Rejected::DuplicateKey, "{arguments}");
    }
}

const NESTED: &str = r#"{"type":"object","properties":{"opts":{"type":["object","null"],"properties":{"debug":{"type":"boolean"},"level":{"type":"integer"}}},
    "rows":{"type":"array","items":{"type":"object","properties":{"id":{},"secret":{}}}},
    "page":{"type":"object","properties":{"number":{},"trace":{}},"required":["number"]}}}"#;

// A6, A7, 4.4
#[test]
fn nested_fields_are_hidden_forced_and_filled_in_where_they_are() {
    let forced = r#""hideFields":["opts.debug"],"defaults":{"opts.debug":false}"#;
    let items = r#""hideFields":["rows[].secret"],"defaults":{"rows[].secret":7}"#;
    let trace = r#""hideFields":["page.trace"],"defaults":{"page.trace":1}"#;
    for (members, arguments, expected) in [
        (forced, "{}", Ok(r#"{"opts":{"debug":false}}"#)),
        (forced, r#"{"opts":{}}"#, Ok(r#"{"opts":{"debug":false}}"#)),
        (forced, r#"{"opts":{"level":1.0}}"#, Ok(r#"{"opts":{"level":1.0,"debug":false}}"#)),
        (forced, r#"{"opts":{"debug":true}}"#, Err("Unknown argument \"opts.debug\"")),
        (forced, r#"{"opts":{"DEBUG":true}}"#, Err("Unknown argument \"opts.DEBUG\"")),
        (forced, r#"{"opts":null}"#, Err("/opts: an object is needed here")),
        (forced, r#"{"opts":[{"debug":true}]}"#, Err("/opts: ")),
        (forced, r#"{"opts.debug":true}"#, Ok(r#"{"opts.debug":true,"opts":{"debug":false}}"#)),
        (forced, r#"{"opts":"{\"debug\":true}"}"#, Err("/opts: ")),
        (items, r#"{"rows":[{"id":1},{}]}"#, Ok(r#"{"rows":[{"id":1,"secret":7},{"secret":7}]}"#)),
        (items, r#"{"rows":[{"secret":1}]}"#, Err("Unknown argument \"rows.0.secret\"")),
        (items, "{}", Ok("{}")),
        // A parent that would lack what it requires is not made up; one that the caller gave is completed.
        (trace, "{}", Ok("{}")),
        (trace, r#"{"page":{"number":2}}"#, Ok(r#"{"page":{"number":2,"trace":1}}"#)),
        // A default object is not merged into a caller's.
        (r#""defaults":{"opts":{"level":1,"debug":true}}"#, r#"{"opts":{"level":2}}"#, Ok(r#"{"opts":{"level":2}}"#)),
        (r#""defaults":{"opts":{"level":1}}"#, "{}", Ok(r#"{"opts":{"level":1}}"#)),
        (r#""defaults":{"opts":{"level":1},"opts.debug":true}"#, "{}", Ok(r#"{"opts":{"level":1,"debug":true}}"#)),
        (r#""defaults":{"opts.level":1}"#, r#"{"opts":{"debug":true}}"#, Ok(r#"{"opts":{"debug":true,"level":1}}"#)),
        (r#""defaults":{"opts.level":1}"#, r#"{"opts":null}"#, Ok(r#"{"opts":null}"#)),
    ] {
        let found = sent(&tool(NESTED, members), "t", arguments);
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{members} {arguments}"),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{members} {arguments}: {found}"),
            (found, _) => panic!("{members} {arguments}: {found:?}"),
        }
    }
}

#[test]
fn renamed_arguments_go_back_to_the_names_of_the_source() {
    let renamed = r#""arguments":{"place":{"source":"city"}}"#;
    let swapped = r#""arguments":{"city":{"source":"units"},"units":{"source":"city"}}"#;
    for (members, arguments, expected) in [
        (renamed, r#"{"place":"Oslo","limit":1}"#, Ok(r#"{"city":"Oslo","limit":1}"#)),
        (renamed, r#"{"place":"Oslo","city":"Rome"}"#, Err("Unknown argument \"city\"")),
        (renamed, r#"{"place":"Oslo","CITY":"Rome"}"#, Err("Unknown argument \"CITY\"")),
        (r#""arguments":{"City":{"source":"city"}}"#, r#"{"City":"Oslo"}"#, Ok(r#"{"city":"Oslo"}"#)),
        (swapped, r#"{"units":"Oslo","city":"m"}"#, Ok(r#"{"city":"Oslo","units":"m"}"#)),
        (r#""arguments":{"place":{"source":"city"}},"defaults":{"city":"Rome"}"#, "{}", Ok(r#"{"city":"Rome"}"#)),
        (r#""arguments":{"place":{"source":"city"}},"defaults":{"city":"Rome"}"#, r#"{"place":"Oslo"}"#, Ok(r#"{"city":"Oslo"}"#)),
    ] {
        let found = sent(&tool(S, members), "t", arguments);
        assert_eq!(found.as_deref().map_err(|text| text.lines().next().unwrap_or("")), expected, "{members} {arguments}");
    }
}

// A1, A2: the names of the moment count, wherever an argument has another one at the source.
#[test]
fn a_name_that_was_renamed_away_or_hidden_under_another_is_as_hidden_as_any() {
    let renamed = r#""arguments":{"place":{"source":"city"}}"#;
    let swapped = r#""arguments":{"city":{"source":"units"},"units":{"source":"city"}},"hideFields":["units"]"#;
    let described = r#""arguments":{"debug":{"source":"debug","description":"d"}},"hideFields":["debug"]"#;
    for (members, name, expected) in [
        (renamed, "city", Rejected::HiddenArgument),
        (renamed, "CITY", Rejected::Lookalike),
        (swapped, "city", Rejected::HiddenArgument),
        (swapped, "City", Rejected::Lookalike),
        (described, "debug", Rejected::HiddenArgument),
        (described, "Debug", Rejected::Lookalike),
    ] {
        assert_eq!(reason(&tool(S, members), &format!(r#"{{"{name}":"x"}}"#)), expected, "{members} {name}");
    }
    let rows = tool(NESTED, r#""hideFields":["rows[].secret"]"#);
    assert_eq!(reason(&rows, r#"{"rows":[{"id":1},{"secret":1}]}"#), Rejected::HiddenArgument);
    assert_eq!(reason(&rows, r#"{"rows":[{"Secret":1}]}"#), Rejected::Lookalike);
}

// 4.5: built, never merged; what nobody changes keeps its spelling.
#[test]
fn what_a_caller_may_say_is_copied_as_it_was_spelled() {
    let schema = r#"{"type":"object","properties":{"opts":{"properties":{"level":{},"debug":{}}},"rows":{},"b":{"const":true}}}"#;
    let tools = tool(schema, r#""defaults":{"opts.level":1}"#);
    for (arguments, expected) in [
        (r#"{"rows":[ { "a" : 1.0 } ]}"#, r#"{"rows":[ { "a" : 1.0 } ],"opts":{"level":1}}"#),
        (r#"{"opts":[ 1 , 2 ]}"#, r#"{"opts":[ 1 , 2 ]}"#),
        (r#"{"opts":{"debug":{ "x" : 1e0 }}}"#, r#"{"opts":{"debug":{ "x" : 1e0 },"level":1}}"#),
        (r#"{"b":true,"opts":null}"#, r#"{"b":true,"opts":null}"#),
    ] {
        assert_eq!(sent(&tools, "t", arguments).as_deref(), Ok(expected), "{arguments}");
    }
    assert!(sent(&tools, "t", r#"{"b":false}"#).is_err_and(|text| text.starts_with("/b: ")));
}

// 4.3, SEP-1303
#[test]
fn every_violation_is_listed_with_its_path() {
    let tools = tool(S, "");
    let found = sent(&tools, "t", r#"{"city":5,"limit":"x","units":[]}"#).unwrap_err();
    for path in ["/city: ", "/limit: ", "/units: "] {
        assert!(found.contains(path), "{found}");
    }
    assert!(sent(&tools, "t", "{}").is_err_and(|text| text.contains("city")));
    let long = format!(r#"{{"city":{{"a":"{}"}}}}"#, "x".repeat(10_000));
    assert!(sent(&tools, "t", &long).is_err_and(|text| text.len() < 600));
}

// 11
#[test]
fn strings_become_what_the_schema_wants_if_the_tool_says_so_and_nothing_is_lost() {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"},"x":{"type":"number"},"b":{"type":"boolean"},"s":{"type":"string"},"o":{"type":"object","properties":{"n":{"type":["integer","null"]}}},"l":{"type":"array","items":{"type":"number"}}}}"#;
    let tools = tool(schema, r#""coerceArguments":true"#);
    let arguments = r#"{"n":"5","x":"1.50","b":"true","s":"7","o":{"n":"-3"},"l":["1",2,"1e3"]}"#;
    assert_eq!(sent(&tools, "t", arguments).as_deref(), Ok(r#"{"n":5,"x":1.50,"b":true,"s":"7","o":{"n":-3},"l":[1,2,1e3]}"#));
    for arguments in [r#"{"n":"5.5"}"#, r#"{"n":" 5"}"#, r#"{"b":"yes"}"#, r#"{"n":""}"#, r#"{"x":"0x10"}"#, r#"{"s":7}"#] {
        assert!(sent(&tools, "t", arguments).is_err(), "{arguments}");
    }
    assert!(sent(&tool(schema, ""), "t", r#"{"n":"5"}"#).is_err());
}

#[test]
fn dropping_leaves_out_hidden_and_unknown_arguments_alike() {
    let schema = r#"{"type":"object","properties":{"a":{},"h":{},"o":{"type":"object","properties":{"x":{}},"additionalProperties":false}}}"#;
    let tools = tool(schema, r#""hideFields":["h"],"hiddenArguments":"drop""#);
    assert_eq!(sent(&tools, "t", r#"{"a":1,"h":2,"zzz":3,"o":{"x":1,"y":2}}"#).as_deref(), Ok(r#"{"a":1,"o":{"x":1}}"#));
}

// 4.3, 11: what is dropped or read anew does not excuse the rest.
#[test]
fn arguments_that_are_mended_in_part_are_refused() {
    let dropping = tool(S, r#""hideFields":["debug"],"hiddenArguments":"drop""#);
    assert_eq!(sent(&dropping, "t", r#"{"city":"X","zzz":1}"#).as_deref(), Ok(r#"{"city":"X"}"#));
    assert!(sent(&dropping, "t", r#"{"city":5,"zzz":1}"#).is_err_and(|text| text.starts_with("/city: ")));

    let numbers = r#"{"type":"object","properties":{"l":{"type":"array","items":{"type":"integer"}}}}"#;
    let coercing = tool(numbers, r#""coerceArguments":true"#);
    let list = |texts: usize| format!(r#"{{"l":[{}]}}"#, vec![r#""1""#; texts].join(","));
    assert_eq!(sent(&coercing, "t", &list(1_000)), Ok(list(1_000).replace(r#""1""#, "1")));
    // There is an end to it, and nothing goes out half mended.
    assert_eq!(sent(&coercing, "t", &list(2_000)), Err("the arguments do not fit the schema".to_owned()));
    assert_eq!(reason(&coercing, &list(2_000)), Rejected::Invalid);
}

#[test]
fn settings_for_all_hold_where_a_tool_says_nothing() {
    let text = registry(&[
        r#"{"name":"t","source":{"target":"w","tool":"s"},"hideFields":["debug"]}"#,
        r#"{"name":"u","source":{"target":"w","tool":"s"},"hideFields":["debug"],"hiddenArguments":"reject"}"#,
    ]);
    let mut options = Options::default();
    options.settings.hidden_arguments = Some(HiddenArguments::Drop);
    let tools = crate::testing::compiled_with(&text, &options).unwrap().plan.bind(&source(S));
    assert_eq!(sent(&tools, "t", r#"{"city":"X","debug":true}"#).as_deref(), Ok(r#"{"city":"X"}"#));
    assert!(sent(&tools, "u", r#"{"city":"X","debug":true}"#).is_err());
}

// 9: tools that stand on no target
#[test]
fn local_tools_are_validated_and_answered_here() {
    let parameters = r#""parameters":{"type":"object","properties":{"expression":{"type":"string"}}}"#;
    let text = registry(&[
        &format!(r#"{{"name":"calc","description":"c",{parameters},"implementation":{{"type":"builtin","handler":"calculator"}}}}"#),
        r#"{"name":"mock","description":"m","parameters":{"type":"object"},"implementation":{"type":"mock","mock_response":{"a":1}}}"#,
        r#"{"name":"status","description":"s","parameters":{"type":"object"},"implementation":{"type":"internal","handler":"gateway_status"}}"#,
    ]);
    let tools = compiled(&text).plan.bind(&Default::default());
    let Ok(Step::Local(call)) = tools.call("calc", Some(json(r#"{"expression":"2+3*4"}"#))) else { panic!() };
    let answer = call.answer(&Given { unix_seconds: 0, random: [0; 16] }).unwrap();
    assert!(String::from_utf8(answer).unwrap().contains("14"));
    assert!(sent(&tools, "calc", r#"{"expression":5}"#).is_err_and(|text| text.contains("/expression")));
    let Ok(Step::Done(result)) = tools.call("mock", None) else { panic!() };
    assert!(String::from_utf8(result).unwrap().contains(r#""structuredContent":{"a":1}"#));
    let Ok(Step::Local(call)) = tools.call("status", None) else { panic!() };
    assert_eq!(call.handler(), Some("gateway_status"));
    assert_eq!(format!("{call:?}"), r#"LocalCall(Some("gateway_status"))"#);
}

// D2, D5
#[test]
fn a_secret_goes_to_the_source_and_nowhere_else() {
    let schema = r#"{"type":"object","properties":{"key":{"type":"string"},"q":{}}}"#;
    let tools = tool(schema, r#""defaults":{"key":"Bearer ${KEY}"}"#);
    let Ok(Step::Call(call)) = tools.call("t", None) else { panic!() };
    assert_eq!(call.arguments, br#"{"key":"Bearer k-1234567890"}"#);
    assert_eq!(format!("{call:?}"), "SourceCall(w/s)");
    let shown = format!("{tools:?}");
    assert!(shown.contains("Input { schema: ") && !shown.contains("k-1234567890"), "{shown}");
    assert!(!tools.get("t").unwrap().json().contains("k-1234567890"));
    let echo = r#"{"content":[{"type":"text","text":"got k-1234567890"}]}"#;
    let reply = call.resume.resume(json(echo), ClientEra::Modern);
    assert!(reply.masked && !reply.json.contains("k-1234567890"), "{}", reply.json);
}

// D5: a target may echo what another of its tools was sent.
#[test]
fn a_secret_of_one_tool_is_masked_in_the_results_of_all_tools_of_its_target() {
    let schema = r#"{"type":"object","properties":{"key":{"type":"string"}}}"#;
    let offered = ["s", "other"].map(|name| format!(r#"{{"name":"{name}","inputSchema":{schema}}}"#));
    let text = registry(&[r#"{"name":"t","source":{"target":"w","tool":"s"},"defaults":{"key":"${KEY}"}}"#]);
    let tools = compiled(&text).plan.bind(&catalog(&[("w", &offered.each_ref().map(String::as_str))]));
    let Ok(Step::Call(call)) = tools.call("other", None) else { panic!() };
    let reply = call.resume.resume(json(r#"{"content":[{"type":"text","text":"k-1234567890"}]}"#), ClientEra::Modern);
    assert!(reply.masked && !reply.json.contains("k-1234567890"), "{}", reply.json);
}

// 6: `isError`
#[test]
fn an_error_of_a_tool_without_a_projection_is_told_or_not_as_the_tool_says() {
    let failure = r#"{"content":[{"type":"text","text":"row 7 of users"}],"isError":true}"#;
    let success = r#"{"content":[{"type":"text","text":"row 7 of users"}],"isError":false}"#;
    for (members, result, outcome) in [
        ("", failure, Outcome::Passed),
        (r#""errors":"generic""#, failure, Outcome::Generic),
        (r#""errors":"generic""#, success, Outcome::Passed),
        (r#""errors":"generic""#, r#"{"content":[]}"#, Outcome::Passed),
    ] {
        let Ok(Step::Call(call)) = tool(S, members).call("t", Some(json(r#"{"city":"X"}"#))) else { panic!() };
        let reply = call.resume.resume(json(result), ClientEra::Modern);
        assert_eq!(reply.outcome, outcome, "{members} {result}");
        assert_eq!(reply.json == result, outcome == Outcome::Passed, "{}", reply.json);
        assert_eq!(reply.json.contains("users"), outcome == Outcome::Passed && result.contains("users"), "{}", reply.json);
    }
}

// 6: an error object says no more than a result that is one
#[test]
fn an_error_object_of_the_source_keeps_its_code_and_loses_its_words_where_the_tool_says_so() {
    let refused = |members: &str, error: &str| {
        let Ok(Step::Call(call)) = tool(S, members).call("t", Some(json(r#"{"city":"X"}"#))) else { panic!() };
        call.resume.refused(json(error))
    };
    let error = r#"{"code":-32001,"message":"row 7 of users","data":{"row":7}}"#;
    assert_eq!(refused("", error), None);
    assert_eq!(refused(r#""errors":"pass""#, error), None);
    let generic = |error| refused(r#""errors":"generic""#, error).expect("words of our own");
    assert_eq!(generic(error), r#"{"code":-32001,"message":"The tool reported an error."}"#);
    assert_eq!(generic(r#"{"code":"users","message":"row 7"}"#), r#"{"code":-32603,"message":"The tool reported an error."}"#);
}

#[test]
fn where_nothing_is_hidden_a_name_that_reads_like_another_is_a_name_of_its_own() {
    let schema = r#"{"type":"object","properties":{"o":{"type":"object","properties":{"a":{},"k":{}}}}}"#;
    let open = tool(schema, r#""defaults":{"o.a":1}"#);
    assert_eq!(sent(&open, "t", r#"{"O":{"a":2}}"#).as_deref(), Ok(r#"{"O":{"a":2},"o":{"a":1}}"#));
    let closed = tool(schema, r#""defaults":{"o.a":1},"hideFields":["o.k"]"#);
    assert_eq!(reason(&closed, r#"{"O":{"a":2}}"#), Rejected::Lookalike);
}

// A2
#[test]
fn names_read_alike_if_a_lenient_peer_may_take_one_for_the_other() {
    for (name, other, alike) in [("api_key", "API_KEY", true), ("api_key", "api\u{200b}_key", true), ("api_key", "apikey", false), ("a", "b", false)]
    {
        assert_eq!(reads_as(name, other), alike, "{name} {other}");
    }
}

#[test]
fn tools_that_pass_through_are_left_to_their_target_unless_all_are_validated() {
    let text = registry(&[]);
    let tools = compiled(&text).plan.bind(&source(S));
    assert_eq!(sent(&tools, "s", r#"{ "city" : 5 }"#).as_deref(), Ok(r#"{ "city" : 5 }"#));
    assert!(matches!(tools.call_source("w", "s", None), Ok(Step::Call(_))));
    let strict = Options { validate_all: true, ..Options::default() };
    let tools = crate::testing::compiled_with(&text, &strict).unwrap().plan.bind(&source(S));
    assert!(sent(&tools, "s", r#"{"city":5}"#).is_err());
}

proptest! {
    // A1 to A6: whatever a caller sends, a hidden name never comes from the caller.
    #[test]
    fn a_hidden_name_never_comes_from_the_caller(arguments in arguments(), drop in any::<bool>()) {
        let drop = if drop { r#","hiddenArguments":"drop""# } else { "" };
        let schema = r#"{"type":"object","properties":{"a":{},"key":{},"o":{"type":"object","properties":{"key":{},"b":{}}}}}"#;
        let tools = tool(schema, &format!(r#""hideFields":["key","o.key"],"defaults":{{"key":"forced","o.key":"forced"}}{drop}"#));
        if let Ok(sent) = sent(&tools, "t", &arguments.to_string()) {
            let sent = Tree::from(json(&sent));
            prop_assert_eq!(sent.get("key").and_then(Tree::as_str), Some("forced"));
            let inner = sent.get("o").and_then(|o| o.get("key")).and_then(Tree::as_str);
            prop_assert_eq!(inner, Some("forced"));
            prop_assert!(sent.as_object().is_some_and(|object| object.keys().all(|name| ["a", "key", "o"].contains(&name))));
        }
    }

    #[test]
    fn folding_twice_is_folding_once(name in "\\PC*") {
        let once = fold(&name).into_owned();
        prop_assert_eq!(fold(&once).into_owned(), once);
    }
}

fn arguments() -> impl Strategy<Value = Tree> {
    let name = prop_oneof![Just("a"), Just("key"), Just("KEY"), Just("o"), Just("b"), Just("k\u{200b}ey"), Just("other")];
    let leaf = prop_oneof![Just(Tree::from("mine")), Just(Tree::Null), Just(Tree::Bool(true)), Just(Tree::Number("1e400".into()))];
    let value = leaf.prop_recursive(3, 16, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Tree::Array),
            proptest::collection::vec((name.clone(), inner), 0..4)
                .prop_map(|members| Tree::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())),
        ]
    });
    proptest::collection::vec((prop_oneof![Just("a"), Just("key"), Just("o"), Just("Key"), Just("x")], value), 0..5)
        .prop_map(|members| Tree::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()))
}
