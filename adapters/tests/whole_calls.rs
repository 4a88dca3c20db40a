//! A call is whole or it is no call: answers whose arguments are cut at every byte, with every kind
//! of tool, finish reason and wire, streamed and whole.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "clippy does not see that all of this is a test"
)]

mod common;

use common::judge;
use common::script::{Tool, request};
use kit::drive::{self, settings};
use registry::{ChatQuirks, ReasoningReplay, RelayQuirks, WireQuirks};
use responses_translate::responses::request::TurnSource;
use serde_json::{Value, json};

/// Finish reasons that say that the answer is whole, or that nobody knows.
const REASONS: [&str; 7] = [
    "tool_calls",
    "stop",
    "end_turn",
    "eos",
    "function_call",
    "because",
    "length",
];

/// The forms in which an answer comes.
const FORMS: [Form; 4] = [
    Form::ChatStream,
    Form::ChatWhole,
    Form::ItemStream,
    Form::ItemWhole,
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    ChatStream,
    ChatWhole,
    /// Over the Responses wire, with every tool as a function.
    ItemStream,
    ItemWhole,
}

const PATCH: &str = "*** Begin Patch\n*** Add File: a.txt\n+one\n+two {\"\n*** End Patch\n";
const SCRIPT: &str = "rm -rf \"/home/me/project/build\" # }";

/// The arguments of a call of each kind, and what the client gets of them.
fn call(tool: Tool) -> (String, Value) {
    let (arguments, told) = match tool {
        Tool::Function | Tool::Namespaced | Tool::Unknown => {
            let arguments = json!({"city": "San }\" Francisco", "days": [1, {"a": null}]});
            (arguments.clone(), arguments)
        }
        Tool::Custom | Tool::NamespacedCustom => (json!({"input": SCRIPT}), json!(SCRIPT)),
        Tool::Patch => (json!({"input": PATCH}), json!(PATCH)),
        Tool::Search => {
            let arguments = json!({"query": "mail", "limit": 3});
            (arguments.clone(), arguments)
        }
        Tool::LocalShell => (
            json!({"command": ["rm", "-rf", "/home/me/build"]}),
            json!(["rm", "-rf", "/home/me/build"]),
        ),
        Tool::Shell => (
            json!({"commands": ["rm -rf /home/me/build"]}),
            json!(["rm -rf /home/me/build"]),
        ),
        Tool::ApplyPatch => {
            let arguments = json!({"type": "update_file", "path": "a.txt", "diff": "@@\n-a\n+b"});
            (arguments.clone(), arguments)
        }
    };
    (arguments.to_string(), told)
}

/// What the client does with a completed call.
fn told(item: &Value) -> Value {
    let kind = item["type"].as_str().unwrap();
    match kind {
        "function_call" => serde_json::from_str(item["arguments"].as_str().unwrap()).unwrap(),
        "custom_tool_call" => item["input"].clone(),
        "tool_search_call" => item["arguments"].clone(),
        "local_shell_call" => item["action"]["command"].clone(),
        "shell_call" => item["action"]["commands"].clone(),
        "apply_patch_call" => item["operation"].clone(),
        _ => panic!("{item}"),
    }
}

/// The answer with this call.
fn answer(form: Form, tool: Tool, text: &str, arguments: &str, reason: &str) -> String {
    let name = tool.wire_name();
    let item = |arguments: &str| {
        json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name,
               "arguments": arguments, "status": "completed"})
    };
    let message = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}]});
    let output: Vec<Value> = (!text.is_empty())
        .then_some(message)
        .into_iter()
        .chain([item(arguments)])
        .collect();
    let status = if reason == "length" {
        "incomplete"
    } else {
        "completed"
    };
    let response = json!({"object": "response", "status": status, "output": output});
    let events = |events: &[Value]| {
        let events = events.iter().map(|event| format!("data: {event}\n\n"));
        events.collect::<String>()
    };
    let call = |arguments: &str| {
        json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
            "function": {"name": name, "arguments": arguments}}]})
    };
    let middle = arguments.floor_char_boundary(arguments.len() / 2);
    let (first, second) = arguments.split_at_checked(middle).unwrap();
    match form {
        Form::ChatWhole => {
            let mut message = call(arguments);
            message["content"] = json!(text);
            json!({"choices": [{"index": 0, "message": message, "finish_reason": reason}]})
                .to_string()
        }
        Form::ChatStream => {
            let more = json!({"tool_calls": [{"index": 0, "function": {"arguments": second}}]});
            let deltas = [json!({"content": text}), call(first), more];
            let mut chunks: Vec<Value> = deltas
                .iter()
                .map(|delta| json!({"choices": [{"index": 0, "delta": delta}]}))
                .collect();
            chunks.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}));
            events(&chunks) + "data: [DONE]\n\n"
        }
        Form::ItemWhole => response.to_string(),
        Form::ItemStream => {
            let at = output.len() - 1;
            let mut said = Vec::new();
            if at == 1 {
                said.push(json!({"type": "response.output_item.done", "output_index": 0, "item": output[0]}));
            }
            said.push(
                json!({"type": "response.output_item.added", "output_index": at, "item": item("")}),
            );
            for delta in [first, second] {
                said.push(json!({"type": "response.function_call_arguments.delta", "output_index": at, "item_id": "fc_1", "delta": delta}));
            }
            said.push(json!({"type": "response.function_call_arguments.done", "output_index": at, "item_id": "fc_1", "arguments": arguments}));
            said.push(json!({"type": "response.output_item.done", "output_index": at, "item": item(arguments)}));
            said.push(json!({"type": format!("response.{status}"), "response": response}));
            events(&said)
        }
    }
}

/// What becomes of an answer.
#[derive(Debug)]
struct Outcome {
    status: String,
    /// What the client does with the completed calls.
    done: Vec<Value>,
    notes: Vec<&'static str>,
}

fn quirks(form: Form) -> WireQuirks {
    match form {
        Form::ChatStream | Form::ChatWhole => WireQuirks::default(),
        Form::ItemStream | Form::ItemWhole => RelayQuirks::default().into(),
    }
}

fn read(form: Form, body: &str, codex: bool) -> Outcome {
    let quirks = quirks(form);
    let source = TurnSource::new(request());
    let turn = source.turn().unwrap();
    let answer = drive::read(
        settings(&turn, codex, false),
        &quirks,
        [body.as_bytes()],
        true,
    );
    let stream = judge::stream(std::str::from_utf8(&answer.body).unwrap(), codex);
    let output = stream.response["output"].as_array().unwrap();
    let done = output
        .iter()
        .filter(|item| item.get("call_id").is_some() && item["status"] == "completed");
    Outcome {
        status: stream.response["status"].as_str().unwrap().to_owned(),
        done: done.map(told).collect(),
        notes: answer.notes.iter().map(|note| note.code).collect(),
    }
}

/// Every beginning of a text, the whole one included.
fn beginnings(text: &str) -> impl Iterator<Item = &str> {
    let ends = (1..=text.len()).filter(|end| text.is_char_boundary(*end));
    ends.map(|end| &text[..end])
}

#[test]
fn a_call_that_was_cut_off_is_never_completed() {
    for tool in Tool::ALL {
        let (whole, expected) = call(tool);
        for (form, reason, codex) in every(&REASONS) {
            for (text, arguments) in beginnings(&whole)
                .map(|cut| ("", cut))
                .chain([("Hi", &whole[..5])])
            {
                if !is_tried(arguments, &whole, form, reason) {
                    continue;
                }
                let body = answer(form, tool, text, arguments, reason);
                let got = read(form, &body, codex);
                let case = format!("{tool:?} {form:?} {reason} {codex} {arguments}: {got:?}");
                if arguments.len() < whole.len() {
                    assert_eq!(got.done, Vec::<Value>::new(), "{case}");
                    assert_ne!(got.status, "completed", "{case}");
                    // What the client has not seen can be asked for again.
                    let is_new = text.is_empty() && codex && reason != "length";
                    assert!(!is_new || got.status == "failed", "{case}");
                } else {
                    assert_eq!(got.done, std::slice::from_ref(&expected), "{case}");
                    assert!(!got.notes.contains(&"arguments_repaired"), "{case}");
                }
            }
        }
    }
}

#[test]
fn only_what_stands_around_the_document_is_taken_away() {
    for tool in Tool::ALL {
        let (whole, expected) = call(tool);
        let spaced = whole.replacen(':', " : ", 1);
        let twice = serde_json::to_string(&whole).unwrap();
        let said = [
            format!("{whole}{whole}"),
            format!("{whole}\n{spaced}"),
            format!("{whole}\n</tool_call>"),
            format!("{whole}<|call|></function>"),
            format!("{{{whole}}}"),
            format!("```json\n{whole}\n```"),
            twice,
        ];
        for said in said {
            for (form, reason, codex) in every(&["tool_calls"]) {
                // A cut within the fence leaves no JSON.
                for arguments in beginnings(&said).filter(|cut| !"```json\n".starts_with(cut)) {
                    if !is_tried(arguments, &said, form, reason) {
                        continue;
                    }
                    let body = answer(form, tool, "", arguments, reason);
                    let got = read(form, &body, codex);
                    let case = format!("{tool:?} {form:?} {codex} {arguments}: {got:?}");
                    let is_open = is_open(arguments);
                    if got.done.is_empty() {
                        assert_ne!(got.status, "completed", "{case}");
                        assert!(is_open, "{case}");
                    } else {
                        assert_eq!(got.done, std::slice::from_ref(&expected), "{case}");
                        assert!(!is_open, "{case}");
                        let is_repaired = got.notes.contains(&"arguments_repaired");
                        assert_eq!(is_repaired, arguments != whole, "{case}");
                    }
                }
            }
        }
    }
}

/// Whether an answer is tried with this finish reason and in this form. Whole calls are tried in
/// all forms with all reasons; a cut is tried in one form only, with the first reason and every
/// third.
fn is_tried(arguments: &str, whole: &str, form: Form, reason: &str) -> bool {
    let form = FORMS.iter().position(|other| *other == form).unwrap();
    let reason = REASONS.iter().position(|other| *other == reason).unwrap();
    let cut = arguments.len();
    let (with_form, with_reason) = (
        (cut + form).is_multiple_of(4),
        (cut + reason).is_multiple_of(3),
    );
    cut == whole.len() || with_form && (reason == 0 || with_reason)
}

/// Whether the end of a document is missing, told in another way than the code does.
fn is_open(arguments: &str) -> bool {
    let text = arguments.trim_start_matches("```json\n");
    let text = text
        .strip_prefix('{')
        .filter(|rest| rest.starts_with('{'))
        .unwrap_or(text);
    let (mut depth, mut in_string, mut escaped) = (0_u32, false, false);
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            '{' | '[' if !in_string => depth += 1,
            '}' | ']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    depth > 0 || in_string
}

/// Every form of an answer with these finish reasons, for Codex and for other clients. An answer of
/// the Responses wire knows two ends.
fn every(reasons: &'static [&'static str]) -> impl Iterator<Item = (Form, &'static str, bool)> {
    let forms = FORMS.into_iter().flat_map(|form| {
        let is_item = matches!(form, Form::ItemStream | Form::ItemWhole);
        let reasons = reasons.iter().copied();
        let reasons =
            reasons.filter(move |reason| !is_item || matches!(*reason, "tool_calls" | "length"));
        reasons.map(move |reason| (form, reason))
    });
    forms.flat_map(|(form, reason)| [(form, reason, true), (form, reason, false)])
}

#[test]
fn a_type_of_item_without_arguments_has_no_place_for_what_cannot_be_read() {
    for tool in [
        Tool::Search,
        Tool::LocalShell,
        Tool::Shell,
        Tool::ApplyPatch,
    ] {
        for (form, reason, codex) in every(&["tool_calls"]) {
            for arguments in ["[1]", "plain text"] {
                let got = read(form, &answer(form, tool, "", arguments, reason), codex);
                assert_eq!(
                    got.status, "failed",
                    "{tool:?} {form:?} {arguments}: {got:?}"
                );
            }
        }
    }
}

#[test]
fn a_native_custom_call_may_have_any_text_but_half_a_document() {
    for (input, status) in [
        (r#"{"input":"rm -rf /ho"#, "failed"),
        ("{ rm -rf /home", "completed"),
    ] {
        let call = json!({"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1",
            "name": "script", "input": input, "status": "completed"});
        let body = json!({"object": "response", "status": "completed", "output": [call]});
        let got = read(Form::ItemWhole, &body.to_string(), true);
        assert_eq!(got.status, status, "{got:?}");
    }
}

#[test]
fn a_call_without_a_name_is_no_call_however_it_comes() {
    let nameless = |form, count| {
        let body = answer(form, Tool::Function, "", "{}", "tool_calls");
        read(form, &body.replacen("\"read\"", "\"\"", count), true)
    };
    for form in FORMS {
        let got = nameless(form, usize::MAX);
        assert_eq!(
            (got.status.as_str(), got.done.len()),
            ("failed", 0),
            "{form:?}"
        );
    }
    // The end of an item may be the first to name it.
    assert_eq!(nameless(Form::ItemStream, 1).status, "completed");
}

#[test]
fn an_attempt_has_nothing_of_the_one_before() {
    let delta = |delta: Value| {
        let chunk = json!({"choices": [{"index": 0, "delta": delta}]});
        format!("data: {chunk}\n\n")
    };
    let details = json!([{"type": "reasoning.encrypted", "data": "x"}]);
    let citation = json!([{"type": "url_citation", "url": "u"}]);
    let call =
        json!([{"index": 0, "id": "call_1", "function": {"name": "read", "arguments": "{\"x"}}]);
    let chat = delta(json!({"tool_calls": call}))
        + &delta(json!({"reasoning_details": details}))
        + &delta(json!({"annotations": citation}))
        + &delta(json!({"content": "lost"}))
        + "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n";
    let item = |name: &str| {
        json!({"type": "function_call", "id": name, "call_id": "call_1", "name": name,
            "arguments": "{\"x", "status": "completed"})
    };
    let native = json!({"object": "response", "status": "completed", "output": [item("read"), item(""), item("")]});
    let (whole, _) = self::call(Tool::Function);
    for form in FORMS {
        let (quirks, failed) = match form {
            Form::ChatStream | Form::ChatWhole => {
                let quirks = ChatQuirks {
                    reasoning_replay: ReasoningReplay::ReasoningDetails,
                    ..ChatQuirks::default()
                };
                (quirks.into(), &chat)
            }
            Form::ItemStream | Form::ItemWhole => {
                (RelayQuirks::default().into(), &native.to_string())
            }
        };
        let good = answer(form, Tool::Function, "Hi", &whole, "tool_calls");
        let source = TurnSource::new(request());
        let turn = source.turn().unwrap();
        let told = |failed: &str| {
            let setup = settings(&turn, true, false);
            let read =
                drive::read_after(failed.as_bytes(), setup, &quirks, [good.as_bytes()], true);
            String::from_utf8(read.body).unwrap()
        };
        assert!(told(failed) == told(""), "{form:?}: {}", told(failed));
    }
}

#[test]
fn a_patch_without_json_around_it_gets_no_end_of_its_own() {
    for cut in beginnings(PATCH) {
        let body = answer(Form::ChatStream, Tool::Patch, "", cut, "stop");
        for codex in [true, false] {
            let got = read(Form::ChatStream, &body, codex);
            let is_whole = cut.trim_end().ends_with("*** End Patch");
            assert!(
                is_whole
                    || !got
                        .done
                        .iter()
                        .any(|input| input.as_str().unwrap().contains("*** End Patch")),
                "{got:?}"
            );
            assert!(
                got.done
                    .iter()
                    .all(|input| input.as_str().unwrap().len() >= cut.len()),
                "{got:?}"
            );
        }
    }
}

#[test]
fn a_tool_that_runs_here_gets_no_call_that_was_cut_off() {
    let (whole, _) = call(Tool::Function);
    for form in FORMS {
        for arguments in beginnings(&whole).filter(|cut| cut.len() < whole.len()) {
            let body = answer(form, Tool::Function, "", arguments, "tool_calls");
            let source = TurnSource::new(request());
            let turn = source.turn().unwrap();
            let mut settings = settings(&turn, false, false);
            settings.assembler.withheld_tools.insert("read".to_owned());
            let quirks = quirks(form);
            let fault = drive::read(settings, &quirks, [body.as_bytes()], true).fault;
            let message = fault.map(|fault| fault.message).unwrap_or_default();
            assert!(
                message.contains("a call of 'read' whose arguments are not whole"),
                "{form:?} {arguments} {message}"
            );
        }
    }
}

/// What becomes of a native call of a custom tool with this input, over the Responses wire.
fn read_custom(form: Form, tool: Tool, input: &str, codex: bool) -> Outcome {
    let body = answer(form, tool, "", input, "tool_calls")
        .replace("function_call_arguments", "custom_tool_call_input")
        .replace("\"function_call\"", "\"custom_tool_call\"")
        .replace("\"arguments\":", "\"input\":")
        .replace("\"name\":\"", "\"name\":\"functions.");
    read(form, &body, codex)
}

#[test]
fn a_custom_call_of_the_responses_wire_is_whole_as_well() {
    let forms = [Form::ItemStream, Form::ItemWhole];
    let forms = || {
        forms
            .iter()
            .flat_map(|form| [(*form, true), (*form, false)])
    };
    let wrapped = call(Tool::Patch).0;
    let command = json!({"cmd": SCRIPT}).to_string();
    for (tool, whole) in [(Tool::Patch, &wrapped), (Tool::Custom, &command)] {
        for cut in beginnings(whole).filter(|cut| cut.len() < whole.len()) {
            for (form, codex) in forms() {
                let got = read_custom(form, tool, cut, codex);
                assert_eq!(
                    got.done,
                    Vec::<Value>::new(),
                    "{form:?} {codex} {cut} {got:?}"
                );
                assert_ne!(got.status, "completed", "{form:?} {codex} {cut} {got:?}");
            }
        }
    }
    let stars = PATCH.replace("Patch\n", "Patch ***\n");
    for (tool, input, told, note) in [
        (Tool::Patch, PATCH, PATCH, None),
        (Tool::Patch, &stars, PATCH, Some("patch_repaired")),
        (Tool::Patch, &wrapped, PATCH, None),
        (
            Tool::Patch,
            &format!("{wrapped}{wrapped}"),
            PATCH,
            Some("arguments_repaired"),
        ),
        // It takes any text.
        (Tool::Custom, SCRIPT, SCRIPT, None),
        (Tool::Custom, &command, &command, None),
    ] {
        for (form, codex) in forms() {
            let got = read_custom(form, tool, input, codex);
            assert_eq!(got.done, [json!(told)], "{form:?} {codex} {input}");
            let notes = [Some("tool_name_repaired"), note, Some("usage_estimated")];
            assert_eq!(got.notes, notes.into_iter().flatten().collect::<Vec<_>>());
        }
    }
}

#[test]
fn no_answer_is_complete_with_an_item_that_is_not() {
    for (tool, arguments) in [
        (Tool::Function, "{}"),
        (Tool::Custom, "{\"input\": \"rm -rf /ho"),
    ] {
        for form in [Form::ItemStream, Form::ItemWhole] {
            for codex in [true, false] {
                let body = answer(form, tool, "", arguments, "tool_calls");
                let item = |status| format!("\"status\":\"{status}\"}}");
                let body = body.replace(&item("completed"), &item("incomplete"));
                let got = read(form, &body, codex);
                assert_ne!(got.status, "completed", "{tool:?} {form:?} {codex} {got:?}");
                assert_eq!(got.done, Vec::<Value>::new(), "{tool:?} {form:?} {codex}");
            }
        }
    }
}

#[test]
fn no_call_is_run_behind_one_without_a_name() {
    let body = answer(Form::ItemStream, Tool::Function, "", "{}", "tool_calls");
    let nameless = json!({"type": "function_call", "id": "fc_0", "call_id": "call_0", "name": "",
        "arguments": "{}", "status": "completed"});
    let first = json!({"type": "response.output_item.done", "output_index": 0, "item": nameless});
    let body = body.replace("\"output_index\":0", "\"output_index\":1");
    let got = read(Form::ItemStream, &format!("data: {first}\n\n{body}"), true);
    assert_eq!((got.status.as_str(), got.done), ("failed", vec![]));
}
