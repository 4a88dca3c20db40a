//! The fuzz targets.

mod answer;
mod bundle;
mod config;
mod page;
mod provider_error;
mod request;
mod search;
mod search_answer;
mod sse;
mod websocket_frames;

pub(crate) use answer::tools_request;
pub(crate) use bundle::pack_entries;
pub(crate) use config::load_file;
pub(crate) use request::dialects;

/// A kind of untrusted input.
#[derive(Clone, Copy)]
pub struct FuzzTarget {
    /// The name of the target, and of its folder in `fixtures/fuzz`.
    pub name: &'static str,
    /// Takes one input, and panics if something does not hold.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [FuzzTarget; 11] = [
    FuzzTarget {
        name: "request",
        run: request::run,
    },
    FuzzTarget {
        name: "chunks",
        run: answer::run_chat,
    },
    FuzzTarget {
        name: "relay",
        run: answer::run_relay,
    },
    FuzzTarget {
        name: "sse",
        run: sse::run,
    },
    FuzzTarget {
        name: "provider_error",
        run: provider_error::run,
    },
    FuzzTarget {
        name: "bundle",
        run: bundle::run,
    },
    FuzzTarget {
        name: "search",
        run: search::run,
    },
    FuzzTarget {
        name: "search_answer",
        run: search_answer::run,
    },
    FuzzTarget {
        name: "page",
        run: page::run,
    },
    FuzzTarget {
        name: "config",
        run: config::run,
    },
    FuzzTarget {
        name: "websocket_frames",
        run: websocket_frames::run,
    },
];

/// The target with this name.
pub fn named(name: &str) -> Option<FuzzTarget> {
    TARGETS.into_iter().find(|target| target.name == name)
}
