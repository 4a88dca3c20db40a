//! `respondent models --learned`: what was learned of models, of the running server; without one,
//! what is stored.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::status::of_server;
use super::store::open_existing;
use super::usage::day_name;
use super::{print_json, print_text};
use crate::clock::local_day;
use crate::config::Config;
use crate::control::ControlClient;
use crate::log::{SafeText, TERMINAL_WIDTH, wrapped};
use crate::net::LOCAL_OWNER;
use crate::upstream::{LearnedQuirks, LearnedRatios, LearnedReport};

/// The width of the column with the dates.
const DATE_WIDTH: usize = 10;

/// Prints what was learned, of the models of one provider if it is named.
pub async fn run(config: &Config, provider: Option<&str>, json: bool) -> anyhow::Result<()> {
    let report = of_server(&ControlClient::new(config)).await?;
    let mut learned = if let Some(report) = report {
        let of_server = report.server.map(|server| server.learned);
        of_server.unwrap_or_default()
    } else {
        let (quirks, ratios) = stored(config)?;
        LearnedReport::new(&quirks, &ratios, config.redactor())
    };
    if let Some(id) = provider {
        learned.keep_provider(id);
    }
    if json {
        return print_json(&learned);
    }
    print_text(&text(&learned))
}

/// What is stored of what was learned, whether or not a server runs. Blocks.
pub(super) fn stored(config: &Config) -> anyhow::Result<(LearnedQuirks, LearnedRatios)> {
    let (quirks, ratios) = (LearnedQuirks::default(), LearnedRatios::default());
    if let Some(store) = open_existing(&config.server.data_dir)? {
        quirks.read_rows(store.reading.learned()?);
        ratios.read_rows(store.reading.token_ratios()?);
    }
    Ok((quirks, ratios))
}

/// As text for a terminal of the usual width: the models by name, each with what is known of it.
fn text(learned: &LearnedReport) -> String {
    if learned.is_empty() {
        return "Nothing was learned of models.\n".to_owned();
    }
    let mut models = BTreeMap::<(&str, &str), String>::new();
    let mut add = |model, at, found: String, evidence: &str| {
        let lines = models.entry(model).or_default();
        let day = day_name(local_day(at));
        let indent = DATE_WIDTH + 4;
        let width = usize::from(TERMINAL_WIDTH) - indent;
        let found = wrapped(&SafeText::new(&found).to_string(), width);
        let evidence = (!evidence.is_empty()).then(|| SafeText::new(evidence).to_string());
        let evidence = evidence.map(|it| wrapped(&format!("after: {it}"), width));
        let all = found.into_iter().chain(evidence.into_iter().flatten());
        for (number, line) in all.enumerate() {
            let day = if number == 0 { &*day } else { "" };
            // Writing to a string cannot fail.
            let _ = writeln!(lines, "  {day:DATE_WIDTH$}  {line}");
        }
    };
    let owner = |owner: Option<&str>| {
        let owner = owner.filter(|owner| *owner != LOCAL_OWNER);
        owner.map_or_else(String::new, |owner| format!(", for {owner}"))
    };
    for it in &learned.changes {
        let found = format!("{}{}", it.change, owner(it.for_owner.as_deref()));
        add(
            (&it.provider, &it.model),
            it.learned_at,
            found,
            &it.evidence,
        );
    }
    for it in &learned.token_ratios {
        let owner = owner(Some(&it.for_owner));
        let found = format!("{:.2} bytes per token{owner}", it.bytes_per_token);
        add((&it.provider, &it.model), it.learned_at, found, "");
    }
    let sections = models.into_iter().map(|((provider, model), lines)| {
        let name = format!("{provider}/{model}");
        format!("{}\n{lines}", SafeText::new(&name))
    });
    sections.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::{LearnedChange, LearnedTokenRatio};

    #[test]
    fn each_model_has_its_changes_with_date_and_evidence() {
        let change = |model: &str, change: &str, owner: Option<&str>| LearnedChange {
            provider: "lab".to_owned(),
            model: model.to_owned(),
            change: change.to_owned(),
            evidence: format!("no \x1b[31m {}", "word ".repeat(20).trim()),
            for_owner: owner.map(str::to_owned),
            learned_at: 1_000_000,
        };
        let learned = LearnedReport {
            changes: vec![
                change("b", "no images", Some("local")),
                change("a", "no sampling", Some("alice")),
            ],
            token_ratios: vec![LearnedTokenRatio {
                provider: "lab".to_owned(),
                model: "a".to_owned(),
                for_owner: "local".to_owned(),
                bytes_per_token: 3.456,
                learned_at: 2_000_000,
            }],
        };
        let text = text(&learned);
        let [first, second] = [9, 11].map(|count| "word ".repeat(count));
        let expected = format!(
            "\
lab/a
  1970-01-12  no sampling, for alice
              after: no \\u001b[31m {}
              {}
  1970-01-24  3.46 bytes per token

lab/b
",
            first.trim(),
            second.trim()
        );
        assert!(text.starts_with(&expected), "{text}");
        assert_eq!(text.matches("no images\n").count(), 1, "{text}");
        assert_eq!(text.lines().find(|line| line.chars().count() > 80), None);
        assert_eq!(
            super::text(&LearnedReport::default()),
            "Nothing was learned of models.\n"
        );
    }
}
