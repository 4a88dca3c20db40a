use std::path::Path;

use adapters::quirk_patch::ModelPatch;

use super::show;
use crate::diagnostics::bundle::{OmittedPart, RerunReport, sample};

const PAGE: &str = r#"turn 1 of 1
  when       Fri, 07 Aug 2026 06:05:05 GMT, took 2500 ms
  request    req_00000000000000000000000000000001
  response   resp_00112233445566778899aabbccddeeff
  route      lab/one -> lab/one
  outcome    failed
  fault      cut: The answer broke off. (trying again may help)
             caused by unexpected end
  notes      dropped_tool: web_search, "quoted"
  tokens     input 30 (cached 0, written to the cache 0), output 2 (reasoning 0)
  window     131072 tokens, assumed; input estimated at 19 tokens, 2.7 bytes a token
  program    0.1.0, configuration 00112233aabbccdd
  time line
         0 ms  client request /v1/responses: 49 bytes, input is a text
         0 ms  attempt 1 -> lab/one: 43 bytes, key 1
        80 ms    head 429 after 79 ms
        90 ms    attempt 1 failed: rate_limit, upstream status 429: slow down (try again after 1 s)
      1200 ms    tried again after 1110 ms
      1200 ms  attempt 2 -> lab/one: 43 bytes, key 2
      1300 ms    head 200 after 100 ms
      1400 ms    answer: 1 piece, 33 bytes
      1400 ms    answer: 3 pieces, 60 bytes, longest pause 50 ms
      1400 ms  answer 200: 2 pieces, 116 bytes, longest pause 50 ms
      1400 ms        1 response.created
      1400 ms        1 response.failed
      2400 ms    attempt 2 failed: cut: The answer broke off. (trying again may help)
      2500 ms  end

Secrets are replaced by marks such as [redacted-1]. The conversation itself is in the file: read it before you pass it on.
next:
  respondent replay a.tar.zst
  respondent replay a.tar.zst --live PROVIDER/MODEL
  respondent bundle diff a.tar.zst OTHER
"#;

#[test]
fn a_turn_is_shown_from_its_request_to_its_end() {
    let page = show(&[sample::turn(1)], Path::new("a.tar.zst"));
    assert_eq!(page, PAGE);
}

#[test]
fn learned_quirks_are_shown() {
    let mut turn = sample::turn(1);
    turn.attempts[0].fault.as_mut().unwrap().patch = Some(ModelPatch::NoImages.into());
    let page = show(&[turn], Path::new("a.tar.zst"));
    assert!(
        page.contains("learned: the model takes no images"),
        "{page}"
    );
    assert!(page.contains("tried again, mended"), "{page}");
}

#[test]
fn an_incomplete_turn_is_shown_without_a_replay_command() {
    let mut turn = sample::turn(1);
    turn.omitted.push(OmittedPart {
        what: "answer".into(),
        total: 2000,
        kept: 100,
    });
    let page = show(&[sample::turn(2), turn], Path::new("a.tar.zst"));
    assert!(page.contains("answer: 100 of 2000 bytes kept"), "{page}");
    assert!(!page.contains("respondent replay"), "{page}");
}

#[test]
fn what_a_rerun_showed_is_said() {
    let mut turn = sample::turn(1);
    turn.rerun = RerunReport {
        failed: Some("the replay stood still".into()),
        events: vec![3, 7],
        parts: vec!["attempt 1 request".into()],
    };
    let page = show(&[turn], Path::new("a.tar.zst"));
    for line in [
        "  rerun      not possible: the replay stood still\n",
        "  rerun      differs from what was sent: event 3, event 7, attempt 1 request\n",
    ] {
        assert!(page.contains(line), "{page}");
    }
}

#[test]
fn a_hostile_file_drives_no_terminal_and_no_prompt_is_shown() {
    let evil = "\x1b[2J\r\n\u{202e}forged\u{9b}";
    let mut turn = sample::turn(1);
    turn.request_id.push_str(evil);
    turn.version.push_str(evil);
    turn.settings.asked.push_str(evil);
    turn.settings.routes[0].provider.push_str(evil);
    turn.notes.push((evil.into(), evil.repeat(1000)));
    turn.fault.as_mut().unwrap().message.push_str(evil);
    turn.attempts[0].route.push_str(evil);
    turn.request.path.push_str(evil);
    turn.answer.body = format!("event: {}\ndata: {{}}\n\n", "\x1b[2J").into_bytes();
    let page = show(&[turn], Path::new("a.tar.zst"));
    assert!(page.contains("forged"));
    assert!(page.lines().all(|line| line.chars().count() < 3000));
    let risky = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!page.contains(risky), "{page:?}");
    assert!(!page.contains("\nforged"), "{page}");
    assert!(!page.contains("hello"), "{page}");
}
