//! Which items of a history stay when a summary replaces the items before them.

use adapters::turn::{Item, ItemKind, Turn};

/// The index of the first item that stays, and whether the newest user message is replaced.
///
/// Normally the newest user message and everything after it stay. If the items after it make up
/// more than half of the history, they are what became too long, and only the last round of calls
/// stays.
pub(super) fn retained(turn: &Turn<'_>) -> (usize, bool) {
    let items = &turn.items;
    let Some(newest) = items.iter().rposition(is_user_message) else {
        return (last_round(items), false);
    };
    let bytes = |items: &[Item<'_>]| items.iter().map(size).sum::<usize>();
    let total = bytes(items);
    let after_newest = items.get(newest + 1..).map_or(0, bytes);
    if after_newest <= total / 2 {
        (newest, false)
    } else {
        (last_round(items), true)
    }
}

/// The newest user message.
pub(super) fn newest_user_message<'t, 'a>(turn: &'t Turn<'a>) -> Option<&'t Item<'a>> {
    turn.items.iter().rev().find(|item| is_user_message(item))
}

fn is_user_message(item: &Item<'_>) -> bool {
    item.kind == ItemKind::Message && item.role() == "user"
}

/// Where the model's last answer with calls begins, if the history ends with the outputs of these
/// calls; else the end of the history.
fn last_round(items: &[Item<'_>]) -> usize {
    let mut from = items.len();
    let mut in_outputs = true;
    for (index, item) in items.iter().enumerate().rev() {
        let is_call_or_reasoning = item.kind.is_call() || item.kind == ItemKind::Reasoning;
        let is_answer = item.kind == ItemKind::Message && item.role() == "assistant";
        if item.kind.is_output() && in_outputs {
            from = index;
        } else if is_call_or_reasoning || (is_answer && !in_outputs) {
            in_outputs = false;
            from = index;
        } else {
            break;
        }
    }
    from
}

fn size(item: &Item<'_>) -> usize {
    let raw = [item.content(), item.arguments(), item.output()];
    raw.into_iter().flatten().map(|raw| raw.get().len()).sum()
}

#[cfg(test)]
mod tests {
    use adapters::responses::request::TurnSource;
    use serde_json::{Value, json};

    use super::*;

    /// `u` is a user message, `a` an answer, `r` reasoning, `c` a call and `o` its output; `O` is a
    /// long output.
    fn retained_of(history: &str) -> (usize, bool) {
        let items: Vec<Value> = history
            .chars()
            .enumerate()
            .map(|(n, kind)| match kind {
                'u' => json!({"role": "user", "content": "x".repeat(50)}),
                'a' => json!({"role": "assistant", "content": "x".repeat(50)}),
                'r' => json!({"type": "reasoning", "summary": []}),
                'c' => json!({"type": "function_call", "call_id": format!("c{n}"), "name": "f", "arguments": "{}"}),
                long => json!({"type": "function_call_output", "call_id": "c", "output": "x".repeat(if long == 'O' { 5000 } else { 50 })}),
            })
            .collect();
        let source = TurnSource::new(json!({"model": "m", "input": items}).to_string());
        retained(&source.turn().unwrap())
    }

    #[test]
    fn the_newest_user_message_stays_unless_its_own_turn_is_too_long() {
        for (history, expected) in [
            ("uau", (2, false)),
            ("ucOacOauco", (7, false)),
            ("ucOcOcO", (5, true)),
            ("ucOrcco", (3, true)),
            ("ucOcOa", (6, true)),
            ("cO", (0, false)),
            ("u", (0, false)),
        ] {
            assert_eq!(retained_of(history), expected, "{history}");
        }
    }
}
