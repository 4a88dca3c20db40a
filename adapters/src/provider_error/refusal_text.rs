//! All that a refusal says and names, wherever it stands in the reply.

use serde_json::Value;

use super::error::without_quotations;

/// The most characters of it.
const MAX_TEXT: usize = 4_000;

/// How deep a reply is read, JSON in strings included.
const MAX_DEPTH: u8 = 12;

/// Members that quote the request or name it, and say nothing of it.
const QUOTATIONS: [&str; 12] = [
    "input",
    "input_value",
    "ctx",
    "url",
    "id",
    "request_id",
    "trace_id",
    "request",
    "failed_generation",
    "value",
    "timestamp",
    "instance",
];

/// Members that every error has.
const ENVELOPE: [&str; 16] = [
    "error", "errors", "message", "msg", "detail", "details", "type", "code", "status", "param",
    "loc", "object", "title", "metadata", "name", "reason",
];

/// The texts of a reply, in their order: the strings in it but for numbers, such as codes of
/// errors; the names of its members but for those of every error; and locations as paths. `message`
/// is what the reply says for people; it is the text of a reply that is no JSON.
pub(super) fn of_reply(reply: &str, message: &str) -> String {
    let mut out = String::new();
    match serde_json::from_str::<Value>(reply) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => collect(&value, MAX_DEPTH, &mut out),
        Ok(_) | Err(_) => push(message, &mut out),
    }
    if out.is_empty() {
        push(message, &mut out);
    }
    out
}

fn push(text: &str, out: &mut String) {
    let room = MAX_TEXT.saturating_sub(out.len());
    let text = without_quotations(text);
    if !text.is_empty() && room > 0 {
        if !out.is_empty() {
            out.push_str(" ; ");
        }
        out.push_str(
            text.get(..text.floor_char_boundary(room))
                .unwrap_or_default(),
        );
    }
}

fn collect(value: &Value, depth: u8, out: &mut String) {
    let Some(depth) = depth.checked_sub(1) else {
        return;
    };
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                if QUOTATIONS.contains(&name.as_str()) {
                    continue;
                }
                if !ENVELOPE.contains(&name.as_str()) {
                    push(name, out);
                }
                collect(value, depth, out);
            }
        }
        Value::Array(list) => {
            let is_plain = |step: &Value| step.is_string() || step.is_number();
            if list.len() > 1 && list.iter().all(is_plain) && list.iter().any(is_place) {
                let steps: Vec<String> = list.iter().map(step).collect();
                push(&steps.join("."), out);
            } else {
                for value in list {
                    collect(value, depth, out);
                }
            }
        }
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(inside @ (Value::Object(_) | Value::Array(_))) => collect(&inside, depth, out),
            // The code of an error would be taken for a limit.
            Ok(Value::Number(_)) => {}
            Ok(_) | Err(_) => push(text, out),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether a step of a location is one: a name without blanks, or a number.
fn is_place(step: &Value) -> bool {
    step.as_str().is_none_or(|step| !step.contains(' '))
}

fn step(step: &Value) -> String {
    step.as_str()
        .map_or_else(|| step.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::of_reply;

    #[test]
    fn a_code_is_no_number_that_a_refusal_names() {
        let reply = r#"{"error": {"code": "1210", "message": "max_tokens: 4096"}}"#;
        assert_eq!(of_reply(reply, ""), "max_tokens: 4096");
    }
}
