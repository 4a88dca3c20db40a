//! The main table: the figures, their goals, and whether the machine was quiet enough for a
//! verdict.

use std::{collections::BTreeMap, fmt::Write};

/// A server that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Arm {
    /// The upstream alone, which shows that it is not the bottleneck.
    Direct,
    /// The bare pass-through.
    Pass,
    /// The proxy with its default settings, which capture the turns that fail.
    Ours,
    /// The proxy without capture.
    Off,
    /// The proxy with capture of every turn.
    All,
    /// The proxy without stored tool outputs.
    Unkept,
    /// The proxy with 50 background responses at once.
    Jobs,
}

impl Arm {
    /// The arms of `run` that are our proxy.
    pub(crate) const OURS: [Self; 3] = [Self::Off, Self::Ours, Self::All];

    /// The lines of the configuration that are specific to this arm.
    pub(crate) fn config(self) -> &'static str {
        match self {
            Self::Direct | Self::Pass | Self::Ours => "",
            Self::Off => "[capture]\nmode = \"off\"\n",
            Self::Unkept => "[artifacts]\nmode = \"off\"\n",
            Self::All => "[capture]\nmode = \"all\"\n",
            Self::Jobs => "[jobs]\nrunning = 50\n",
        }
    }
}

/// A quantity that is measured. The table has a row for each, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Measure {
    PacedCpu,
    PacedP50,
    PacedP99,
    FloodCpu,
    FloodRate,
    FloodRss,
    SmallRate,
    SmallCpu,
    FirstEvent,
    History,
    HistoryCpu,
    IdleRss,
    StreamRss,
    ColdStart,
}

/// How a figure is compared with the baseline before its goal is checked.
pub(crate) enum Comparison {
    /// The figure divided by that of the baseline in the same round.
    Ratio,
    /// The figure minus that of the baseline in the same round.
    Difference,
    /// The figure itself.
    Absolute,
}

/// The goal of a compared figure.
pub(crate) enum Goal {
    AtMost(f64),
    AtLeast(f64),
    /// At most the spread of the baseline.
    WithinSpread,
    None,
}

impl Measure {
    const ALL: [Self; 14] = [
        Self::PacedCpu,
        Self::PacedP50,
        Self::PacedP99,
        Self::FloodCpu,
        Self::FloodRate,
        Self::FloodRss,
        Self::SmallRate,
        Self::SmallCpu,
        Self::FirstEvent,
        Self::History,
        Self::HistoryCpu,
        Self::IdleRss,
        Self::StreamRss,
        Self::ColdStart,
    ];

    /// The first cell of the row of this measure.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::PacedCpu => "CPU per event, 50 streams x 5 ms (us)",
            Self::PacedP50 => "event latency p50, 50 streams x 5 ms (us)",
            Self::PacedP99 => "event latency p99, 50 streams x 5 ms (us)",
            Self::FloodCpu => "CPU per event, 32 streams in flood (us)",
            Self::FloodRate => "events a second, 32 streams in flood",
            Self::FloodRss => "highest RSS, 32 streams in flood (MB)",
            Self::SmallRate => "small requests a second, 32 connections",
            Self::SmallCpu => "CPU a small request, 32 connections (us)",
            Self::FirstEvent => "first event p50, 1 stream (ms)",
            Self::History => "first event p50, 2 MB history (ms)",
            Self::HistoryCpu => "CPU a 2 MB history (ms)",
            Self::IdleRss => "idle RSS (MB)",
            Self::StreamRss => "RSS an open stream (KB)",
            Self::ColdStart => "cold start to the first 200 (ms)",
        }
    }

    fn comparison(self) -> (Comparison, Goal) {
        match self {
            Self::PacedCpu => (Comparison::Ratio, Goal::AtMost(1.5)),
            Self::FloodCpu => (Comparison::Ratio, Goal::AtMost(3.0)),
            Self::SmallRate => (Comparison::Ratio, Goal::AtLeast(0.5)),
            Self::FloodRate | Self::SmallCpu | Self::HistoryCpu => (Comparison::Ratio, Goal::None),
            Self::PacedP50 | Self::PacedP99 => (Comparison::Difference, Goal::None),
            Self::FirstEvent => (Comparison::Difference, Goal::AtMost(0.3)),
            Self::History => (Comparison::Difference, Goal::AtMost(5.0)),
            Self::FloodRss => (Comparison::Absolute, Goal::None),
            Self::IdleRss => (Comparison::Absolute, Goal::AtMost(12.0)),
            Self::StreamRss => (Comparison::Absolute, Goal::AtMost(40.0)),
            Self::ColdStart => (Comparison::Absolute, Goal::AtMost(50.0)),
        }
    }
}

/// The figures of a run: one for each round, measure and arm.
#[derive(Debug, Default)]
pub(crate) struct Figures(BTreeMap<(Measure, Arm), Vec<f64>>);

impl Figures {
    pub(crate) fn record(&mut self, measure: Measure, arm: Arm, figure: f64) {
        self.0.entry((measure, arm)).or_default().push(figure);
    }

    /// The table in Markdown, with a row for each measure that has figures.
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
            let (judged, aim) = measure.comparison();
            let name = match judged {
                Comparison::Ratio => "x pass ",
                Comparison::Difference => "added ",
                Comparison::Absolute => "",
            };
            let figures = judged.of(ours, pass);
            let verdict = aim.verdict(&figures, pass);
            let aim = aim.describe(name);
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

    /// The figures of a measure and an arm, round by round.
    pub(crate) fn of(&self, measure: Measure, arm: Arm) -> &[f64] {
        self.0.get(&(measure, arm)).map_or(&[], Vec::as_slice)
    }
}

/// The maximum spread of the baseline as a share of its median. Above it, nothing can be compared.
const MAX_NOISE: f64 = 0.3;

impl Comparison {
    /// The compared figures, round by round.
    pub(crate) fn of(&self, figures: &[f64], baseline: &[f64]) -> Vec<f64> {
        let pairs = figures.iter().zip(baseline);
        match self {
            Self::Ratio => pairs.map(|(figure, by)| figure / by).collect(),
            Self::Difference => pairs.map(|(figure, by)| figure - by).collect(),
            Self::Absolute => figures.to_vec(),
        }
    }
}

impl Goal {
    /// Whether the median reaches the goal, or "noisy" if the spread of the baseline is too large.
    pub(crate) fn verdict(&self, figures: &[f64], baseline: &[f64]) -> &'static str {
        let Some((median, _, _)) = summary(figures) else {
            return "-";
        };
        let (usual, min, max) = summary(baseline).unwrap_or_default();
        let met = match self {
            Self::AtMost(bound) => median <= *bound,
            Self::AtLeast(bound) => median >= *bound,
            Self::WithinSpread => median <= max - min,
            Self::None => return "-",
        };
        match met {
            _ if max - min > MAX_NOISE * usual => "noisy",
            true => "met",
            false => "missed",
        }
    }

    /// The text of the goal for a cell. `name` is the prefix of the comparison.
    pub(crate) fn describe(&self, name: &str) -> String {
        match self {
            Self::AtMost(bound) => format!("{name}<= {}", digits(*bound)),
            Self::AtLeast(bound) => format!("{name}>= {}", digits(*bound)),
            Self::WithinSpread => format!("{name}within its spread"),
            Self::None => "-".into(),
        }
    }
}

/// The text of a cell: median, minimum and maximum.
pub(crate) fn spread(figures: &[f64]) -> String {
    summary(figures).map_or("-".into(), |(median, min, max)| {
        format!("{} [{}..{}]", digits(median), digits(min), digits(max))
    })
}

/// Median, minimum and maximum; `None` without figures.
pub(crate) fn summary(figures: &[f64]) -> Option<(f64, f64, f64)> {
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

/// A figure with three significant digits, and without decimals from 100 on.
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
    fn a_missed_goal_is_shown() {
        assert!(row([10.0; 3], [20.0; 3]).ends_with("| missed |"));
    }

    #[test]
    fn a_noisy_baseline_gives_no_verdict() {
        assert!(row([10.0, 10.0, 14.0], [10.0; 3]).ends_with("| noisy |"));
    }

    #[test]
    fn the_median_of_an_even_count_is_between() {
        assert_eq!(summary(&[4.0, 1.0, 2.0, 3.0]), Some((2.5, 1.0, 4.0)));
        assert_eq!(summary(&[]), None);
    }
}
