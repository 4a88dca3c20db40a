//! Two requests are the same but for explained differences.

use std::collections::BTreeSet;

use serde_json::Value;

use super::differences::{LEAVES, REWRITES, Speech};

/// What nothing explains, a line each. `used` gets the reasons that were needed.
pub fn compare(
    recorded: &Value,
    mut ours: Value,
    speech: &Speech,
    used: &mut BTreeSet<&'static str>,
) -> Vec<String> {
    let mut theirs = recorded.clone();
    for rewrite in REWRITES {
        let before = (theirs.clone(), ours.clone());
        (rewrite.apply)(&mut theirs, &mut ours, speech);
        if before.0 != theirs || before.1 != ours {
            used.insert(rewrite.why);
        }
    }
    let mut found = Vec::new();
    walk("", Some(&theirs), Some(&ours), &mut found);
    let mut unexplained = Vec::new();
    for (path, theirs, ours) in found {
        let pattern = pattern(&path);
        let leaf = LEAVES.iter().find(|leaf| {
            leaf.is_at(&pattern) && (leaf.when)(theirs.as_ref(), ours.as_ref(), speech)
        });
        match leaf {
            Some(leaf) => {
                used.insert(leaf.why);
            }
            None => unexplained.push(format!(
                "{path} is {} and ours {}",
                short(theirs.as_ref()),
                short(ours.as_ref())
            )),
        }
    }
    unexplained
}

/// A place with both its values.
type Difference = (String, Option<Value>, Option<Value>);

fn walk(path: &str, theirs: Option<&Value>, ours: Option<&Value>, found: &mut Vec<Difference>) {
    match (theirs, ours) {
        (Some(Value::Object(theirs)), Some(Value::Object(ours))) => {
            let names: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
            for name in names {
                let place = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                walk(&place, theirs.get(name), ours.get(name), found);
            }
        }
        (Some(Value::Array(theirs)), Some(Value::Array(ours))) => {
            for place in 0..theirs.len().max(ours.len()) {
                let path = format!("{path}[{place}]");
                walk(&path, theirs.get(place), ours.get(place), found);
            }
        }
        (Some(Value::Number(a)), Some(Value::Number(b))) if a.as_f64() == b.as_f64() => {}
        (theirs, ours) if theirs == ours => {}
        (theirs, ours) => found.push((path.to_owned(), theirs.cloned(), ours.cloned())),
    }
}

/// The path with `[]` for every place in a list.
fn pattern(path: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for c in path.chars() {
        match c {
            '[' => {
                inside = true;
                out.push_str("[]");
            }
            ']' => inside = false,
            c if !inside => out.push(c),
            _ => {}
        }
    }
    out
}

fn short(value: Option<&Value>) -> String {
    let text = value.map_or_else(|| "absent".to_owned(), Value::to_string);
    match text.char_indices().nth(160) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
