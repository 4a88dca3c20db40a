//! The odd line of a record of several lines is shown with the line that names the record.

use super::forms::name;
use super::shown;

/// A format: what stands above the records, a record with this name and state, and the end.
type RecordForm = (&'static str, fn(&str, &str) -> String, &'static str);

const FORMS: [RecordForm; 20] = [
    (
        "",
        |ship, state| format!("[SHIP]\nhull={ship}\nflag=blue\nmast=oak\nstate={state}\n[/SHIP]\n"),
        "",
    ),
    (
        "",
        |ship, state| {
            format!("-[ RECORD ]--\nhull  | {ship}\nflag  | blue\nmast  | oak\nstate | {state}\n")
        },
        "",
    ),
    (
        "",
        |ship, state| {
            format!(
                "ship {{\n  id: \"{ship}\"\n  flag: \"blue\"\n  mast {{ wood: 1 }}\n}}  # {state}\n"
            )
        },
        "",
    ),
    (
        "ships:\n",
        |ship, state| {
            format!(
                "  - name: {ship}\n    flag: blue\n    mast: {{wood: oak}}\n    state: {state}\n"
            )
        },
        "",
    ),
    (
        "kind: List\nitems:\n",
        |ship, state| {
            format!(
                "- kind: Ship\n  metadata:\n    labels:\n      flag: blue\n    name: {ship}\n  spec:\n    mast:\n      wood: oak\n    state: {state}\n"
            )
        },
        "",
    ),
    (
        "# ships\n\n",
        |ship, state| {
            format!(
                "[[ship]]\nname = \"{ship}\"\nflag = \"blue\"\nmasts = [\n \"oak\",\n]\nstate = \"{state}\"\n\n"
            )
        },
        "",
    ),
    (
        "",
        |ship, state| format!("[{ship}]\nflag=blue\nmast=oak\nstate={state}\n"),
        "",
    ),
    (
        "version: 1\n\n",
        |ship, state| format!("dn: cn={ship},dc=sea\nflag: blue\nmast: oak\nstate: {state}\n\n"),
        "",
    ),
    (
        "",
        |ship, state| {
            format!(
                "  # ship[\"{ship}\"] will change\n  ~ resource \"ship\" \"this\" {{\n      flag = \"blue\"\n      state = \"{state}\"\n    }}\n\n"
            )
        },
        "",
    ),
    (
        "",
        |ship, state| {
            format!(
                "2026-03-01T10:00:00Z ERROR voyage of {ship} ended\nsea.LostException: the sail tore\n\tat sea.Deck.sail(Deck.java:12)\nCaused by: sea.State: {state}\n\tat sea.Deck.moor(Deck.java:40)\n"
            )
        },
        "",
    ),
    (
        "name,flag,mast,remarks\n",
        |ship, state| {
            format!("{ship},blue,oak,\"Built of wood.\nPainted twice.\nState: {state}\"\n")
        },
        "",
    ),
    (
        "<?xml version=\"1.0\"?>\n<plist>\n<array>\n",
        |ship, state| {
            format!(
                "\t<dict>\n\t\t<key>Label</key>\n\t\t<string>{ship}</string>\n\t\t<key>Flag</key>\n\t\t<string>blue</string>\n\t\t<key>Mast</key>\n\t\t<string>oak and pine, as it was when the ship was built at the quay</string>\n\t\t<key>State</key>\n\t\t<string>{state}</string>\n\t</dict>\n"
            )
        },
        "</array>\n</plist>\n",
    ),
    (
        "<fleet>",
        |ship, state| {
            format!(
                "<ship name=\"{ship}\"><flag>blue</flag><mast>oak and pine, as it was when the ship was built at the quay</mast><sail>linen, sewn by hand, and kept in the dry</sail><state>{state}</state></ship>"
            )
        },
        "</fleet>",
    ),
    (
        "<fleet>\n",
        |ship, state| {
            format!(
                "<ship>\n<flag>blue</flag>\n<mast>oak and pine, as it was when the ship was built at the quay</mast>\n<sail>linen, sewn by hand, and kept in the dry until the spring</sail>\n<name>{ship}</name>\n<state>{state}</state>\n</ship>\n"
            )
        },
        "</fleet>\n",
    ),
    (
        "",
        |ship, state| {
            let sail: String = ship.chars().rev().collect();
            format!("Kind=ship\nFlag=blue\nSail={sail}\nState={state}\nId={ship}\nMast=oak\n\n")
        },
        "",
    ),
    (
        "harbour\n",
        |ship, state| {
            format!(
                "  *-ship\n     flag: blue\n     logical name: {ship}\n     mast: oak\n     state: {state}\n"
            )
        },
        "",
    ),
    (
        "# ships\n",
        |ship, state| {
            let at = ship.rsplit('-').next().unwrap_or_default();
            format!(
                "ships[{at}].name={ship}\nships[{at}].flag=blue\nships[{at}].masts[0].wood=oak\nships[{at}].masts[1].wood={state}\n"
            )
        },
        "",
    ),
    (
        "",
        |ship, state| {
            let at = ship.rsplit('-').next().unwrap_or_default();
            format!(
                "ship.{at}.flag = blue\nship.{at}.mast = {state}\nship.{at}.name = {ship}\nship.{at}.sail = linen\n"
            )
        },
        "",
    ),
    (
        "msgid \"\"\nmsgstr \"\"\n",
        |ship, state| {
            format!(
                "#. Where: {state}\n#. Flag: blue\nmsgctxt \"{ship}\"\nmsgid \"Go\"\nmsgstr \"Los\"\n"
            )
        },
        "",
    ),
    (
        "BEGIN:FLEET\n",
        |ship, state| {
            format!("BEGIN:SHIP\nFLAG:blue\nSUMMARY:Moor {ship}\nSTATE:{state}\nEND:SHIP\n")
        },
        "END:FLEET\n",
    ),
];

fn ship(at: usize) -> String {
    format!("{}-{}", name(at), 40_000 + at * 7)
}

#[test]
fn an_odd_line_is_shown_with_the_line_that_names_its_record() {
    for (head, record, end) in FORMS {
        let records = (0..1_500).map(|at| {
            let state = if at == 700 { "adrift" } else { "moored" };
            record(&ship(at), state)
        });
        let text = format!("{head}{}{end}", records.collect::<String>());
        let shown = shown(&text, 3_800);
        for part in ["adrift", &ship(700)] {
            assert!(
                shown.contains(part),
                "{part} is missing of {head}:\n{shown}"
            );
        }
    }
}

#[test]
fn xml_that_is_no_page_keeps_its_tags() {
    let record = |at: usize| {
        let state = if at == 700 { "adrift" } else { "moored" };
        format!(
            "<ship name=\"{}\"><state since=\"{at}\">{state}</state></ship>",
            ship(at)
        )
    };
    let records: String = (0..1_500).map(record).collect();
    for text in [
        format!("<fleet>{records}</fleet>"),
        format!(
            "<fleet>\n{}</fleet>\n",
            records.replace("</ship>", "</ship>\n")
        ),
    ] {
        let shown = shown(&text, 3_800);
        assert!(shown.contains(&record(700)), "{shown}");
        assert!(shown.contains("kind: file_or_code_output"), "{shown}");
    }
}

#[test]
fn a_value_that_is_like_no_other_is_shown_of_a_list_of_settings() {
    let line = |at: usize| {
        let value = match at {
            700 => "/opt/tide/hook".to_owned(),
            900 => "adrift".to_owned(),
            1_100 => "48123456".to_owned(),
            _ if at.is_multiple_of(3) => "retry".to_owned(),
            _ => (at % 90 * 16).to_string(),
        };
        let end = ["on_error", "panic_max", "fail_limit"][at % 3];
        format!(
            "sea.{}.{}_{}_{end} = {value}\n",
            name(at),
            name(at / 9),
            name(at / 81)
        )
    };
    let text: String = (0..1_500).map(line).collect();
    let shown = shown(&text, 3_800);
    for at in [700, 900, 1_100] {
        assert!(shown.contains(line(at).trim_end()), "{at}:\n{shown}");
    }
}

#[test]
fn a_sign_of_trouble_in_a_name_that_many_lines_have_says_nothing() {
    let line = |at: usize| match at % 4 {
        0 => format!("  on_failure: {}\n", ["restart", "leave"][at / 4 % 2]),
        1 => format!("  mast: {}\n", name(at / 4)),
        2 => format!("  flag: {}\n", name(at / 36)),
        _ => format!("- ship: {}\n", name(at)),
    };
    let text: String = (0..4_000).map(line).collect();
    let shown = shown(&text, 3_800);
    let between = shown
        .split_once("Between them")
        .map_or("", |(_, rest)| rest);
    let between = between
        .split_once("Last lines")
        .map_or(between, |(middle, _)| middle);
    assert!(!between.contains("on_failure"), "{shown}");
}
