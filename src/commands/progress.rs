//! Shows that a command is still at work: a line on a terminal's standard error, from two seconds on.

use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A command that ends within this time shows nothing.
const DELAY: Duration = Duration::from_secs(2);

/// How often the line is drawn.
const TICK: Duration = Duration::from_millis(200);

/// What a command is doing. Dropping it removes the line.
pub(super) struct Progress {
    bar: ProgressBar,
    /// Shows the line when it is time to, unless this is dropped before.
    shower: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Begins something that takes an unknown time, such as `Collecting turns`.
    pub(super) fn begin(what: &'static str) -> Self {
        Self::on_terminal(what, None)
    }

    /// Begins something of a number of steps.
    pub(super) fn with_steps(what: &'static str, steps: usize) -> Self {
        Self::on_terminal(what, Some(steps as u64))
    }

    fn on_terminal(what: &'static str, steps: Option<u64>) -> Self {
        let target = io::stderr().is_terminal().then(ProgressDrawTarget::stderr);
        Self::after(DELAY, what, steps, target)
    }

    fn after(
        delay: Duration,
        what: &'static str,
        steps: Option<u64>,
        target: Option<ProgressDrawTarget>,
    ) -> Self {
        let bar = ProgressBar::with_draw_target(steps, ProgressDrawTarget::hidden());
        let template = match steps {
            Some(_) => "{spinner} {msg}: {pos} of {len} ({elapsed})",
            None => "{spinner} {msg} ({elapsed})",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.tick_chars("-\\|/ "));
        }
        bar.set_message(what);
        let shower = target.and_then(|target| {
            let (end, ended) = mpsc::channel();
            let shown = bar.clone();
            let show = move || {
                if ended.recv_timeout(delay) == Err(RecvTimeoutError::Timeout) {
                    shown.set_draw_target(target);
                    shown.tick();
                    shown.enable_steady_tick(TICK);
                }
            };
            let thread = thread::Builder::new().spawn(show).ok()?;
            Some((end, thread))
        });
        Self { bar, shower }
    }

    /// A step is done.
    pub(super) fn step(&self) {
        self.bar.inc(1);
    }

    /// Prints something while the line is hidden.
    pub(super) fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.shower.take() {
            drop(end);
            thread.join().ok();
        }
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use indicatif::InMemoryTerm;

    use super::*;

    fn shown(delay: Duration) -> (InMemoryTerm, Progress) {
        let terminal = InMemoryTerm::new(10, 80);
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let progress = Progress::after(delay, "Replaying turns", Some(3), Some(target));
        (terminal, progress)
    }

    #[test]
    fn the_line_is_shown_after_the_delay_and_removed_at_the_end() {
        let (terminal, progress) = shown(Duration::ZERO);
        progress.step();
        while terminal.contents().is_empty() {
            thread::yield_now();
        }
        assert!(terminal.contents().contains(" Replaying turns: "));
        drop(progress);
        assert_eq!(terminal.contents(), "");
    }

    #[test]
    fn what_ends_before_the_delay_shows_nothing() {
        let (terminal, progress) = shown(Duration::MAX);
        progress.step();
        drop(progress);
        assert_eq!(terminal.contents(), "");
        assert!(terminal.moves_since_last_check().is_empty());
    }
}
