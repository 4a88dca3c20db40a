//! Shows that a command is still at work: a line on a terminal's standard error, from two seconds
//! on.

use std::convert::Infallible;
use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
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
    shower: Option<(Sender<Infallible>, JoinHandle<()>)>,
}

/// What measures the delay.
trait DelayTimer: Send + 'static {
    /// Waits until `delay` has passed or the sender of `ended` is gone. Returns whether the delay
    /// has passed.
    fn wait(self, delay: Duration, ended: &Receiver<Infallible>) -> bool;
}

struct SystemTimer;

impl DelayTimer for SystemTimer {
    fn wait(self, delay: Duration, ended: &Receiver<Infallible>) -> bool {
        ended.recv_timeout(delay) == Err(RecvTimeoutError::Timeout)
    }
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
        Self::on(target_for(&io::stderr()), what, steps, SystemTimer)
    }

    fn on(
        target: Option<ProgressDrawTarget>,
        what: &'static str,
        steps: Option<u64>,
        clock: impl DelayTimer,
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
                if clock.wait(DELAY, &ended) {
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

/// Where the line is drawn if standard error is `stream`; a pipe gets no line.
fn target_for(stream: &impl IsTerminal) -> Option<ProgressDrawTarget> {
    stream.is_terminal().then(ProgressDrawTarget::stderr)
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
    use std::fs::File;
    use std::os::fd::OwnedFd;
    use std::sync::mpsc::SyncSender;

    use indicatif::InMemoryTerm;
    use rustix::fs::{Mode, OFlags, open};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::*;

    /// A clock that goes on by the steps that a test sends. Without a sender it is stopped.
    struct DrivenTimer(Receiver<Duration>);

    impl DelayTimer for DrivenTimer {
        fn wait(self, delay: Duration, _ended: &Receiver<Infallible>) -> bool {
            let mut passed = Duration::ZERO;
            while passed < delay {
                let Ok(step) = self.0.recv() else {
                    return false;
                };
                passed += step;
            }
            true
        }
    }

    fn shown(clock: impl DelayTimer) -> (InMemoryTerm, Progress) {
        let terminal = InMemoryTerm::new(10, 80);
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let progress = Progress::on(Some(target), "Replaying turns", Some(3), clock);
        (terminal, progress)
    }

    fn driven() -> (SyncSender<Duration>, InMemoryTerm, Progress) {
        // Without room in the channel, a step is sent when the one before it has been added.
        let (steps, receiver) = mpsc::sync_channel(0);
        let (terminal, progress) = shown(DrivenTimer(receiver));
        (steps, terminal, progress)
    }

    #[test]
    fn the_line_is_shown_after_two_seconds_and_removed_at_the_end() {
        let (steps, terminal, mut progress) = driven();
        progress.step();
        steps.send(Duration::from_millis(1999)).unwrap();
        steps.send(Duration::ZERO).unwrap();
        assert!(terminal.moves_since_last_check().is_empty());
        steps.send(Duration::from_millis(1)).unwrap();
        let (_end, shower) = progress.shower.take().unwrap();
        shower.join().unwrap();
        assert!(terminal.contents().contains(" Replaying turns: 1 of 3 ("));
        drop(progress);
        assert_eq!(terminal.contents(), "");
    }

    #[test]
    fn what_ends_before_two_seconds_shows_nothing() {
        let (steps, terminal, progress) = driven();
        progress.step();
        steps.send(Duration::from_millis(1999)).unwrap();
        drop(steps);
        drop(progress);
        assert!(terminal.moves_since_last_check().is_empty());
    }

    #[test]
    fn the_end_does_not_wait_for_the_clock() {
        struct Endless;
        impl DelayTimer for Endless {
            fn wait(self, _delay: Duration, ended: &Receiver<Infallible>) -> bool {
                SystemTimer.wait(Duration::MAX, ended)
            }
        }
        let (terminal, progress) = shown(Endless);
        drop(progress);
        assert!(terminal.moves_since_last_check().is_empty());
    }

    /// Promise: A command that takes longer than two seconds says on a terminal what it is doing; a
    /// pipe gets nothing of this.
    #[test]
    fn a_pipe_or_a_file_gets_no_line() {
        let (_reader, pipe) = io::pipe().unwrap();
        assert!(target_for(&OwnedFd::from(pipe)).is_none());
        assert!(target_for(&File::open("/dev/null").unwrap()).is_none());
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let terminal = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        assert!(target_for(&terminal).is_some());
        let progress = Progress::on(None, "Replaying turns", None, SystemTimer);
        assert!(progress.shower.is_none());
    }
}
