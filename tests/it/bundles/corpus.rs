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
//!
//! The environment variable `CORPUS_DIR` names a folder that gets a copy of the bundles,
//! for `tests/mutants.sh`.
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
use libtest_mimic::Trial;

use self::bundle_files::BundleFiles;
use crate::trial::{case, wire_case};

pub fn trials() -> Vec<Trial> {
    let on_wire = |wire| {
        let rooms = [
            refusals::groups(wire),
            streams::groups(wire),
            upstreams::groups(wire),
            compactions::groups(wire),
        ];
        rooms.into_iter().flatten()
    };
    let groups = PlayerWire::ALL.into_iter().flat_map(on_wire);
    let groups: Vec<Group> = groups.chain(relay::groups()).collect();
    let shown: BTreeSet<&str> = groups.iter().flat_map(Group::names).collect();
    let mut trials: Vec<Trial> = groups.into_iter().map(|group| group.trial).collect();
    trials.push(case(
        "corpus: every kind of fault occurs",
        move || async move {
            every_kind(&shown);
        },
    ));
    trials.extend(quirks::trials());
    trials.extend(changes::trials());
    trials
}

/// A trial that runs turns of one kind, and the kinds of faults that occur in them.
struct Group {
    trial: Trial,
    kinds: &'static [Kind],
}

impl Group {
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.kinds.iter().map(|kind| kind.name())
    }
}

/// A group whose turns `run` runs at an upstream of this wire and replays.
fn group<F>(wire: PlayerWire, name: &str, kinds: &'static [Kind], run: fn(PlayerWire) -> F) -> Group
where
    F: Future<Output = BundleFiles> + Send + 'static,
{
    let name = format!("corpus: {name}");
    let trial = wire_case(wire, &name, move |wire| async move {
        let wanted: BTreeSet<String> = kinds.iter().map(|kind| kind.name().to_owned()).collect();
        assert_eq!(run(wire).await.fault_kinds(), wanted);
    });
    Group { trial, kinds }
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

fn every_kind(shown: &BTreeSet<&str>) {
    for kind in KINDS {
        let name = kind.name();
        assert_eq!(shown.contains(name), absent(kind).is_none(), "{name}");
    }
}
