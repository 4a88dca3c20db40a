use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use registry::{Dialect, Model, Window, WindowSource};
use serde_json::{Value, json};

use crate::compact::SUMMARY_PROMPT;
use crate::compaction_blob::CompactionBlob;
use crate::plan::{Bounds, OutputPolicy, Retention, plan};
use crate::purpose::{Purpose, SummaryMode};
use crate::responses::request::TurnSource;
use crate::stop_flag::{StopFlag, StopReason};
use crate::wire::{EncodeOptions, encode};

/// A request for a summary or for an answer, as a provider gets it.
struct Sent {
    body: Value,
    bytes: usize,
    messages_bytes: usize,
    notes: String,
}

fn bounds(tokens: u64, outputs: OutputPolicy) -> Bounds {
    Bounds {
        window: Window {
            tokens,
            source: WindowSource::Listed,
        },
        outputs,
        retention: Retention::Nothing,
        ..Bounds::none()
    }
}

fn sent(request: &Value, purpose: Purpose, bounds: &Bounds, quirks: &str) -> Sent {
    let mut request = request.clone();
    request["model"] = json!("m");
    let source = TurnSource::new(request.to_string()).with_purpose(purpose);
    let turn = source.turn().unwrap();
    let dialect = Dialect {
        quirks: toml::from_str::<registry::ChatQuirks>(quirks)
            .unwrap()
            .into(),
        ..Dialect::default()
    };
    let model = Model::unlisted("m");
    let options = EncodeOptions::new(&dialect, &model, "m");
    let encoded = encode(&turn, &plan(&turn, bounds), &options)
        .unwrap()
        .encoded;
    let body: Value = serde_json::from_slice(&encoded.body).unwrap();
    Sent {
        messages_bytes: body["messages"].to_string().len(),
        body,
        bytes: encoded.body.len(),
        notes: encoded.notes.codes(),
    }
}

fn summary(input: &[Value], bounds: &Bounds) -> Sent {
    let request = json!({"input": input, "instructions": "The rules."});
    sent(
        &request,
        Purpose::summary(SummaryMode::FitWindow),
        bounds,
        "",
    )
}

impl Sent {
    fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().unwrap()
    }

    /// The text of the first message that contains this.
    fn text_with(&self, part: &str) -> &str {
        let texts = self.messages().iter().filter_map(|m| m["content"].as_str());
        let mut found = texts.filter(|text| text.contains(part));
        found.next().unwrap_or_else(|| panic!("no {part}"))
    }

    fn has(&self, part: &str) -> bool {
        self.body.to_string().contains(part)
    }

    /// Every result follows the answer that made its call, and every call has a result.
    fn assert_paired(&self) {
        let mut open: BTreeSet<&str> = BTreeSet::new();
        for message in self.messages() {
            if message["role"] == "tool" {
                let id = message["tool_call_id"].as_str().unwrap();
                assert!(open.remove(id), "a result without call: {id}");
                continue;
            }
            assert!(open.is_empty(), "calls without result: {open:?}");
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                open.insert(call["id"].as_str().unwrap());
                let arguments = call["function"]["arguments"].as_str().unwrap();
                let arguments: Value = serde_json::from_str(arguments).unwrap();
                assert!(arguments.is_object(), "{arguments}");
            }
        }
        assert!(open.is_empty(), "calls without result: {open:?}");
    }
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// A call and its output.
fn round(id: usize, arguments: &Value, output: &str) -> [Value; 2] {
    let id = format!("call_{id}");
    [
        json!({"type": "function_call", "call_id": id, "name": "run", "arguments": arguments.to_string()}),
        json!({"type": "function_call_output", "call_id": id, "output": output}),
    ]
}

/// A number in a notice.
fn field(notice: &str, name: &str) -> usize {
    let (_, rest) = notice.split_once(&format!("{name}=")).unwrap();
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// Promise: The founding case, a history of 850 KB at 2.7 bytes a token for a window of 262,144
/// tokens, can be compacted by every method with room for the summary, and the session continues. A
/// history is cut for a summary whether or not its outputs are bounded.
///
/// A window of 262,144 tokens, and a request of 854,476 bytes that the provider
/// counted as 336,979 tokens.
#[test]
fn the_founding_case_fits_with_room_for_the_summary() {
    let mut input = vec![user("Find the bug.")];
    for id in 0..22 {
        input.extend(round(id, &json!({"cmd": "rg x"}), &"out\n".repeat(9_700)));
    }
    let bounds = bounds(262_144, OutputPolicy::Whole);
    let sent = summary(&input, &bounds);
    let whole: usize = input.iter().map(|item| item.to_string().len()).sum();
    assert!(whole > 850_000, "{whole}");
    let tokens = sent.bytes * 336_979 / 854_476;
    assert!(tokens <= 262_144 - 20_000, "{tokens}");
    assert!(sent.bytes > 500_000, "little is left: {}", sent.bytes);
    sent.assert_paired();
    assert_eq!(sent.text_with("Find the bug."), "Find the bug.");
}

/// Promise: The prompt that asks for the summary is kept whole, as the last user message.
#[test]
fn a_history_that_fits_is_sent_whole_before_the_prompt() {
    let mut input = vec![user("Go.")];
    input.extend(round(1, &json!({"cmd": "ls"}), "a b c"));
    let sent = summary(&input, &bounds(32_768, OutputPolicy::Whole));
    assert_eq!(sent.messages().len(), 5);
    assert_eq!(sent.messages()[4], user(SUMMARY_PROMPT));
    assert_eq!(sent.notes, "");
    assert_eq!(sent.body["max_tokens"], 20_000, "of the model's own window");
    assert!(sent.body.get("tools").is_none());
}

/// Promise: A notice states how many messages and bytes there were and how many are left out, and
/// quotes the user.
#[test]
fn a_notice_counts_what_is_left_out_and_quotes_the_user() {
    let mut input = vec![user("First of all, the task.")];
    for id in 0..60 {
        input.extend(round(
            id,
            &json!({"cmd": "ls"}),
            &format!("out {id} {}", "x".repeat(2_000)),
        ));
    }
    input.push(user("And now this."));
    let sent = summary(&input, &bounds(16_384, OutputPolicy::Whole));
    sent.assert_paired();
    let notice = sent.text_with("omitted_messages=");
    // The prompt and the instructions are not part of the history.
    assert_eq!(field(notice, "original_messages"), 122);
    let omitted = field(notice, "omitted_messages");
    // The instructions, the notice and the prompt were added.
    assert_eq!(sent.messages().len(), 122 - omitted + 3);
    let (all, gone) = (
        field(notice, "original_bytes"),
        field(notice, "omitted_bytes"),
    );
    assert!(gone < all && gone > omitted / 2 * 2_000, "{gone} of {all}");
    assert!(notice.contains("\n- First of all, the task."), "{notice}");
    assert!(!sent.has("out 0 ") && sent.has("out 59 ") && sent.has("And now this."));
    assert_eq!(sent.notes, "history_cut");
}

/// Promise: Calls are kept or left out together with their outputs.
#[test]
fn parallel_calls_go_with_all_their_outputs() {
    let mut input = vec![user("Go.")];
    for id in 0..40 {
        let [a, x] = round(2 * id, &json!({"cmd": "a"}), &"x".repeat(900));
        let [b, y] = round(2 * id + 1, &json!({"cmd": "b"}), &"y".repeat(900));
        input.extend([a, b, y, x]);
    }
    let sent = summary(&input, &bounds(8_192, OutputPolicy::Whole));
    sent.assert_paired();
    assert!(sent.has("call_79") && !sent.has("call_0\""));
}

#[test]
fn one_huge_text_is_shortened_and_all_else_stays() {
    let huge = "漢字 and \"words\"\n".repeat(90_000);
    for (input, case) in [
        (vec![user(&huge)], 0),
        (
            [
                &[user("Go.")][..],
                &round(1, &json!({"cmd": huge, "n": 7}), "ok"),
            ]
            .concat(),
            1,
        ),
        (
            [&[user("Go.")][..], &round(1, &json!({"cmd": "ls"}), &huge)].concat(),
            2,
        ),
    ] {
        for tokens in [4_096, 8_192, 32_768, 131_072] {
            let sent = summary(&input, &bounds(tokens, OutputPolicy::Whole));
            sent.assert_paired();
            assert!(sent.has("characters left out"), "{case}");
            assert_eq!(sent.messages().len(), input.len() + 2, "{case}");
            let limit = usize::try_from(tokens).unwrap() * 27 / 10;
            assert!(sent.bytes <= limit, "{case}: {} of {limit}", sent.bytes);
            assert!(
                sent.bytes > limit / 5 * 2,
                "{case}: {} of {limit}",
                sent.bytes
            );
        }
    }
}

#[test]
fn the_newest_user_message_gets_the_most() {
    let long = |word: &str| word.repeat(20_000);
    let input = [
        user(&long("old ")),
        user(&long("new ")),
        json!({"role": "assistant", "content": long("said ")}),
    ];
    let sent = summary(&input, &bounds(32_768, OutputPolicy::Whole));
    let length = |word: &str| sent.text_with(word).len();
    assert!(
        length("new new") > 3 * length("said said"),
        "{}",
        length("new new")
    );
    assert!(length("new new") < 60_000);
}

/// Promise: Under the policy `fixed`, a request for a summary has at most 120 KiB of messages,
/// including the notice, and asks for 20,000 tokens.
#[test]
fn the_fixed_policy_has_constant_limits() {
    let mut input = vec![user(&"u".repeat(9_000))];
    for id in 0..100 {
        let arguments = json!({"cmd": "c".repeat(4_000)});
        input.extend(round(id, &arguments, &"漢".repeat(9_000)));
    }
    let sent = summary(&input, &bounds(1_048_576, OutputPolicy::Fixed));
    assert!(sent.messages_bytes <= 120 * 1024, "{}", sent.messages_bytes);
    assert!(sent.messages_bytes > 100 * 1024, "{}", sent.messages_bytes);
    sent.assert_paired();
    assert!(sent.text_with("omitted_messages=").chars().count() <= 8_000);
    for message in sent.messages() {
        let text = message["content"].as_str().unwrap_or_default();
        assert!(text.chars().count() <= 8_000);
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let arguments = call["function"]["arguments"].as_str().unwrap();
            assert!(arguments.chars().count() <= 3_000);
        }
    }
    assert_eq!(sent.body["max_tokens"], 20_000);
}

#[test]
fn images_become_placeholders_and_reasoning_is_dropped() {
    let image = format!("data:image/png;base64,{}", "A".repeat(50_000));
    let input = [
        json!({"role": "user", "content": [{"type": "input_text", "text": "Look."}, {"type": "input_image", "image_url": image}]}),
        json!({"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hidden thought"}]}),
        json!({"type": "function_call", "call_id": "c", "name": "view", "arguments": "{}"}),
        json!({"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": image}]}),
    ];
    let request = json!({"input": input});
    let quirks = "reasoning_replay = 'reasoning_content'\nreasoning_required = 'always'";
    let bounds = bounds(8_192, OutputPolicy::Whole);
    let sent = sent(
        &request,
        Purpose::summary(SummaryMode::FitWindow),
        &bounds,
        quirks,
    );
    assert!(!sent.has("base64") && !sent.has("hidden thought"));
    assert_eq!(
        sent.text_with("Look."),
        "Look.\n[An image or file was left out here.]"
    );
    assert_eq!(sent.messages().len(), 4, "{}", sent.body);
}

#[test]
fn an_earlier_summary_stays() {
    let blob = CompactionBlob {
        summary: "Long ago.".into(),
        ..Default::default()
    };
    let mut input = vec![
        json!({"type": "compaction", "encrypted_content": blob.seal()}),
        user("Go."),
    ];
    for id in 0..60 {
        input.extend(round(id, &json!({"cmd": "ls"}), &"x".repeat(2_000)));
    }
    let sent = summary(&input, &bounds(16_384, OutputPolicy::Whole));
    assert!(sent.has("Long ago.") && sent.has("omitted_messages="));
}

/// The user messages that a client retains, a summary as the client sends it, and the items
/// since the summary.
fn compacted_history(users: &[String], summary: &Value, since: &[Value]) -> Vec<Value> {
    let mut input: Vec<Value> = users.iter().map(|text| user(text)).collect();
    input.push(summary.clone());
    input.extend_from_slice(since);
    input
}

fn summaries() -> [Value; 2] {
    let blob = CompactionBlob {
        summary: "Long ago.".into(),
        ..Default::default()
    };
    let text = "Another language model started to solve this problem and produced a summary of its thinking process: Long ago.";
    [
        json!({"type": "compaction", "encrypted_content": blob.seal()}),
        user(text),
    ]
}

#[test]
fn user_messages_that_a_summary_covers_take_a_quarter_of_the_window() {
    for window in [8_192, 32_768] {
        for summary in summaries() {
            let bounds = bounds(window, OutputPolicy::Adaptive);
            let quarter = bounds.window_bytes() / 4;
            for (count, each) in [(1, 200_000), (40, 6_000), (4_000, 60)] {
                let users: Vec<String> = (0..count)
                    .map(|n| format!("[{n}] {}", "wish ".repeat(each / 5)))
                    .collect();
                let request =
                    |since: &[Value]| json!({"input": compacted_history(&users, &summary, since)});
                let first = sent(&request(&[user("On.")]), Purpose::Answer, &bounds, "");
                assert!(first.bytes < quarter + 2_000, "{count}: {}", first.bytes);
                assert!(first.bytes > quarter / 3, "{count}: {}", first.bytes);
                let newest = format!("[{}] wish", count - 1);
                assert!(first.has(&newest) && first.has("Long ago.") && first.has("On."));
                assert!(first.has("characters left out") || first.has("omitted_messages="));
                // Items after the summary change nothing before it.
                let mut since = vec![user("On.")];
                since.extend(round(0, &json!({"cmd": "ls"}), "a"));
                since.push(user(&"long ".repeat(4_000)));
                let second = sent(&request(&since), Purpose::Answer, &bounds, "");
                let most = first.messages().len();
                assert_eq!(second.messages()[..most], first.messages()[..], "{count}");
            }
        }
    }
}

#[test]
fn user_messages_stay_whole_where_no_summary_covers_them_or_there_is_room() {
    let bounds = bounds(8_192, OutputPolicy::Adaptive);
    let long = user(&"wish ".repeat(4_000));
    let [summary, _] = summaries();
    let few = compacted_history(
        &["wish ".repeat(500)],
        &summary,
        std::slice::from_ref(&long),
    );
    for input in [few, vec![long.clone(), user("On.")]] {
        let sent = sent(&json!({"input": input}), Purpose::Answer, &bounds, "");
        assert!(!sent.has("left out"));
    }
}

const DIALECTS: [&str; 3] = [
    "",
    "system_role = 'user'\nanswer_after_tool = true\nmerge_user = true\ntool_names = true\nreasoning_replay = 'reasoning_content'\nreasoning_required = 'always'",
    "reasoning_replay = 'reasoning_details'\ncall_extra = 'required'\ncache_control = true\ncall_ids = 'word'",
];

fn text() -> impl Strategy<Value = String> {
    (
        select(vec!["word ", "漢字", "\"q\"\\\n", "\u{1}x"]),
        0_usize..2_000,
    )
        .prop_map(|(unit, times)| unit.repeat(times))
}

/// One or two items of a history: their kind, and two texts.
fn step() -> impl Strategy<Value = (u8, String, String)> {
    (0_u8..8, text(), text())
}

fn history(steps: &[(u8, String, String)]) -> Vec<Value> {
    let mut items = Vec::new();
    for (at, (kind, first, second)) in steps.iter().enumerate() {
        let named = |text: &str| format!("[{at}] {text}");
        match kind {
            0 => items.push(user(&named(first))),
            1 => items.push(json!({"role": "assistant", "content": [{"type": "output_text", "text": named(first)}]})),
            2 => items.push(json!({"role": "developer", "content": first.get(..first.len().min(30)).unwrap_or_default()})),
            3 => items.push(json!({"type": "custom_tool_call", "call_id": format!("call_{at}"), "name": "apply_patch", "input": named(first)})),
            4 => items.push(json!({"type": "function_call_output", "call_id": "lost", "output": named(first)})),
            5 => {
                let [call, output] = round(at, &json!({named(""): first, "b": [second, 1], "c": 7}), &named(second));
                items.extend([json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}), call, output]);
            }
            6 => items.extend(round(at, &Value::from(first.as_str()), &named(second))),
            _ => items.extend(round(at, &json!({"cmd": first}), &named(second))),
        }
    }
    items
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Promise: Of a history for a summary the Chat request is what is cut, measured in the bytes
    /// that are sent. The newest part of the history is kept first.
    #[test]
    fn any_history_is_cut_to_fit_and_stays_sound(
        steps in vec(step(), 1..40),
        rules in text(),
        tokens in 4_096_u64..40_000,
        fixed in any::<bool>(),
        bounded in any::<bool>(),
    ) {
        let outputs = [[OutputPolicy::Whole, OutputPolicy::Adaptive][usize::from(bounded)], OutputPolicy::Fixed][usize::from(fixed)];
        let input = history(&steps);
        let bounds = bounds(tokens, outputs);
        for dialect in DIALECTS {
            let request = json!({"input": input, "instructions": rules});
            let sent = sent(&request, Purpose::summary(SummaryMode::FitWindow), &bounds, dialect);
            let most = (tokens - bounds.window.output_allowance()) * 27 / 10;
            prop_assert!(sent.bytes <= usize::try_from(most).unwrap(), "{} of {}", sent.bytes, most);
            prop_assert!(!fixed || sent.messages_bytes <= 120 * 1024);
            sent.assert_paired();
            let last = sent.messages().last().unwrap();
            prop_assert_eq!(&last["role"], "user");
            prop_assert!(last["content"].to_string().contains("Pause the work here."));
            if outputs == OutputPolicy::Whole {
                assert_newest_first(&sent, &steps);
            }
        }
    }
}

/// No step that is left out is newer than one that stays, except for the newest user
/// message.
fn assert_newest_first(sent: &Sent, steps: &[(u8, String, String)]) {
    let newest_user = steps.iter().rposition(|(kind, ..)| *kind == 0);
    let texts: String = sent
        .messages()
        .iter()
        .filter(|message| !message.to_string().contains("omitted_messages="))
        .map(Value::to_string)
        .collect();
    let stays =
        |at: usize| texts.contains(&format!("[{at}] ")) || texts.contains(&format!("call_{at}\""));
    let shown: Vec<bool> = (0..steps.len())
        .filter(|at| steps[*at].0 != 2 && Some(*at) != newest_user)
        .map(stays)
        .collect();
    let first = shown.iter().position(|stays| *stays).unwrap_or(shown.len());
    assert!(shown[first..].iter().all(|stays| *stays), "{shown:?}");
}

/// A request for an answer with this `truncation`.
fn answer(input: &[Value], tokens: u64, truncation: &str) -> Sent {
    let request = json!({"input": input, "instructions": "The rules.", "truncation": truncation});
    sent(
        &request,
        Purpose::Answer,
        &bounds(tokens, OutputPolicy::Whole),
        "",
    )
}

#[test]
fn truncation_drops_from_the_start_only_what_does_not_fit() {
    let mut input = vec![
        user("The task."),
        json!({"role": "developer", "content": "Be brief."}),
    ];
    for id in 0..60 {
        input.extend(round(
            id,
            &json!({"cmd": "ls"}),
            &format!("out {id} {}", "x".repeat(1_000)),
        ));
    }
    let whole = answer(&input, 131_072, "auto");
    assert!(whole.has("out 0 ") && !whole.has("omitted_messages="));
    let cut = answer(&input, 16_384, "auto");
    cut.assert_paired();
    assert!(cut.bytes < 16_384 * 27 / 10, "{}", cut.bytes);
    assert!(!cut.has("out 0 ") && cut.has("out 59 "));
    assert!(cut.has("The task.") && cut.has("Be brief.") && cut.has("The rules."));
    assert!(!cut.has("characters left out"));
    assert!(answer(&input, 16_384, "disabled").has("out 0 "));
}

#[test]
fn the_start_of_a_truncated_history_moves_rarely() {
    let mut input = vec![user("The task.")];
    let mut starts = BTreeSet::new();
    for id in 0..100 {
        input.extend(round(id, &json!({"cmd": "ls"}), &"x".repeat(1_000)));
        let cut = answer(&input, 16_384, "auto");
        assert!(cut.bytes < 16_384 * 27 / 10, "{}", cut.bytes);
        starts.insert(cut.messages()[1].to_string());
        starts.insert(cut.messages()[2].to_string());
    }
    // Each start shows in two messages, and moves by a quarter of about 30 rounds.
    assert!((4..=26).contains(&starts.len()), "{}", starts.len());
}

/// A history of a client that left is not cut any more.
#[test]
fn a_history_that_is_stopped_is_not_cut() {
    let long = "word ".repeat(20_000);
    let input: Vec<Value> = (0..9).map(|_| user(&long)).collect();
    let bounds = bounds(20_000, OutputPolicy::Adaptive);
    let replaced = |stops: bool| {
        let stop = StopFlag::new();
        let body = json!({"model": "m", "input": input}).to_string();
        let whole = TurnSource::new(body.clone());
        let mut plan = plan(&whole.turn().unwrap(), &bounds);
        let source = TurnSource::new(body)
            .with_purpose(Purpose::summary(SummaryMode::FitWindow))
            .with_stop_flag(stop.clone());
        let turn = source.turn().unwrap();
        if stops {
            stop.raise(StopReason::ClientLeft);
        }
        super::fit(&turn, &bounds, &mut plan);
        plan.replacements.len()
    };
    assert!(replaced(false) > 0);
    assert_eq!(replaced(true), 0);
}

#[test]
fn instructions_are_left_out_or_whole_and_never_cut() {
    let rules = |of: &str| -> String {
        let rule = |at: usize| format!("- Rule {at} of {of}: keep it whole.\n");
        (0..400).map(rule).collect()
    };
    let file = rules("the file");
    let project = format!(
        "# AGENTS.md instructions for /work\n\n{}",
        rules("the project")
    );
    let input = |command: &str| -> Vec<Value> {
        let mut input = vec![user(&project), user("Go.")];
        input.extend(round(0, &json!({"cmd": command}), &file));
        input.extend(round(1, &json!({"cmd": "make"}), &rules("the log")));
        input
    };
    for (command, is_cut) in [("cat notes.txt", true), ("cat AGENTS.md; ls", false)] {
        for (tokens, policy) in [(16_384, OutputPolicy::Whole), (65_536, OutputPolicy::Fixed)] {
            let sent = summary(&input(command), &bounds(tokens, policy));
            let some = sent.has("Rule 0 of the file") && !sent.has("Rule 200 of the file");
            assert_eq!(some, is_cut, "{command} {tokens}");
            let begins = sent.has("Rule 0 of the project");
            assert_eq!(begins, sent.has("Rule 200 of the project"), "{tokens}");
            assert!(sent.has("Instructions were left out here"), "{tokens}");
        }
    }
    let large = summary(
        &input("cat AGENTS.md; ls"),
        &bounds(131_072, OutputPolicy::Whole),
    );
    assert!(large.has("Rule 200 of the file") && large.has("Rule 200 of the project"));
}
