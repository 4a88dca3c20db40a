//! Looks into a refusal whose reason is not understood: the quirks that a tool loop needs are
//! tried, those first that most of the known providers have.

use std::cmp::Reverse;

use registry::{QuirksTable, WireQuirks, builtin};
use serde_json::Value;
use toml::Table;

use super::file;
use super::measure::{MeasuringTurnEnd, MeasuringTurns};
use super::report::DoctorCheck;
use super::watch::MAX_REQUESTS;

/// The quirks that keep a tool loop from running where they are missing.
const NEEDED: [&str; 17] = [
    "answer_after_tool",
    "call_content",
    "call_extra",
    "call_ids",
    "ends_with_user",
    "max_tokens_field",
    "max_tools",
    "merge_user",
    "parallel_tool_calls",
    "reasoning_replay",
    "reasoning_required",
    "schema",
    "stream_tools",
    "stream_usage",
    "system_role",
    "tool_choice",
    "tool_names",
];

impl MeasuringTurns {
    /// Tries quirks, one with each request, until a turn that was refused is answered. The one that
    /// helps is kept. Nothing is sent for one that does not change the request.
    pub(super) async fn try_to_repair(
        &mut self,
        input: &[Value],
        max_output: u64,
        more: &Value,
    ) -> Option<Value> {
        let before = self.known();
        self.proven = Some(before.clone());
        self.lock_seen().skips_refused = true;
        let mut repaired = None;
        for (name, value) in frequent_quirks() {
            let Some(quirks) = with_quirk(&before.dialect.quirks, &name, &value) else {
                continue;
            };
            if self.seen().used.requests >= MAX_REQUESTS {
                break;
            }
            self.change_quirks(|known| *known = quirks);
            let end = self.ask_again(input, max_output, more).await;
            if let MeasuringTurnEnd::Answered(response) = end {
                let found = format!("a refusal without a clear reason ended with {name} = {value}");
                self.checks.push(DoctorCheck::good("repair", found));
                repaired = Some(response);
                break;
            }
            self.set_known(&before);
        }
        self.lock_seen().skips_refused = false;
        self.proven = None;
        repaired
    }
}

/// The lines of quirks that a tool loop may need, by the number of provider files with them.
fn frequent_quirks() -> Vec<(String, toml::Value)> {
    let mut counted: Vec<((String, toml::Value), usize)> = Vec::new();
    for id in builtin::ids() {
        let Ok(spec) = registry::build(id, Table::new()) else {
            continue;
        };
        let provider = spec.to_provider(id);
        let families = provider.families.iter().map(|(_, dialect)| dialect);
        let mut lines: Vec<(String, toml::Value)> = Vec::new();
        for dialect in families.chain([&provider.dialect]) {
            let usual = file::quirks(&QuirksTable::default().quirks(dialect.quirks.wire()));
            let own = file::quirks(&dialect.quirks).into_iter().filter(|line| {
                NEEDED.contains(&line.0.as_str()) && usual.get(&line.0) != Some(&line.1)
            });
            for line in own {
                if !lines.contains(&line) {
                    lines.push(line);
                }
            }
        }
        for line in lines {
            match counted.iter_mut().find(|(known, _)| *known == line) {
                Some((_, count)) => *count += 1,
                None => counted.push((line, 1)),
            }
        }
    }
    counted.sort_by_key(|(_, count)| Reverse(*count));
    counted.into_iter().map(|(line, _)| line).collect()
}

/// The quirks with this one; `None` if they have it already, or their wire does not know it.
fn with_quirk(known: &WireQuirks, name: &str, value: &toml::Value) -> Option<WireQuirks> {
    let mut table = file::quirks(known);
    if table.get(name) == Some(value) {
        return None;
    }
    table.insert(name.to_owned(), value.clone());
    let mut whole = Table::new();
    whole.insert("wire".to_owned(), known.wire().name().into());
    whole.insert("quirks".to_owned(), table.into());
    let spec = registry::build("lab", whole).ok()?;
    Some(spec.to_provider("lab").dialect.quirks)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The text of a value. The order of a list says nothing.
    fn words(value: &toml::Value) -> String {
        let mut all: Vec<String> = match value {
            toml::Value::Array(values) => values.iter().map(ToString::to_string).collect(),
            value => vec![value.to_string()],
        };
        all.sort();
        all.concat()
    }

    /// How many of the provider files have this line, or a family with it.
    fn count(name: &str, value: &toml::Value) -> usize {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/registry/providers");
        let has_line = |text: &str| {
            let file: Table = text.parse().unwrap();
            let families = file.get("families").and_then(toml::Value::as_array);
            let mut tables = families.into_iter().flatten().collect::<Vec<_>>();
            let whole = toml::Value::Table(file.clone());
            tables.push(&whole);
            let own = |table: &&toml::Value| Some(words(table.get("quirks")?.get(name)?));
            tables.iter().any(|table| own(table) == Some(words(value)))
        };
        let files = fs::read_dir(folder).unwrap();
        let texts = files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
        texts.filter(|text| has_line(text)).count()
    }

    #[test]
    fn what_most_providers_need_is_tried_first() {
        let lines = frequent_quirks();
        let counts: Vec<usize> = lines
            .iter()
            .map(|(name, value)| count(name, value))
            .collect();
        assert!(
            counts.is_sorted_by(|one, next| one >= next),
            "{lines:?} {counts:?}"
        );
        assert!(counts[0] > 5 && lines.len() > 10, "{lines:?}");
        let usual = QuirksTable::default().quirks(registry::Wire::Chat);
        for (name, value) in &lines {
            let with = with_quirk(&usual, name, value).unwrap();
            assert_eq!(file::quirks(&with).get(name), Some(value));
            assert_eq!(with_quirk(&with, name, value), None);
        }
    }
}
