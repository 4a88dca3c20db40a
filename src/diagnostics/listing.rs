//! The list of recorded turns, as `GET /diagnostics/turns` and `respondent bundle
//! list` show it. It contains nothing of a conversation.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use comfy_table::CellAlignment::{Left, Right};
use serde::{Deserialize, Serialize};

use super::selection::{ListedTurn, Selection};
use crate::clock::{MAX_DATE_MS, http_date};
use crate::log::{ClientColumn, SafeText, short_id, table};
use crate::turn::Outcome;

/// The characters of a route in the table, so that its lines fit a terminal.
const MAX_ROUTE_CHARS: usize = 22;

/// The recorded turns of a server, or of its folder of bundles while it does not run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct TurnListing {
    /// When the server started, in milliseconds since 1970; `None` if no server runs and
    /// the list was read from the folder.
    pub started_ms: Option<u64>,
    /// Newest first.
    pub turns: Vec<ListedTurn>,
}

impl TurnListing {
    /// The list as a table with one line for each turn. `now` is the moment that ages are
    /// relative to.
    pub fn table(&self, now: SystemTime) -> String {
        let columns = [
            ("ago", Right, 4),
            ("took", Right, 6),
            ("outcome", Left, 12),
            ("model", Left, 5),
            ("request", Left, 8),
            ("response", Left, 8),
            ("kept in", Left, 7),
            ("client", Left, 0),
        ];
        let clients = ClientColumn::of(self.turns.iter().map(|turn| turn.owner.as_str()));
        let route_chars = clients.left_of(MAX_ROUTE_CHARS);
        let id = |id: Option<&str>| {
            let short = id.map_or_else(|| "-".to_owned(), short_id);
            SafeText::new(&short).to_string()
        };
        let cells = |row: &ListedTurn| {
            [
                age(row.began_ms, now),
                short_duration(row.took_us),
                row.outcome.map_or("-", Outcome::label).to_owned(),
                short_route(row.route.as_deref().unwrap_or("-"), route_chars),
                id(Some(&row.request_id)),
                id(row.response_id.as_deref()),
                storage_label(row).to_owned(),
                clients.cell(&row.owner),
            ]
        };
        table(columns, self.turns.iter().map(cells))
    }

    /// A sentence for a selection that matched nothing: what is missing, and which turns
    /// there are instead.
    pub fn explain_no_match(&self, select: &Selection) -> String {
        let since = self.started_ms.map_or(String::new(), |started| {
            format!(" since the server started at {}", http_date(started))
        });
        if self.turns.is_empty() {
            return format!("no turns are recorded{since}");
        }
        let count = self.turns.len();
        let noun = if count == 1 { "turn is" } else { "turns are" };
        let hint = match select {
            Selection::Failed => "--last takes the newest",
            Selection::Last
            | Selection::Response(_)
            | Selection::Request(_)
            | Selection::Since(_) => "`respondent bundle list` shows them",
        };
        match select {
            Selection::Failed => {
                format!("no turn has failed{since}; {count} other {noun} recorded: {hint}")
            }
            Selection::Last
            | Selection::Response(_)
            | Selection::Request(_)
            | Selection::Since(_) => {
                format!(
                    "there is no {}; {count} {noun} recorded: {hint}",
                    select.describe()
                )
            }
        }
    }
}

fn storage_label(row: &ListedTurn) -> &'static str {
    match (row.memory, row.disk) {
        (true, true) => "both",
        (true, false) => "memory",
        (false, true) => "disk",
        (false, false) => "-",
    }
}

/// The name of a route in at most this many characters and a mark; without its provider if it is
/// too long otherwise.
pub fn short_route(name: &str, chars: usize) -> String {
    let name = if name.chars().count() <= chars {
        name
    } else {
        name.split_once('/').map_or(name, |(_, model)| model)
    };
    let name = SafeText::new(name).to_string();
    match name.char_indices().nth(chars) {
        Some((end, _)) => name.get(..end).unwrap_or_default().to_owned() + "\u{2026}",
        None => name,
    }
}

/// The age of a moment in milliseconds since 1970, such as `5m`.
pub fn age(ms: u64, now: SystemTime) -> String {
    let then = UNIX_EPOCH + Duration::from_millis(ms.min(MAX_DATE_MS));
    let seconds = now.duration_since(then).unwrap_or_default().as_secs();
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A duration in microseconds in at most six characters, such as `1.2s`.
pub fn short_duration(us: u64) -> String {
    match us / 1000 {
        ms @ 0..1000 => format!("{ms}ms"),
        ms @ 1000..120_000 => format!("{}.{}s", ms / 1000, ms % 1000 / 100),
        ms => format!("{}m", ms / 60_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> ListedTurn {
        ListedTurn {
            request_id: "req_1".to_owned(),
            owner: "local".to_owned(),
            response_id: None,
            began_ms: 1_000_000,
            took_us: 1_250_000,
            outcome: Some(Outcome::Failed),
            route: Some("up/m\x1b[31m".to_owned()),
            failed: true,
            agent: true,
            memory: true,
            disk: true,
        }
    }

    fn listing(turns: Vec<ListedTurn>) -> TurnListing {
        TurnListing {
            started_ms: Some(784_111_777_000),
            turns,
        }
    }

    #[test]
    fn the_table_shows_age_outcome_and_storage() {
        let now = UNIX_EPOCH + Duration::from_secs(1000 + 300);
        let table = listing(vec![row()]).table(now);
        let lines: Vec<Vec<&str>> = table
            .lines()
            .map(|line| {
                line.split("  ")
                    .map(str::trim)
                    .filter(|c| !c.is_empty())
                    .collect()
            })
            .collect();
        let [head, row] = lines.as_slice() else {
            panic!("{table}")
        };
        assert_eq!(head.len(), row.len());
        let cells = ["5m", "1.2s", "failed", r"up/m\u001b[31m", "1", "-", "both"];
        assert_eq!(row[..], cells);
    }

    #[test]
    fn the_table_fits_a_terminal() {
        let widest = ListedTurn {
            request_id: format!("req_{:032x}", 1),
            response_id: Some(format!("resp_{:032x}", 2)),
            began_ms: 0,
            took_us: 119_900_000,
            outcome: Some(Outcome::Disconnected),
            route: Some("aggregator/some-maker/a-model-with-a-long-name".to_owned()),
            disk: false,
            ..row()
        };
        let of_client = ListedTurn {
            owner: "a-client-with-a-long-name".to_owned(),
            ..widest.clone()
        };
        for (turns, has_clients) in [
            (vec![widest.clone()], false),
            (vec![widest, of_client], true),
        ] {
            let table = listing(turns).table(UNIX_EPOCH + Duration::from_hours(24 * 999));
            let widths = table.lines().map(|line| line.chars().count());
            assert!(widths.max() <= Some(80), "{table}");
            assert!(table.contains(" 00000000  00000000 "), "{table}");
            assert_eq!(table.contains("client"), has_clients, "{table}");
        }
    }

    #[test]
    fn a_selection_without_a_match_is_explained() {
        let started = "since the server started at Sun, 06 Nov 1994 08:49:37 GMT";
        let none = listing(Vec::new()).explain_no_match(&Selection::Failed);
        assert_eq!(none, format!("no turns are recorded {started}"));
        let one = listing(vec![row()]);
        assert_eq!(
            one.explain_no_match(&Selection::Failed),
            format!(
                "no turn has failed {started}; 1 other turn is recorded: --last takes the newest"
            )
        );
        assert_eq!(
            one.explain_no_match(&Selection::Response("resp_2".into())),
            "there is no turn with the response resp_2; 1 turn is recorded: \
             `respondent bundle list` shows them"
        );
    }

    #[test]
    fn ages_and_durations_are_short() {
        let now = UNIX_EPOCH + Duration::from_hours(100);
        for (ago_s, text) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (7200, "2h"),
            (172_800, "2d"),
        ] {
            assert_eq!(age((360_000 - ago_s) * 1000, now), text);
        }
        // The clock was set back since.
        assert_eq!(age(u64::MAX, now), "0s");
        for (us, text) in [
            (900, "0ms"),
            (999_999, "999ms"),
            (1_999_999, "1.9s"),
            (180_000_000, "3m"),
        ] {
            assert_eq!(short_duration(us), text);
        }
    }
}
