//! The table: what was measured, what was aimed at, and whether the machine was quiet enough.

use std::{collections::BTreeMap, fmt::Write};

/// Who was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Arm {
    /// The upstream alone: shows that it is not the limit.
    Direct,
    /// The bare pass-through.
    Pass,
    /// The proxy as it comes: it captures the turns that fail.
    Ours,
    /// The proxy without capture.
    Off,
    /// The proxy that captures every turn.
    All,
    /// The proxy that keeps no tool outputs.
    Unkept,
}

impl Arm {
    /// Every arm that is a proxy of ours.
    pub(crate) const OURS: [Self; 3] = [Self::Off, Self::Ours, Self::All];

    /// The lines that this arm adds to the configuration.
    pub(crate) fn config(self) -> &'static str {
        match self {
            Self::Direct | Self::Pass | Self::Ours => "",
            Self::Off => "[capture]\nmode = \"off\"\n",
            Self::Unkept => "[artifacts]\nmode = \"off\"\n",
            Self::All => "[capture]\nmode = \"all\"\n",
        }
    }
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
    SmallCpu,
    FirstEvent,
    History,
    HistoryCpu,
    IdleRss,
    StreamRss,
    ColdStart,
}

/// How a figure becomes the one that is judged.
pub(crate) enum Judged {
    /// Divided by the yardstick's figure of the same round.
    Ratio,
    /// Less the yardstick's figure of the same round.
    Added,
    /// As it is.
    Own,
}

/// What a judged figure is to be.
pub(crate) enum Aim {
    AtMost(f64),
    AtLeast(f64),
    /// No more than the yardstick moves by itself.
    Unseen,
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

    /// The first cell of its row.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::PacedCpu => "CPU an event, 50 streams x 5 ms (us)",
            Self::PacedP50 => "event latency p50, 50 streams x 5 ms (us)",
            Self::PacedP99 => "event latency p99, 50 streams x 5 ms (us)",
            Self::FloodCpu => "CPU an event, 32 streams in flood (us)",
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

    fn judged(self) -> (Judged, Aim) {
        match self {
            Self::PacedCpu => (Judged::Ratio, Aim::AtMost(1.5)),
            Self::FloodCpu => (Judged::Ratio, Aim::AtMost(3.0)),
            Self::SmallRate => (Judged::Ratio, Aim::AtLeast(0.5)),
            Self::FloodRate | Self::SmallCpu | Self::HistoryCpu => (Judged::Ratio, Aim::None),
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
            let name = match judged {
                Judged::Ratio => "x pass ",
                Judged::Added => "added ",
                Judged::Own => "",
            };
            let figures = judged.of(ours, pass);
            let verdict = aim.verdict(&figures, pass);
            let aim = aim.words(name);
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

    /// The figures of one row and arm, round by round.
    pub(crate) fn of(&self, measure: Measure, arm: Arm) -> &[f64] {
        self.0.get(&(measure, arm)).map_or(&[], Vec::as_slice)
    }
}

/// A yardstick that moves by more than this share of its median measures nothing.
const QUIET: f64 = 0.3;

impl Judged {
    /// What is judged of these figures, round by round.
    pub(crate) fn of(&self, figures: &[f64], yardstick: &[f64]) -> Vec<f64> {
        let pairs = figures.iter().zip(yardstick);
        match self {
            Self::Ratio => pairs.map(|(figure, by)| figure / by).collect(),
            Self::Added => pairs.map(|(figure, by)| figure - by).collect(),
            Self::Own => figures.to_vec(),
        }
    }
}

impl Aim {
    /// Whether the median keeps to it, if the yardstick was quiet.
    pub(crate) fn verdict(&self, figures: &[f64], yardstick: &[f64]) -> &'static str {
        let Some((median, _, _)) = summary(figures) else {
            return "-";
        };
        let (usual, least, greatest) = summary(yardstick).unwrap_or_default();
        let met = match self {
            Self::AtMost(bound) => median <= *bound,
            Self::AtLeast(bound) => median >= *bound,
            Self::Unseen => median <= greatest - least,
            Self::None => return "-",
        };
        match met {
            _ if greatest - least > QUIET * usual => "noisy",
            true => "met",
            false => "missed",
        }
    }

    /// The aim in a cell; `name` says what is judged.
    pub(crate) fn words(&self, name: &str) -> String {
        match self {
            Self::AtMost(bound) => format!("{name}<= {}", digits(*bound)),
            Self::AtLeast(bound) => format!("{name}>= {}", digits(*bound)),
            Self::Unseen => format!("{name}within its spread"),
            Self::None => "-".into(),
        }
    }
}

/// A cell: median, least and greatest.
pub(crate) fn spread(figures: &[f64]) -> String {
    summary(figures).map_or("-".into(), |(median, min, max)| {
        format!("{} [{}..{}]", digits(median), digits(min), digits(max))
    })
}

/// Median, least and greatest.
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
