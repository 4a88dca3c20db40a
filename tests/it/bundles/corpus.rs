//! Turns that fail in every way, and turns that heal: each is taken down by the real
//! program, bundled, and run again from the bundle alone, in an empty folder. What
//! comes out is the same in every field.
//!
//! | module | what is in it |
//! |---|---|
//! | `keeper` | the program that takes down, bundles and replays |
//! | `turns` | a bundle, read and changed |
//! | `refusals` | what providers say when they refuse |
//! | `streams` | answers that break off, are wrong, or end early |
//! | `roads` | providers that are silent, gone, full, or stood in for |
//! | `compactions` | one turn with several attempts |
//! | `quirks` | refusals that teach how a model is spoken to |
//! | `changes` | bundles that were changed do not replay |
//!
//! `CORPUS_DIR` names a folder where the bundles are left, for `tests/mutants.sh`.
mod changes;
mod compactions;
pub mod keeper;
mod quirks;
mod refusals;
mod roads;
mod streams;
pub mod turns;

use std::collections::BTreeSet;

use adapters::fault::Kind;
use libtest_mimic::Trial;

use self::turns::Turns;
use crate::trial::case;

pub fn trials() -> Vec<Trial> {
    let groups: Vec<Group> = [
        refusals::groups(),
        streams::groups(),
        roads::groups(),
        compactions::groups(),
    ]
    .into_iter()
    .flatten()
    .collect();
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

/// Turns of one sort, and the kinds of faults that they end or begin with.
struct Group {
    trial: Trial,
    kinds: &'static [Kind],
}

impl Group {
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.kinds.iter().map(|kind| kind.name())
    }
}

/// `run` runs the turns and replays them.
fn group<F>(name: &str, kinds: &'static [Kind], run: fn() -> F) -> Group
where
    F: Future<Output = Turns> + Send + 'static,
{
    let trial = case(&format!("corpus: {name}"), move || async move {
        let wanted: BTreeSet<String> = kinds.iter().map(|kind| kind.name().to_owned()).collect();
        assert_eq!(run().await.kinds(), wanted);
    });
    Group { trial, kinds }
}

/// What cannot be made to happen from outside.
fn absent(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Internal => Some("a defect that nobody knows of"),
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
        | Kind::Cut
        | Kind::BadReply
        | Kind::Draining => None,
    }
}

/// All kinds, as [`absent`] knows them.
const KINDS: [Kind; 17] = [
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
    Kind::Cut,
    Kind::BadReply,
    Kind::Draining,
    Kind::Internal,
];

fn every_kind(shown: &BTreeSet<&str>) {
    for kind in KINDS {
        let name = kind.name();
        assert_eq!(shown.contains(name), absent(kind).is_none(), "{name}");
    }
}
