//! Which items of a stored history are sent.

use std::collections::HashMap;
use std::ops::Range;

use serde_json::json;

use crate::item_text::message_text;
use crate::responses::request_body::read_items;
use crate::turn::{Item, ItemKind};

/// How many items are left out at once under [`HistoryMode::Items`]: the beginning of the history,
/// and with it the prompt cache of the provider, stays the same until this many more have come.
const STEP: usize = 13;

/// How much of a stored history is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HistoryMode {
    /// All items. The plan bounds them as it bounds what a client sends.
    #[default]
    Full,
    /// The newest items. Calls stay with their results.
    Items {
        /// The most items.
        max_items: usize,
    },
    /// The newest messages as one text, without calls and results.
    Text {
        /// The most messages.
        max_messages: usize,
        /// The most characters of the text.
        max_chars: usize,
    },
}

/// The items that are sent of a history, as a JSON list. `list` is the whole history, and `ranges`
/// has the place of each item in it.
pub fn select(list: String, ranges: &[Range<usize>], mode: HistoryMode) -> String {
    match mode {
        HistoryMode::Full => list,
        HistoryMode::Items { max_items } if ranges.len() <= max_items => list,
        HistoryMode::Items { max_items } => {
            let items = read_items(&list).unwrap_or_default();
            let first = first_sent(&items, max_items);
            let sent = ranges.iter().skip(first);
            let sent = sent.filter_map(|range| list.get(range.clone()));
            format!("[{}]", sent.collect::<Vec<_>>().join(","))
        }
        HistoryMode::Text {
            max_messages,
            max_chars,
        } => {
            let items = read_items(&list).unwrap_or_default();
            let text = as_text(&items, max_messages, max_chars);
            if text.is_empty() {
                return "[]".to_owned();
            }
            let text = format!("The conversation so far:\n{text}");
            json!([{"type": "message", "role": "developer", "content": text}]).to_string()
        }
    }
}

/// The index of the first item that is sent.
fn first_sent(items: &[Item<'_>], max_items: usize) -> usize {
    let excess = items.len().saturating_sub(max_items);
    let step = STEP.min(max_items.max(1));
    let mut first = excess.div_ceil(step) * step;
    // The results of a call that is left out are left out as well, and so are the calls before
    // such a result.
    let mut results: HashMap<_, usize> = HashMap::new();
    for (index, item) in items.iter().enumerate() {
        if !item.kind.is_call()
            && let Some(id) = item.explicit_call_id()
        {
            results.insert(id, index);
        }
    }
    for (index, item) in items.iter().enumerate() {
        if index >= first {
            break;
        }
        if item.kind.is_call()
            && let Some(id) = item.call_id()
            && let Some(result) = results.get(&id)
        {
            first = first.max(result + 1);
        }
    }
    first
}

/// The newest messages, each in a line with the role of its author, the oldest first.
fn as_text(items: &[Item<'_>], max_messages: usize, max_chars: usize) -> String {
    let messages = items
        .iter()
        .rev()
        .filter(|item| item.kind == ItemKind::Message);
    let mut lines: Vec<String> = Vec::new();
    let mut left = max_chars;
    for message in messages.take(max_messages) {
        let author = match message.role().as_ref() {
            "assistant" => "Assistant",
            "user" => "User",
            _ => "System",
        };
        let line = format!("{author}: {}", message_text(message));
        // The line end before the next one counts.
        let chars = line.chars().count() + usize::from(!lines.is_empty());
        if chars > left {
            if lines.is_empty() {
                lines.push(line.chars().take(max_chars).collect());
            }
            break;
        }
        left -= chars;
        lines.push(line);
    }
    lines.reverse();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::Value;

    use super::*;

    fn sent(items: &[Value], mode: HistoryMode) -> Vec<Value> {
        let mut list = "[".to_owned();
        let mut ranges = Vec::new();
        for item in items {
            if !ranges.is_empty() {
                list.push(',');
            }
            let start = list.len();
            list.push_str(&item.to_string());
            ranges.push(start..list.len());
        }
        list.push(']');
        serde_json::from_str(&select(list, &ranges, mode)).unwrap()
    }

    fn message(role: &str, text: impl Into<String>) -> Value {
        json!({"type": "message", "role": role, "content": text.into()})
    }

    fn messages(count: usize) -> Vec<Value> {
        (0..count)
            .map(|n| message("user", format!("message {n}")))
            .collect()
    }

    const ITEMS: HistoryMode = HistoryMode::Items { max_items: 50 };
    const TEXT: HistoryMode = HistoryMode::Text {
        max_messages: 20,
        max_chars: 4_000,
    };

    /// Promise: In the mode `items` at most 50 items are sent; a longer history is cut to 38 at
    /// once, so that its beginning seldom changes.
    #[test]
    fn at_most_fifty_items_are_sent_and_their_beginning_seldom_changes() {
        assert_eq!(sent(&messages(50), ITEMS).len(), 50);
        assert_eq!(sent(&messages(51), ITEMS).len(), 38);
        let mut changes = 0;
        let mut before = sent(&messages(50), ITEMS);
        for count in 51..=200 {
            let now = sent(&messages(count), ITEMS);
            assert!(now.len() <= 50 && now.len() >= 38, "{count}");
            changes += usize::from(now.first() != before.first());
            before = now;
        }
        assert_eq!(changes, 12);
    }

    /// Promise: No cut of a history is between a call and its result.
    #[test]
    fn no_cut_is_between_a_call_and_its_result() {
        let mut items = Vec::new();
        for turn in 0..40 {
            items.push(message("user", format!("turn {turn}")));
            for call in 0..turn % 3 {
                let id = format!("call_{turn}_{call}");
                items.push(json!({"type": "function_call", "call_id": id, "name": "f",
                    "arguments": "{}"}));
            }
            for call in 0..turn % 3 {
                let id = format!("call_{turn}_{call}");
                items.push(json!({"type": "function_call_output", "call_id": id, "output": "o"}));
            }
            items.push(message("assistant", format!("answer {turn}")));
        }
        for count in 1..=items.len() {
            let now = sent(&items[..count], ITEMS);
            let ids = |kind: &str| -> HashSet<String> {
                let items = now.iter().filter(|item| item["type"] == kind);
                items.map(|item| item["call_id"].to_string()).collect()
            };
            let (calls, outputs) = (ids("function_call"), ids("function_call_output"));
            assert!(outputs.is_subset(&calls), "{count}: {now:?}");
        }
    }

    /// Promise: In the mode `text` the last 20 messages are sent, as one text of at most 4,000
    /// characters with the roles of their authors. The 4,000 characters count all lines; the newest
    /// ones are kept, and the current input does not count. In the mode `text` each line begins
    /// with the role of its author.
    #[test]
    fn text_has_the_last_twenty_messages_with_their_roles() {
        let mut items = messages(25);
        items.push(json!({"type": "function_call_output", "call_id": "c", "output": "secret"}));
        let all = sent(&items, TEXT);
        let text = all[0]["content"].as_str().unwrap();
        assert_eq!(all.len(), 1);
        assert!(text.contains("User: message 5\n") && text.ends_with("User: message 24"));
        assert!(!text.contains("message 4\n") && !text.contains("secret"));
        let long: Vec<_> = (0..20)
            .map(|n| message("assistant", format!("{n:03}{}", "x".repeat(497))))
            .collect();
        let text = sent(&long, TEXT)[0]["content"].as_str().unwrap().to_owned();
        let history = text.split_once('\n').unwrap().1;
        assert!(history.chars().count() <= 4_000);
        assert!(history.contains("Assistant: 013x") && !history.contains("Assistant: 012x"));
        assert_eq!(sent(&[], TEXT), Vec::<Value>::new());
        let of_system = message("system", "be brief".to_owned());
        let text = sent(&[of_system], TEXT)[0]["content"].to_string();
        assert!(text.contains("System: be brief"), "{text}");
    }
}
