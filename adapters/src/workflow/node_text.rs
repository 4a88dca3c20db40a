//! What a node takes of texts that a model or a tool has written: search queries and addresses.

use serde_json::Value;

/// The longest query, in characters.
const MAX_QUERY_CHARS: usize = 400;

/// The queries in a text, each once, at most `max`: a JSON list of strings, or else its lines,
/// without the marks of a list.
pub(super) fn queries(text: &str, max: usize) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let text = text.trim();
    let listed = json_part(text).and_then(|json| serde_json::from_str::<Value>(json).ok());
    let listed = listed.as_ref().and_then(strings);
    let lines = || {
        text.lines()
            .filter(|line| !line.trim_start().starts_with("```"))
    };
    let all: Vec<&str> = listed.unwrap_or_else(|| lines().map(without_mark).collect());
    for query in all {
        let query: String = query.trim().chars().take(MAX_QUERY_CHARS).collect();
        if !query.is_empty() && !found.contains(&query) && found.len() < max {
            found.push(query);
        }
    }
    found
}

/// The part of a text that may be a JSON list or object: a model may write a fence around it.
fn json_part(text: &str) -> Option<&str> {
    let begin = text.find(['[', '{'])?;
    let end = text.rfind([']', '}'])?;
    text.get(begin..=end)
}

/// The strings of a list, or of the first list in an object.
fn strings(value: &Value) -> Option<Vec<&str>> {
    let list = match value {
        Value::Object(members) => members.values().find_map(Value::as_array)?,
        other => other.as_array()?,
    };
    list.iter().map(Value::as_str).collect()
}

/// A line without the mark that makes it an item of a list, and without quotes around it.
fn without_mark(line: &str) -> &str {
    let line = line.trim();
    let bullet = line
        .strip_prefix(['-', '*', '•'])
        .filter(|rest| rest.starts_with(' '));
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered = number.len() < line.len();
    let number = number.strip_prefix(['.', ')']).filter(|_| is_numbered);
    let number = number.filter(|rest| rest.starts_with(' '));
    let line = bullet.or(number).unwrap_or(line).trim();
    let unquoted = ['"', '`', '\''].into_iter().find_map(|quote| {
        let inner = line.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inner.contains(quote)).then_some(inner)
    });
    unquoted.unwrap_or(line)
}

/// The addresses in texts, each once, at most `max`: by turns one of each text, so that the first
/// ones of every search are among them.
pub(super) fn addresses(texts: &[&str], max: usize) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut of_texts: Vec<_> = texts.iter().map(|text| addresses_in(text)).collect();
    loop {
        let before = of_texts.len();
        of_texts.retain_mut(|of_text| match of_text.next() {
            Some(address) => {
                if found.len() < max && !found.iter().any(|known| known == address) {
                    found.push(address.to_owned());
                }
                true
            }
            None => false,
        });
        if found.len() >= max || (of_texts.is_empty() && before == 0) || of_texts.is_empty() {
            return found;
        }
    }
}

fn addresses_in(text: &str) -> impl Iterator<Item = &str> {
    let starts = memchr::memmem::find_iter(text.as_bytes(), b"http");
    starts.filter_map(|start| {
        let rest = text.get(start..)?;
        let host = rest
            .strip_prefix("https://")
            .or_else(|| rest.strip_prefix("http://"))?;
        let ends = |c: char| c.is_whitespace() || "<>\"'`()[]{}|\\^".contains(c);
        let length = host.find(ends).unwrap_or(host.len());
        let address = rest.get(..rest.len() - host.len() + length)?;
        let address = address.trim_end_matches(['.', ',', ';', ':', '!', '?']);
        (address.len() > rest.len() - host.len()).then_some(address)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_found_however_a_model_lists_them() {
        for (text, expected) in [
            (
                "rust async\ntokio tasks\n",
                vec!["rust async", "tokio tasks"],
            ),
            (
                "1. one\n2) two\n- three\n* four",
                vec!["one", "two", "three"],
            ),
            ("```\n\"quoted words\"\n```", vec!["quoted words"]),
            ("```json\n[\"a b\", \"c\"]\n```", vec!["a b", "c"]),
            ("{\"queries\": [\"x\", \"x\", \"y\"]}", vec!["x", "y"]),
            (
                "2024 elections\n3D printing",
                vec!["2024 elections", "3D printing"],
            ),
            ("array[0] in C", vec!["array[0] in C"]),
            ("", vec![]),
        ] {
            assert_eq!(queries(text, 3), expected, "{text}");
        }
    }

    #[test]
    fn addresses_of_all_texts_come_by_turns() {
        let first = "See https://a.example/x, (http://b.example/y_(z)) and https://a.example/x.";
        let second = "[1](https://c.example/?q=1)\nhttps://d.example";
        let expected = [
            "https://a.example/x",
            "https://c.example/?q=1",
            "http://b.example/y_",
        ];
        assert_eq!(addresses(&[first, second], 3), expected);
        let all = addresses(&[first, second], 10);
        assert_eq!(all.len(), 4);
        assert_eq!(addresses(&["http:// and https", ""], 3), [""; 0]);
        assert_eq!(addresses(&[], 3), [""; 0]);
    }
}
