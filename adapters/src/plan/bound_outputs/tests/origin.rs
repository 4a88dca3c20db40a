//! What stands before an output decides how it is shortened.

use serde_json::{Value, json};

use super::policy::{bounds, planned};
use crate::plan::{Bounds, OutputPolicy, ReplacementKind, Retention};

/// A call of a shell with its output.
fn run(id: &str, command: &str, output: &str) -> [Value; 2] {
    let arguments = json!({"cmd": command}).to_string();
    [
        json!({"type": "function_call", "call_id": id, "name": "exec_command", "arguments": arguments}),
        json!({"type": "function_call_output", "call_id": id, "output": output}),
    ]
}

fn code(functions: usize) -> String {
    let function =
        |at: usize| format!("pub fn part_{at}(count: u64) -> u64 {{\n    count + {at}\n}}\n\n");
    (0..functions).map(function).collect()
}

/// Promise: A file that a command only prints stays whole where other outputs do not.
#[test]
fn a_file_that_is_read_stays_whole_where_other_outputs_do_not() {
    let bounds = bounds(262_144, OutputPolicy::Adaptive);
    let text = code(820);
    assert!((42_000..50_000).contains(&text.len()));
    for (command, is_whole) in [
        ("sed -n '1,4000p' src/parts.rs", true),
        ("cat src/parts.rs", true),
        ("git show HEAD:src/parts.rs", false),
    ] {
        let plan = planned(&run("c", command, &text), &bounds);
        assert_eq!(plan.replacements.is_empty(), is_whole, "{command}");
    }
    // Codex writes lines above an output, and cuts its middle out of one of 40,000 bytes.
    let header = "Chunk ID: 0652e2\nWall time: 0.0000 seconds\nProcess exited with code 0\n\
        Original token count: 27224\nOutput:\nWarning: truncated output (original token count: \
        27224)\nTotal output lines: 9000\n\n";
    let cut = format!("{header}{}…17224 tokens truncated…{}", code(380), code(380));
    assert!((40_000..48_000).contains(&cut.len()), "{}", cut.len());
    let cut = planned(&run("c", "cat src/parts.rs", &cut), &bounds);
    assert!(cut.replacements.is_empty());
    let longer = planned(&run("c", "cat src/parts.rs", &code(2_000)), &bounds);
    assert_eq!(longer.replacements[&1].kind, ReplacementKind::Excerpt);
    let log = planned(
        &run("c", "cat build.log", &"step of the build\n".repeat(3_000)),
        &bounds,
    );
    assert_eq!(log.replacements[&1].kind, ReplacementKind::Excerpt);
}

/// Promise: Instructions to an agent are sent whole or replaced by a notice that says to read them,
/// whatever else the command that reads them does; they are not cut for a summary either.
#[test]
fn instructions_are_sent_whole_or_not_at_all() {
    let rule = |at: usize| format!("- Never touch part {at} without asking its owner.\n");
    let rules = |count: usize| -> String { (0..count).map(rule).collect() };
    let bounds = bounds(262_144, OutputPolicy::Adaptive);
    for command in [
        "cat AGENTS.md",
        "sed -n '1,900p' skills/tide/SKILL.md",
        "cat AGENTS.md; ls",
        "cat AGENTS.md && git status",
        "find . -name AGENTS.md -exec cat {} +",
        "cat .cursor/rules/style.mdc",
    ] {
        let whole = planned(&run("c", command, &rules(1_500)), &bounds);
        assert!(whole.replacements.is_empty(), "{command}");
        let notice = planned(&run("c", command, &rules(9_000)), &bounds);
        let notice = &notice.replacements[&1];
        assert_eq!(notice.kind, ReplacementKind::Notice);
        assert!(
            notice.text.contains("instructions to read in full"),
            "{}",
            notice.text
        );
    }
    let unkept = Bounds {
        retention: Retention::Nothing,
        ..bounds.clone()
    };
    let notice = planned(&run("c", "cat AGENTS.md", &rules(9_000)), &unkept);
    let notice = &notice.replacements[&1].text;
    assert!(notice.contains("read it again in parts"), "{notice}");
    let found = planned(&run("c", "rg -n part AGENTS.md", &rules(1_500)), &bounds);
    assert_eq!(found.replacements[&1].kind, ReplacementKind::Excerpt);
    // A round that is too large cuts the others.
    let mut calls = Vec::new();
    let mut outputs = Vec::new();
    for (id, command) in [("a", "cat AGENTS.md"), ("b", "make"), ("c", "make")] {
        let [call, output] = run(id, command, &rules(370));
        calls.push(call);
        outputs.push(output);
    }
    calls.append(&mut outputs);
    let small = super::policy::bounds(16_384, OutputPolicy::Adaptive);
    let plan = planned(&calls, &small);
    for (index, shown) in &plan.replacements {
        let is_cut = shown.kind == ReplacementKind::Excerpt;
        assert!(!(is_cut && *index == 3), "{}", shown.text);
    }
    assert!(!plan.replacements.is_empty());
}

/// Promise: An excerpt shows what the call and the newest user message before the output asked for,
/// wherever it is, words, names, numbers and Chinese, Japanese and Korean text alike; nothing that
/// comes later changes it.
#[test]
fn an_excerpt_follows_the_message_before_it_and_no_later_one() {
    let line = |at: usize| {
        let ship = match at % 500 {
            200..205 => "mast",
            400..405 => "keel",
            _ => "oar",
        };
        format!("entry {at} of ship_{ship}: moored\n")
    };
    let text: String = (0..3_000).map(line).collect();
    let user = |text: &str| json!({"role": "user", "content": text});
    let session = |before: &str, after: Option<&str>| {
        let mut items = vec![user(before)];
        items.extend(run("c", "list", &text));
        items.extend(after.map(user));
        let plan = planned(&items, &bounds(131_072, OutputPolicy::Adaptive));
        plan.replacements[&2].text.clone()
    };
    let asked = session("Where is ship_mast?", None);
    assert_eq!(
        asked,
        session("Where is ship_mast?", Some("And ship_keel?"))
    );
    assert_ne!(asked, session("Where is ship_keel?", None));
}

#[test]
fn the_folder_in_which_a_command_runs_is_not_what_it_looks_for() {
    let line = |at: usize| {
        let ship = if at % 300 == 150 { "gondola" } else { "barge" };
        format!("entry {at} of {ship}: moored\n")
    };
    let text: String = (0..3_000).map(line).collect();
    let shown = |folder: &str| {
        let mut items = run("c", "list", &text);
        let arguments = json!({"cmd": "list", "workdir": folder});
        items[0]["arguments"] = arguments.to_string().into();
        let plan = planned(&items, &bounds(131_072, OutputPolicy::Adaptive));
        plan.replacements[&1].text.clone()
    };
    assert_eq!(shown("/home/user"), shown("/home/user/gondola"));
}
