//! Filler text.

use super::random::SeededRandom;

const WORDS: [&str; 40] = [
    "parser", "buffer", "socket", "window", "cache", "index", "reader", "writer", "token",
    "budget", "prefix", "session", "request", "answer", "output", "record", "branch", "commit",
    "module", "driver", "handle", "stream", "packet", "cursor", "column", "filter", "signal",
    "thread", "worker", "queue", "render", "layout", "bundle", "target", "option", "string",
    "vector", "switch", "script", "config",
];

pub(super) fn word(random: &mut SeededRandom) -> &'static str {
    random.pick(&WORDS).unwrap_or("word")
}

/// Sentences of about this many bytes.
pub(super) fn prose(random: &mut SeededRandom, bytes: usize) -> String {
    let mut out = String::with_capacity(bytes + 16);
    let mut words = 0;
    while out.len() < bytes {
        out.push_str(word(random));
        words += 1;
        out.push_str(if words % 9 == 0 { ". " } else { " " });
    }
    out
}
