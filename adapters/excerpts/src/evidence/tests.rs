//! What is odd in a text is in its excerpt, whatever the form and the language.

use std::cell::Cell;

use super::tokens::{TokenKind, Tokens};
use super::*;
use crate::Retention;
use crate::{ExcerptSource, ExcerptStyle, measure};

fn shown(text: &str, wanted: Wanted<'_>) -> String {
    let measure = measure(text);
    let source = ExcerptSource::new(text, &measure, wanted);
    source.excerpt("call_7", 3_500, ExcerptStyle::Adaptive, Retention::Disk)
}

/// A number that seems random, below `limit`, and the same for the same arguments.
fn noise(at: usize, salt: usize, limit: usize) -> usize {
    let mixed = mix(at as u64 + 1, salt as u64 + 1);
    usize::try_from(mixed % limit as u64).unwrap()
}

const WORDS: [&str; 24] = [
    "barge", "tide", "lantern", "mooring", "gull", "anchor", "rope", "sail", "deck", "harbour",
    "pilot", "buoy", "chart", "mast", "oar", "keel", "cargo", "dock", "reef", "shoal", "wind",
    "wave", "shore", "crew",
];

fn word(at: usize, salt: usize) -> &'static str {
    WORDS[noise(at, salt, WORDS.len())]
}

/// Forms of output: what is printed above all, one piece of it, and the end.
type OutputForm = (
    &'static str,
    &'static str,
    fn(usize) -> String,
    &'static str,
);

const FORMS: [OutputForm; 10] = [
    (
        "a log",
        "",
        |at| {
            format!(
                "2026-03-01T10:{:02}:{:02}Z INFO {} request {} took {} ms\n",
                at / 60 % 60,
                at % 60,
                word(at, 1),
                noise(at, 2, 90_000),
                12 + noise(at, 3, 28)
            )
        },
        "",
    ),
    (
        "a Chinese log",
        "",
        |at| {
            format!(
                "2026-03-01 信息 处理第{}批货物完成，用时{}毫秒\n",
                noise(at, 2, 900),
                12 + noise(at, 3, 28)
            )
        },
        "",
    ),
    (
        "a table",
        "id,ship,latency,state\n",
        |at| {
            format!(
                "{at},{}-{},{},ok\n",
                word(at, 1),
                noise(at, 2, 90),
                12 + noise(at, 3, 28)
            )
        },
        "",
    ),
    (
        "JSON",
        "[",
        |at| {
            format!(
                "{{\"id\":{at},\"ship\":\"{}\",\"ms\":{}}},",
                word(at, 1),
                12 + noise(at, 3, 28)
            )
        },
        "{}]",
    ),
    (
        "JSON on lines",
        "",
        |at| {
            format!(
                "{{\"id\":{at},\"ship\":\"{}\",\"ms\":{}}}\n",
                word(at, 1),
                12 + noise(at, 3, 28)
            )
        },
        "",
    ),
    (
        "a page",
        "<!DOCTYPE html><html><body>",
        |at| {
            format!(
                "<div class=r{at}><h3><a href=/{at}>{}</a></h3><p>The <b>{}</b> passed the {} in {} minutes.</p></div>",
                word(at, 1),
                word(at, 2),
                word(at, 4),
                12 + noise(at, 3, 28)
            )
        },
        "</body></html>",
    ),
    (
        "code",
        "",
        |at| {
            format!(
                "fn {}_{at}(x: u32) -> u32 {{\n    let {} = x.add({});\n    {}\n}}\n\n",
                word(at, 1),
                word(at, 2),
                noise(at, 3, 40),
                word(at, 2)
            )
        },
        "",
    ),
    (
        "a search",
        "",
        |at| {
            format!(
                "src/{}/{}.rs:{}:    let {} = load({});\n",
                word(at, 1),
                word(at, 2),
                noise(at, 5, 900),
                word(at, 4),
                12 + noise(at, 3, 28)
            )
        },
        "",
    ),
    (
        "minified code",
        "",
        |at| {
            format!(
                "function {}(a,b){{return {}.d[{}]}};",
                word(at, 1).get(..2).unwrap(),
                word(at, 2).get(..1).unwrap(),
                noise(at, 3, 40)
            )
        },
        "",
    ),
    (
        "prose",
        "",
        |at| {
            format!(
                "The {} lay at the {} while the {} went out with the {}, and nobody on the {} saw it.\n\n",
                word(at, 1),
                word(at, 2),
                word(at, 3),
                word(at, 4),
                word(at, 5)
            )
        },
        "",
    ),
];

/// The output with `odd` in the middle, in the form of its pieces.
fn with_odd((_, head, piece, end): &OutputForm, odd: impl Fn(&str) -> String) -> String {
    let pieces = (0..2_500).map(|at| {
        let piece = piece(at);
        if at == 1_600 { odd(&piece) } else { piece }
    });
    format!("{head}{}{end}", pieces.collect::<String>())
}

/// Where a piece ends its text.
fn insert(piece: &str, text: &str) -> String {
    for end in ["</p>", "}},", "\"}", "}", "\n"] {
        if let Some((start, rest)) = piece.rsplit_once(end) {
            return match end {
                "}" if piece.contains('"') => format!("{start},\"note\":\"{text}\"{end}{rest}"),
                _ => format!("{start} {text}{end}{rest}"),
            };
        }
    }
    format!("{piece}{text}")
}

#[test]
fn one_odd_sentence_is_shown_in_every_form() {
    for form in &FORMS {
        for odd in [
            "could not attach the winch: handshake rejected",
            "the ferryman wants his coin first",
            "never feed the lighthouse keeper after dusk",
        ] {
            let text = with_odd(form, |piece| insert(piece, odd));
            assert!(text.contains(odd));
            let shown = shown(&text, Wanted::default());
            assert!(
                shown.contains(odd),
                "{}: {odd} is missing:\n{shown}",
                form.0
            );
        }
    }
}

#[test]
fn one_odd_number_is_shown_where_numbers_are_alike() {
    for form in FORMS.iter().filter(|form| form.0 != "prose") {
        let text = with_odd(form, |piece| {
            let is_digit = |it: char| it.is_ascii_digit();
            let end = piece.rfind(is_digit).unwrap() + 1;
            let (start, end) = piece.split_at_checked(end).unwrap();
            format!("{}9812{end}", start.trim_end_matches(is_digit))
        });
        let shown = shown(&text, Wanted::default());
        assert!(shown.contains("9812"), "{}:\n{shown}", form.0);
    }
}

#[test]
fn one_odd_value_is_shown_where_values_are_alike() {
    let row = |at: usize| {
        let state = if at == 1_700 { "paused" } else { "active" };
        format!(
            "{}-{at}   1/1   {state}   {}d\n",
            word(at, 1),
            noise(at, 2, 90)
        )
    };
    let text: String = (0..3_000).map(row).collect();
    let shown = shown(&text, Wanted::default());
    assert!(shown.contains("1/1   paused"), "{shown}");
    assert!(shown.contains("1701: "), "{shown}");
}

#[test]
fn a_common_word_in_an_odd_place_is_shown() {
    let line = |at: usize| {
        let first = ["sunk", "left", "paid"][at % 3];
        let then = match at {
            1_703 => "sunk",
            _ => ["painted", "mended"][at % 2],
        };
        format!(
            "The {} had {first} its {} and was {then} on the {} day.\n",
            word(at, 1),
            word(at, 2),
            word(at, 3)
        )
    };
    let text: String = (0..3_000).map(line).collect();
    let shown = shown(&text, Wanted::default());
    assert!(shown.contains("was sunk"), "{shown}");
}

#[test]
fn what_the_call_or_the_user_asked_for_is_shown() {
    let line = |at: usize| {
        let ship = if at % 300 == 150 {
            "gondola"
        } else {
            word(at, 1)
        };
        format!("entry {at} of ship_{ship}x: {}\n", word(at, 2))
    };
    let text: String = (0..3_000).map(line).collect();
    let near = |shown: &str| shown.matches("ship_gondolax").count();
    let without = shown(&text, Wanted::default());
    for wanted in [
        Wanted {
            arguments: "{\"cmd\":\"list --only ship_gondolax\"}",
            message: "",
        },
        Wanted {
            arguments: "{}",
            message: "Why is ship_gondolax late?",
        },
    ] {
        let with = shown(&text, wanted);
        assert!(near(&with) > near(&without), "{wanted:?}:\n{with}");
    }
}

#[test]
fn a_plain_word_of_the_arguments_is_shown() {
    let line = |at: usize| {
        let ship = if at % 300 == 150 {
            "gondola"
        } else {
            word(at, 1)
        };
        format!("entry {at} of the {ship}: {}\n", word(at, 2))
    };
    let text: String = (0..3_000).map(line).collect();
    let near = |shown: &str| shown.matches("of the gondola").count();
    let without = shown(&text, Wanted::default());
    let wanted = Wanted {
        arguments: "{\"cmd\":\"list --only gondola\"}",
        message: "",
    };
    let with = shown(&text, wanted);
    assert!(near(&with) > near(&without), "{with}");
}

#[test]
fn an_odd_search_result_is_shown_with_its_title_and_address() {
    let result = |at: usize| {
        let snippet = match at {
            700 => "The ferryman wants his coin first.".to_owned(),
            _ => format!(
                "The {} passed the {} and the {}.",
                word(at, 3),
                word(at, 4),
                word(at, 5)
            ),
        };
        format!(
            "Title: {} of {}\nURL: https://{}.example/{at}\nSnippet: {snippet}\n\n",
            word(at, 1),
            word(at, 2),
            word(at, 6)
        )
    };
    let text: String = (0..1_500).map(result).collect();
    let shown = shown(&text, Wanted::default());
    let result = result(700);
    let lines = result.lines().take(3).zip(2_801..);
    let odd: Vec<String> = lines.map(|(line, at)| format!("{at}: {line}")).collect();
    let odd = odd.join("\n");
    assert!(shown.contains(&odd), "{odd} is missing:\n{shown}");
}

/// A diff in which every change renames a type, with these lines in the middle of one hunk.
fn rename(lines: &str) -> String {
    let hunk = |at: usize| {
        let (first, second) = (word(at, 1), word(at, 2));
        format!(
            "@@ -{0},4 +{0},4 @@\n {first}_{at}(cargo);\n-let {second}: Barge = load();\n+let {second}: Vessel = load();\n stow({first}, {second}_{at});\n moor{at}(quay{at});\n",
            at * 9 + 1
        )
    };
    let hunks: Vec<String> = (0..900).map(hunk).collect();
    let (above, below) = hunks.split_at(511);
    let added = format!(
        "@@ -4700,1 +4700,{} @@\n hull\n{lines}",
        lines.lines().count() + 1
    );
    let head = "diff --git a/fleet.rs b/fleet.rs\n--- a/fleet.rs\n+++ b/fleet.rs\n";
    format!("{head}{}{added}{}", above.concat(), below.concat())
}

#[test]
fn a_change_of_another_sort_is_shown_among_the_lines_of_a_diff() {
    for line in ["+const DRAFT: u32 = 91_250;", "+// Skip the customs."] {
        let shown = shown(&rename(&format!("{line}\n")), Wanted::default());
        assert!(shown.contains(line), "{shown}");
    }
}

#[test]
fn the_lines_of_a_conflict_are_shown() {
    let conflict =
        "+<<<<<<< HEAD\n+let cargo = load();\n+=======\n+let cargo = stow();\n+>>>>>>> tide\n";
    let shown = shown(&rename(conflict), Wanted::default());
    assert!(shown.contains("+<<<<<<< HEAD"), "{shown}");
}

#[test]
fn an_odd_value_is_shown_with_the_object_around_it() {
    let row = |at: usize| {
        let state = if at == 777 { "adrift" } else { "moored" };
        format!(
            "  {{\n    \"ship\": {},\n    \"berth\": {{\"quay\": {}}},\n    \"state\": \"{state}\"\n  }}",
            at + 40_000,
            noise(at, 4, 30)
        )
    };
    let rows: Vec<String> = (0..1_400).map(row).collect();
    let shown = shown(&format!("[\n{}\n]\n", rows.join(",\n")), Wanted::default());
    let object = shown.lines().find(|line| line.contains("adrift"));
    assert!(
        object.is_some_and(|line| line.contains("\"ship\": 40777,")),
        "{shown}"
    );
}

const TROUBLES: [&str; 12] = [
    "unsafe", "invalid", "corrupt", "lost", "stale", "missing", "broken", "denied", "orphaned",
    "leaked", "stuck", "aborted",
];

#[test]
fn a_rare_value_of_a_column_is_shown_among_cells_of_free_text() {
    let row = |at: usize| {
        let state = match at {
            37 => "Draft",
            91 => "Void",
            187 => "Escrow",
            260 => "Held",
            333 => "Split",
            _ => ["Open", "Open", "Closed", "Open or Closed"][noise(at, 1, 4)],
        };
        let text: Vec<&str> = (2..12).map(|salt| word(at, salt)).collect();
        let trouble = match at % 11 {
            4 => TROUBLES[at / 11 % TROUBLES.len()],
            _ => word(at, 20),
        };
        format!("{at},{state},\"The {} of the {trouble}\"\n", text.join(" "))
    };
    let text: String = (0..400).map(row).collect();
    let shown = shown(&text, Wanted::default());
    assert!(shown.contains("187,Escrow"), "{shown}");
}

#[test]
fn a_message_near_the_start_of_a_script_is_shown() {
    let statement = |at: usize| {
        format!(
            "function a{at}(t,n){{return t.{}(n,{})}}",
            word(at, 1),
            noise(at, 2, 900)
        )
    };
    for before in 1..12 {
        let head: String = (0..before).map(statement).collect();
        let rest: String = (20..900).map(statement).collect();
        let message = "throw new Error(\"tides need a shore with a harbour\")";
        let text = format!("!function(){{{head}{message};{rest}}}();");
        let shown = shown(&text, Wanted::default());
        assert!(shown.contains(message), "{before}: {shown}");
    }
}

#[test]
fn separators_in_quotes_do_not_end_a_cell() {
    let row = |at: usize| {
        let flag = if at == 600 { "PA" } else { "NO" };
        let (first, second) = (word(at, 1), word(at, 2));
        format!(
            "{},\"{first}, {second}{}\",{flag},\"{second}'s {first}{}, with, {}\"\n",
            word(at, 3),
            noise(at, 4, 9_000),
            noise(at, 5, 9_000),
            noise(at, 6, 9_000)
        )
    };
    let table: String = (0..1_500).map(row).collect();
    let shown = shown(&table, Wanted::default());
    assert!(shown.contains(&row(600)), "{shown}");
}

#[test]
fn a_sign_that_many_lines_have_is_counted() {
    let line = |at: usize| match at % 3 {
        0 => format!("error: {} is gone in {at}\n", word(at, 1)),
        _ => format!("{} is at {at}\n", word(at, 1)),
    };
    let text: String = (0..3_000).map(line).collect();
    let shown = shown(&text, Wanted::default());
    assert!(shown.contains("[1000 lines contain `error`"), "{shown}");
}

#[test]
fn lines_that_differ_in_numbers_only_are_counted_once() {
    let line = |at: usize| match at {
        500..560 => format!("warning: buoy {at} drifts\n"),
        _ => format!("the {} passed the {}\n", word(at, 1), word(at, 2)),
    };
    let text: String = (0..3_000).map(line).collect();
    let shown = shown(&text, Wanted::default());
    assert!(shown.matches("drifts").count() <= 3, "{shown}");
    assert!(
        shown.contains("warning: buoy 501 drifts … 58 more lines like this"),
        "{shown}"
    );
}

/// The tokens of a text with their kinds.
fn kinds(text: &str) -> Vec<(&str, TokenKind)> {
    let mut tokens = Tokens::new(text.as_bytes());
    let mut at = 0;
    let mut kinds = Vec::new();
    while let Some(token) = tokens.next(at, text.len()) {
        kinds.push((text.get(token.start..token.end).unwrap(), token.kind));
        at = token.end;
    }
    kinds
}

#[test]
fn words_numbers_and_names_are_told_apart() {
    use TokenKind::{Character, Id, Number, Word};
    assert_eq!(
        kinds("took 12.5ms at sha256_sum, 3fa85f6402 über 潮汐 x"),
        [
            ("took", Word),
            ("12.5", Number),
            ("ms", Word),
            ("at", Word),
            ("sha256_sum", Word),
            ("3fa85f6402", Id),
            ("über", Word),
            ("潮", Character),
            ("汐", Character),
            ("x", Word),
        ]
    );
    let hash = |text: &str| {
        Tokens::new(text.as_bytes())
            .next(0, text.len())
            .unwrap()
            .hash
    };
    assert_eq!(hash("Request17"), hash("REQUEST42"));
    assert_ne!(hash("request"), hash("response"));
    let magnitude = |text: &str| hash(text) & 0xffff;
    assert_eq!(magnitude("412"), magnitude("00450"));
    assert!(magnitude("412") < magnitude("4120"));
    assert!(magnitude("0.04") < magnitude("0.4"));
    assert!(magnitude("0.4") < magnitude("4"));
}

#[test]
fn a_number_may_begin_with_any_number_of_zeros() {
    for zeros in 0..40 {
        let number = format!("{}7", "0".repeat(zeros));
        assert_eq!(kinds(&number), [(number.as_str(), TokenKind::Number)]);
    }
}

#[test]
fn a_small_number_has_its_value() {
    for number in [0_u64, 7, 10, 42, 99, 100, 905, 1_000, 4_096, 9_999] {
        let text = format!("{number} ms");
        let token = Tokens::new(text.as_bytes()).next(0, text.len()).unwrap();
        assert_eq!(token.hash >> 32 & 0xffff, number + 1, "{text}");
    }
}

/// What is searched for a client that left is left within a block, whatever its form.
#[test]
fn a_search_for_evidence_that_is_stopped_reads_one_more_block() {
    let line = "The barge waits at the mooring, and the tide turns.\n";
    let lines = line.repeat((1 << 20) / line.len());
    for (form, text) in [
        (Form::Lines, lines.clone()),
        (Form::Minified, lines.replace('\n', " ")),
        (Form::Page, lines.replace('\n', "<p>")),
        (Form::Table(b','), lines),
    ] {
        let looks = Cell::new(0);
        let read_until_look = |last: usize| {
            looks.set(0);
            let is_stopped = || {
                looks.set(looks.get() + 1);
                looks.get() >= last
            };
            search(&text, form, Wanted::default(), &is_stopped).units
        };
        let all = read_until_look(usize::MAX);
        assert!((14..=17).contains(&looks.get()), "{form:?}: {looks:?}");
        assert_eq!(read_until_look(1), 0, "{form:?}");
        let part = read_until_look(3);
        assert!(
            (all / 9..=all / 7).contains(&part),
            "{form:?}: {part} of {all}"
        );
    }
}
