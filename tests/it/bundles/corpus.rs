//! Turns that fail in every way, and turns that recover. Each is recorded by the real
//! program, bundled, and replayed from the bundle alone in an empty folder. The replayed
//! turn must be equal in every field.
//!
//! | module | what is in it |
//! |---|---|
//! | `recording` | a running program that records, bundles and replays |
//! | `bundle_files` | reads and changes the files of a bundle |
//! | `refusals` | error responses of providers, and invalid requests |
//! | `streams` | responses that break off, are malformed, or end early |
//! | `upstreams` | providers that are silent, unreachable or saturated; retries and failover |
//! | `compactions` | one turn with several attempts |
//! | `relay` | an upstream that gets its own items back |
//! | `quirks` | refusals that teach a quirk of the model |
//! | `changes` | changed bundles do not replay |
pub mod bundle_files;
mod changes;
mod compactions;
mod quirks;
pub mod recording;
mod refusals;
mod relay;
mod streams;
mod upstreams;

use std::collections::BTreeSet;

use adapters::fault::Kind;
use kit::player::PlayerWire;

use self::bundle_files::BundleFiles;
/// The kinds of faults that occur in the turns of each test.
const SHOWN: [&[Kind]; 16] = [
    refusals::REFUSED,
    refusals::SENSELESS,
    refusals::LARGE,
    streams::BROKEN,
    streams::GARBAGE,
    streams::IN_STREAM,
    streams::ENDED,
    upstreams::SILENT,
    upstreams::UNREACHABLE_PROVIDERS,
    upstreams::LONGEST_TURNS,
    upstreams::SATURATED,
    upstreams::RETRIED,
    upstreams::FAILED_OVER,
    upstreams::SHUTDOWN,
    compactions::COMPACTIONS,
    relay::SESSION,
];

/// The turns of a bundle show each of these faults and no other.
fn assert_kinds(turns: &BundleFiles, kinds: &[Kind]) {
    let wanted: BTreeSet<String> = kinds.iter().map(|kind| kind.name().to_owned()).collect();
    assert_eq!(turns.fault_kinds(), wanted);
}

/// The name of a bundle of turns at an upstream of this wire.
fn bundle_name(wire: PlayerWire, name: &str) -> String {
    match wire {
        PlayerWire::Chat => name.to_owned(),
        PlayerWire::Responses => format!("{name}-{}", wire.name()),
    }
}

/// Why a kind of fault is missing in the corpus: it cannot be provoked from outside.
fn absent(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Internal => Some("a defect that nobody knows of"),
        Kind::Busy => Some("another request that is running"),
        Kind::ClientLimit => Some("what the client has used before"),
        Kind::Storage => Some("a disk that fails"),
        Kind::InvalidRequest
        | Kind::ModelNotFound
        | Kind::ContextLength
        | Kind::Authentication
        | Kind::Permission
        | Kind::Refused
        | Kind::ContentFilter
        | Kind::RateLimit
        | Kind::Quota
        | Kind::Overloaded
        | Kind::Unavailable
        | Kind::Unreachable
        | Kind::Timeout
        | Kind::TurnTimeout
        | Kind::Cut
        | Kind::BadReply
        | Kind::Draining => None,
    }
}

/// All kinds; [`absent`] has an arm for each.
const KINDS: [Kind; 21] = [
    Kind::InvalidRequest,
    Kind::ModelNotFound,
    Kind::ContextLength,
    Kind::Authentication,
    Kind::Permission,
    Kind::Refused,
    Kind::ContentFilter,
    Kind::RateLimit,
    Kind::Quota,
    Kind::Overloaded,
    Kind::Unavailable,
    Kind::Unreachable,
    Kind::Timeout,
    Kind::TurnTimeout,
    Kind::Cut,
    Kind::BadReply,
    Kind::Busy,
    Kind::ClientLimit,
    Kind::Storage,
    Kind::Draining,
    Kind::Internal,
];

#[test]
fn every_kind_of_fault_occurs() {
    let shown = SHOWN.concat();
    for kind in KINDS {
        assert_eq!(shown.contains(&kind), absent(kind).is_none(), "{kind:?}");
    }
}
