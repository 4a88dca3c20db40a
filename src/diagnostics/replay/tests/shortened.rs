//! Redacted turns with shortened outputs replay without a difference, and contain no
//! part of a secret that was cut in two.

use adapters::plan::output;

use super::*;

const SECRET: &str = "sk-canary-0123456789abcdef0123456789abcdef";
const WINDOW: &str = "models = [{ id = \"m\", window = 20000 }]\nmax_retries = 0";

/// A log of a thousand lines, about 60 KB, with `line` at these places.
fn log(places: &[usize], line: &str) -> String {
    let lines = (0..1000).map(|n| {
        if places.contains(&n) {
            format!("{line}\n")
        } else {
            format!("step {n:04} of the build compiles its unit and goes on with it\n")
        }
    });
    lines.collect()
}

fn call(id: usize) -> Value {
    json!({"type": "function_call", "call_id": format!("c{id}"), "name": "shell", "arguments": "{}"})
}

fn result(id: usize, output: &str) -> Value {
    json!({"type": "function_call_output", "call_id": format!("c{id}"), "output": output})
}

/// A history with these outputs, each of a separate call.
fn history(outputs: &[String]) -> Vec<Value> {
    let user = json!({"type": "message", "role": "user", "content": "Build it."});
    let rounds = outputs.iter().enumerate();
    let rounds = rounds.flat_map(|(id, output)| [call(id), result(id, output)]);
    std::iter::once(user).chain(rounds).collect()
}

fn asked(input: &[Value]) -> Scene<'static> {
    Scene {
        settings: WINDOW,
        tables: "[context]\noutputs = \"adaptive\"",
        requests: vec![json!({"model": "acme/m", "input": input, "stream": true})],
        retention: Retention::Disk,
        ..scene(json!([{"steps": [{"text": "Built."}]}]))
    }
}

/// The redacted turn; checks that it contains no part of the secret and replays without
/// a difference.
fn redacted(recorded: &BundleTurn) -> BundleTurn {
    let scrubber = Scrubber::new(Redactor::default(), Keep::default());
    let redacted = redact(recorded, &scrubber);
    let all = text(&redacted);
    for part in SECRET.as_bytes().windows(8) {
        let part = std::str::from_utf8(part).unwrap();
        if let Some(at) = all.find(part) {
            panic!("{part} in {:?}", all.get(at.saturating_sub(300)..at + 60));
        }
    }
    assert!(redacted.omitted.is_empty());
    same(&timeless(&redacted), &timeless(&replay(&redacted).unwrap()));
    assert!(redact(&redacted, &scrubber) == redacted);
    redacted
}

fn sent(turn: &BundleTurn) -> Vec<String> {
    let bodies = turn.attempts.iter().map(|attempt| attempt.body.clone());
    bodies
        .map(|body| String::from_utf8(body).unwrap())
        .collect()
}

/// The secret is in a line that the excerpt shows, cuts, or leaves out.
#[test]
fn a_shortened_output() {
    let line = format!("error: the key {SECRET} was refused");
    for places in [&[500][..], &[3, 500], &[999], &[10, 20, 30, 400, 600]] {
        let output = log(places, &line);
        let recorded = asked(&history(std::slice::from_ref(&output))).record();
        let id = output::artifact_id(&output);
        assert!(sent(&recorded)[0].contains(&id));
        let redacted = redacted(&recorded);
        assert!(!text(&redacted).contains(&id));
    }
    // One long line of secrets: wherever it is cut, the cut goes through a secret.
    for shift in 0..6 {
        let output = format!(
            "{} {}",
            "y".repeat(shift * 7),
            format!("{SECRET} ").repeat(1400)
        );
        let recorded = asked(&history(&[output])).record();
        redacted(&recorded);
    }
}

/// Old outputs are replaced by notices with only the artifact's id; the model reads one
/// back and mentions its id in stream fragments.
#[test]
fn outputs_that_became_notices() {
    let line = format!("error: the key {SECRET} was refused");
    let mut outputs: Vec<String> = (0..12).map(|n| log(&[n * 50, n * 50 + 7], &line)).collect();
    let ids: Vec<String> = outputs
        .iter()
        .map(|output| output::artifact_id(output))
        .collect();
    let head = output::read_back_heading(&ids[0], "lines 1-900 of 1000");
    outputs.push(format!("{head}\n{}", log(&[100], &line)));
    let mention = format!("I read {} and {}.", ids[0], ids[11]);
    let mut scene = asked(&history(&outputs));
    scene.scripts = vec![json!({"answers": [{"steps": [{"text": mention}], "split": 7}]})];
    let recorded = scene.record();
    assert!(sent(&recorded)[0].contains(&ids[0]));
    let redacted = text(&redacted(&recorded));
    for id in ids {
        assert!(!redacted.contains(&id), "{id}");
    }
}

/// A message that is cut to fit the window.
#[test]
fn a_message_that_was_cut() {
    let long = format!("{SECRET} ").repeat(6000);
    for pad in 0..4 {
        let input = vec![
            json!({"type": "message", "role": "user", "content": format!("{} {long}", "z".repeat(pad * 9))}),
            json!({"type": "message", "role": "assistant", "content": "Hm."}),
            json!({"type": "message", "role": "user", "content": "Go on."}),
        ];
        redacted(&asked(&input).record());
    }
}

/// A learned quirk changes the next request of the turn.
#[test]
fn a_turn_that_learned() {
    let line = format!("error: the key {SECRET} was refused");
    let mut scene = asked(&history(&[log(&[400], &line), log(&[3, 800], &line)]));
    scene.requests[0]["temperature"] = json!(0.5);
    scene.scripts = vec![json!({"answers": [
        {"status": 400, "json": {"error": {
            "message": "Unsupported parameter: 'temperature' is not supported with this model.",
            "param": "temperature", "code": "unsupported_parameter"}}},
        {"steps": [{"text": "Built."}]},
    ]})];
    let recorded = scene.record();
    assert_eq!(recorded.attempts.len(), 2);
    redacted(&recorded);
}

/// Every request of a compaction: for the summary, for the summary of a cut history, and
/// for the response after the summary.
#[test]
fn a_compaction() {
    let line = format!("error: the key {SECRET} was refused");
    let summary =
        format!("The user wants a build; {SECRET} was refused by the server, src/key.rs is next.");
    let outputs: Vec<String> = (0..3).map(|n| log(&[400, n * 9 + 1], &line)).collect();
    let summary_step = json!({"steps": [{"text": summary}]});
    let no = json!({"status": 400, "json": {"error": {"message": "no"}}});
    let answer = json!({"steps": [{"text": "Built."}]});
    for (answers, trigger) in [
        (json!([summary_step]), json!({"type": "compaction_trigger"})),
        (
            json!([no, summary_step]),
            json!({"type": "compaction_trigger"}),
        ),
        (json!([answer, summary_step]), Value::Null),
        (json!([answer, no, summary_step]), Value::Null),
    ] {
        let mut input = history(&outputs);
        if trigger.is_null() {
            input.push(json!({"type": "message", "role": "user", "content": "Go on."}));
        } else {
            input.push(trigger.clone());
        }
        let mut scene = asked(&input);
        if trigger.is_null() {
            scene.requests[0]["context_management"] =
                json!([{"type": "compaction", "compact_threshold": 1000}]);
        }
        let count = answers.as_array().unwrap().len();
        scene.scripts = vec![json!({"answers": answers})];
        let recorded = scene.record();
        assert_eq!(recorded.attempts.len(), count);
        redacted(&recorded);
    }
}
