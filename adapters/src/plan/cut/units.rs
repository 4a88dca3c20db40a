//! What stays or goes as one: a message, or an answer with its calls and their
//! results, with the bytes that it takes.

use std::ops::Range;

use super::shorten::{Inside, shorten};
use crate::json;
use crate::plan::{Answer, Bounds, Placed, Plan, output, words};
use crate::turn::{Item, ItemKind, Turn};

/// What stands around a message, with the marks and headings that a provider may
/// want, and an answer that may have to stand before it.
const MESSAGE: usize = 192;
/// The same of an answer: with placeholders for lost thoughts.
const ANSWER: usize = 320;
const CALL: usize = 160;
const RESULT: usize = 200;
/// What an image counts as: tokens, not bytes.
const IMAGE: usize = 1_000;

/// A unit of the sequence.
pub(super) struct Unit {
    pub(super) kind: Kind,
    /// Its places.
    pub(super) placed: Range<usize>,
    /// What it takes however short its texts are.
    pub(super) frame: usize,
    pub(super) pieces: Vec<Piece>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    System,
    User,
    /// What asks for a summary.
    Prompt,
    /// An earlier summary.
    Summary,
    Answer,
    /// A result without a call, or a text about what is left out.
    Other,
}

/// A text that can be shortened.
pub(super) struct Piece {
    pub(super) item: usize,
    pub(super) role: Role,
    /// Bytes as they are sent, at most those that the limits allow.
    pub(super) bytes: usize,
    /// Whether it is longer than the limits allow.
    pub(super) over: bool,
    /// Images and files that go with it.
    pub(super) media: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Message,
    Output,
    Arguments,
}

/// What to measure.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// The longest text in characters, and the longest arguments in bytes.
    pub(super) text: usize,
    pub(super) arguments: usize,
    /// Whether images and thoughts are sent.
    pub(super) whole: bool,
}

impl Unit {
    /// What it takes where no text takes more than `cap` bytes.
    pub(super) fn cost(&self, cap: usize) -> usize {
        let texts = self.pieces.iter().map(|piece| piece.bytes.min(cap));
        self.frame + texts.sum::<usize>()
    }

    pub(super) fn whole(&self) -> usize {
        self.cost(usize::MAX)
    }

    pub(super) fn messages(&self) -> usize {
        self.placed.len()
    }
}

/// The units of the first `places` of the sequence in its order.
pub(super) fn units(
    turn: &Turn<'_>,
    plan: &Plan,
    bounds: &Bounds,
    limits: Limits,
    places: usize,
) -> Vec<Unit> {
    let measure = Measuring {
        turn,
        plan,
        image: image_bytes(bounds),
        limits,
    };
    let mut units: Vec<Unit> = Vec::new();
    for (at, placed) in plan.sequence.iter().enumerate().take(places) {
        match (placed, units.last_mut()) {
            (Placed::Result(index), Some(unit)) => {
                unit.placed.end = at + 1;
                measure.result(unit, *index);
            }
            (Placed::Interrupted(_), Some(unit)) => {
                unit.placed.end = at + 1;
                unit.frame += RESULT;
            }
            (placed, _) => units.push(measure.unit(placed, at)),
        }
    }
    units
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a budget"
)]
fn image_bytes(bounds: &Bounds) -> usize {
    (IMAGE as f64 * f64::from(bounds.bytes_per_token.max(0.1))) as usize
}

struct Measuring<'m, 'a> {
    turn: &'m Turn<'a>,
    plan: &'m Plan,
    image: usize,
    limits: Limits,
}

impl Measuring<'_, '_> {
    fn unit(&self, placed: &Placed, at: usize) -> Unit {
        let mut unit = Unit {
            kind: Kind::Other,
            placed: at..at + 1,
            frame: MESSAGE,
            pieces: Vec::new(),
        };
        match placed {
            Placed::Message(index) => {
                if let Some(item) = self.turn.items.get(*index) {
                    unit.kind = match item.kind {
                        ItemKind::Compaction => Kind::Summary,
                        _ if item.is_system() => Kind::System,
                        _ if at + 1 == self.plan.sequence.len() && self.asks() => Kind::Prompt,
                        _ => Kind::User,
                    };
                }
                self.message(&mut unit, *index);
            }
            Placed::Answer(answer) => self.answer(&mut unit, answer),
            Placed::Stray(index) | Placed::Result(index) => self.result(&mut unit, *index),
            Placed::Interrupted(_) => unit.frame += RESULT,
            Placed::Omitted(text) => unit.frame += json::escaped_len(text),
        }
        unit
    }

    fn asks(&self) -> bool {
        self.turn.purpose.form().is_some()
    }

    fn answer(&self, unit: &mut Unit, answer: &Answer) {
        unit.kind = Kind::Answer;
        unit.frame = ANSWER;
        for &index in &answer.text {
            self.message(unit, index);
        }
        for &index in &answer.calls {
            let Some(item) = self.turn.items.get(index) else {
                continue;
            };
            let bytes = match self.plan.shown(index) {
                Some(arguments) => json::escaped_len(arguments),
                None => words::arguments_len(item),
            };
            unit.frame += CALL + self.name_and_id(index, item);
            self.piece(unit, index, Role::Arguments, bytes, 0);
        }
        if self.limits.whole {
            let thoughts = answer.reasoning.iter();
            let thoughts = thoughts.filter_map(|index| self.turn.items.get(*index));
            unit.frame += thoughts.map(thought_len).sum::<usize>();
        }
    }

    fn message(&self, unit: &mut Unit, index: usize) {
        let Some(item) = self.turn.items.get(index) else {
            return;
        };
        let measured = match (self.plan.shown(index), item.plain_text()) {
            (Some(text), _) => (json::escaped_len(text), 0),
            (None, Some(text)) => (text.escaped().len(), 0),
            (None, None) => {
                let measured = words::measure(item.content());
                (measured.bytes, measured.media)
            }
        };
        self.piece(unit, index, Role::Message, measured.0, measured.1);
    }

    fn result(&self, unit: &mut Unit, index: usize) {
        let Some(item) = self.turn.items.get(index) else {
            return;
        };
        unit.frame += RESULT + self.name_and_id(index, item);
        if item.kind == ItemKind::ToolSearchOutput {
            let names = item.tools().map(crate::tools::wire_names);
            let names = names.unwrap_or_default();
            unit.frame += names.iter().map(|name| name.len() + 2).sum::<usize>();
            return;
        }
        let has_parts = matches!(
            item.kind,
            ItemKind::FunctionCallOutput | ItemKind::CustomToolCallOutput
        );
        let raw = item.output();
        let measured = match raw {
            Some(raw) if has_parts || raw.get().starts_with('"') => {
                let measured = words::measure(Some(raw));
                (measured.bytes, measured.media)
            }
            Some(raw) => (json::escaped_len(raw.get()), 0),
            None => (0, 0),
        };
        let bytes = self.plan.shown(index).map_or(measured.0, json::escaped_len);
        self.piece(unit, index, Role::Output, bytes, measured.1);
    }

    /// Both as they are written at most.
    fn name_and_id(&self, index: usize, item: &Item<'_>) -> usize {
        let name = item.name().map_or(0, |name| name.len().min(64));
        name + json::escaped_len(&self.plan.call_id(self.turn, index))
    }

    fn piece(&self, unit: &mut Unit, item: usize, role: Role, bytes: usize, media: usize) {
        let mut piece = Piece {
            item,
            role,
            bytes,
            over: false,
            media,
        };
        if self.limits.whole {
            unit.frame += media * self.image;
        } else if media > 0 {
            unit.frame += json::escaped_len(LEFT_OUT);
        }
        match role {
            Role::Arguments if bytes > self.limits.arguments => {
                piece.over = true;
                piece.bytes = self.limits.arguments;
            }
            Role::Message | Role::Output
                if bytes > self.limits.text
                    && !matches!(unit.kind, Kind::System | Kind::Summary | Kind::Prompt) =>
            {
                let text = text(self.turn, self.plan, item, role);
                let cut = shorten(&text, usize::MAX, self.limits.text, Inside::Text);
                piece.over = cut.len() != text.len();
                piece.bytes = json::escaped_len(&cut).min(bytes);
            }
            Role::Message | Role::Output | Role::Arguments => {}
        }
        unit.pieces.push(piece);
    }
}

/// What stands for an image or a file.
pub(super) const LEFT_OUT: &str = "\n[An image or file was left out here.]";

/// The text of a piece as it is sent before anything is cut.
pub(super) fn text(turn: &Turn<'_>, plan: &Plan, index: usize, role: Role) -> String {
    if let Some(text) = plan.shown(index) {
        return text.to_owned();
    }
    let Some(item) = turn.items.get(index) else {
        return String::new();
    };
    match role {
        Role::Message => words::message(item).into_owned(),
        Role::Output => output::text(item).unwrap_or_default().into_owned(),
        Role::Arguments => words::arguments(item).into_owned(),
    }
}

/// The most that a reasoning item may become: our own blob is longer than what it
/// holds, of any other only the readable text is sent.
fn thought_len(item: &Item<'_>) -> usize {
    let text = |raw: Option<&serde_json::value::RawValue>| raw.map_or(0, |raw| raw.get().len());
    let blob = item.encrypted_content().unwrap_or_default();
    let readable = text(item.content()) + text(item.summary());
    if blob.starts_with("rsp1.") {
        blob.len().max(readable)
    } else {
        readable
    }
}
