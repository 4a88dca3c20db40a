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
        agent: true,
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

fn text_in(report: &StatusReport, length: StatusLength) -> String {
    let now = UNIX_EPOCH + Duration::from_secs(1300);
    let text = report.text("127.0.0.1:8787", now, length);
    let wide = text.lines().find(|line| line.chars().count() > 80);
    assert_eq!(wide, None, "{text}");
    text
}

fn text_of(report: &StatusReport) -> String {
    text_in(report, StatusLength::All)
}

#[test]
fn the_status_fits_a_terminal() {
    assert_eq!(
        text_of(&report()),
        "\
Respondent 0.2.0 has been running on 127.0.0.1:8787 for 13m.

1 turn is running.
   for  model                      received  request
 12.3s  a-model-with-a-name-tha…    45.6 kB  9f5a19f7
Background responses: 1 running, 3 queued.

Newest turns
 ago    took  outcome       model               request   response  kept in
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

Today               turns  tokens in  cached  tokens out     cost  unshortened
kimi-k2.6            1234     123.4M     86%       98.7k    $1.23        $8.64

Last 7 days         turns  tokens in  cached  tokens out     cost  unshortened
kimi-k2.6            1234     123.4M     86%       98.7k  $12.35+      $86.42+
local-\\u001b[31m     1234     123.4M     86%       98.7k  unknown      unknown
all                  2468     246.9M     86%      197.5k  $12.35+      $86.42+
Unshortened: what the same turns would have cost with outputs sent whole.
Of the turns in 7 days, 24 would not have fitted unshortened, and 8 cannot
  be compared; both count there at their actual cost.
+ Without the turns whose price is unknown.

Disk: 12.3 MB of tool outputs and usage, 45.6 kB of 3 recorded turns
  in /home/me/.local/share/respondent
"
    );
}

#[test]
fn equal_periods_are_one_table() {
    let mut report = report();
    let usage = report.usage.as_mut().unwrap();
    usage.week.clone_from(&usage.today);
    let text = text_of(&report);
    assert!(text.contains("Last 7 days: the same as today.\n"), "{text}");
    assert_eq!(text.matches("tokens in").count(), 1, "{text}");
}

/// Promise: `respondent status` fits a terminal of 24 lines and 80 columns, whatever happens,
/// and says how to see the rest.
#[test]
fn the_short_status_fits_24_lines() {
    let quiet = {
        let mut report = report();
        let server = report.server.as_mut().unwrap();
        server.running.clear();
        (server.queued_jobs, server.running_jobs) = (0, 0);
        server.providers.truncate(1);
        report
    };
    let text = text_in(&quiet, StatusLength::Short);
    assert!(text.contains("\nThe provider moonshot is up.\n"), "{text}");
    assert!(!text.contains("Last 7 days"), "{text}");
    assert!(text.contains("respondent status --all"), "{text}");
    let mut busy = report();
    let server = busy.server.as_mut().unwrap();
    server.running = vec![server.running[0].clone(); 30];
    server.recent = vec![server.recent[0].clone(); 5];
    let mut bad = server.providers[1].clone();
    bad.last_request = None;
    server.providers = vec![bad; 9];
    let usage = busy.usage.as_mut().unwrap();
    usage.today = vec![usage.week[0].clone(); 9];
    let text = text_in(&busy, StatusLength::Short);
    assert!(
        text.lines().count() <= 23,
        "{}\n{text}",
        text.lines().count()
    );
    for part in [
        "30 turns are running; the oldest 2:",
        "\nNewest turns\n",
        "\ndeepseek: down; asked again in 10 s\n",
        "\n7 more providers have failed.\n",
        "\nall ",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let offline = StatusReport {
        server: None,
        ..report()
    };
    let text = text_in(&offline, StatusLength::Short);
    assert!(
        text.starts_with("No server runs on 127.0.0.1:8787.\n\nToday "),
        "{text}"
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
