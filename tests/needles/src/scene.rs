//! The cast of one output: the services, modules and people that its lines name again and again,
//! and the phrases of which needles are made.

use serde::{Deserialize, Serialize};

use crate::{dice::Dice, words};

/// The sort of what a needle tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NeedleSort {
    /// Something went wrong.
    Failure,
    /// Something is different, in words that tell of no trouble.
    Odd,
    /// Something must not be done.
    Instruction,
}

impl NeedleSort {
    pub(crate) const ALL: [Self; 3] = [Self::Failure, Self::Odd, Self::Instruction];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Failure => "failure",
            Self::Odd => "odd value",
            Self::Instruction => "instruction",
        }
    }
}

/// A planted text.
#[derive(Debug)]
pub(crate) struct Needle {
    pub(crate) text: String,
    /// The strings that tell it. It is visible where all of them are.
    pub(crate) evidence: Vec<String>,
    /// What a question can name.
    pub(crate) subject: String,
}

impl Needle {
    pub(crate) fn new<const N: usize>(text: String, evidence: [&str; N], subject: &str) -> Self {
        Self {
            text,
            evidence: evidence.map(str::to_owned).to_vec(),
            subject: subject.to_owned(),
        }
    }
}

/// A phrase that occurs nowhere else in an output.
#[derive(Debug)]
pub(crate) struct Phrase {
    pub(crate) text: String,
    subject: String,
}

impl Phrase {
    /// The needle that has this phrase in it.
    pub(crate) fn within(&self, text: String) -> Needle {
        Needle::new(text, [&self.text], &self.subject)
    }
}

/// The cast of one output.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) dice: Dice,
    bytes: usize,
    services: Vec<String>,
    modules: Vec<String>,
    nouns: Vec<String>,
    adjectives: Vec<String>,
    past_verbs: Vec<String>,
    verbs: Vec<String>,
    users: Vec<String>,
}

impl Scene {
    /// A cast for an output of about this many bytes.
    pub(crate) fn new(mut dice: Dice, bytes: usize) -> Self {
        let services = dice.some(&words::SERVICES, 9);
        let modules = dice.some(&words::MODULES, 16);
        let nouns = dice.some(&words::NOUNS, 64);
        let adjectives = dice.some(&words::ADJECTIVES, 28);
        let past_verbs = dice.some(&words::PAST_VERBS, 26);
        let verbs = dice.some(&words::VERBS, 18);
        let users = (0..240).map(|_| dice.name()).collect();
        Self {
            dice,
            bytes,
            services,
            modules,
            nouns,
            adjectives,
            past_verbs,
            verbs,
            users,
        }
    }

    pub(crate) fn service(&mut self) -> String {
        self.dice.skewed(&self.services).to_owned()
    }

    pub(crate) fn module(&mut self) -> String {
        self.dice.skewed(&self.modules).to_owned()
    }

    pub(crate) fn verb(&mut self) -> String {
        self.dice.skewed(&self.verbs).to_owned()
    }

    pub(crate) fn noun(&mut self) -> String {
        self.dice.pick(&self.nouns).to_owned()
    }

    pub(crate) fn adjective(&mut self) -> String {
        self.dice.pick(&self.adjectives).to_owned()
    }

    pub(crate) fn past_verb(&mut self) -> String {
        self.dice.pick(&self.past_verbs).to_owned()
    }

    /// The name of a person or host: some occur often, many once.
    pub(crate) fn user(&mut self) -> String {
        self.dice.skewed(&self.users).to_owned()
    }

    pub(crate) fn number(&mut self, low: usize, high: usize) -> usize {
        self.dice.between(low, high)
    }

    /// True for about six units of an output whose units have this many bytes.
    pub(crate) fn is_one_off(&mut self, unit_bytes: usize) -> bool {
        let units = self.bytes / unit_bytes.max(1);
        self.dice.one_in((units / 6).max(8))
    }

    /// A sentence of the cast's words.
    pub(crate) fn sentence(&mut self) -> String {
        let subject = format!("the {} {}", self.adjective(), self.noun());
        let object = format!("the {} of the {}", self.noun(), self.noun());
        let (verb, time) = (self.past_verb(), self.noun());
        let sentence = match self.dice.below(12) {
            0 => format!(
                "{subject} {verb} {} {}s of {}",
                self.number(2, 900),
                self.noun(),
                capitalized(&self.user())
            ),
            1..=3 => format!("{subject} {verb} {object}"),
            4..=5 => format!("in that {time} {subject} {verb} {object}"),
            6..=7 => format!(
                "{subject} {verb} {object}, and the {} {} it",
                self.noun(),
                self.past_verb()
            ),
            8..=9 => format!("{object} was {} when {subject} {verb} it", self.adjective()),
            _ => format!(
                "as the {} {}, {subject} {verb} {object} for the {}",
                self.noun(),
                self.past_verb(),
                self.noun()
            ),
        };
        capitalized(&sentence) + "."
    }

    /// Some sentences.
    pub(crate) fn paragraph(&mut self) -> String {
        let sentences = self.number(3, 6);
        let sentences: Vec<String> = (0..sentences).map(|_| self.sentence()).collect();
        sentences.join(" ")
    }

    /// A phrase of this sort.
    pub(crate) fn phrase(&mut self, sort: NeedleSort) -> Phrase {
        let templates: &[&str] = match sort {
            NeedleSort::Failure => &words::TROUBLE,
            NeedleSort::Odd => &words::ODDITIES,
            NeedleSort::Instruction => &words::RULES,
        };
        let template = self.dice.pick(templates).to_owned();
        self.filled(&template)
    }

    /// The template with a name and a number. The name is known from other lines or new.
    pub(crate) fn filled(&mut self, template: &str) -> Phrase {
        let subject = if self.dice.one_in(2) {
            self.service()
        } else {
            self.dice.name()
        };
        let number = self.number(1_000, 99_999).to_string();
        let text = template.replace("{name}", &subject).replace("{n}", &number);
        Phrase { text, subject }
    }

    pub(crate) fn version(&mut self) -> String {
        let dice = &mut self.dice;
        format!("{}.{}.{}", dice.below(9), dice.below(30), dice.below(20))
    }

    pub(crate) fn path(&mut self, extension: &str) -> String {
        let (one, two) = (self.module(), self.module());
        format!("src/{one}/{two}.{extension}")
    }
}

/// The text with its first letter as a capital.
pub(crate) fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// The time of day of a line, some lines a second.
pub(crate) fn time_of_day(line: usize) -> String {
    let second = line / 3;
    format!(
        "{:02}:{:02}:{:02}.{:03}",
        second / 3600 % 24,
        second / 60 % 60,
        second % 60,
        line * 317 % 1000
    )
}
