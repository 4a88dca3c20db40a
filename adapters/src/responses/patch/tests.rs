use proptest::prelude::*;

use super::*;

const GOOD: &str = "*** Begin Patch\n*** Update File: a.rs\n@@ fn main() {\n-    old();\n+    new();\n }\n*** End Patch\n";

fn repaired_text(input: &str) -> Option<String> {
    repair(input, true).map(|repaired| repaired.text)
}

#[test]
fn unambiguous_errors_are_repaired() {
    let json = |key: &str| serde_json::json!({ key: GOOD }).to_string();
    let cases = [
        ("fence", format!("```\n{GOOD}```")),
        ("fence with a language", format!("```diff\n{GOOD}```\n")),
        ("fence only at the end", format!("{GOOD}```\n")),
        ("JSON input", json("input")),
        ("JSON patch", json("patch")),
        ("JSON string", serde_json::json!(GOOD).to_string()),
        (
            "JSON command",
            serde_json::json!({"command": ["apply_patch", GOOD]}).to_string(),
        ),
        (
            "JSON in a fence",
            format!("```json\n{}\n```", json("input")),
        ),
        ("heredoc", format!("apply_patch <<'EOF'\n{GOOD}EOF\n")),
        (
            "heredoc with double quotes",
            format!("apply_patch << \"PATCH\"\n{GOOD}PATCH"),
        ),
        (
            "heredoc without quotes",
            format!("apply_patch <<EOF\n{GOOD}EOF\n"),
        ),
        ("bare command", format!("apply_patch\n{GOOD}")),
        ("escaped line ends", GOOD.trim_end().replace('\n', "\\n")),
        ("no end marker", GOOD.replace("*** End Patch\n", "")),
        (
            "no end marker, no line end",
            GOOD.replace("\n*** End Patch\n", ""),
        ),
        ("no begin marker", GOOD.replace("*** Begin Patch\n", "")),
        ("CRLF", GOOD.replace('\n', "\r\n")),
        (
            "CR after markers only",
            GOOD.replace("Patch\n", "Patch\r\n"),
        ),
        (
            "blanks after markers",
            GOOD.replace("Patch\n", "Patch \t\n")
                .replace("a.rs", "a.rs "),
        ),
        ("tags", format!("<patch>\n{GOOD}</patch>\n")),
        ("a tag behind it", format!("{GOOD}</tool_call>")),
        ("blank lines around", format!("\n\n{GOOD}\n\n")),
        (
            "blank line after begin",
            GOOD.replace("Begin Patch\n", "Begin Patch\n\n"),
        ),
        (
            "blank line before end",
            GOOD.replace("*** End", "\n*** End"),
        ),
    ];
    for (case, input) in cases {
        assert_eq!(repaired_text(&input).as_deref(), Some(GOOD), "{case}");
    }
}

fn patch(body: &str) -> String {
    format!("*** Begin Patch\n{body}*** End Patch\n")
}

#[test]
fn lines_of_a_file_are_repaired() {
    let cases = [
        (
            "no plus on any line",
            "*** Add File: a.py\nimport os\n\n    print(1)\n",
            "*** Add File: a.py\n+import os\n+\n+    print(1)\n",
        ),
        (
            "no plus on blank lines",
            "*** Add File: a.py\n+import os\n\n+print(1)\n",
            "*** Add File: a.py\n+import os\n+\n+print(1)\n",
        ),
        (
            "blank lines between files",
            "*** Add File: a\n+x\n\n*** Delete File: b\n\n*** Update File: c\n-x\n\n",
            "*** Add File: a\n+x\n*** Delete File: b\n*** Update File: c\n-x\n",
        ),
        (
            "empty context line",
            "*** Update File: a\n@@\n x\n\n-y\n\n@@ z\n+w\n",
            "*** Update File: a\n@@\n x\n \n-y\n@@ z\n+w\n",
        ),
        (
            "blank after @@",
            "*** Update File: a\n@@ \n-y\n*** End of File \n",
            "*** Update File: a\n@@\n-y\n*** End of File\n",
        ),
        (
            "no plus beside a good hunk",
            "*** Update File: b\n*** Move to: c \n-x\n*** Add File: a.yml\n- one\n- two\n",
            "*** Update File: b\n*** Move to: c\n-x\n*** Add File: a.yml\n+- one\n+- two\n",
        ),
    ];
    for (case, input, expected) in cases {
        assert_eq!(
            repaired_text(&patch(input)),
            Some(patch(expected)),
            "{case}"
        );
    }
}

#[test]
fn valid_and_ambiguous_patches_are_not_changed() {
    let json = serde_json::json!({"input": GOOD, "workdir": "/x"}).to_string();
    let table = [
        ("valid", GOOD.to_owned()),
        (
            "valid without the last line end",
            GOOD.trim_end().to_owned(),
        ),
        ("empty", String::new()),
        ("prose", "I changed the file.".to_owned()),
        ("prose before", format!("Here is the patch:\n{GOOD}")),
        ("prose after", format!("{GOOD}All done.")),
        (
            "unified diff",
            "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n".to_owned(),
        ),
        ("two patches", format!("{GOOD}{GOOD}")),
        (
            "only markers",
            "*** Begin Patch\n*** End Patch\n".to_owned(),
        ),
        ("more JSON keys", json),
        (
            "another command",
            format!("cd x && apply_patch <<'EOF'\n{GOOD}EOF\n"),
        ),
        (
            "expanded heredoc",
            format!("apply_patch <<EOF\n{}EOF\n", GOOD.replace("old", "$old")),
        ),
        ("open heredoc", format!("apply_patch <<'EOF'\n{GOOD}")),
        (
            "half escaped",
            "*** Begin Patch\\n*** Add File: a\\n+x = \"1\"\\n*** End Patch".to_owned(),
        ),
        ("plus on some lines", patch("*** Add File: a\n+x\ny\n")),
        ("perhaps a margin", patch("*** Add File: a\n x\n y\n")),
        ("perhaps a last line", patch("*** Add File: a\nx\n\n")),
        (
            "blank lines of two kinds",
            patch("*** Add File: a\n+x\n\n+y\n\n"),
        ),
        (
            "change without a sign",
            patch("*** Update File: a\n@@\n-x\ny\n"),
        ),
        ("new file without lines", patch("*** Add File: a\n")),
        ("no file name", patch("*** Update File:\n-x\n")),
        (
            "path perhaps cut",
            "*** Begin Patch\n*** Delete File: src/ma".to_owned(),
        ),
        (
            "update perhaps cut",
            "*** Begin Patch\n*** Update File: src/ma".to_owned(),
        ),
        (
            "bare lines, no end",
            "*** Begin Patch\n*** Add File: a\nx\ny\n".to_owned(),
        ),
        (
            "end marker inside",
            patch("*** Update File: a\n-x\n*** End Patch\n+y\n"),
        ),
    ];
    for (case, input) in table {
        assert_eq!(repair(&input, true), None, "{case}");
    }
}

#[test]
fn markers_in_other_forms_are_repaired() {
    let body = GOOD.strip_prefix("*** Begin Patch\n").unwrap();
    let body = body.strip_suffix("*** End Patch\n").unwrap();
    let marked = |begin: &str, end: &str| format!("{begin}\n{body}{end}\n");
    for (begin, end) in [
        ("*** Begin Patch ***", "*** End Patch ***"),
        ("*** Begin Patch:", "*** End Patch."),
        ("**Begin Patch**", "**End Patch**"),
        ("**`*** Begin Patch`**", "`*** End Patch`"),
        ("***Begin Patch", "***End Patch"),
        ("* Begin Patch", "* End Patch"),
        ("*** begin patch", "*** END PATCH"),
        ("Begin Patch", "End Patch"),
        ("\"*** Begin Patch\"", "\"*** End Patch\""),
        ("\u{feff}*** Begin Patch", "*** End Patch"),
        ("````patch\n*** Begin Patch", "*** End Patch\n````"),
        ("~~~\n*** Begin Patch", "*** End Patch\n~~~"),
        ("```diff\n*** Begin Patch ***", "*** End Patch ***"),
        ("'*** Begin Patch", "*** End Patch'"),
        ("\"\"\"\n*** Begin Patch", "*** End Patch\n\"\"\""),
        (
            "cat <<'EOF' | apply_patch\n*** Begin Patch",
            "*** End Patch\nEOF",
        ),
        ("<<'EOF'\n*** Begin Patch", "*** End Patch\nEOF"),
    ] {
        let repaired = repair(&marked(begin, end), false).map(|repaired| repaired.text);
        assert_eq!(repaired.as_deref(), Some(GOOD), "{begin}");
    }
    let crlf = marked("*** Begin Patch ***", "*** End Patch ***").replace('\n', "\r\n");
    assert_eq!(repaired_text(&crlf).as_deref(), Some(GOOD));
    for header in [
        "***Update File: a.rs",
        "*** Update File: `a.rs` ***",
        "**Update File: a.rs**",
        "*** update file: a.rs",
        "*** Update File:a.rs",
        "*** Update File a.rs",
        "Update File: a.rs",
    ] {
        let input = GOOD
            .replace("*** Update File: a.rs", header)
            .replace("End Patch", "End Patch ***");
        assert_eq!(repaired_text(&input).as_deref(), Some(GOOD), "{header}");
    }
}

#[test]
fn lines_of_a_new_file_that_speak_of_patches_are_its_lines() {
    for (line, begin) in [
        ("* Delete File: removes a file", "*** Begin Patch\n"),
        ("* Update file names", "*** Begin Patch\n"),
        ("** Move to: the end", "*** Begin Patch\n"),
        ("Delete File: a.txt", ""),
        ("Delete File: a.txt", "*** Begin Patch\n"),
    ] {
        let file = |sign: &str| format!("*** Add File: notes.md\n{sign}# Notes\n{sign}{line}\n");
        let input = format!("{begin}{}*** End Patch\n", file(""));
        let expected = format!("*** Begin Patch\n{}*** End Patch\n", file("+"));
        assert_eq!(repaired_text(&input), Some(expected), "{line}");
    }
    // Nothing but the file's header stands before its first line here.
    let input = "*** Add File: notes.md\nDelete File: a.txt\n*** End Patch\n";
    let expected = "*** Begin Patch\n*** Add File: notes.md\n+Delete File: a.txt\n*** End Patch\n";
    assert_eq!(repaired_text(input).as_deref(), Some(expected));
    let input = "*** Add File: notes.md\n# Notes\nDelete File: a.txt";
    assert!(repaired_text(input).is_none_or(|text| !text.contains("*** Delete")));
}

#[test]
fn a_patch_that_may_be_cut_off_gets_no_end() {
    let cut = GOOD.replace("*** End Patch\n", "");
    assert_eq!(repair(&cut, false), None);
    assert_eq!(repair(&format!("```\n{cut}```"), false), None);
    assert_eq!(repaired_text(&cut).as_deref(), Some(GOOD));
}

#[test]
fn carriage_returns_of_the_file_are_kept() {
    let input = "*** Update File: a\n-x\r\n+y\r\n*** End Patch";
    let expected = "*** Begin Patch\n*** Update File: a\n-x\r\n+y\r\n*** End Patch\n";
    assert_eq!(repaired_text(input).as_deref(), Some(expected));
}

#[test]
fn notes_list_the_repairs() {
    let repaired = repair(
        &format!("```\n{}```", GOOD.replace("*** End Patch\n", "")),
        true,
    )
    .unwrap();
    assert_eq!(
        repaired.notes,
        ["Markdown fence removed", "end marker added"]
    );
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        "[^\n]{0,12}",
        prop::sample::select(vec![
            "",
            " ",
            "+",
            "```",
            "*** End Patch",
            "@@",
            "\r",
            "{\"input\":1}"
        ])
        .prop_map(str::to_owned),
    ]
}

fn name() -> impl Strategy<Value = String> {
    "[a-z./ ]{0,8}[a-z]"
}

fn hunk() -> impl Strategy<Value = String> {
    let added = prop::collection::vec(line(), 1..5);
    let change = prop_oneof![
        (prop::sample::select(vec!["+", "-", " "]), line())
            .prop_map(|(sign, line)| format!("{sign}{line}\n")),
        Just("@@\n".to_owned()),
        "[^\n]{1,8}".prop_map(|line| format!("@@ {line}\n")),
    ];
    let moved = prop::option::of(name());
    prop_oneof![
        (name(), added).prop_map(|(name, lines)| {
            format!("*** Add File: {name}\n+{}\n", lines.join("\n+"))
        }),
        name().prop_map(|name| format!("*** Delete File: {name}\n")),
        (
            name(),
            moved,
            prop::collection::vec(change, 0..6),
            any::<bool>()
        )
            .prop_map(|(name, moved, changes, at_end)| {
                let moved = moved.map_or(String::new(), |to| format!("*** Move to: {to}\n"));
                let end = if at_end && !changes.is_empty() {
                    "*** End of File\n"
                } else {
                    ""
                };
                format!("*** Update File: {name}\n{moved}{}{end}", changes.concat())
            }),
    ]
}

proptest! {
    #[test]
    fn a_valid_patch_is_never_changed(
        hunks in prop::collection::vec(hunk(), 1..5),
        line_end in any::<bool>(),
    ) {
        let whole = patch(&hunks.concat());
        let input = if line_end { whole.as_str() } else { whole.trim_end() };
        prop_assert!(is_patch(input));
        prop_assert_eq!(repair(input, true), None);
    }

    #[test]
    fn a_wrapped_patch_is_unwrapped_unchanged(hunks in prop::collection::vec(hunk(), 1..5)) {
        let whole = patch(&hunks.concat());
        let json = serde_json::json!({"input": whole}).to_string();
        for wrapped in [json, format!("```patch\n{whole}```"), format!("\n{whole}\n")] {
            prop_assert_eq!(repaired_text(&wrapped), Some(whole.clone()));
        }
    }

    #[test]
    fn every_repaired_patch_is_valid(input in "(\\*\\*\\* (Begin Patch|End Patch|(Add|Update|Delete) File: a)\n|[-+ @x]{0,3}\r?\n){0,9}") {
        if let Some(repaired) = repair(&input, true) {
            prop_assert!(is_patch(&repaired.text));
            prop_assert!(!repaired.notes.is_empty());
            prop_assert_eq!(repair(&repaired.text, true), None);
        }
    }
}
