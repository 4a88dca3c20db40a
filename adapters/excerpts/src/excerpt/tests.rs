//! Excerpts of every kind of output.

mod forms;
mod records;

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::measure;

const ALL: [Retention; 3] = [Retention::Disk, Retention::Memory, Retention::Nothing];

fn shown(text: &str, limit: usize) -> String {
    let measure = measure(text);
    let source = ExcerptSource::new(text, &measure, Wanted::default());
    source.excerpt("call_7", limit, ExcerptStyle::Adaptive, Retention::Disk)
}

/// Makes an excerpt, and asserts what holds for every excerpt.
fn check(text: &str, limit: usize, style: ExcerptStyle, retention: Retention) -> String {
    checked(text, &measure(text), limit, style, retention)
}

fn checked(
    text: &str,
    measure: &OutputMeasure,
    limit: usize,
    style: ExcerptStyle,
    retention: Retention,
) -> String {
    let source = ExcerptSource::new(text, measure, Wanted::default());
    let shown = source.excerpt("call_7", limit, style, retention);
    assert!(shown.chars().count() <= limit.clamp(MIN_EXCERPT_CHARS, MAX_EXCERPT_CHARS));
    assert!(shown.starts_with(SHORTENED_MARK));
    // Only what can be read back is named.
    assert_eq!(shown.contains("art_"), retention != Retention::Nothing);
    assert_eq!(shown.contains(&measure.id), retention != Retention::Nothing);
    assert!(shown.contains("[Left out: "));
    assert!(shown.ends_with(read_hint(retention)));
    shown
}

fn log(lines: usize) -> String {
    let mut log = String::from(
        "Chunk ID: 9b4dde\nWall time: 1.5 seconds\nProcess exited with code 101\nOriginal token count: 924828\nOutput:\n",
    );
    for i in 0..lines {
        let what = ["build", "link", "check", "build"][i % 4];
        let _ = writeln!(log, "step {i} of the {what} is done");
        if i == lines / 2 {
            log.push_str("error: src/cart.rs:12: no such field\nwarning: C:\\a\\b.py is unused\n");
        }
    }
    log
}

// Some of the cases are large.
proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn no_text_has_an_excerpt_above_the_limit(
        seed in "(?s).{0,300}",
        line in "[ -~]{0,90}\n|[潮汐海水的]{1,60}\n|\\{\"a\":\\[1,|<p>[a-z]{1,9}</p>",
        times in prop_oneof![0_usize..60, 0_usize..3_000],
        limit in 0_usize..6_000,
        fixed in any::<bool>(),
    ) {
        let text = format!("{seed}{}{seed}", line.repeat(times));
        let style = if fixed { ExcerptStyle::Fixed } else { ExcerptStyle::Adaptive };
        let measure = measure(&text);
        for retention in ALL {
            let shown = checked(&text, &measure, limit, style, retention);
            prop_assert_eq!(&shown, &checked(&text, &measure, limit, style, retention));
            for is_instructions in [false, true] {
                prop_assert!(notice(&measure, is_instructions, retention).chars().count() <= 200);
            }
        }
    }
}

#[test]
fn five_megabytes_of_any_kind_stay_below_the_limit() {
    for piece in [
        "潮汐表",
        "a line of words\n",
        "{\"a\":[1,2]}\n",
        "x",
        "<b>x</b>",
        "[",
        "fn a() {\n}\n",
        "error\n",
    ] {
        let text = piece.repeat(5_000_000 / piece.len());
        let measure = measure(&text);
        for limit in [300, 50_000] {
            checked(
                &text,
                &measure,
                limit,
                ExcerptStyle::Adaptive,
                Retention::Memory,
            );
        }
    }
}

/// Promise: The excerpt of a command's output shows the exit code, the first and last lines, and
/// the errors and paths from the middle; that of any output shows a sentence, value or number that
/// is odd among the others, in any form and language, and the line that names the record in which
/// it stands. An excerpt states the artifact, kind, sizes, call, exit code and token count, shows
/// the relevant parts, and says what was left out and how to read it.
#[test]
fn a_command_excerpt_shows_errors_and_paths_of_the_middle() {
    let text = log(9_000);
    let shown = shown(&text, 5_000);
    for part in [
        "kind: command_output",
        "call: call_7",
        "exit code: 101",
        "Original token count: 924828",
        "step 0 of the build",
        "step 8999 of the build",
        "4507: error: src/cart.rs:12: no such field",
        "4508: warning: C:\\a\\b.py is unused",
        " lines]",
    ] {
        assert!(shown.contains(part), "{part} is missing:\n{shown}");
    }
    assert!(
        shown.chars().count() > 4_000,
        "the room is not used: {shown}"
    );
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[4_506].starts_with("error: "),
        "the number is that of the line"
    );
}

#[test]
fn the_line_behind_an_error_is_shown_with_it() {
    let quiet = "   Compiling parser v0.1.0\n   Fresh lexer v0.1.0\n".repeat(450);
    let text = format!(
        "{quiet}error[E0308]: mismatched types\n  --> src/parse/mod.rs:120:9\n   |\n{quiet}"
    );
    let shown = shown(&text, 2_000);
    assert!(
        shown
            .contains("\n901: error[E0308]: mismatched types\n902:   --> src/parse/mod.rs:120:9\n"),
        "{shown}"
    );
}

#[test]
fn unix_and_windows_paths_are_found() {
    let text = "at src/x.rs:12 and C:\\a\\b.py, \"/etc/hosts\" (../up/one.c) main.go:3 https://a.example/b.html x/y and 1/2";
    let found = super::super::paths::find_paths(text, 12);
    assert_eq!(
        found,
        [
            "src/x.rs:12",
            "C:\\a\\b.py",
            "/etc/hosts",
            "../up/one.c",
            "main.go:3"
        ]
    );
}

/// Promise: The excerpt of a web page or a search result shows titles, addresses and snippets, and
/// no tags; other XML keeps them.
#[test]
fn a_page_excerpt_shows_titles_and_urls_but_no_tags() {
    let mut page = String::from(
        "<!DOCTYPE html><html><head><title>Tides</title><script>var minified=function(a){return a};</script></head><body>",
    );
    for i in 0..3_000 {
        let _ = write!(
            page,
            "<div class='r'><h2><a href=\"https://sea.example/{i}\">Tide {i}</a></h2><p>The sea &amp; the moon, part {i}.</p></div>"
        );
    }
    let shown = shown(&page, 5_000);
    for part in [
        "kind: web_or_search",
        "# [Tide 0](https://sea.example/0)\nThe sea & the moon, part 0.",
    ] {
        assert!(shown.contains(part), "{part} is missing:\n{shown}");
    }
    for part in ["<div", "</", "minified", "href="] {
        assert!(!shown.contains(part), "{part} is shown:\n{shown}");
    }
    let result = |i: usize| {
        format!(
            "Title: Bread {i}\nURL: https://bread.example/{i}\nSnippet: Flour and water, {i}.\n\n"
        )
    };
    let results: String = (0..900).map(result).collect();
    let shown = super::tests::shown(&results, 3_000);
    assert!(
        shown
            .contains("Title: Bread 3\nURL: https://bread.example/3\nSnippet: Flour and water, 3."),
        "{shown}"
    );
}

// A reader that looks at the rest of such a page again and again does not end.
#[test]
fn hostile_pages_are_read_in_one_pass() {
    let size = 500_000;
    for (name, piece, end) in [
        ("words between carriage returns", "a\r", ""),
        ("words between wide spaces", "a\u{3000}", ""),
        ("words between no-break spaces", "a&nbsp;", ""),
        ("signs that open no tag", "<", ""),
        ("signs before blanks", "< ", ""),
        ("tags that never end", "<a ", ""),
        ("deep nesting", "<div>", ""),
        (
            "links that never end",
            "<a href='https://a.example'>",
            "</a>",
        ),
        ("comments that never end", "<!-- ", ""),
        ("scripts that never end", "<script>", "</"),
        ("ends of other elements in a drawing", "</a>", "<svg></svg>"),
        ("ampersands", "&", ""),
    ] {
        let text = format!(
            "<html></html><svg></svg>{}{end}",
            piece.repeat(size / piece.len())
        );
        let measure = measure(&text);
        assert_eq!(measure.kind, OutputKind::WebOrSearch, "{name}");
        checked(
            &text,
            &measure,
            5_000,
            ExcerptStyle::Adaptive,
            Retention::Memory,
        );
    }
}

#[test]
fn the_text_of_a_page_has_no_markup() {
    let title =
        "<!DOCTYPE html><html><head><title>Tides &amp; more</title><style>a{b}</style></head>";
    for (html, expected) in [
        (
            "<p>The&nbsp;sea\r\n and <b>the</b>\n moon<p>rise",
            "The sea\nand the\nmoon\nrise",
        ),
        (
            "<H2 class='a > b'>Spring</H2>next<br/>line",
            "# Spring\nnext\nline",
        ),
        (
            "<ul><li>one<li>two</ul><table><tr><td>a<td>b<tr><th>c</table>",
            "- one\n- two\na b\nc\n",
        ),
        (
            "<a class=x href=\"https://a.example/?b=1&amp;c=2\">See\nit</a>, <a href='/local'>here</a>",
            "[See it](https://a.example/?b=1&c=2), here",
        ),
        ("<a href=https://a.example></a>nothing", "nothing"),
        (
            "a<!-- <p>b --><script>if (1 < 2) '</p>'</script><svg><title>c</title></svg><svg/>d",
            "ad",
        ),
        ("1 < 2 &mdash; &eacute;&#x41;&#1;", "1 < 2 — éA"),
        ("<template><p>a</template>b<script>c", "b"),
    ] {
        assert_eq!(
            super::html::plain(&format!("{title}{html}")),
            format!("# Tides & more\n{expected}"),
            "{html}"
        );
    }
}

#[test]
fn a_json_excerpt_shows_the_shape() {
    let rows: Vec<String> = (0..30_000)
        .map(|i| {
            format!(
                "{{\"id\":{i},\"tags\":[\"a\",\"b\"],\"note\":null,\"text\":\"{}\"}}",
                "x".repeat(40)
            )
        })
        .collect();
    let text = format!(
        "{{\"total\":30000,\"rows\":[{}],\"next\":true}}",
        rows.join(",")
    );
    let shown = shown(&text, 5_000);
    for part in [
        "kind: json",
        "$: object, 3 keys",
        "total: number 30000",
        "rows: array of 30000",
        "id: number 0",
        "tags: array of 2",
        "text: string of 40",
        "next: boolean true",
        "no whole JSON",
    ] {
        assert!(shown.contains(part), "{part} is missing:\n{shown}");
    }
    let deep = format!("{}1{}", "[{\"a\":".repeat(5_000), "}]".repeat(5_000));
    assert!(check(&deep, 5_000, ExcerptStyle::Adaptive, Retention::Disk).contains("$: array of 1"));
}

#[test]
fn a_file_excerpt_shows_definitions() {
    let part = |i: usize| {
        format!("/// Part {i}.\npub fn part_{i}(count: u64) -> u64 {{\n    count + {i}\n}}\n\n")
    };
    let text: String = (0..900).map(part).collect();
    let shown = shown(&text, 4_000);
    assert!(shown.contains("kind: file_or_code_output"));
    assert!(
        shown.lines().any(|line| line.contains(": pub fn part_")
            && line.starts_with(|c: char| c.is_ascii_digit()))
    );
}

/// Promise: Of a tool result of 924,828 tokens that Codex truncated, the excerpt keeps `Original
/// token count: 924828` and only the beginning of minified code, in at most 5,000 characters.
#[test]
fn an_excerpt_of_minified_assets_shows_only_the_beginning() {
    let text = format!(
        "Original token count: 924828\nOutput:\n{}",
        "a.b=function(t){return t.c(1)};".repeat(60_000)
    );
    let shown = shown(&text, 5_000);
    assert!(shown.contains("kind: opaque_tool_output") && shown.contains("924828"));
    assert!(shown.chars().count() < 1_000, "{shown}");
}

#[test]
fn fixed_excerpts_show_1200_characters_of_both_ends() {
    let text = log(9_000);
    let shown = check(&text, 5_000, ExcerptStyle::Fixed, Retention::Disk);
    let (_, first) = shown.split_once("First lines:\n").unwrap();
    let (first, _) = first.split_once("Between them").unwrap();
    assert!((1_100..=1_200).contains(&first.chars().count()));
    let (_, last) = shown.split_once("Last lines:\n").unwrap();
    let (last, _) = last.split_once("[Left out").unwrap();
    assert!((1_100..=1_200).contains(&last.chars().count()));
}

/// Promise: Without an artifact store, or where it has no room, outputs are bounded as well, and
/// the excerpt says that the rest was not kept and names no artifact.
#[test]
fn an_excerpt_says_where_the_rest_is_kept() {
    let text = log(9_000);
    for (retention, part) in [
        (Retention::Disk, "artifact_read"),
        (Retention::Memory, "While the server keeps it in memory"),
        (Retention::Nothing, "was not kept"),
    ] {
        assert!(check(&text, 2_000, ExcerptStyle::Adaptive, retention).contains(part));
        let notice = notice(&measure(&text), false, retention);
        let is_named = notice.contains(measure(&text).id.as_str());
        assert_eq!(is_named, retention != Retention::Nothing, "{notice}");
    }
}
