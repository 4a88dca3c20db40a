//! What was changed in a turn for its provider, in words for people.

use adapters::notes::Notes;

/// The most details that are told of one kind of change.
const MAX_DETAILS: usize = 5;

/// The codes of the notes that people are told of, and what they mean. `{}` is the detail of the
/// note; without it, details that differ from turn to turn tell nothing new.
const WORDS: [(&str, &str); 36] = [
    ("answer_inserted", "an answer is inserted {}"),
    ("audio_dropped", "audio is left out: {}"),
    ("call_ids_changed", "the ids of calls are changed {}"),
    ("content_skipped", "contents are left out: {}"),
    ("default_model", "the default model answers: {}"),
    ("effort_mapped", "the reasoning effort is changed from {}"),
    ("empty_message_dropped", "empty messages are left out"),
    ("failover", "another provider answers ({})"),
    ("file_as_text", "files are sent as text: {}"),
    ("file_dropped", "files are left out: {}"),
    (
        "history_cut",
        "the beginning of the history is left out, because the window is too small",
    ),
    ("image_described", "images are sent as descriptions: {}"),
    ("image_dropped", "images are left out: {}"),
    ("image_moved", "images are moved {}"),
    (
        "item_skipped",
        "items are left out that this provider cannot read",
    ),
    (
        "json_object_described",
        "JSON is asked for by an instruction",
    ),
    (
        "json_schema_described",
        "the schema of the answer is given as an instruction",
    ),
    (
        "max_output_tokens_lowered",
        "max_output_tokens is lowered: {}",
    ),
    ("mcp_tool_left_out", "MCP tools are left out: {}"),
    ("message_cut", "{}"),
    (
        "parameter_dropped",
        "the provider does not get the parameters {}",
    ),
    ("parameter_ignored", "parameters without effect: {}"),
    ("parameter_unknown", "unknown parameters are left out: {}"),
    (
        "reasoning_placeholder",
        "lost reasoning is replaced by a placeholder",
    ),
    (
        "reasoning_skipped",
        "reasoning is left out that this provider cannot get back",
    ),
    ("reasoning_state_dropped", "reasoning is left out: {}"),
    ("schema_changed", "schemas are simplified: {}"),
    ("strict_dropped", "strict schemas are not asked for: {}"),
    (
        "system_as_user",
        "system messages are sent as user messages that say so",
    ),
    ("temperature_lowered", "the temperature is lowered from {}"),
    ("tool_choice_dropped", "tool_choice is left out: {}"),
    ("tool_dropped", "tools are left out: {}"),
    ("tools_cut", "tools are left out: {}"),
    ("tools_left_out", "all tools are left out: {}"),
    ("user_message_added", "a user message is added {}"),
    ("user_messages_joined", "user messages are joined: {}"),
];

/// What these notes tell, in one sentence each kind, as far as `is_news` says that the code and the
/// detail of a note were not told yet.
pub(super) fn in_words(notes: &Notes, is_news: impl Fn(&[&str]) -> bool) -> Vec<String> {
    let words = |(code, words): &(&str, &str)| {
        let details = notes.iter().filter(|note| note.code == *code);
        let details = details.filter(|note| {
            let detail = if words.contains("{}") {
                &note.detail
            } else {
                ""
            };
            is_news(&[code, detail])
        });
        let mut details: Vec<&str> = details.map(|note| note.detail.as_str()).collect();
        if details.is_empty() {
            return None;
        }
        let more = details.len().saturating_sub(MAX_DETAILS);
        details.truncate(MAX_DETAILS);
        let mut text = details.join(", ");
        if more > 0 {
            text = format!("{text} and {more} more");
        }
        Some(words.replace("{}", &text))
    };
    WORDS.iter().filter_map(words).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_change_is_told_once() {
        let told = RefCell::new(HashSet::new());
        let tell = |notes: &[(&'static str, &str)]| {
            let mut all = Notes::default();
            for (code, detail) in notes {
                all.add(code, *detail);
            }
            in_words(&all, |fact| told.borrow_mut().insert(fact.join("\n"))).join("; ")
        };
        let first = [
            ("effort_mapped", "none to low"),
            ("reasoning_skipped", "input[8]: no answer follows it"),
            ("retried", "overloaded"),
            ("tool_dropped", "a"),
            ("tool_dropped", "b"),
        ];
        assert_eq!(
            tell(&first),
            "the reasoning effort is changed from none to low; reasoning is left out that this \
             provider cannot get back; tools are left out: a, b"
        );
        assert_eq!(tell(&first), "");
        let later = [
            ("effort_mapped", "max to high"),
            ("reasoning_skipped", "input[9]: no answer follows it"),
        ];
        assert_eq!(
            tell(&later),
            "the reasoning effort is changed from max to high"
        );
        let many: Vec<String> = (0..12).map(|n| format!("tool{n}")).collect();
        let many: Vec<_> = many
            .iter()
            .map(|name| ("schema_changed", name.as_str()))
            .collect();
        assert_eq!(
            tell(&many),
            "schemas are simplified: tool0, tool1, tool2, tool3, tool4 and 7 more"
        );
    }
}
