//! A tool output with a line that matters, and the call that printed it.

use anyhow::Context;
use memchr::memmem;
use serde::Serialize;

use crate::{
    dice::Dice,
    kind::{Generator, NeedleKind},
    scene::{Needle, NeedleSort, Scene},
};

/// An output, the call before it, and what must be visible of it.
#[derive(Debug, Serialize)]
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) is_real: bool,
    pub(crate) sort: NeedleSort,
    /// The size that was asked for, KB. A real output has none.
    pub(crate) kilobytes: Option<usize>,
    /// Whether the question names what the needle is about.
    pub(crate) is_asked: bool,
    pub(crate) question: String,
    pub(crate) command: String,
    /// The needle is visible where all of these are.
    pub(crate) evidence: Vec<String>,
    pub(crate) output: String,
}

impl Case {
    /// Whether this text tells what the needle tells.
    pub(crate) fn is_visible_in(&self, text: &str) -> bool {
        self.evidence.iter().all(|part| text.contains(part))
    }
}

/// What a generated case is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recipe {
    pub(crate) kind: NeedleKind,
    pub(crate) kilobytes: usize,
    pub(crate) sort: NeedleSort,
    /// Whether the question names the subject of the needle.
    pub(crate) is_asked: bool,
    /// Tells cases apart that are otherwise alike.
    pub(crate) run: u32,
}

/// A draft is made again if its evidence happens to occur in other lines as well.
const DRAFTS: u32 = 40;

const QUESTIONS: [&str; 4] = [
    "Someone mentioned {subject}.",
    "What about {subject}?",
    "I wonder about {subject} in particular.",
    "Is there anything on {subject}?",
];

impl Recipe {
    /// Recipes of these kinds and sizes, with a needle of each sort. The question of every third
    /// names the subject.
    pub(crate) fn all(kinds: &[NeedleKind], sizes: &[usize], runs: u32) -> Vec<Self> {
        let mut recipes = Vec::new();
        for run in 0..runs {
            for kind in kinds {
                for (row, kilobytes) in sizes.iter().enumerate() {
                    for (column, sort) in NeedleSort::ALL.into_iter().enumerate() {
                        recipes.push(Self {
                            kind: *kind,
                            kilobytes: *kilobytes,
                            sort,
                            is_asked: (row + column).is_multiple_of(3),
                            run,
                        });
                    }
                }
            }
        }
        recipes
    }

    /// The name of the case, which is also that of its file.
    pub(crate) fn id(self) -> String {
        let Self {
            kind,
            kilobytes,
            sort,
            run,
            ..
        } = self;
        let (kind, sort) = (kind.name(), sort.name().replace(' ', "-"));
        format!("{kind}_{kilobytes}_{sort}_{run}")
    }

    /// The case of this seed.
    pub(crate) fn case(self, seed: u64) -> anyhow::Result<Case> {
        (0..DRAFTS)
            .find_map(|draft| self.draft(seed, draft))
            .with_context(|| format!("no draft of {} tells its needle once", self.id()))
    }

    fn draft(self, seed: u64, draft: u32) -> Option<Case> {
        let dice = Dice::new(seed, &format!("{} {draft}", self.id()));
        let mut scene = Scene::new(dice, self.kilobytes * 1_000);
        let mut generator = self.kind.generator(&mut scene);
        let (output, needle) = planted(
            generator.as_mut(),
            &mut scene,
            self.kilobytes * 1_000,
            self.sort,
        );
        let command = generator.command(&mut scene);
        let mut question = self.kind.question().to_owned();
        let is_once = |part: &String| occurrences(&output, part) == 1;
        let once = is_once(&needle.text) && needle.evidence.iter().all(is_once);
        if !once || question.contains(&needle.subject) || command.contains(&needle.subject) {
            return None;
        }
        if self.is_asked {
            let more = scene.dice.pick(&QUESTIONS);
            question = format!("{question} {}", more.replace("{subject}", &needle.subject));
        }
        Some(Case {
            id: self.id(),
            kind: self.kind.name().into(),
            is_real: false,
            sort: self.sort,
            kilobytes: Some(self.kilobytes),
            is_asked: self.is_asked,
            question,
            command,
            evidence: needle.evidence,
            output,
        })
    }
}

/// An output of about this many bytes with a needle at a random place.
fn planted(
    generator: &mut dyn Generator,
    scene: &mut Scene,
    bytes: usize,
    sort: NeedleSort,
) -> (String, Needle) {
    let head = generator.head(scene);
    let mut units = Vec::new();
    let mut length = head.len();
    while length < bytes {
        let unit = generator.unit(scene, units.len());
        length += unit.len() + generator.between().len();
        units.push(unit);
    }
    let place = scene.dice.below(units.len() + 1);
    let needle = generator.needle(scene, sort, place);
    units.insert(place.min(units.len()), needle.text.clone());
    let text = head + &units.join(generator.between()) + &generator.tail(scene);
    (text, needle)
}

/// An output of about this many bytes, without a needle that is looked for.
pub(crate) fn output_of(kind: NeedleKind, bytes: usize, seed: u64) -> String {
    let mut scene = Scene::new(Dice::new(seed, kind.name()), bytes);
    let mut generator = kind.generator(&mut scene);
    planted(generator.as_mut(), &mut scene, bytes, NeedleSort::Odd).0
}

fn occurrences(text: &str, part: &str) -> usize {
    memmem::find_iter(text.as_bytes(), part.as_bytes()).count()
}

#[cfg(test)]
mod tests;
