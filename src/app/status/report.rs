//! What `GET /diagnostics/status` says, and `respondent status` shows.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::diagnostics::selection::ListedTurn;
use crate::metrics::WebActivity;
use crate::net::local_owner;
use crate::store::{UsageKey, UsageSum};
use crate::turn::RunningTurnReport;
use crate::upstream::{LearnedReport, ProviderReport};

/// The days of the longer period of [`UsageReport`], today included.
pub const WEEK: i64 = 7;

/// The state of a server, or of what it has left if it does not run. It contains nothing of a
/// conversation.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct StatusReport {
    /// The running server; `None` if none runs.
    pub server: Option<ServerReport>,
    /// What turns have used; `None` if it cannot be read.
    pub usage: Option<UsageReport>,
    /// The files of the server.
    pub disk: DiskReport,
}

/// A running server.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct ServerReport {
    /// The version of the program.
    pub version: String,
    /// When it started, in milliseconds since 1970.
    pub started_ms: u64,
    /// The files of its configuration.
    #[serde(default)]
    pub config_files: Vec<PathBuf>,
    /// The file to which it logs; `None` if it logs to standard error.
    #[serde(default)]
    pub log_file: Option<PathBuf>,
    /// The turns that are running, the oldest first.
    pub running: Vec<RunningTurnReport>,
    /// The newest turns that have ended, the newest first.
    pub recent: Vec<ListedTurn>,
    /// The providers that are on.
    pub providers: Vec<ProviderReport>,
    /// The background responses that are queued.
    #[serde(default)]
    pub queued_jobs: usize,
    /// The background responses that are running.
    #[serde(default)]
    pub running_jobs: usize,
    /// The sessions whose outputs are sent whole, because shortening cost more than it saved.
    pub whole_sessions: usize,
    /// The searches of the web and the pages since the start.
    #[serde(default)]
    pub web: WebActivity,
    /// What was learned of models: the newest of it.
    #[serde(default)]
    pub learned: LearnedReport,
}

/// What turns have used.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct UsageReport {
    /// Whether this is kept when the server ends.
    pub stored: bool,
    /// Since midnight in the server's time zone, the costliest first.
    pub today: Vec<ModelUsage>,
    /// In the last seven days, today included.
    pub week: Vec<ModelUsage>,
}

/// What the turns of an owner with a model have used.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct ModelUsage {
    /// The owner.
    #[serde(default = "local_owner")]
    pub owner: String,
    /// The provider's id.
    pub provider: String,
    /// The provider's name of the model.
    pub model: String,
    /// The number of turns.
    pub turns: u64,
    /// Input tokens, with the cached ones.
    pub input_tokens: u64,
    /// Input tokens that the provider had cached.
    pub cached_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// US dollars by the listed prices, of the turns whose price is known; `None` if it is known of
    /// none.
    pub cost: Option<f64>,
    /// What these turns would have cost with nothing shortened.
    pub unshortened_cost: Option<f64>,
    /// The turns that used tokens and whose price is unknown.
    pub turns_without_price: u64,
    /// The turns that the window would not have held with nothing shortened. In `unshortened_cost`
    /// they count as what they cost.
    pub turns_too_long_unshortened: u64,
    /// The turns without a known price with nothing shortened. They count in the same way.
    pub turns_not_reckoned_unshortened: u64,
}

/// The files of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct DiskReport {
    /// The data directory.
    pub data_dir: String,
    /// The bytes of the database with the tool outputs and the usage.
    pub database_bytes: u64,
    /// The number of recorded turns.
    pub recorded_turns: usize,
    /// The bytes of the recorded turns.
    pub recorded_bytes: u64,
}

impl UsageReport {
    /// Sums up what was used since `today` and the days before. `stored` says whether it is kept.
    pub fn new(sums: &[(UsageKey, UsageSum)], today: i64, stored: bool) -> Self {
        Self {
            stored,
            today: by_model(sums, today),
            week: by_model(sums, today - WEEK + 1),
        }
    }
}

/// The sums of each owner and model from a day on.
fn by_model(sums: &[(UsageKey, UsageSum)], since: i64) -> Vec<ModelUsage> {
    let mut models = std::collections::BTreeMap::<_, UsageSum>::new();
    for (key, sum) in sums.iter().filter(|(key, _)| key.day >= since) {
        models
            .entry((&key.owner, &key.provider, &key.model))
            .or_default()
            .add(sum);
    }
    let mut models: Vec<ModelUsage> = models
        .into_iter()
        .map(|((owner, provider, model), sum)| ModelUsage::new(owner, (provider, model), &sum))
        .collect();
    models.sort_by(|one, other| {
        let order = |model: &ModelUsage| (model.cost.unwrap_or(0.0), model.input_tokens);
        let (one, other) = (order(one), order(other));
        other.0.total_cmp(&one.0).then(other.1.cmp(&one.1))
    });
    models
}

impl ModelUsage {
    /// What the turns of an owner with a provider and its model have used.
    pub fn new(owner: &str, (provider, model): (&str, &str), sum: &UsageSum) -> Self {
        let is_known = sum.cost > 0.0 || sum.unpriced == 0;
        Self {
            owner: owner.to_owned(),
            provider: provider.to_owned(),
            model: model.to_owned(),
            turns: sum.turns,
            input_tokens: sum.input,
            cached_tokens: sum.cached,
            output_tokens: sum.output,
            cost: is_known.then_some(sum.cost),
            unshortened_cost: is_known.then_some(sum.unshortened),
            turns_without_price: sum.unpriced,
            turns_too_long_unshortened: sum.too_long,
            turns_not_reckoned_unshortened: sum.unreckoned,
        }
    }
}
