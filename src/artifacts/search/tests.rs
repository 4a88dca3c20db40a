use serde_json::{Value, json};

use super::*;

fn search(text: &str, query: &SearchQuery) -> FoundLines {
    super::search(text, query, &|| false)
}

const TEXT: &str = "one\ntwo Error\nthree\nfour\nfive error\r\nsix\nseven\nerror eight";

fn query(pattern: &str) -> SearchQuery {
    SearchQuery::new(pattern, false, false).unwrap()
}

fn shown(text: &str, query: &SearchQuery) -> String {
    format_lines(&search(text, query).lines)
}

#[test]
fn lines_are_found_with_their_numbers() {
    let found = search(TEXT, &query("error"));
    assert_eq!((found.matches, found.shown, found.next_byte), (2, 2, None));
    assert_eq!(
        format_lines(&found.lines),
        "5: five error\n--\n8: error eight\n"
    );
    for line in &found.lines {
        let at = usize::try_from(line.byte).unwrap();
        assert!(TEXT.get(at..).unwrap().starts_with(&line.text), "{line:?}");
    }
    assert_eq!(search(TEXT, &query("absent")), FoundLines::default());
    assert_eq!(search("", &query("x")), FoundLines::default());
}

#[test]
fn case_is_ignored_where_asked() {
    let any = SearchQuery::new("ERROR", false, true).unwrap();
    assert_eq!(search(TEXT, &any).matches, 3);
    assert_eq!(search(TEXT, &query("ERROR")).matches, 0);
}

#[test]
fn literal_texts_are_not_expressions() {
    assert_eq!(shown("a.c\nabc", &query("a.c")), "1: a.c\n");
    let regex = SearchQuery::new("^a.c$", true, false).unwrap();
    assert_eq!(shown("a.c\nabc\nxabc", &regex), "1: a.c\n2: abc\n");
}

#[test]
fn context_is_shown_once() {
    let mut query = query("error");
    query.context = 2;
    assert_eq!(
        shown(TEXT, &query),
        "3- three\n4- four\n5: five error\n6- six\n7- seven\n8: error eight\n"
    );
    query.context = 1;
    assert_eq!(
        shown(TEXT, &query),
        "4- four\n5: five error\n6- six\n7- seven\n8: error eight\n"
    );
}

#[test]
fn a_search_can_continue_at_the_first_match_not_shown() {
    let text: String = "a line\n".repeat(100);
    let mut query = query("line");
    query.limits.matches = 30;
    let mut seen = Vec::new();
    loop {
        let found = search(&text, &query);
        assert_eq!(found.matches, 100 - seen.len() as u64);
        seen.extend(found.lines.iter().map(|line| line.line));
        let Some(next) = found.next_byte else { break };
        query.from_byte = next;
    }
    assert_eq!(seen, (1..=100).collect::<Vec<_>>());
    query.from_byte = 0;
    query.limits.bytes = 100;
    let found = search(&text, &query);
    assert!(found.shown < 30);
    assert!(
        found
            .lines
            .iter()
            .map(|line| line.text.len())
            .sum::<usize>()
            <= 100
    );
}

#[test]
fn long_lines_are_cut_around_each_match() {
    let text = format!(
        "{}needle{}needle{}",
        "x".repeat(5000),
        "é".repeat(5000),
        "y".repeat(700)
    );
    let found = search(&text, &query("needle"));
    assert_eq!((found.matches, found.lines.len()), (2, 2));
    for line in &found.lines {
        assert!(line.text.contains("needle"), "{line:?}");
        assert!(line.text.len() < 600, "{line:?}");
        assert!(line.text.starts_with("[... ") && line.text.ends_with(" bytes ...]"));
    }
    assert_eq!(found.lines[0].byte, 4800);
    assert!(format_lines(&found.lines).starts_with("1 byte 4800: [... 4800 bytes] xxx"));
    let mut near = query("needle");
    near.limits.matches = 1;
    near.from_byte = search(&text, &near).next_byte.unwrap();
    assert_eq!(search(&text, &near).lines[0].byte, found.lines[1].byte);
}

#[test]
fn matches_next_to_each_other_are_shown_together() {
    let text = format!("{}ab ab ab{}", "x".repeat(2000), "y".repeat(2000));
    let found = search(&text, &query("ab"));
    assert_eq!((found.matches, found.lines.len()), (1, 1));
    // A match of any length is shown in bounds.
    let all = SearchQuery::new(".*", true, false).unwrap();
    assert!(search(&text, &all).lines[0].text.len() < 700);
}

#[test]
fn invalid_expressions_are_refused() {
    let refused = |pattern: &str| SearchQuery::new(pattern, true, false).unwrap_err();
    assert_eq!(refused(""), InvalidQuery::Empty);
    assert_eq!(refused(&"x".repeat(3000)), InvalidQuery::TooLong);
    assert_eq!(refused(r"\w{1000}{1000}"), InvalidQuery::TooLarge);
    assert_eq!(
        refused("a(b").to_string(),
        "this is not a regular expression: unclosed group"
    );
}

#[test]
fn hostile_expressions_end_soon() {
    let text = "a".repeat(200_000);
    let query = SearchQuery::new("(a*)*b", true, false).unwrap();
    assert_eq!(search(&text, &query).matches, 0);
}

#[test]
fn a_stopped_search_ends_early() {
    for text in ["x\n".repeat(1000), "x".repeat(1000)] {
        assert!(super::search(&text, &query("x"), &|| true).matches <= 1);
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_searched_within_the_limits(
        text in "(\\PC|\n|\r){0,400}", pattern in "\\PC{1,3}", context in 0_usize..4, bytes in 0_usize..300
    ) {
        let mut query = query(&pattern);
        query.context = context;
        query.limits = SearchLimits { matches: 5, bytes };
        let found = search(&text, &query);
        let lines = text.split('\n').filter(|line| line.trim_end_matches('\r').contains(&pattern));
        proptest::prop_assert_eq!(found.matches, lines.count() as u64);
        proptest::prop_assert_eq!(found.next_byte.is_some(), found.matches > found.shown);
        let numbers: Vec<u64> = found.lines.iter().map(|line| line.line).collect();
        proptest::prop_assert!(numbers.is_sorted());
    }
}

#[test]
fn a_search_can_be_stopped_within_a_long_line() {
    let text = "ab".repeat(1 << 18);
    for pattern in ["a[ab]{400}c", "a[ab]{1000}c", "abc"] {
        let query = SearchQuery::new(pattern, true, false).unwrap();
        let looks = std::cell::Cell::new(0);
        let stop = || {
            looks.set(looks.get() + 1);
            looks.get() >= 3
        };
        assert_eq!(super::search(&text, &query, &stop).matches, 0);
        assert!((3..=4).contains(&looks.get()), "{pattern}: {}", looks.get());
        assert!(query.window() <= 64 << 10);
    }
    let wide = SearchQuery::new("a[ab]{1000}c", true, false).unwrap();
    assert!(wide.window() < 16 << 10, "{}", wide.window());
}

#[test]
fn matches_in_long_lines_are_found_wherever_windows_end() {
    let line = 400_000;
    for (pattern, found) in [
        (r"\bneedle\b", "needle"),
        ("(?i)NEEDLE", "needle"),
        ("n[^x]{300}e", &*format!("n{}e", "é".repeat(300))),
    ] {
        let query = SearchQuery::new(pattern, true, false).unwrap();
        for at in (0..8).flat_map(|n| {
            let border = n * query.window();
            [border.saturating_sub(found.len() / 2), border, border + 1]
        }) {
            let before = "x ".repeat(at.min(line) / 2);
            let text = format!("{before}{found} {}", "x ".repeat((line - before.len()) / 2));
            let result = search(&text, &query);
            assert_eq!(result.matches, 1, "{pattern} at {at}");
            assert_eq!(result.match_limit, None);
            assert_eq!(super::search(&text, &query, &|| false), result);
            let shown = result.lines[0].byte;
            assert_eq!(shown, before.len().saturating_sub(200) as u64);
        }
    }
}

#[test]
fn borders_of_windows_are_no_borders_of_the_text() {
    let text = "x".repeat(400_000);
    for pattern in [r"\bx{3}", r"x{3}\b", "^x{3}", "x{3}$"] {
        let query = SearchQuery::new(pattern, true, false).unwrap();
        assert_eq!(search(&text, &query).matches, 1, "{pattern}");
    }
}

#[test]
fn a_result_says_up_to_which_size_matches_are_sure_to_be_found() {
    let text = format!("a{}b", "x".repeat(200_000));
    let query = SearchQuery::new("a.*b", true, false).unwrap();
    let found = search(&text, &query);
    assert_eq!(found.match_limit, Some(query.window() as u64 / 4));
    assert!(found.match_limit >= Some(2 << 10));
    // A line that is one window is searched whole.
    let found = search(&format!("a{}b", "x".repeat(5000)), &query);
    assert_eq!(found.match_limit, None);
}

#[test]
fn repetitions_count_towards_the_size_of_an_expression() {
    for refused in [r"[ab]{2000}", r"([ab]{40}){40}", r"(\d{20}x){20}"] {
        let query = SearchQuery::new(refused, true, false);
        assert_eq!(query.unwrap_err(), InvalidQuery::TooLarge, "{refused}");
    }
    for taken in [r"\w{8}", ".{0,200}error.{0,200}", "a[ab]{400}c"] {
        assert!(SearchQuery::new(taken, true, false).is_ok(), "{taken}");
    }
    // A text may be as long as a pattern.
    assert!(SearchQuery::new(&"k".repeat(2000), false, true).is_ok());
}

#[test]
fn only_expressions_and_long_texts_in_any_case_are_slow() {
    for (pattern, regex, ignore_case, quick) in [
        ("text", false, false, true),
        ("text", false, true, true),
        (&*"text".repeat(100), false, false, true),
        (&*"text".repeat(100), false, true, false),
        ("text", true, false, false),
    ] {
        let query = SearchQuery::new(pattern, regex, ignore_case).unwrap();
        assert_eq!(query.is_quick(), quick, "{pattern}");
    }
}

/// What is sent of a long output.
fn excerpt(output: &str) -> String {
    use adapters::plan::{Bounds, OutputPolicy, Retention, plan};
    let model = registry::Model::unlisted("m");
    let bounds = Bounds::for_model(&model, OutputPolicy::Adaptive, Retention::Disk);
    let call = json!({"type": "function_call", "call_id": "c", "name": "shell", "arguments": "{}"});
    let result = json!({"type": "function_call_output", "call_id": "c", "output": output});
    let body = json!({"model": "m", "input": [call, result]});
    let source = adapters::responses::request::TurnSource::new(body.to_string());
    let plan = plan(&source.turn().unwrap(), &bounds);
    plan.replacement_text(1).unwrap().to_owned()
}

/// Promise: If more lines hold a sign of trouble, a warning or a word that was asked for than are
/// shown, the excerpt names a search that finds them, and how many it finds.
#[test]
fn a_search_that_an_excerpt_names_finds_as_many_lines_as_it_says() {
    let ships = [
        "barge", "pilot", "sailor", "anchor", "lantern", "mooring", "rope",
    ];
    let ship = |at: usize| ships[at * 3 % ships.len()];
    let errors = |at: usize| match at % 9 {
        0 => format!("ERROR the {} is gone in {at}\r\n", ship(at)),
        4 => format!("Error: {} and terrors in {at}, error\n", ship(at)),
        _ => format!("the {} is at {at}\n", ship(at)),
    };
    let failures = |at: usize| match at % 11 {
        0 => format!("the {} has failed, it failed at {at}; ", ship(at)),
        _ => format!("the {} lay at {at} beside the {}; ", ship(at), ship(at + 1)),
    };
    let one_case = |at: usize| match at % 7 {
        0 => format!("fatal: no {} at {at}\n", ship(at)),
        _ => format!("the {} is at {at}\n", ship(at)),
    };
    let header = "Wall time: 0.1 seconds\nProcess exited with code 1\nOutput:\n";
    for text in [
        (0..4_000).map(errors).collect::<String>(),
        (0..4_000).map(failures).collect(),
        format!("{header}{}", (0..4_000).map(one_case).collect::<String>()),
    ] {
        let shown = excerpt(&text);
        let named: Vec<&str> = shown
            .lines()
            .filter(|line| line.contains("artifact_search {"))
            .collect();
        assert!(!named.is_empty(), "{shown}");
        for line in named {
            let (said, arguments) = line.split_once(": artifact_search ").unwrap();
            let said = said.trim_start_matches('[').split(' ').next().unwrap();
            let arguments: Value = serde_json::from_str(arguments.trim_end_matches(']')).unwrap();
            let (pattern, regex) = (arguments["query"].as_str(), arguments.get("regex"));
            let query = SearchQuery::new(pattern.unwrap(), regex.is_some(), false).unwrap();
            let matches = search(&text, &query).matches.to_string();
            assert_eq!(said, matches, "{line}");
        }
    }
}
