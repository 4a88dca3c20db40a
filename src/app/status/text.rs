//! The status as text for a terminal of the usual width.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use comfy_table::CellAlignment::{Left, Right};

use super::report::{DiskReport, ModelUsage, ServerReport, StatusReport};
use crate::diagnostics::listing::{TurnListing, age, short_duration, short_route};
use crate::log::{
    ByteCount, ClientColumn, Dollars, SafeText, TERMINAL_WIDTH, short_count, short_id, table,
};
use crate::metrics::{TriedCount, WebActivity};
use crate::upstream::{LearnedReport, ProviderReport};

/// The most models of a period that have a line of their own, in the whole report and in the short
/// one.
const MAX_MODELS: [usize; 2] = [10, 2];

/// The most running turns that have a line of their own.
const MAX_RUNNING: [usize; 2] = [10, 2];

/// The most providers in trouble that the short report names.
const MAX_TROUBLE: usize = 2;

/// The most lines of the short report: with the command and the next prompt it fits a terminal of
/// 24 lines.
const MAX_LINES: usize = 22;

/// The most turns that have ended in the short report.
const MAX_RECENT: usize = 5;

/// The characters of the reason for a failure, so that lines fit a terminal.
const MAX_REASON_CHARS: usize = 39;

/// The characters of a route, so that lines fit a terminal.
const MAX_ROUTE_CHARS: usize = 23;

/// The characters of a route in a table of usage, without and with a column of clients.
const MAX_USED_ROUTE_CHARS: usize = 18;
const MIN_USED_ROUTE_CHARS: usize = 12;

/// How much the report says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusLength {
    /// What a person in a session wants to know, in [`MAX_LINES`] lines.
    Short,
    /// Everything.
    All,
}

impl StatusLength {
    /// The limit for this length out of those of the whole report and the short one.
    fn limit(self, [all, short]: [usize; 2]) -> usize {
        match self {
            Self::All => all,
            Self::Short => short,
        }
    }
}

impl StatusReport {
    /// The report as text. `address` is the server's address, and `now` the moment that ages are
    /// relative to.
    pub fn text(&self, address: &str, now: SystemTime, length: StatusLength) -> String {
        match length {
            StatusLength::All => self.whole_text(address, now),
            StatusLength::Short => self.short_text(address, now),
        }
    }

    fn short_text(&self, address: &str, now: SystemTime) -> String {
        let usage = match &self.usage {
            Some(usage) => usage_table("Today", &usage.today, StatusLength::Short),
            None => "What turns have used cannot be read.\n".to_owned(),
        };
        let mut end = format!("\n{usage}");
        let models = self.usage.iter().flat_map(|usage| &usage.today);
        if models.clone().any(|model| model.cost.is_some()) {
            end += "Unshortened: what the same turns would have cost with outputs sent whole.\n";
        }
        if models.clone().any(is_partly_known) {
            end += PARTLY_KNOWN;
        }
        end += "`respondent status --all` shows the rest: the week, all providers, the disk.\n";
        let Some(server) = &self.server else {
            return format!("No server runs on {address}.\n{end}");
        };
        let start = server.head(address, now) + &server.running_text(StatusLength::Short);
        let end = format!("\n{}{end}", providers_in_trouble(&server.providers));
        let lines = |text: &str| text.lines().count();
        // A title and the names of the columns come with the turns.
        let room = MAX_LINES.saturating_sub(lines(&start) + lines(&end) + 3);
        let recent = server.recent_text(now, room.clamp(1, MAX_RECENT));
        start + &recent + &end
    }

    fn whole_text(&self, address: &str, now: SystemTime) -> String {
        let mut text = match &self.server {
            Some(server) => server.text(address, now),
            None => format!("No server runs on {address}.\n"),
        };
        text.push('\n');
        match &self.usage {
            Some(usage) => {
                text += &usage_table("Today", &usage.today, StatusLength::All);
                text.push('\n');
                text += &if usage.week == usage.today {
                    "Last 7 days: the same as today.\n".to_owned()
                } else {
                    usage_table("Last 7 days", &usage.week, StatusLength::All)
                };
                let mut models = usage.today.iter().chain(&usage.week);
                if models.clone().any(|model| model.cost.is_some()) {
                    text += "Unshortened: what the same turns would have cost with outputs sent \
                             whole.\n";
                    text += &uncompared(&sum(&usage.week));
                }
                if models.any(is_partly_known) {
                    text += PARTLY_KNOWN;
                }
                if !usage.stored {
                    text += "Usage is lost when the server ends: it keeps no artifacts on disk.\n";
                }
            }
            None => text += "What turns have used cannot be read.\n",
        }
        text.push('\n');
        text + &self.disk.text()
    }
}

impl ServerReport {
    fn head(&self, address: &str, now: SystemTime) -> String {
        format!(
            "Respondent {} has been running on {address} for {}.\n\n",
            SafeText::new(&self.version),
            age(self.started_ms, now)
        )
    }

    fn running_text(&self, length: StatusLength) -> String {
        let mut text = String::new();
        if self.running.is_empty() {
            text += "No turn is running.\n";
        } else {
            let count = self.running.len();
            let shown = length.limit(MAX_RUNNING);
            let turns = if count == 1 { "turn is" } else { "turns are" };
            let _ = if count > shown {
                writeln!(text, "{count} {turns} running; the oldest {shown}:")
            } else {
                writeln!(text, "{count} {turns} running.")
            };
            let clients = ClientColumn::of(self.running.iter().map(|turn| turn.owner.as_str()));
            let rows = self.running.iter().take(shown).map(|turn| {
                [
                    short_duration(turn.running_ms.saturating_mul(1000)),
                    short_route(turn.route.as_deref().unwrap_or("-"), MAX_ROUTE_CHARS),
                    ByteCount(turn.received_bytes).to_string(),
                    SafeText::new(&short_id(&turn.request_id)).to_string(),
                    clients.cell(&turn.owner),
                ]
            });
            let columns = [
                ("for", Right, 6),
                ("model", Left, 5),
                ("received", Right, 9),
                ("request", Left, 8),
                ("client", Left, 6),
            ];
            text += &table(columns, rows);
        }
        if self.queued_jobs + self.running_jobs > 0 {
            let _ = writeln!(
                text,
                "Background responses: {} running, {} queued.",
                self.running_jobs, self.queued_jobs
            );
        }
        text
    }

    /// The newest turns that have ended, at most `limit`; empty if there are none.
    fn recent_text(&self, now: SystemTime, limit: usize) -> String {
        if self.recent.is_empty() {
            return String::new();
        }
        let listing = TurnListing {
            started_ms: None,
            turns: self.recent.iter().take(limit).cloned().collect(),
        };
        format!("\nNewest turns\n{}", listing.table(now))
    }

    fn text(&self, address: &str, now: SystemTime) -> String {
        let mut text = self.head(address, now) + &self.running_text(StatusLength::All);
        text += &self.recent_text(now, usize::MAX);
        let rows = self
            .providers
            .iter()
            .map(|provider| [provider.id.clone(), provider_state(provider).join("\n")]);
        let columns = [("provider", Left, 8), ("state", Left, 5)];
        let _ = write!(text, "\n{}", table(columns, rows));
        text += &web_text(&self.web);
        text += &learned_text(&self.learned);
        match self.whole_sessions {
            0 => {}
            1 => {
                text += "\nIn one session outputs are no longer shortened: it cost more than it saved.\n";
            }
            count => {
                let _ = writeln!(
                    text,
                    "\nIn {count} sessions outputs are no longer shortened: it cost more than it saved."
                );
            }
        }
        text
    }
}

const PARTLY_KNOWN: &str = "+ Without the turns whose price is unknown.\n";

/// The providers that did not work when they were last asked, or have keys that cannot be used.
fn providers_in_trouble(providers: &[ProviderReport]) -> String {
    let trouble: Vec<_> = providers.iter().filter(|one| !is_well(one)).collect();
    if trouble.is_empty() {
        return match providers {
            [only] => format!("The provider {} is up.\n", SafeText::new(&only.id)),
            all => format!("All {} providers are up.\n", all.len()),
        };
    }
    let mut text = String::new();
    for provider in trouble.iter().take(MAX_TROUBLE) {
        let id = SafeText::new(&provider.id);
        let state = provider_state(provider);
        let state = state.iter().find(|line| *line != "up");
        let line = format!("{id}: {}", state.map_or("", String::as_str));
        let _ = writeln!(
            text,
            "{}",
            SafeText::up_to(&line, usize::from(TERMINAL_WIDTH) - 1)
        );
    }
    let hidden = trouble.len().saturating_sub(MAX_TROUBLE);
    if hidden > 0 {
        let _ = writeln!(text, "{hidden} more providers have failed.");
    }
    text
}

fn is_well(provider: &ProviderReport) -> bool {
    let last = provider.last_request.as_ref();
    let has_failed = last.is_some_and(|last| last.failure.is_some());
    provider.down_ms == 0 && provider.resting_keys == 0 && !has_failed
}

/// How much was learned of models; empty if nothing was.
fn learned_text(learned: &LearnedReport) -> String {
    if learned.is_empty() {
        return String::new();
    }
    let (changes, ratios) = (learned.changes.len(), learned.token_ratios.len());
    let [changes, ratios] = [(changes, "change"), (ratios, "token ratio")].map(|(count, name)| {
        let plural = if count == 1 { "" } else { "s" };
        format!("{count} {name}{plural}")
    });
    format!("\nLearned of models (respondent models --learned): {changes}, {ratios}\n")
}

/// The search engines that were asked, and the pages; empty if there were none.
fn web_text(web: &WebActivity) -> String {
    let cached = TriedCount {
        tried: web.cached_searches,
        failed: 0,
    };
    let engines = web.engines.iter();
    let engines = engines.map(|(engine, count)| (SafeText::new(engine).to_string(), *count));
    let others = [
        ("cache".to_owned(), cached),
        ("pages".to_owned(), web.pages),
    ];
    let rows: Vec<_> = engines
        .chain(others)
        .filter(|(_, count)| count.tried > 0)
        .map(|(name, count)| {
            let cost = web.costs.get(&name);
            let cost = cost.map_or_else(String::new, |cost| format!("${cost:.2}"));
            let [tried, failed] = [count.tried, count.failed].map(short_count);
            [name, tried, failed, cost]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let columns = [
        ("web", Left, 8),
        ("asked", Right, 5),
        ("failed", Right, 6),
        ("cost", Right, 7),
    ];
    format!("\n{}", table(columns, rows.into_iter()))
}

/// The state of a provider, and what is to be said of its keys, in a line each.
fn provider_state(provider: &ProviderReport) -> Vec<String> {
    let last = provider.last_request.as_ref();
    let failure = last.and_then(|last| Some((last.ago_ms, last.failure.as_deref()?)));
    let failure = failure.map(|(ago_ms, reason)| {
        let reason = SafeText::up_to(reason, MAX_REASON_CHARS).to_string();
        (short_ago(ago_ms), reason)
    });
    let state = match failure {
        _ if provider.down_ms > 0 => {
            let left = Duration::from_millis(provider.down_ms).as_secs() + 1;
            let reason = failure.map_or_else(String::new, |(_, reason)| format!(": {reason}"));
            format!("down{reason}; asked again in {left} s")
        }
        Some((ago, reason)) => format!("last request failed {ago} ago: {reason}"),
        None if last.is_some() => "up".to_owned(),
        None if provider.asked => "has not answered yet".to_owned(),
        None => "not asked yet".to_owned(),
    };
    let mut lines = vec![state];
    if provider.resting_keys > 0 {
        lines.push(format!(
            "{} of {} keys at a limit or refused",
            provider.resting_keys, provider.keys
        ));
    }
    lines
}

/// A time that has passed, in its largest unit.
fn short_ago(ms: u64) -> String {
    match ms / 1000 {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

impl DiskReport {
    fn text(&self) -> String {
        let turns = if self.recorded_turns == 1 {
            "turn"
        } else {
            "turns"
        };
        format!(
            "Disk: {} of tool outputs and usage, {} of {} recorded {turns}\n  in {}\n",
            ByteCount(self.database_bytes),
            ByteCount(self.recorded_bytes),
            self.recorded_turns,
            SafeText::new(&self.data_dir)
        )
    }
}

fn usage_table(period: &str, models: &[ModelUsage], length: StatusLength) -> String {
    if models.is_empty() {
        return format!("{period}: no turns.\n");
    }
    let clients = ClientColumn::of(models.iter().map(|model| model.owner.as_str()));
    let (route_chars, out) = if clients.has_clients {
        (MIN_USED_ROUTE_CHARS, "out")
    } else {
        (MAX_USED_ROUTE_CHARS, "tokens out")
    };
    let max_models = length.limit(MAX_MODELS);
    let mut lines: Vec<(String, String, ModelUsage)> = models
        .iter()
        .take(max_models)
        .map(|model| {
            let name = format!("{}/{}", model.provider, model.model);
            let client = clients.cell(&model.owner);
            (client, short_route(&name, route_chars - 1), model.clone())
        })
        .collect();
    let others = models.get(max_models..).unwrap_or_default();
    if !others.is_empty() && length == StatusLength::All {
        let name = format!("{} others", others.len());
        lines.push((String::new(), name, sum(others)));
    }
    if models.len() > 1 {
        lines.push((String::new(), "all".to_owned(), sum(models)));
    }
    let columns = [
        (period, Left, u16::try_from(route_chars).unwrap_or(0)),
        ("client", Left, 6),
        ("turns", Right, 5),
        ("tokens in", Right, 9),
        ("cached", Right, 6),
        (out, Right, 6),
        ("cost", Right, 7),
        ("unshortened", Right, 11),
    ];
    let rows = lines.into_iter().map(|(client, name, usage)| {
        let [turns, input, cached, output, cost_of_all] = usage.cells();
        let whole = cost(usage.unshortened_cost, &usage);
        [
            name,
            client,
            turns,
            input,
            cached,
            output,
            cost_of_all,
            whole,
        ]
    });
    table(columns, rows)
}

impl ModelUsage {
    /// The cells of a table: turns, input tokens, the share of them that was cached, output tokens,
    /// cost.
    pub fn cells(&self) -> [String; 5] {
        let cached = self
            .cached_tokens
            .saturating_mul(100)
            .checked_div(self.input_tokens)
            .map_or_else(|| "-".to_owned(), |percent| format!("{percent}%"));
        [
            self.turns.to_string(),
            short_count(self.input_tokens),
            cached,
            short_count(self.output_tokens),
            cost(self.cost, self),
        ]
    }
}

/// The turns of the last seven days that cannot be compared with themselves unshortened, as a text.
fn uncompared(week: &ModelUsage) -> String {
    let (too_long, unknown) = (
        week.turns_too_long_unshortened,
        week.turns_not_reckoned_unshortened,
    );
    if too_long == 0 && unknown == 0 {
        return String::new();
    }
    format!(
        "Of the turns in 7 days, {too_long} would not have fitted unshortened, and {unknown} cannot\n  \
         be compared; both count there at their actual cost.\n"
    )
}

/// The sum of several models, under no name.
fn sum(models: &[ModelUsage]) -> ModelUsage {
    let mut all = ModelUsage {
        owner: String::new(),
        provider: String::new(),
        model: String::new(),
        turns: 0,
        input_tokens: 0,
        cached_tokens: 0,
        output_tokens: 0,
        cost: None,
        unshortened_cost: None,
        turns_without_price: 0,
        turns_too_long_unshortened: 0,
        turns_not_reckoned_unshortened: 0,
    };
    for model in models {
        for (number, more) in [
            (&mut all.turns, model.turns),
            (&mut all.input_tokens, model.input_tokens),
            (&mut all.cached_tokens, model.cached_tokens),
            (&mut all.output_tokens, model.output_tokens),
            (&mut all.turns_without_price, model.turns_without_price),
            (
                &mut all.turns_too_long_unshortened,
                model.turns_too_long_unshortened,
            ),
            (
                &mut all.turns_not_reckoned_unshortened,
                model.turns_not_reckoned_unshortened,
            ),
        ] {
            *number = number.saturating_add(more);
        }
        for (sum, cost) in [
            (&mut all.cost, model.cost),
            (&mut all.unshortened_cost, model.unshortened_cost),
        ] {
            if let Some(cost) = cost {
                *sum.get_or_insert(0.0) += cost;
            }
        }
    }
    all
}

fn is_partly_known(model: &ModelUsage) -> bool {
    model.turns_without_price > 0
}

/// A cost of these turns, with a `+` if some of it is unknown.
fn cost(cost: Option<f64>, usage: &ModelUsage) -> String {
    let more = if is_partly_known(usage) { "+" } else { "" };
    match cost {
        Some(cost) => format!("{}{more}", Dollars(cost)),
        None => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests;
