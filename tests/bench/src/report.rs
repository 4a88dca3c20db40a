//! The table: what was measured, what was aimed at, and whether the machine was quiet enough.

use std::{collections::BTreeMap, fmt::Write};

/// Who was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Arm {
    /// The upstream alone: shows that it is not the limit.
    Direct,
    /// The bare pass-through.
    Pass,
    /// The proxy.
    Ours,
}

/// What was measured: one row each, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Measure {
    PacedCpu,
    PacedP50,
    PacedP99,
    FloodCpu,
    FloodRate,
    FloodRss,
    SmallRate,
    FirstEvent,
    History,
    IdleRss,
    StreamRss,
    ColdStart,
}

/// How the proxy's figure becomes the one that is judged.
enum Judged {
    /// Divided by the pass-through's figure of the same round.
    Ratio,
    /// Less the pass-through's figure of the same round.
    Added,
    /// As it is.
    Own,
}

enum Aim {
    AtMost(f64),
    AtLeast(f64),
    None,
}

impl Measure {
    const ALL: [Self; 12] = [
        Self::PacedCpu,
        Self::PacedP50,
        Self::PacedP99,
        Self::FloodCpu,
        Self::FloodRate,
        Self::FloodRss,
        Self::SmallRate,
        Self::FirstEvent,
        Self::History,
        Self::IdleRss,
        Self::StreamRss,
        Self::ColdStart,
    ];

    fn title(self) -> &'static str {
        match self {
            Self::PacedCpu => "CPU an event, 50 streams x 5 ms (us)",
            Self::PacedP50 => "event latency p50, 50 streams x 5 ms (us)",
            Self::PacedP99 => "event latency p99, 50 streams x 5 ms (us)",
            Self::FloodCpu => "CPU an event, 32 streams in flood (us)",
            Self::FloodRate => "events a second, 32 streams in flood",
            Self::FloodRss => "highest RSS, 32 streams in flood (MB)",
            Self::SmallRate => "small requests a second, 32 connections",
            Self::FirstEvent => "first event p50, 1 stream (ms)",
            Self::History => "first event p50, 2 MB history (ms)",
            Self::IdleRss => "idle RSS (MB)",
            Self::StreamRss => "RSS an open stream (KB)",
            Self::ColdStart => "cold start to the first 200 (ms)",
        }
    }

    fn judged(self) -> (Judged, Aim) {
        match self {
            Self::PacedCpu => (Judged::Ratio, Aim::AtMost(1.5)),
            Self::FloodCpu => (Judged::Ratio, Aim::AtMost(3.0)),
            Self::SmallRate => (Judged::Ratio, Aim::AtLeast(0.5)),
            Self::FloodRate => (Judged::Ratio, Aim::None),
            Self::PacedP50 | Self::PacedP99 => (Judged::Added, Aim::None),
            Self::FirstEvent => (Judged::Added, Aim::AtMost(0.3)),
            Self::History => (Judged::Added, Aim::AtMost(5.0)),
            Self::FloodRss => (Judged::Own, Aim::None),
            Self::IdleRss => (Judged::Own, Aim::AtMost(12.0)),
            Self::StreamRss => (Judged::Own, Aim::AtMost(40.0)),
            Self::ColdStart => (Judged::Own, Aim::AtMost(50.0)),
        }
    }
}

/// Every figure of a run: one a round for each measure and arm.
#[derive(Debug, Default)]
pub(crate) struct Figures(BTreeMap<(Measure, Arm), Vec<f64>>);

impl Figures {
    pub(crate) fn record(&mut self, measure: Measure, arm: Arm, figure: f64) {
        self.0.entry((measure, arm)).or_default().push(figure);
    }

    /// The table in Markdown, a row for each measure that has figures.
    pub(crate) fn table(&self) -> String {
        let mut table = String::from(
            "| measure | upstream alone | pass | ours | judged | aim | verdict |\n\
             |---|---|---|---|---|---|---|\n",
        );
        for measure in Measure::ALL {
            let [direct, pass, ours] =
                [Arm::Direct, Arm::Pass, Arm::Ours].map(|arm| self.of(measure, arm));
            if pass.is_empty() && ours.is_empty() {
                continue;
            }
            let (judged, aim) = measure.judged();
            let pairs = ours.iter().zip(pass);
            let (name, figures): (_, Vec<f64>) = match judged {
                Judged::Ratio => ("x pass ", pairs.map(|(ours, pass)| ours / pass).collect()),
                Judged::Added => ("added ", pairs.map(|(ours, pass)| ours - pass).collect()),
                Judged::Own => ("", ours.to_vec()),
            };
            let verdict = verdict(&aim, &figures, pass);
            let aim = match aim {
                Aim::AtMost(bound) => format!("{name}<= {}", digits(bound)),
                Aim::AtLeast(bound) => format!("{name}>= {}", digits(bound)),
                Aim::None => "-".into(),
            };
            let judged = if figures.is_empty() { "" } else { name };
            // Writing to a String cannot fail.
            let _ = writeln!(
                table,
                "| {} | {} | {} | {} | {judged}{} | {aim} | {verdict} |",
                measure.title(),
                spread(direct),
                spread(pass),
                spread(ours),
                spread(&figures),
            );
        }
        table
    }

    fn of(&self, measure: Measure, arm: Arm) -> &[f64] {
        self.0.get(&(measure, arm)).map_or(&[], Vec::as_slice)
    }
}

/// A yardstick that moves by more than this share of its median measures nothing.
const QUIET: f64 = 0.3;

fn verdict(aim: &Aim, figures: &[f64], pass: &[f64]) -> &'static str {
    let Some((median, _, _)) = summary(figures) else {
        return "-";
    };
    let met = match aim {
        Aim::AtMost(bound) => median <= *bound,
        Aim::AtLeast(bound) => median >= *bound,
        Aim::None => return "-",
    };
    match summary(pass) {
        Some((median, min, max)) if (max - min) > QUIET * median => "noisy",
        _ if met => "met",
        _ => "missed",
    }
}

fn spread(figures: &[f64]) -> String {
    summary(figures).map_or("-".into(), |(median, min, max)| {
        format!("{} [{}..{}]", digits(median), digits(min), digits(max))
    })
}

/// Median, least and greatest.
fn summary(figures: &[f64]) -> Option<(f64, f64, f64)> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    let lower = *sorted.get(sorted.len().checked_sub(1)? / 2)?;
    Some((
        f64::midpoint(lower, upper),
        *sorted.first()?,
        *sorted.last()?,
    ))
}

/// Three digits that matter; whole numbers from 100 on.
fn digits(figure: f64) -> String {
    match figure.abs() {
        size if size >= 100.0 => format!("{figure:.0}"),
        size if size >= 10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pass: [f64; 3], ours: [f64; 3]) -> String {
        let mut figures = Figures::default();
        for (pass, ours) in pass.into_iter().zip(ours) {
            figures.record(Measure::PacedCpu, Arm::Pass, pass);
            figures.record(Measure::PacedCpu, Arm::Ours, ours);
        }
        figures.table().lines().last().unwrap().to_owned()
    }

    #[test]
    fn a_row_compares_within_the_round() {
        let row = row([10.0, 11.0, 12.0], [12.0, 22.0, 12.0]);
        assert!(
            row.contains("| 11.0 [10.0..12.0] | 12.0 [12.0..22.0] |"),
            "{row}"
        );
        assert!(
            row.ends_with("| x pass 1.20 [1.00..2.00] | x pass <= 1.50 | met |"),
            "{row}"
        );
    }

    #[test]
    fn a_missed_aim_is_said() {
        assert!(row([10.0; 3], [20.0; 3]).ends_with("| missed |"));
    }

    #[test]
    fn a_restless_yardstick_gives_no_verdict() {
        assert!(row([10.0, 10.0, 14.0], [10.0; 3]).ends_with("| noisy |"));
    }

    #[test]
    fn the_median_of_an_even_count_is_between() {
        assert_eq!(summary(&[4.0, 1.0, 2.0, 3.0]), Some((2.5, 1.0, 4.0)));
        assert_eq!(summary(&[]), None);
    }
}
