//! Compares two requests and ignores the differences that are explained in `differences`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::differences::{ALLOWED_DIFFERENCES, NORMALIZATIONS, ProviderProfile};

/// The unexplained differences, one line each. The reasons that were needed are added to `used`.
pub fn compare(
    recorded: &Value,
    mut ours: Value,
    profile: &ProviderProfile,
    used: &mut BTreeSet<&'static str>,
) -> Vec<String> {
    let mut theirs = recorded.clone();
    for normalization in NORMALIZATIONS {
        let before = (theirs.clone(), ours.clone());
        (normalization.apply)(&mut theirs, &mut ours, profile);
        if before.0 != theirs || before.1 != ours {
            used.insert(normalization.why);
        }
    }
    let mut differences = Vec::new();
    collect_differences("", Some(&theirs), Some(&ours), &mut differences);
    let mut unexplained = Vec::new();
    for (path, theirs, ours) in differences {
        let pattern = path_pattern(&path);
        let allowed = ALLOWED_DIFFERENCES.iter().find(|allowed| {
            allowed.matches_path(&pattern)
                && (allowed.when)(theirs.as_ref(), ours.as_ref(), profile)
        });
        match allowed {
            Some(allowed) => {
                used.insert(allowed.why);
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

/// A path with both its values.
type Difference = (String, Option<Value>, Option<Value>);

fn collect_differences(
    path: &str,
    theirs: Option<&Value>,
    ours: Option<&Value>,
    found: &mut Vec<Difference>,
) {
    match (theirs, ours) {
        (Some(Value::Object(theirs)), Some(Value::Object(ours))) => {
            let names: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
            for name in names {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                collect_differences(&path, theirs.get(name), ours.get(name), found);
            }
        }
        (Some(Value::Array(theirs)), Some(Value::Array(ours))) => {
            for index in 0..theirs.len().max(ours.len()) {
                let path = format!("{path}[{index}]");
                collect_differences(&path, theirs.get(index), ours.get(index), found);
            }
        }
        (Some(Value::Number(a)), Some(Value::Number(b))) if a.as_f64() == b.as_f64() => {}
        (theirs, ours) if theirs == ours => {}
        (theirs, ours) => found.push((path.to_owned(), theirs.cloned(), ours.cloned())),
    }
}

/// The path with `[]` instead of every list index.
fn path_pattern(path: &str) -> String {
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
