//! The script of a stream of the upstream. It is encoded in the model name, the one field that
//! every proxy passes on.
//!
//! `bench-e1000-d5000-b1-h0` means 1000 events, 5000 µs between two bursts of 1 event, and 0 ms of
//! silence before the end of the stream. A part that is left out has its default.

use std::{fmt, str::FromStr, time::Duration};

/// The script of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Script {
    /// The number of text events (`e`, default 1).
    pub(crate) events: u64,
    /// The time between two bursts (`d`, in µs, default 0: as fast as the client reads).
    pub(crate) gap: Duration,
    /// The number of events that are sent together after each gap, each in a chunk of its own (`b`,
    /// default 1).
    pub(crate) burst: u64,
    /// The silence between the last event and the end (`h`, in ms, default 0).
    pub(crate) hold: Duration,
}

impl Script {
    /// `events` events without gaps.
    pub(crate) const fn flood(events: u64) -> Self {
        Self {
            events,
            gap: Duration::ZERO,
            burst: 1,
            hold: Duration::ZERO,
        }
    }

    /// `events` events, one in each `gap`.
    pub(crate) const fn paced(events: u64, gap: Duration) -> Self {
        Self {
            gap,
            ..Self::flood(events)
        }
    }

    /// One event, then silence for `hold`.
    pub(crate) const fn held(hold: Duration) -> Self {
        Self {
            hold,
            ..Self::flood(1)
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            events,
            gap,
            burst,
            hold,
        } = self;
        let (gap, hold) = (gap.as_micros(), hold.as_millis());
        write!(out, "bench-e{events}-d{gap}-b{burst}-h{hold}")
    }
}

impl FromStr for Script {
    type Err = anyhow::Error;

    fn from_str(model: &str) -> Result<Self, Self::Err> {
        let mut parts = model.split('-');
        anyhow::ensure!(
            parts.next() == Some("bench"),
            "model {model:?} does not start with `bench`"
        );
        let mut script = Self::flood(1);
        for part in parts {
            let mut rest = part.chars();
            let (key, number) = (rest.next(), rest.as_str().parse::<u64>());
            match (key, number) {
                (Some('e'), Ok(events)) => script.events = events,
                (Some('d'), Ok(micros)) => script.gap = Duration::from_micros(micros),
                (Some('b'), Ok(burst)) => script.burst = burst.max(1),
                (Some('h'), Ok(millis)) => script.hold = Duration::from_millis(millis),
                _ => anyhow::bail!("model {model:?}: {part:?} is none of e, d, b, h with a number"),
            }
        }
        Ok(script)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_parsed_from_its_model_name() {
        for script in [
            Script::flood(5000),
            Script::paced(1000, Duration::from_millis(5)),
            Script::held(Duration::from_mins(10)),
        ] {
            assert_eq!(script.to_string().parse::<Script>().unwrap(), script);
        }
    }

    #[test]
    fn left_out_parts_keep_their_default() {
        assert_eq!("bench".parse::<Script>().unwrap(), Script::flood(1));
        assert!("bench-x1".parse::<Script>().is_err());
        assert!("gpt".parse::<Script>().is_err());
    }
}
