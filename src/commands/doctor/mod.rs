//! `respondent doctor`: checks this machine, then each provider with real requests, and shows what
//! was measured as a provider file.
//!
//! | module | contents |
//! |---|---|
//! | `local` | the checks of this machine |
//! | `search` | the search engines |
//! | `target` | the provider that is asked, its address, models and windows |
//! | `learned` | what a server has learned of the model |
//! | `measure` | a measurement: runs turns, and keeps what they show |
//! | `tool_loop` | the turns that every agent needs |
//! | `repair` | quirks that are tried against refusals that say no reason |
//! | `extras` | parameters, limits, and prompts that are too long |
//! | `optional` | fields, files and ways to steer reasoning that only some providers take |
//! | `prompts` | what the model is asked |
//! | `watch` | watches the requests, and keeps the limits of a measurement |
//! | `summary` | what the quirks at the end say |
//! | `file` | what was measured as a provider file |
//! | `report` | checks as text and JSON |
//! | `next` | the command to run next |

mod extras;
mod file;
mod learned;
mod local;
mod measure;
mod next;
mod optional;
mod prompts;
mod repair;
mod report;
mod search;
mod summary;
mod target;
#[cfg(test)]
mod tests;
mod tool_loop;
mod watch;

use std::fmt::Write as _;

use anyhow::Context as _;
use serde_json::{Value, json};
use toml::Table;

use self::measure::Measurement;
use self::report::{CheckVerdict, DoctorCheck};
use self::watch::Used;
use super::cli::{DoctorArgs, EXIT_FAILED, EXIT_OK};
use super::print_text;
use super::progress::Progress;
use crate::config::{Config, Inputs, LoadPurpose, load};

/// What was found of one provider.
struct ProviderFindings {
    id: String,
    model: Option<String>,
    checks: Vec<DoctorCheck>,
    /// The settings that differ from what is known.
    settings: Table,
    /// The file that was written.
    written: Option<String>,
    /// There is a file that could be written.
    is_unwritten: bool,
    /// The command to run next.
    next: String,
    requests: usize,
    tokens: u64,
}

/// Runs all checks and prints them. Returns the exit code: whether something failed.
pub async fn run(inputs: Inputs, options: DoctorArgs) -> anyhow::Result<u8> {
    let progress = Progress::begin("Asking the providers");
    let reading = inputs.clone();
    let config = tokio::task::spawn_blocking(move || load(&reading, LoadPurpose::AskProvider));
    let config = config.await??;
    let mut local = local::checks(&config, &options.codex, |name| std::env::var_os(name)).await;
    if options.search {
        local.extend(search::tried(&config.search).await);
    }
    let mut providers = Vec::new();
    if let Some(url) = &options.url {
        let environment = inputs.environment.as_ref();
        let (config, id) = target::unknown_provider(config, &options, url, environment)?;
        providers.push(Box::pin(ask(config, &id, &options)).await?);
    } else {
        for id in ids(&config, options.provider.as_deref())? {
            providers.push(Box::pin(ask(config.clone(), &id, &options)).await?);
        }
    }
    drop(progress);
    let all = local
        .iter()
        .chain(providers.iter().flat_map(|of| &of.checks));
    let has_failed = all
        .clone()
        .any(|check| check.verdict == CheckVerdict::Failed);
    if options.json {
        let checks =
            |checks: &[DoctorCheck]| checks.iter().map(DoctorCheck::to_json).collect::<Vec<_>>();
        let of = |report: &ProviderFindings| {
            json!({
                "provider": report.id, "model": report.model, "checks": checks(&report.checks),
                "requests": report.requests, "tokens": report.tokens,
                "settings": report.settings, "written": report.written, "next": report.next,
            })
        };
        let providers: Vec<Value> = providers.iter().map(of).collect();
        let report = json!({"ok": !has_failed, "checks": checks(&local), "providers": providers});
        print_text(&format!("{report:#}\n"))?;
    } else {
        print_text(&text(&local, &providers))?;
    }
    Ok(if has_failed { EXIT_FAILED } else { EXIT_OK })
}

/// The ids of the providers to ask.
fn ids(config: &Config, named: Option<&str>) -> anyhow::Result<Vec<String>> {
    let on = config
        .registry
        .providers
        .iter()
        .map(|provider| provider.id.clone());
    let Some(named) = named else {
        return Ok(on.filter(|id| id != registry::SANDBOX).collect());
    };
    if config.registry.provider(named).is_none() {
        let on: Vec<String> = on.collect();
        anyhow::bail!(
            "the provider '{named}' is not on; those that are on: {}. `respondent models --all` says how \
             to turn one on, and --url names one that is not configured",
            on.join(", ")
        );
    }
    Ok(vec![named.to_owned()])
}

/// Checks one provider, and says what to do next.
async fn ask(config: Config, id: &str, options: &DoctorArgs) -> anyhow::Result<ProviderFindings> {
    let mut report = Box::pin(examine(config, id, options)).await?;
    report.next = next::command(&report, options);
    Ok(report)
}

/// Checks one provider. If only its address is known, it is asked in each wire until one answers.
async fn examine(
    mut config: Config,
    id: &str,
    options: &DoctorArgs,
) -> anyhow::Result<ProviderFindings> {
    let used = Used::nothing();
    let is_unknown = options.url.is_some();
    let wanted = options.model.as_deref();
    let mut checks = target::find_models(&mut config, id, is_unknown, wanted, &used).await;
    let mut report = ProviderFindings {
        id: id.to_owned(),
        model: target::model_of(&config, id, wanted),
        checks: Vec::new(),
        settings: Table::new(),
        written: None,
        is_unwritten: false,
        next: String::new(),
        requests: 0,
        tokens: 0,
    };
    let is_refused = checks
        .iter()
        .any(|check| check.verdict == CheckVerdict::Failed);
    let Some(model) = report.model.clone().filter(|_| !is_refused) else {
        if !is_refused {
            let remedy = Some("Name one with --model.");
            let found = "No model is known that answers prompts.";
            checks.push(DoctorCheck::failed("model", found, remedy));
        }
        report.checks = checks;
        return Ok(report);
    };
    let name = format!("{id}/{model}");
    let given = config.registry.provider(id).map(|it| it.base_url.clone());
    let given = given.unwrap_or_default();
    let measured = if is_unknown {
        let (found, measured) = measure_unknown(config, id, &name, used, options.overflow).await?;
        config = found;
        let provider = config.registry.provider(id);
        if let Some(found) = provider.and_then(|it| target::how_key_is_taken(it)) {
            checks.push(DoctorCheck::good("key", found));
        }
        let base_url = config.registry.provider(id).map(|it| it.base_url.as_str());
        if let Some(base_url) = base_url.filter(|base_url| **base_url != *given) {
            checks.push(DoctorCheck::good(
                "address",
                format!("{base_url} (with /v1)"),
            ));
        }
        let wire = measured.after.dialect.quirks.wire().name();
        checks.push(DoctorCheck::good("wire", wire));
        measured
    } else {
        let (before, check) = learned::apply(&mut config, &name);
        checks.extend(check);
        let of = config.clone();
        let mut measured = measure::measure(of, &name, used, options.overflow, true).await?;
        measured.before = before.unwrap_or(measured.before);
        measured
    };
    let is_listed = config
        .registry
        .provider(id)
        .is_some_and(|provider| config.registry.discovered.of(provider).is_some());
    let has_found = is_listed || measured.is_refused || measured.answers > 0;
    let window = measured.after.model.window();
    checks.push(match window.source {
        registry::WindowSource::Assumed => DoctorCheck::warning(
            "window",
            format!("{} tokens are assumed.", window.tokens),
            "List the model in the configuration with its window.",
        ),
        _ => DoctorCheck::good("window", format!("{} tokens", window.tokens)),
    });
    report.settings = settings(&config, id, is_unknown, &measured);
    report.requests = measured.used.requests;
    report.tokens = measured.used.tokens;
    checks.extend(measured.checks);
    report.checks = checks;
    finish(&config, &mut report, &name, options.write, has_found)?;
    Ok(report)
}

/// Measures a model of a provider known only by its address: at the address of each wire until one
/// answers, and with the key in each place until it is accepted. Returns the configuration with
/// which it answered.
async fn measure_unknown(
    mut config: Config,
    id: &str,
    name: &str,
    used: Used,
    overflow: bool,
) -> anyhow::Result<(Config, Measurement)> {
    let mut measured = measure::measure(config.clone(), name, used, overflow, false).await?;
    let (mut places, mut headers) = (false, false);
    loop {
        // The list of models may need no key, and then does not show which header is accepted.
        let others = if measured.is_unauthorized && !headers {
            // With the key, another place may answer.
            (places, headers) = (false, true);
            target::with_key_places(&config, id)
        } else if measured.is_wrong_wire && !places {
            places = true;
            target::candidate_endpoints(&config, id)?
        } else {
            break;
        };
        let mut used = measured.used;
        let mut better: Option<(Config, Measurement)> = None;
        for other in others {
            let again = measure::measure(other.clone(), name, used, overflow, false).await?;
            used = again.used;
            let best = better.as_ref().map_or(&measured, |(_, best)| best);
            if again.is_better_than(best) {
                // Where requests are only refused, the right place may still come.
                let is_found = !again.is_refused;
                better = Some((other, again));
                if is_found {
                    break;
                }
            }
        }
        measured.used = used;
        if let Some(better) = better {
            (config, measured) = better;
        }
    }
    if measured.is_refused {
        measured = measure::measure(config.clone(), name, measured.used, overflow, true).await?;
    }
    Ok((config, measured))
}

/// The settings to write: the whole file of a provider that is not configured, else what differs.
fn settings(config: &Config, id: &str, is_unknown: bool, measured: &Measurement) -> Table {
    let mut settings = match config.registry.provider(id) {
        Some(provider) if is_unknown => file::head(provider, config.key_origins.get(id)),
        _ => Table::new(),
    };
    settings.extend(file::difference(&measured.before, &measured.after));
    settings
}

/// Tells what differs, and writes it if that is wanted and anything was found.
fn finish(
    config: &Config,
    report: &mut ProviderFindings,
    model: &str,
    may_write: bool,
    has_found: bool,
) -> anyhow::Result<()> {
    if report.settings.is_empty() {
        let found = "nothing differs from what is known";
        report.checks.push(DoctorCheck::good("settings", found));
        return Ok(());
    }
    let path = file::path(config, &report.id);
    let (found, remedy) = if file::is_in_main_file(config, &report.id) {
        let file = config
            .paths
            .file
            .as_ref()
            .context("there is no configuration file")?;
        let remedy = format!("Add it to [providers.{}] in {}.", report.id, file.display());
        ("What differs is shown below.", remedy)
    } else if path.exists() {
        (
            "What differs is shown below.",
            format!("Add it to {}.", path.display()),
        )
    } else if may_write && has_found {
        file::write_new(&path, &file::text(&report.settings, model, &report.checks))?;
        report.written = Some(path.display().to_string());
        let found = format!("wrote {}", path.display());
        report.checks.push(DoctorCheck::good("settings", found));
        return Ok(());
    } else if may_write {
        let remedy = "Correct it, and run this again.";
        (
            "Nothing was written, because nothing was found.",
            remedy.to_owned(),
        )
    } else {
        report.is_unwritten = true;
        (
            "What was found is shown below.",
            format!("--write writes it to {}.", path.display()),
        )
    };
    report
        .checks
        .push(DoctorCheck::warning("settings", found, remedy));
    Ok(())
}

fn text(local: &[DoctorCheck], providers: &[ProviderFindings]) -> String {
    let mut out = String::new();
    for check in local {
        check.write(&mut out);
    }
    for report in providers {
        // Writing to a string cannot fail.
        let _ = match &report.model {
            Some(model) => writeln!(
                out,
                "\n{}/{model}: {} requests, {} tokens",
                report.id, report.requests, report.tokens
            ),
            None => writeln!(out, "\n{}", report.id),
        };
        for check in &report.checks {
            check.write(&mut out);
        }
        if !report.settings.is_empty() && report.written.is_none() {
            let model = report.model.as_deref().unwrap_or_default();
            let text = file::text(&report.settings, model, &report.checks);
            let _ = write!(out, "\n{text}");
        }
        let _ = writeln!(out, "\nNext: {}", report.next);
    }
    if providers.is_empty() {
        out += "\nNext: set the key of a provider (`respondent models --all` names the variables), \
                and run\n`respondent run codex`.\n";
    }
    out
}
