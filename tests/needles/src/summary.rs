//! What was visible of the cases, by kind, size, sort and question.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Serialize;

use crate::{case::Case, peer::PeerOutcome, real::Skipped, scene::NeedleSort};

/// What was shown of a case.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Outcome {
    id: String,
    kind: String,
    is_real: bool,
    sort: NeedleSort,
    kilobytes: Option<usize>,
    is_asked: bool,
    bytes: usize,
    chars: usize,
    shown_chars: usize,
    is_visible: bool,
    /// What the peer showed, if it was run.
    peer: Option<PeerOutcome>,
}

impl Outcome {
    pub(crate) fn of(case: &Case, shown: &str) -> Self {
        Self {
            id: case.id.clone(),
            kind: case.kind.clone(),
            is_real: case.is_real,
            sort: case.sort,
            kilobytes: case.kilobytes,
            is_asked: case.is_asked,
            bytes: case.output.len(),
            chars: case.output.chars().count(),
            shown_chars: shown.chars().count(),
            is_visible: case.is_visible_in(shown),
            peer: None,
        }
    }

    /// Adds what the peer showed of this case.
    pub(crate) fn add_peer(&mut self, shown: &BTreeMap<String, PeerOutcome>) {
        self.peer = shown.get(&self.id).copied();
    }

    /// Whether the peer left at most so much of it.
    fn is_shortened_by_peer(&self, is_short: impl Fn(usize) -> bool) -> bool {
        self.peer.is_some_and(|peer| is_short(peer.shown_chars))
    }
}

/// The sum of some outcomes.
#[derive(Debug, Serialize)]
struct Group {
    name: String,
    cases: usize,
    visible: usize,
    recall: f64,
    mean_chars: f64,
    peer: Option<PeerGroup>,
}

/// What the peer showed of the same outcomes.
#[derive(Debug, Serialize)]
struct PeerGroup {
    visible: usize,
    recall: f64,
    mean_chars: f64,
}

impl Group {
    fn of<'o>(name: &str, outcomes: impl Iterator<Item = &'o Outcome>) -> Option<Self> {
        let (mut cases, mut visible, mut chars) = (0, 0, 0);
        let (mut peer_cases, mut peer_visible, mut peer_chars) = (0, 0, 0);
        for outcome in outcomes {
            cases += 1;
            visible += usize::from(outcome.is_visible);
            chars += outcome.shown_chars;
            if let Some(peer) = outcome.peer {
                peer_cases += 1;
                peer_visible += usize::from(peer.is_visible);
                peer_chars += peer.shown_chars;
            }
        }
        let peer = PeerGroup {
            visible: peer_visible,
            recall: ratio(peer_visible, peer_cases),
            mean_chars: ratio(peer_chars, peer_cases),
        };
        (cases > 0).then(|| Self {
            name: name.to_owned(),
            cases,
            visible,
            recall: ratio(visible, cases),
            mean_chars: ratio(chars, cases),
            peer: (peer_cases == cases).then_some(peer),
        })
    }

    fn row(&self) -> String {
        let Self {
            name,
            cases,
            visible,
            recall,
            mean_chars,
            peer,
        } = self;
        let peer = peer.as_ref().map(|peer| {
            let PeerGroup {
                visible,
                recall,
                mean_chars,
            } = peer;
            format!(
                " {visible} of {cases} | {:.0} % | {mean_chars:.0} |",
                recall * 100.0
            )
        });
        format!(
            "| {name} | {visible} of {cases} | {:.0} % | {mean_chars:.0} |{}",
            recall * 100.0,
            peer.unwrap_or_default()
        )
    }
}

/// All outcomes, and their sums.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    totals: Vec<Group>,
    kinds: Vec<KindGroup>,
    skipped: Vec<Skipped>,
    cases: Vec<Outcome>,
}

/// The outcomes of a kind, and of each sort of needle in it.
#[derive(Debug, Serialize)]
struct KindGroup {
    is_real: bool,
    all: Group,
    sorts: Vec<Group>,
}

impl Summary {
    pub(crate) fn new(cases: Vec<Outcome>, skipped: Vec<Skipped>) -> Self {
        Self {
            totals: totals(&cases),
            kinds: kinds(&cases),
            skipped,
            cases,
        }
    }

    /// The tables in Markdown.
    pub(crate) fn tables(&self) -> String {
        let has_peer = self.totals.iter().any(|group| group.peer.is_some());
        let (peer, peer_line) = if has_peer {
            (
                " the peer: visible | recall | characters shown, mean |",
                "---|---|---|",
            )
        } else {
            ("", "")
        };
        let mut text = format!(
            "| | visible | recall | characters shown, mean |{peer}\n|---|---|---|---|{peer_line}\n"
        );
        for group in &self.totals {
            text.push_str(&group.row());
            text.push('\n');
        }
        // Writing to a String cannot fail.
        for (title, is_real) in [("generated", false), ("real", true)] {
            let kinds: Vec<&KindGroup> = self
                .kinds
                .iter()
                .filter(|kind| kind.is_real == is_real)
                .collect();
            if kinds.is_empty() {
                continue;
            }
            let sorts = NeedleSort::ALL.map(NeedleSort::name).join(" | ");
            let _ = writeln!(
                text,
                "\n| {title} | visible | recall | characters shown, mean |{peer} {sorts} |\n|---|---|---|---|{peer_line}---|---|---|"
            );
            for kind in kinds {
                text.push_str(&kind.all.row());
                for sort in NeedleSort::ALL {
                    let group = kind.sorts.iter().find(|group| group.name == sort.name());
                    let cell = group.map(|group| format!("{} of {}", group.visible, group.cases));
                    let _ = write!(text, " {} |", cell.unwrap_or_default());
                }
                text.push('\n');
            }
        }
        let real: Vec<&Outcome> = self.cases.iter().filter(|case| case.is_real).collect();
        if !real.is_empty() {
            text.push_str(
                "\n| real output | KB | needle | characters shown | |\n|---|---|---|---|---|\n",
            );
        }
        for case in real {
            let seen = if case.is_visible {
                "visible"
            } else {
                "**hidden**"
            };
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {seen} |",
                case.id,
                case.bytes / 1_000,
                case.sort.name(),
                case.shown_chars
            );
        }
        for Skipped { id, reason } in &self.skipped {
            let _ = writeln!(text, "| {id} | | | | skipped: {reason} |");
        }
        text
    }
}

fn totals(cases: &[Outcome]) -> Vec<Group> {
    let generated = || cases.iter().filter(|case| !case.is_real);
    let real = || cases.iter().filter(|case| case.is_real);
    let mut groups = vec![Group::of("generated", generated())];
    groups.extend(
        NeedleSort::ALL
            .map(|sort| Group::of(sort.name(), generated().filter(|case| case.sort == sort))),
    );
    let mut sizes: Vec<Option<usize>> = generated().map(|case| case.kilobytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    groups.extend(sizes.into_iter().map(|size| {
        let name = format!("{} KB", size.unwrap_or_default());
        Group::of(&name, generated().filter(|case| case.kilobytes == size))
    }));
    for (name, is_asked) in [("the call asked for it", true), ("the call did not", false)] {
        groups.push(Group::of(
            name,
            generated().filter(|case| case.is_asked == is_asked),
        ));
    }
    let half = |case: &&Outcome| case.is_shortened_by_peer(|shown| shown * 2 <= case.chars);
    let few = |case: &&Outcome| case.is_shortened_by_peer(|shown| shown <= 5_000);
    groups.push(Group::of(
        "shortened by the peer, by half or more",
        cases.iter().filter(half),
    ));
    groups.push(Group::of(
        "shortened by the peer, to 5,000 characters or less",
        cases.iter().filter(few),
    ));
    groups.push(Group::of("real", real()));
    for (name, is_asked) in [("real, asked for", true), ("real, not asked for", false)] {
        groups.push(Group::of(
            name,
            real().filter(|case| case.is_asked == is_asked),
        ));
    }
    groups.into_iter().flatten().collect()
}

fn kinds(cases: &[Outcome]) -> Vec<KindGroup> {
    let mut names: Vec<(bool, &str)> = cases
        .iter()
        .map(|case| (case.is_real, case.kind.as_str()))
        .collect();
    names.sort_unstable();
    names.dedup();
    let groups = names.into_iter().filter_map(|(is_real, name)| {
        let of_kind = || {
            cases
                .iter()
                .filter(move |case| case.kind == name && case.is_real == is_real)
        };
        let sorts = NeedleSort::ALL.into_iter().filter_map(|sort| {
            Group::of(sort.name(), of_kind().filter(move |case| case.sort == sort))
        });
        Some(KindGroup {
            is_real,
            all: Group::of(name, of_kind())?,
            sorts: sorts.collect(),
        })
    });
    groups.collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}
