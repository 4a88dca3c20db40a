//! The cost of capture: the proxy with capture compared with the proxy without it, round by round.

use std::fmt::Write;

use crate::report::{Arm, Comparison, Figures, Goal, Measure, spread, summary};

/// The measures to compare and their goals. Capture may cost a share of the CPU time, but it must
/// not delay a client.
const ROWS: [(Measure, Comparison, Goal); 8] = [
    (Measure::PacedCpu, Comparison::Ratio, Goal::AtMost(1.1)),
    (Measure::FloodCpu, Comparison::Ratio, Goal::AtMost(1.1)),
    (Measure::SmallCpu, Comparison::Ratio, Goal::None),
    (Measure::HistoryCpu, Comparison::Ratio, Goal::None),
    (
        Measure::FirstEvent,
        Comparison::Difference,
        Goal::WithinSpread,
    ),
    (Measure::History, Comparison::Difference, Goal::WithinSpread),
    (Measure::FloodRss, Comparison::Difference, Goal::None),
    (Measure::StreamRss, Comparison::Difference, Goal::None),
];

/// The name of each capture mode, and the arm that uses it.
const MODES: [(&str, Arm); 2] = [("failures", Arm::Ours), ("all", Arm::All)];

/// A line for each mode and a table in Markdown. Empty if the proxy without capture was not
/// measured.
pub(crate) fn report(figures: &Figures) -> String {
    if figures.of(Measure::PacedCpu, Arm::Off).is_empty() {
        return String::new();
    }
    let mut report = String::new();
    // Writing to a String cannot fail.
    for (mode, arm) in MODES {
        let compared = |measure, judged: Comparison| {
            let judged = judged.of(figures.of(measure, arm), figures.of(measure, Arm::Off));
            summary(&judged).map_or(f64::NAN, |(median, _, _)| median)
        };
        let _ = writeln!(
            report,
            "capture = {mode}: {:.2}x CPU per event ({:.2}x in flood), first event {:+.0} us ({:+.0} us behind 2 MB)",
            compared(Measure::PacedCpu, Comparison::Ratio),
            compared(Measure::FloodCpu, Comparison::Ratio),
            compared(Measure::FirstEvent, Comparison::Difference) * 1e3,
            compared(Measure::History, Comparison::Difference) * 1e3,
        );
    }
    report.push_str(
        "\n| cost of capture | off | failures | all | failures against off | verdict | all against off | verdict | aim |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for (measure, judged, aim) in ROWS {
        let name = match judged {
            Comparison::Ratio => "x off ",
            Comparison::Difference => "added ",
            Comparison::Absolute => "",
        };
        let off = figures.of(measure, Arm::Off);
        let [failures, all] = MODES.map(|(_, arm)| figures.of(measure, arm));
        let _ = write!(report, "| {} |", measure.title());
        for cell in [off, failures, all] {
            let _ = write!(report, " {} |", spread(cell));
        }
        for arm in [failures, all] {
            let compared = judged.of(arm, off);
            let _ = write!(
                report,
                " {name}{} | {} |",
                spread(&compared),
                aim.verdict(&compared, off)
            );
        }
        let _ = writeln!(report, " {} |", aim.describe(name));
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(measure: Measure, off: [f64; 3], failures: [f64; 3]) -> Figures {
        let mut figures = Figures::default();
        for (off, failures) in off.into_iter().zip(failures) {
            figures.record(Measure::PacedCpu, Arm::Off, 10.0);
            figures.record(measure, Arm::Off, off);
            figures.record(measure, Arm::Ours, failures);
        }
        figures
    }

    fn row(figures: &Figures, measure: Measure) -> String {
        let report = report(figures);
        let row = report.lines().find(|line| line.contains(measure.title()));
        row.unwrap().to_owned()
    }

    #[test]
    fn a_ratio_compares_within_the_round() {
        let measure = Measure::FloodCpu;
        let quiet = figures(measure, [10.0, 11.0, 12.0], [10.5, 11.55, 13.2]);
        let quiet = row(&quiet, measure);
        assert!(
            quiet.contains("| x off 1.05 [1.05..1.10] | met |"),
            "{quiet}"
        );
        let loud = row(&figures(measure, [10.0; 3], [12.0; 3]), measure);
        assert!(loud.contains("| missed |"), "{loud}");
    }

    #[test]
    fn a_first_event_may_not_stand_out_of_the_noise() {
        let measure = Measure::FirstEvent;
        for (later, verdict) in [(0.01, "met"), (0.05, "missed")] {
            let off = [0.30, 0.31, 0.32];
            let row = row(&figures(measure, off, off.map(|ms| ms + later)), measure);
            assert!(row.contains(&format!("| {verdict} |")), "{row}");
        }
        let noisy = row(&figures(measure, [0.3, 0.3, 0.4], [0.3; 3]), measure);
        assert!(noisy.contains("| noisy |"), "{noisy}");
    }

    #[test]
    fn without_the_proxy_there_is_no_report() {
        assert_eq!(report(&Figures::default()), "");
    }
}
