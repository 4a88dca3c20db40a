//! What an answer shows of the quirks of its provider.

use registry::{ChatQuirks, ExtraContentReplay, ReasoningReplay, ThinkTags};
use serde_json::Value;

/// Sets the quirks that an answer shows: how its reasoning arrives, in which form it is then sent
/// back, whether its calls have extra content, and how its tokens are counted. `body` is the whole
/// body, a stream or one document. What the answer does not show stays.
pub(crate) fn observe(quirks: &mut ChatQuirks, body: &str) {
    let mut text = String::new();
    let mut form = None;
    for document in documents(body) {
        quirks.usage_apart |= counts_reasoning_apart(&document);
        let Some(choice) = document.pointer("/choices/0") else {
            continue;
        };
        for message in ["delta", "message"] {
            let Some(message) = choice.get(message) else {
                continue;
            };
            form = form.max(reasoning_form(message));
            if let Some(piece) = message.get("content").and_then(Value::as_str) {
                text.push_str(piece);
            }
            let calls = message.get("tool_calls").and_then(Value::as_array);
            let has_extra = |call: &Value| call.get("extra_content").is_some_and(Value::is_object);
            if calls.is_some_and(|calls| calls.iter().any(has_extra))
                && quirks.call_extra == ExtraContentReplay::None
            {
                quirks.call_extra = ExtraContentReplay::Kept;
            }
        }
    }
    match (form, think_tags(&text)) {
        (Some(form), _) => quirks.reasoning_replay = form.replay(),
        (None, Some(tags)) if quirks.think_tags != ThinkTags::Unopened => {
            quirks.think_tags = tags;
            quirks.reasoning_replay = ReasoningReplay::ThinkTags;
        }
        (None, _) => {}
    }
}

/// How the reasoning inside a text is marked, if there is any.
fn think_tags(text: &str) -> Option<ThinkTags> {
    let text = text.trim_start();
    if text.starts_with("<think>") {
        return Some(ThinkTags::On);
    }
    let (before, _) = text.split_once("</think>")?;
    (!before.contains("<think>")).then_some(ThinkTags::Unopened)
}

/// Whether token counts show that those of the output lack the reasoning.
fn counts_reasoning_apart(document: &Value) -> bool {
    let count = |at: &str| document.pointer(at).and_then(Value::as_u64);
    let reasoning = count("/usage/completion_tokens_details/reasoning_tokens").unwrap_or(0);
    let (Some(input), Some(output), Some(total)) = (
        count("/usage/prompt_tokens"),
        count("/usage/completion_tokens"),
        count("/usage/total_tokens"),
    ) else {
        return false;
    };
    reasoning > 0 && total >= input.saturating_add(output).saturating_add(reasoning)
}

/// How reasoning arrives. If an answer uses several forms, the later variant wins: it carries more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ReasoningForm {
    Reasoning,
    ReasoningContent,
    Parts,
    Details,
}

impl ReasoningForm {
    fn replay(self) -> ReasoningReplay {
        match self {
            Self::Reasoning => ReasoningReplay::Reasoning,
            Self::ReasoningContent => ReasoningReplay::ReasoningContent,
            Self::Parts => ReasoningReplay::ThinkingParts,
            Self::Details => ReasoningReplay::ReasoningDetails,
        }
    }
}

fn reasoning_form(message: &Value) -> Option<ReasoningForm> {
    let has_text = |name: &str| {
        let text = message.get(name).and_then(Value::as_str);
        text.is_some_and(|text| !text.is_empty())
    };
    let list = |name: &str| message.get(name).and_then(Value::as_array);
    let is_thinking = |part: &Value| part.get("type").is_some_and(|kind| kind == "thinking");
    if list("reasoning_details").is_some_and(|details| !details.is_empty()) {
        Some(ReasoningForm::Details)
    } else if list("content").is_some_and(|parts| parts.iter().any(is_thinking)) {
        Some(ReasoningForm::Parts)
    } else if has_text("reasoning_content") {
        Some(ReasoningForm::ReasoningContent)
    } else if has_text("reasoning") {
        Some(ReasoningForm::Reasoning)
    } else {
        None
    }
}

/// The JSON documents of a body: the data of its events, or the body itself.
fn documents(body: &str) -> impl Iterator<Item = Value> {
    let whole = serde_json::from_str(body).ok();
    let lines = body.lines().filter_map(|line| {
        let data = line.strip_prefix("data:")?;
        serde_json::from_str(data.trim()).ok()
    });
    whole.into_iter().chain(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(body: &str) -> ChatQuirks {
        let mut quirks = ChatQuirks::default();
        observe(&mut quirks, body);
        quirks
    }

    #[test]
    fn the_form_of_reasoning_is_told_from_an_answer() {
        let event = |delta: &str| format!("data: {{\"choices\":[{{\"delta\":{delta}}}]}}\n\n");
        for (deltas, replay) in [
            (vec![r#"{"content":"a"}"#], ReasoningReplay::None),
            (vec![r#"{"reasoning_content":""}"#], ReasoningReplay::None),
            (
                vec![r#"{"reasoning_content":"a"}"#, r#"{"content":"b"}"#],
                ReasoningReplay::ReasoningContent,
            ),
            (vec![r#"{"reasoning":"a"}"#], ReasoningReplay::Reasoning),
            (
                vec![
                    r#"{"reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a"}]}"#,
                ],
                ReasoningReplay::ReasoningDetails,
            ),
            (
                vec![r#"{"content":[{"type":"thinking","thinking":[]}]}"#],
                ReasoningReplay::ThinkingParts,
            ),
            (
                vec![r#"{"content":"<th"}"#, r#"{"content":"ink>a</think>b"}"#],
                ReasoningReplay::ThinkTags,
            ),
        ] {
            let body: String = deltas.iter().map(|delta| event(delta)).collect();
            let quirks = observed(&(body + "data: [DONE]\n\n"));
            assert_eq!(quirks.reasoning_replay, replay, "{deltas:?}");
            let is_tagged = replay == ReasoningReplay::ThinkTags;
            assert_eq!(quirks.think_tags == ThinkTags::On, is_tagged, "{deltas:?}");
        }
        let whole = r#"{"choices":[{"message":{"reasoning":"a","content":"b"}}]}"#;
        assert_eq!(observed(whole).reasoning_replay, ReasoningReplay::Reasoning);
    }

    #[test]
    fn reasoning_without_an_opening_tag_is_told_from_its_end() {
        let body = r#"{"choices":[{"message":{"content":"a\n</think>\nb"}}]}"#;
        let quirks = observed(body);
        assert_eq!(quirks.think_tags, ThinkTags::Unopened);
        assert_eq!(quirks.reasoning_replay, ReasoningReplay::ThinkTags);
        // Tags in the middle of a text are part of it.
        let body = r#"{"choices":[{"message":{"content":"The tag <think> and </think>"}}]}"#;
        assert_eq!(observed(body).think_tags, ThinkTags::Off);
    }

    #[test]
    fn token_counts_show_whether_reasoning_is_counted_apart() {
        for (total, is_apart) in [(18, false), (25, true)] {
            let usage = serde_json::json!({"usage": {"prompt_tokens": 10, "completion_tokens": 8,
                "total_tokens": total, "completion_tokens_details": {"reasoning_tokens": 7}}});
            assert_eq!(observed(&usage.to_string()).usage_apart, is_apart);
        }
    }

    #[test]
    fn extra_content_of_a_call_goes_back() {
        let body = r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"extra_content":{"google":{}}}]}}]}"#;
        assert_eq!(observed(body).call_extra, ExtraContentReplay::Kept);
    }
}
