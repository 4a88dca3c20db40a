//! From where on a history stays as it is when a summary replaces what is before.

use adapters::turn::{Item, ItemKind, Turn};
use serde_json::value::RawValue;

/// The first item that stays of a history that became too long.
pub(crate) fn stays_from(turn: &Turn<'_>) -> usize {
    of(turn).0
}

/// The first item that stays, and whether the newest user message does not. That
/// message and what follows it stay, unless that is most of the history: then it is
/// what became too long, and only the last round of calls stays.
pub(super) fn of(turn: &Turn<'_>) -> (usize, bool) {
    let items = &turn.items;
    let is_user = |item: &Item<'_>| item.kind == ItemKind::Message && item.role() == "user";
    let Some(newest) = items.iter().rposition(is_user) else {
        return (last_round(items), false);
    };
    let bytes = |items: &[Item<'_>]| items.iter().map(size).sum::<usize>();
    let all = bytes(items);
    let stay = items.get(newest + 1..).map_or(0, bytes);
    if stay <= all / 2 {
        (newest, false)
    } else {
        (last_round(items), true)
    }
}

/// The text of the newest user message, as JSON.
pub(super) fn newest_user_message<'a>(turn: &Turn<'a>) -> Option<&'a RawValue> {
    let mut users = turn.items.iter().rev();
    users
        .find(|item| item.kind == ItemKind::Message && item.role() == "user")
        .and_then(Item::content)
}

/// Where the last answer of the model begins whose calls have their outputs at the
/// end; the end, where there is none.
fn last_round(items: &[Item<'_>]) -> usize {
    let mut from = items.len();
    let mut outputs = true;
    for (index, item) in items.iter().enumerate().rev() {
        let own = item.kind.is_call() || item.kind == ItemKind::Reasoning;
        let assistant = item.kind == ItemKind::Message && item.role() == "assistant";
        if item.kind.is_output() && outputs {
            from = index;
        } else if own || (assistant && !outputs) {
            outputs = false;
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

    /// `u` is a user message, `a` an answer, `c` a call and `o` its output; a capital
    /// output is long.
    fn place(history: &str) -> (usize, bool) {
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
        of(&source.turn().unwrap())
    }

    #[test]
    fn the_newest_user_message_stays_unless_its_own_turn_is_too_long() {
        for (history, found) in [
            ("uau", (2, false)),
            ("ucOacOauco", (7, false)),
            ("ucOcOcO", (5, true)),
            ("ucOrcco", (3, true)),
            ("ucOcOa", (6, true)),
            ("cO", (0, false)),
            ("u", (0, false)),
        ] {
            assert_eq!(place(history), found, "{history}");
        }
    }
}
