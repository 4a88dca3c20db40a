//! Excerpts describe the whole of an output as its form requires, and show what matters in it.

use super::*;

fn asked(text: &str, arguments: &str, message: &str) -> String {
    let measure = measure(text);
    let source = ExcerptSource::new(text, &measure, Wanted { arguments, message });
    source.excerpt("call_7", 3_800, ExcerptStyle::Adaptive, Retention::Disk)
}

const NAMES: [&str; 9] = [
    "barge", "tide", "lantern", "mooring", "gull", "anchor", "rope", "sail", "deck",
];

pub(super) fn name(at: usize) -> &'static str {
    NAMES[at * 7 % 9]
}

/// The hits of a word in files, all of them alike but for one.
fn hits() -> String {
    let hit = |at: usize| {
        let (file, line) = (name(at / 40), at % 40 * 9 + 3);
        match at {
            1_111 => "vendor/keel.c:77:    return 41_990; /* stow */\n".to_owned(),
            _ => format!("src/{file}.rs:{line}:    let {0} = stow({0});\n", name(at)),
        }
    };
    (0..1_600).map(hit).collect()
}

/// Promise: Of search results the excerpt shows those that stand out, with title and address; hits
/// in files are counted and shown by file, the oddest first.
#[test]
fn hits_are_counted_and_shown_by_file_with_the_oddest_first() {
    let shown = asked(&hits(), "grep -rn stow", "");
    assert!(
        shown.contains("1600 hits in 10 files: src/mooring.rs 200, "),
        "{shown}"
    );
    assert!(shown.contains(", vendor/keel.c 1\n"), "{shown}");
    let (_, chosen) = shown.split_once("Hits that differ").unwrap();
    let first: Vec<&str> = chosen.lines().skip(1).take(2).collect();
    assert_eq!(
        first,
        [
            "vendor/keel.c (its only hit)",
            "1112: 77:    return 41_990; /* stow */"
        ],
        "{shown}"
    );
}

#[test]
fn the_files_with_fewest_hits_are_named_where_there_are_many() {
    let hit = |at: usize| {
        let path = match at {
            700 => "lib/odd_one.rs".to_owned(),
            _ => format!("src/{}_{}.rs", name(at), at % 300),
        };
        format!("{path}:{}:    stow({});\n", at % 90 + 1, name(at + 1))
    };
    let text: String = (0..3_000).map(hit).collect();
    let shown = asked(&text, "rg stow", "");
    let head = shown.lines().find(|line| line.contains(" hits in "));
    assert!(
        head.is_some_and(
            |head| head.contains(": lib/odd_one.rs 1, ") && head.ends_with(" with as many or more")
        ),
        "{shown}"
    );
}

/// A diff of two files, in which each hunk renames a type, with these lines in the middle.
fn diff(lines: &str) -> String {
    let hunk = |at: usize| {
        format!(
            "@@ -{0},3 +{0},3 @@\n {1}(cargo);\n-let {2}: Barge = load();\n+let {2}: Vessel = load();\n stow({2});\n",
            at * 9 + 1,
            name(at),
            name(at + 1)
        )
    };
    let hunks = |from: usize| (from..from + 400).map(hunk).collect::<String>();
    let head = |file: &str| format!("diff --git a/{file} b/{file}\n--- a/{file}\n+++ b/{file}\n");
    format!(
        "{}{}{lines}{}{}",
        head("src/fleet.rs"),
        hunks(0),
        head("src/dock.rs"),
        hunks(400)
    )
}

/// Promise: The excerpt of a diff names its files with their changes, and shows binary files and
/// what looks like a key or a password in a changed line.
#[test]
fn a_diff_names_its_files_with_their_changes() {
    let lines = "diff --git a/sea.png b/sea.png\nBinary files a/sea.png and b/sea.png differ\n";
    let shown = shown(&diff(lines), 3_800);
    let head = "3 changed files, +800 -800: sea.png (binary), src/fleet.rs +400 -400, src/dock.rs +400 -400\n";
    assert!(shown.contains(head), "{shown}");
    assert!(
        shown.contains(": Binary files a/sea.png and b/sea.png differ"),
        "{shown}"
    );
}

#[test]
fn what_looks_like_a_secret_is_shown_of_a_diff() {
    let key = format!("AKIA{}", "Q7".repeat(8));
    let hex = "9f8e7d6c5b4a9f8e7d6c5b4a9f8e7d6c";
    // Each line has a name of its own, so that no line is rarer than others.
    let digest = |at: usize| format!("+let {} = \"{hex}{at}\";\n", name(at));
    let digests = |from: usize| (from..from + 30).map(digest).collect::<String>();
    let (above, below) = (digests(0), digests(30));
    for line in [
        format!("+let {} = \"{key}\";", name(77)),
        "+digest.token = \"zu8k4alpha9\";".to_owned(),
        format!("+-----BEGIN RSA {} KEY-----", "PRIVATE"),
    ] {
        let hunk = format!("@@ -9000,0 +9000,61 @@\n{above}{line}\n{below}");
        let shown = shown(&diff(&hunk), 2_400);
        assert!(shown.contains(&line), "{line} is missing:\n{shown}");
        assert!(shown.matches(hex).count() <= 4, "{shown}");
    }
}

#[test]
fn an_unchanged_line_of_a_diff_is_shown_if_it_was_asked_for() {
    let lines = "@@ -9000,3 +9000,3 @@\n moor_at(quay, FERRY_LIMIT);\n-let gull: Barge = load();\n+let gull: Vessel = load();\n stow(gull);\n";
    let line = "moor_at(quay, FERRY_LIMIT);";
    assert!(!asked(&diff(lines), "git diff", "").contains(line));
    let shown = asked(&diff(lines), "git diff", "What limits FERRY_LIMIT?");
    assert!(shown.contains(line), "{shown}");
}

fn table(row: impl Fn(usize) -> Option<String>) -> String {
    let usual = |at: usize| {
        let state = if at.is_multiple_of(5) {
            "moored"
        } else {
            "at sea"
        };
        format!("{at},{},{},{state}", name(at), 200 + at * 37 % 90)
    };
    let rows = (0..2_500).map(|at| row(at).unwrap_or_else(|| usual(at)) + "\n");
    format!("id,ship,draught,state\n{}", rows.collect::<String>())
}

/// Promise: The excerpt of a table describes its columns, and shows rows with more or fewer cells
/// and extreme numbers.
#[test]
fn a_table_is_described_by_its_columns() {
    let shown = shown(&table(|_| None), 3_800);
    assert!(
        shown.contains(
            "Table: 2500 rows, 4 columns. id: number 0..2499; ship: text, 9 values; draught: number 200..289; state: text, 2 values\n"
        ),
        "{shown}"
    );
}

#[test]
fn rows_of_another_shape_and_extreme_numbers_are_shown() {
    for row in [
        "1700,gull",
        "1700,gull,240,moored,adrift",
        "1700,gull,1412,moored",
        "1700,gull,-310,moored",
    ] {
        let text = table(|at| (at == 1_700).then(|| row.to_owned()));
        let shown = shown(&text, 1_700);
        assert!(shown.contains(&format!("1702: {row}\n")), "{row}:\n{shown}");
    }
}

/// Promise: The excerpt of a JSON document of any size and depth shows its structure, and a find
/// with the start of its row.
#[test]
fn a_find_in_a_long_row_of_json_is_shown_with_the_start_of_its_row() {
    let row = |at: usize| {
        let parts = (0..60).map(|part| {
            let word = match (at, part) {
                (31, 40) => "adrift since Monday",
                _ => name(at + part),
            };
            format!("\"part_{part}\":\"{word}\"")
        });
        let parts: Vec<String> = parts.collect();
        format!("{{\"ship\":{},{}}}", at + 40_000, parts.join(","))
    };
    let rows: Vec<String> = (0..60).map(row).collect();
    for text in [format!("[{}]", rows.join(",")), rows.join("\n")] {
        let shown = shown(&text, 3_800);
        let found = shown.lines().find(|line| line.contains("adrift since"));
        assert!(
            found.is_some_and(|line| line.contains("{\"ship\":40031,\"part_0\"")),
            "{shown}"
        );
        assert!(shown.contains("ship: number 40000"), "{shown}");
    }
}

#[test]
fn numbers_and_short_names_that_were_asked_for_are_shown() {
    let line = |at: usize| {
        let ship = match at {
            611 => "XV",
            _ => ["AB", "CD", "EF", "GH"][at % 4],
        };
        format!(
            "order {} of {ship} for hull{} took {} ms\n",
            48_000 + at * 3,
            at % 700,
            12 + at % 30
        )
    };
    let text: String = (0..3_000).map(line).collect();
    for (message, part) in [
        ("What became of order 50802?", "order 50802 of"),
        ("And of `XV`?", " of XV for"),
        ("What about hull433?", " for hull433 "),
    ] {
        let shown = asked(&text, "journal", message);
        assert!(shown.contains(part), "{message}:\n{shown}");
    }
    let others = asked(&text, "journal", "What became of order 99999?");
    assert!(!others.contains("order 50802 of"), "{others}");
}

#[test]
fn a_chinese_question_finds_its_lines_in_a_chinese_log() {
    let ports = ["上海", "宁波", "青岛", "天津", "广州", "厦门", "大连"];
    let ships = ["长风", "远航", "海燕", "东方", "白鹭", "渔歌"];
    let line = |at: usize| {
        format!(
            "信息 第{at}批货物由{}号运往{}港，已于当日装船\n",
            ships[at * 5 % 6],
            ports[at * 11 % 7]
        )
    };
    let odd = "信息 第1800批货物由白鹭号运往广州港，已于当日退关\n";
    let usual: String = (0..3_000)
        .map(|at| match at {
            1_800 => odd.to_owned(),
            // The same words apart, so that none of them is rare.
            _ if at % 40 == 7 => {
                format!("信息 第{at}批货物已退，过关手续由{}号补办\n", ships[at % 6])
            }
            _ => line(at),
        })
        .collect();
    let with = asked(&usual, "", "哪些货物退关了？");
    assert!(with.contains(odd.trim_end()), "{with}");
}

/// Promise: Lines that differ in numbers only are folded wherever they are, unless a number is odd.
#[test]
fn repeats_at_both_ends_are_folded() {
    let line = |at: usize| match at {
        ..800 | 2_200.. => format!("retry {} of the quay\n", at + 1_000),
        _ => format!("{} passes the {}\n", name(at), name(at / 9)),
    };
    let text: String = (0..3_000).map(line).collect();
    let shown = shown(&text, 3_800);
    for part in [
        "First lines:\nretry 1000 of the quay\nretry 1001 of the quay\n… 798 lines like this\nlantern passes",
        "\n… 798 lines like this\nretry 3998 of the quay\nretry 3999 of the quay\n",
    ] {
        assert!(shown.contains(part), "{part} is missing:\n{shown}");
    }
}

#[test]
fn an_odd_number_among_repeats_is_not_folded() {
    let line = |at: usize| {
        let took = if at == 40 { 98_125 } else { 12 + at * 7 % 30 };
        format!("the quay took {took} ms\n")
    };
    let text: String = (0..3_000).map(line).collect();
    let shown = shown(&text, 3_800);
    assert!(shown.contains("took 98125 ms"), "{shown}");
    assert!(shown.contains("… 38 lines like this"), "{shown}");
}

/// Promise: What an excerpt leaves out is counted in lines of the output.
#[test]
fn the_lines_left_out_are_counted_from_what_is_shown() {
    // One line, of which three parts are shown.
    let part = |at: usize| match at {
        450 => "the ferryman wants his coin first. ".to_owned(),
        1_350 => "nobody knows why a heron sleeps here. ".to_owned(),
        2_250 => "my uncle sold that lighthouse twice. ".to_owned(),
        _ => format!("{} passes the {} at noon. ", name(at), name(at / 9)),
    };
    let line: String = (0..2_700).map(part).collect();
    let text = format!("short\n{line}\nshort\n");
    let shown = shown(&text, 3_800);
    for odd in ["his coin", "a heron", "my uncle"] {
        assert!(shown.contains(odd), "{odd}:\n{shown}");
    }
    assert!(shown.contains(" characters, 0 lines]"), "{shown}");
    // Three parts of the second line and one of the third.
    let parts = vec![(2, 4), (5, 7), (8, 10), (15, 17)];
    assert_eq!(line_cut::lines_in("a\nbcdefghijk\nlmnop\nq", parts), 2);
}

/// Promise: The excerpt of code lists the definitions of the whole file, and shows what is
/// deprecated, unsafe or to be done; that of a page names its headings; that of a minified script
/// shows what it throws and its addresses.
#[test]
fn definitions_of_all_of_a_file_are_listed_with_their_lines() {
    let line = |at: usize| format!("    let {} = {}(lead);\n", name(at), name(at + 1));
    let body: String = (0..300).map(line).collect();
    let part = |at: usize| format!("fn part_{at}() {{\n{body}}}\n\n");
    let text: String = (0..12).map(part).collect();
    let shown = shown(&text, 3_800);
    for at in 1..11 {
        let line = at * 303 + 1;
        assert!(
            shown.contains(&format!("{line}: fn part_{at}() {{\n")),
            "part_{at}:\n{shown}"
        );
    }
}

#[test]
fn what_is_old_unsafe_or_to_be_done_is_shown_of_code() {
    let body = |at: usize| {
        let odd = match at {
            200 => "#[deprecated]\n",
            400 => "// TODO: sound the depth\n",
            600 => "// FIXME: the lead is short\n",
            _ => "",
        };
        let block = if at == 300 {
            "unsafe { read(lead) }"
        } else {
            "read(lead)"
        };
        format!(
            "{odd}pub fn {}_{at}(lead: u32) -> u32 {{\n    {block} + {}\n}}\n\n",
            name(at),
            at % 40
        )
    };
    let text: String = (0..800).map(body).collect();
    let shown = shown(&text, 3_800);
    for part in [
        "#[deprecated]",
        "TODO: sound",
        "FIXME: the lead",
        "unsafe { read",
    ] {
        assert!(shown.contains(part), "{part} is missing:\n{shown}");
    }
}

#[test]
fn the_headings_of_a_long_page_are_named() {
    let part = |at: usize| {
        format!(
            "<h2>On {} number {at}</h2><p>The {} passes the {} at noon.</p>",
            name(at),
            name(at + 1),
            name(at / 9)
        )
    };
    let page: String = (0..300).map(part).collect();
    let page = format!("<!DOCTYPE html><html><body>{page}</body></html>");
    let part = |at: usize| {
        format!(
            "## [On {} number {at}](https://sea.example)\n\nThe {} passes the {} at noon, as it does every day of the year.\n\n",
            name(at),
            name(at + 1),
            name(at / 9)
        )
    };
    let manual: String = (0..300).map(part).collect();
    for text in [page, manual] {
        let shown = shown(&text, 3_800);
        let head = shown.lines().find(|line| line.starts_with("300 headings"));
        assert!(
            head.is_some_and(|head| head.contains("such as: On barge number 0, On ")),
            "{shown}"
        );
    }
}

#[test]
fn errors_and_addresses_are_shown_of_minified_code() {
    let statement = |at: usize| match at {
        1_200 => "throw qz(t)}".to_owned(),
        2_300 => "r.u=\"//q.io\";r.v=\"wss://q.io/z\";".to_owned(),
        _ => format!("r.{}=function(t,n){{return t.e({},n)}};", name(at), at % 9),
    };
    let text: String = (0..4_000).map(statement).collect();
    let shown = shown(&text, 2_400);
    for part in ["throw qz(t)", "wss://q.io/z"] {
        assert!(shown.contains(part), "{part} is missing:\n{shown}");
    }
}

#[test]
fn searches_are_named_that_would_find_more() {
    let line = |at: usize| {
        let place = if at % 40 == 39 {
            " near FERRY_QUAY"
        } else {
            ""
        };
        match at % 3 {
            0 => format!("ERROR: the {} is gone in {at}{place}\n", name(at)),
            1 => format!("Error: the {} is late in {at}{place}\n", name(at)),
            _ => format!("the {} is at {at}{place}\n", name(at)),
        }
    };
    let text: String = (0..3_000).map(line).collect();
    let shown = asked(&text, "journal", "Is FERRY_QUAY blocked?");
    let warnings = text
        .replace("ERROR", "WARNING")
        .replace("Error:", "Warning:");
    let warnings = asked(&warnings, "journal", "");
    assert!(
        warnings.contains("2000 lines contain `WARNING` in small or capital letters, "),
        "{warnings}"
    );
    let id = measure(&text).id;
    for (count, query) in [
        (
            "75 lines contain `FERRY_QUAY`, ",
            "\"query\":\"FERRY_QUAY\"}]",
        ),
        (
            "2000 lines contain `ERROR` in small or capital letters, ",
            "\"query\":\"(?i)ERROR\",\"regex\":true}]",
        ),
    ] {
        let line = shown.lines().find(|line| line.contains(count));
        let line = line.unwrap_or_else(|| panic!("{count} is missing:\n{shown}"));
        assert!(
            line.ends_with(&format!("artifact_search {{\"id\":\"{id}\",{query}")),
            "{line}"
        );
    }
}
