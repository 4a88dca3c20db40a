//! The status as text for a terminal of the usual width.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use comfy_table::CellAlignment::{Left, Right};

use super::report::{DiskReport, ModelUsage, ServerReport, StatusReport};
use crate::diagnostics::listing::{TurnListing, age, short_duration};
use crate::log::{ByteCount, ClientColumn, Dollars, SafeText, short_id, table};
use crate::metrics::{TriedCount, WebActivity};
use crate::upstream::{LearnedReport, ProviderReport};

/// The most models of a period that have a line of their own.
const MAX_MODELS: usize = 10;

/// The most running turns that have a line of their own.
const MAX_RUNNING: usize = 10;

/// The characters of the reason for a failure, so that lines fit a terminal.
const MAX_REASON_CHARS: usize = 39;

/// The characters of a route, so that lines fit a terminal.
const MAX_ROUTE_CHARS: usize = 25;

impl StatusReport {
    /// The report as text. `address` is the server's address, and `now` the moment that ages are
    /// relative to.
    pub fn text(&self, address: &str, now: SystemTime) -> String {
        let mut text = match &self.server {
            Some(server) => server.text(address, now),
            None => format!("No server runs on {address}.\n"),
        };
        text.push('\n');
        match &self.usage {
            Some(usage) => {
                text += &usage_table("Today", &usage.today);
                text.push('\n');
                text += &usage_table("Last 7 days", &usage.week);
                let mut models = usage.today.iter().chain(&usage.week);
                if models.clone().any(|model| model.cost.is_some()) {
                    text += "Whole: what the same turns would have cost with nothing shortened.\n";
                    text += &uncompared(&sum(&usage.week));
                }
                if models.any(is_partly_known) {
                    text += "+ Without the turns whose price is unknown.\n";
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
    fn text(&self, address: &str, now: SystemTime) -> String {
        let mut text = format!(
            "Respondent {} has been running on {address} for {}.\n\n",
            SafeText::new(&self.version),
            age(self.started_ms, now)
        );
        if self.running.is_empty() {
            text += "No turn is running.\n";
        } else {
            let count = self.running.len();
            let turns = if count == 1 { "turn is" } else { "turns are" };
            let _ = writeln!(text, "{count} {turns} running.");
            let clients = ClientColumn::of(self.running.iter().map(|turn| turn.owner.as_str()));
            let rows = self.running.iter().take(MAX_RUNNING).map(|turn| {
                [
                    short_duration(turn.running_ms.saturating_mul(1000)),
                    route(turn.route.as_deref().unwrap_or("-"), MAX_ROUTE_CHARS),
                    ByteCount(turn.received_bytes).to_string(),
                    SafeText::new(&short_id(&turn.request_id)).to_string(),
                    clients.cell(&turn.owner),
                ]
            });
            let columns = [
                ("for", Right, 6),
                ("route", Left, 5),
                ("received", Right, 9),
                ("request", Left, 8),
                ("client", Left, 6),
            ];
            text += &table(columns, rows);
        }
        if self.queued_jobs + self.running_jobs > 0 {
            let _ = writeln!(
                text,
                "\nBackground responses: {} running, {} queued.",
                self.running_jobs, self.queued_jobs
            );
        }
        if !self.recent.is_empty() {
            let listing = TurnListing {
                started_ms: None,
                turns: self.recent.clone(),
            };
            let _ = write!(text, "\nNewest turns\n{}", listing.table(now));
        }
        let rows = self
            .providers
            .iter()
            .map(|provider| [provider.id.clone(), provider_state(provider)]);
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

fn provider_state(provider: &ProviderReport) -> String {
    let last = provider.last_request.as_ref();
    let failure = last.and_then(|last| Some((last.ago_ms, last.failure.as_deref()?)));
    let failure = failure.map(|(ago_ms, reason)| {
        let reason = SafeText::up_to(reason, MAX_REASON_CHARS).to_string();
        (short_ago(ago_ms), reason)
    });
    let mut state = match failure {
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
    if provider.resting_keys > 0 {
        let _ = write!(
            state,
            "\n{} of {} keys at a limit or refused",
            provider.resting_keys, provider.keys
        );
    }
    state
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

fn usage_table(period: &str, models: &[ModelUsage]) -> String {
    if models.is_empty() {
        return format!("{period}: no turns.\n");
    }
    let clients = ClientColumn::of(models.iter().map(|model| model.owner.as_str()));
    let route_chars = clients.left_of(MAX_ROUTE_CHARS);
    let mut lines: Vec<(String, String, ModelUsage)> = models
        .iter()
        .take(MAX_MODELS)
        .map(|model| {
            let name = format!("{}/{}", model.provider, model.model);
            let client = clients.cell(&model.owner);
            (client, route(&name, route_chars), model.clone())
        })
        .collect();
    let others = models.get(MAX_MODELS..).unwrap_or_default();
    if !others.is_empty() {
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
        ("out", Right, 7),
        ("cost", Right, 7),
        ("whole", Right, 7),
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

/// A number of tokens in at most six characters, such as `12.3k`.
fn short_count(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..1_000_000 => format!("{}.{}k", count / 1000, count % 1000 / 100),
        1_000_000..1_000_000_000 => {
            format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000)
        }
        _ => format!("{}G", count / 1_000_000_000),
    }
}

fn route(name: &str, chars: usize) -> String {
    SafeText::up_to(name, chars - 1).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::super::report::UsageReport;
    use super::*;
    use crate::diagnostics::selection::ListedTurn;
    use crate::turn::{Outcome, RunningTurnReport};
    use crate::upstream::{LastRequestReport, LearnedChange};

    fn usage(model: &str, cost: Option<f64>, unpriced: u64) -> ModelUsage {
        ModelUsage {
            owner: "local".to_owned(),
            provider: "moonshot".to_owned(),
            model: model.to_owned(),
            turns: 1234,
            input_tokens: 123_456_789,
            cached_tokens: 107_407_406,
            output_tokens: 98_765,
            cost,
            unshortened_cost: cost.map(|cost| cost * 7.0),
            turns_without_price: unpriced,
            turns_too_long_unshortened: 12,
            turns_not_reckoned_unshortened: unpriced,
        }
    }

    fn report() -> StatusReport {
        let turn = ListedTurn {
            owner: "local".to_owned(),
            request_id: "req_0f5a19f7c2d3e4f5".to_owned(),
            response_id: Some("resp_1b2c3d4e5f6a7b8c".to_owned()),
            began_ms: 1_000_000,
            took_us: 1_250_000,
            outcome: Some(Outcome::Completed),
            route: Some("moonshot/kimi-k2.6".to_owned()),
            failed: false,
            memory: true,
            disk: false,
        };
        let provider = |id: &str| ProviderReport {
            id: id.to_owned(),
            asked: true,
            down_ms: 0,
            last_request: Some(LastRequestReport {
                ago_ms: 14_900,
                failure: None,
            }),
            keys: 2,
            resting_keys: 0,
        };
        StatusReport {
            server: Some(ServerReport {
                version: "0.2.0".to_owned(),
                started_ms: 500_000,
                config_files: Vec::new(),
                log_file: None,
                running: vec![RunningTurnReport {
                    request_id: "req_9f5a19f7c2d3e4f5".to_owned(),
                    owner: "local".to_owned(),
                    route: Some("moonshot/a-model-with-a-name-that-does-not-fit".to_owned()),
                    running_ms: 12_345,
                    received_bytes: 45_678,
                }],
                recent: vec![turn],
                providers: vec![
                    provider("moonshot"),
                    ProviderReport {
                        down_ms: 9_500,
                        last_request: Some(LastRequestReport {
                            ago_ms: 90_000,
                            failure: Some("it limits the rate of requests".to_owned()),
                        }),
                        resting_keys: 1,
                        ..provider("deepseek")
                    },
                    ProviderReport {
                        last_request: Some(LastRequestReport {
                            ago_ms: 14_900,
                            failure: Some("127.0.0.1:9 refused the connection".to_owned()),
                        }),
                        ..provider("ollama")
                    },
                    ProviderReport {
                        asked: false,
                        last_request: None,
                        ..provider("openai")
                    },
                ],
                queued_jobs: 3,
                running_jobs: 1,
                whole_sessions: 2,
                web: WebActivity {
                    engines: [(
                        "brave".to_owned(),
                        TriedCount {
                            tried: 12,
                            failed: 1,
                        },
                    )]
                    .into(),
                    costs: [("brave".to_owned(), 0.06)].into(),
                    cached_searches: 3,
                    pages: TriedCount {
                        tried: 0,
                        failed: 0,
                    },
                },
                learned: LearnedReport {
                    changes: vec![LearnedChange {
                        provider: "moonshot".to_owned(),
                        model: "kimi-k3".to_owned(),
                        change: "no_images".to_owned(),
                        evidence: "no images".to_owned(),
                        for_owner: None,
                        learned_at: 1_000,
                    }],
                    token_ratios: Vec::new(),
                },
            }),
            usage: Some(UsageReport {
                stored: true,
                today: vec![usage("kimi-k2.6", Some(1.234), 0)],
                week: vec![
                    usage("kimi-k2.6", Some(12.345), 3),
                    usage("local-\x1b[31m", None, 5),
                ],
            }),
            disk: DiskReport {
                data_dir: "/home/me/.local/share/respondent".to_owned(),
                database_bytes: 12_345_678,
                recorded_turns: 3,
                recorded_bytes: 45_678,
            },
        }
    }

    fn text_of(report: &StatusReport) -> String {
        let text = report.text("127.0.0.1:8787", UNIX_EPOCH + Duration::from_secs(1300));
        let wide = text.lines().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None, "{text}");
        text
    }

    #[test]
    fn the_status_fits_a_terminal() {
        assert_eq!(
            text_of(&report()),
            "\
Respondent 0.2.0 has been running on 127.0.0.1:8787 for 13m.

1 turn is running.
   for  route                       received  request
 12.3s  moonshot/a-model-with-a-…    45.6 kB  9f5a19f7

Background responses: 1 running, 3 queued.

Newest turns
 age    took  outcome       route               request   response  kept
  5m    1.2s  completed     moonshot/kimi-k2.6  0f5a19f7  1b2c3d4e  memory

provider  state
moonshot  up
deepseek  down: it limits the rate of requests; asked again in 10 s
          1 of 2 keys at a limit or refused
ollama    last request failed 14 s ago: 127.0.0.1:9 refused the connection
openai    not asked yet

web       asked  failed     cost
brave        12       1    $0.06
cache         3       0

Learned of models (respondent models --learned): 1 change, 0 token ratios

In 2 sessions outputs are no longer shortened: it cost more than it saved.

Today                      turns  tokens in  cached      out     cost    whole
moonshot/kimi-k2.6          1234     123.4M     86%    98.7k    $1.23    $8.64

Last 7 days                turns  tokens in  cached      out     cost    whole
moonshot/kimi-k2.6          1234     123.4M     86%    98.7k  $12.35+  $86.42+
moonshot/local-\\u001b[31m   1234     123.4M     86%    98.7k  unknown  unknown
all                         2468     246.9M     86%   197.5k  $12.35+  $86.42+
Whole: what the same turns would have cost with nothing shortened.
Of the turns in 7 days, 24 would not have fitted unshortened, and 8 cannot
  be compared; both count there at their actual cost.
+ Without the turns whose price is unknown.

Disk: 12.3 MB of tool outputs and usage, 45.6 kB of 3 recorded turns
  in /home/me/.local/share/respondent
"
        );
    }

    #[test]
    fn clients_are_named_if_there_are_any() {
        let mut report = report();
        let name = "a-client-with-a-long-name";
        let (server, usage) = (
            report.server.as_mut().unwrap(),
            report.usage.as_mut().unwrap(),
        );
        name.clone_into(&mut server.running[0].owner);
        name.clone_into(&mut server.recent[0].owner);
        name.clone_into(&mut usage.today[0].owner);
        name.clone_into(&mut usage.week[0].owner);
        let text = text_of(&report);
        let headings = text.split_whitespace().filter(|word| *word == "client");
        assert_eq!(headings.count(), 4, "{text}");
        assert_eq!(text.matches("a-client-").count(), 4, "{text}");
        let local = text.lines().find(|line| line.contains(" local "));
        assert!(local.is_some_and(|line| line.contains("1234")), "{text}");
    }

    #[test]
    fn without_a_server_usage_and_disk_are_shown() {
        let offline = StatusReport {
            server: None,
            usage: Some(UsageReport::default()),
            ..report()
        };
        let text = text_of(&offline);
        assert!(text.starts_with("No server runs on 127.0.0.1:8787.\n\nToday: no turns.\n"));
        assert!(
            text.contains("Disk: 12.3 MB of tool outputs and usage"),
            "{text}"
        );
    }

    #[test]
    fn many_models_are_summed_up() {
        let many = (0..30)
            .map(|n| usage(&format!("m{n}"), Some(1.0), 0))
            .collect();
        let report = StatusReport {
            usage: Some(UsageReport {
                today: many,
                ..UsageReport::default()
            }),
            ..report()
        };
        let text = text_of(&report);
        assert!(text.contains("\n20 others"), "{text}");
        assert!(text.contains("$30.00"), "{text}");
        assert!(
            text.contains("Usage is lost when the server ends"),
            "{text}"
        );
    }

    #[test]
    fn numbers_are_short() {
        let counts = [0, 9_999, 10_000, 999_999, 12_345_678, u64::MAX];
        assert_eq!(
            counts.map(short_count),
            ["0", "9999", "10.0k", "999.9k", "12.3M", "18446744073G"]
        );
    }
}
