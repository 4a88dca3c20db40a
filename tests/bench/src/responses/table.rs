//! The rows of the table of `responses`.

use std::fmt::Write as _;

use crate::report::{Comparison, Goal, spread};

/// A row: what was measured, compared with something else of the same rounds.
pub(super) struct ResponseRow {
    /// The first cell, with the unit.
    pub(super) title: String,
    /// What it is compared with; empty if it stands alone.
    pub(super) baseline_name: &'static str,
    /// The figures of that, round by round.
    pub(super) baseline: Vec<f64>,
    /// The figures, round by round.
    pub(super) measured: Vec<f64>,
    pub(super) comparison: Comparison,
    pub(super) goal: Goal,
}

/// The table in Markdown. A figure that misses its goal is bold.
pub(super) fn table(rows: &[ResponseRow]) -> String {
    let mut table = String::from(
        "| measure | measured | compared with | | judged | aim | verdict |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let figures = row.comparison.of(&row.measured, &row.baseline);
        let name = match row.comparison {
            Comparison::Ratio => "x ",
            Comparison::Difference => "added ",
            Comparison::Absolute => "",
        };
        let verdict = row.goal.verdict(&figures, &row.baseline);
        let judged = format!("{name}{}", spread(&figures));
        let judged = if verdict == "missed" {
            format!("**{judged}**")
        } else {
            judged
        };
        let baseline = match &*row.baseline {
            [] => String::new(),
            baseline => spread(baseline),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            table,
            "| {} | {} | {} | {baseline} | {judged} | {} | {verdict} |",
            row.title,
            spread(&row.measured),
            row.baseline_name,
            row.goal.describe(name),
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(measured: [f64; 3], baseline: [f64; 3]) -> String {
        let row = ResponseRow {
            title: "CPU".into(),
            baseline_name: "a file",
            baseline: baseline.to_vec(),
            measured: measured.to_vec(),
            comparison: Comparison::Ratio,
            goal: Goal::AtMost(2.5),
        };
        table(&[row]).lines().last().unwrap().to_owned()
    }

    #[test]
    fn a_figure_that_misses_its_goal_is_bold() {
        assert_eq!(
            line([30.0; 3], [10.0; 3]),
            "| CPU | 30.0 [30.0..30.0] | a file | 10.0 [10.0..10.0] | **x 3.00 [3.00..3.00]** | x <= 2.50 | missed |"
        );
        assert!(line([20.0; 3], [10.0; 3]).ends_with("| x 2.00 [2.00..2.00] | x <= 2.50 | met |"));
        assert!(line([30.0; 3], [10.0, 10.0, 20.0]).ends_with("| noisy |"));
    }
}
