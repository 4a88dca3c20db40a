//! The request that would have been sent if nothing had been shortened, as hashes and sizes. It is
//! never encoded: what it has more is known from the plan.

use std::collections::BTreeMap;

use adapters::json;
use adapters::plan::{OutputMark, Plan, Replacement, ReplacementKind, SequenceEntry, hash_ends};
use adapters::purpose::SummaryMode;
use adapters::turn::{Item, Turn};
use xxhash_rust::xxh3::Xxh3;

use super::fingerprint::PartHash;

/// A request with nothing shortened.
#[derive(Debug)]
pub(super) enum Unshortened {
    /// The request as it is sent, which has no outputs.
    Same,
    /// A request that may be longer.
    Longer {
        /// The parts of the request that is sent, with the originals of outputs and of what else is
        /// shortened.
        parts: Vec<PartHash>,
        /// The estimated tokens.
        tokens: u64,
    },
    /// It is not known, because items were left out to make the request fit the window.
    TooLong,
}

impl Unshortened {
    /// The number of hashes.
    pub(super) fn parts(&self) -> usize {
        match self {
            Self::Longer { parts, .. } => parts.len(),
            Self::Same | Self::TooLong => 0,
        }
    }
}

/// The tool outputs of a turn and whatever else a plan shortens. Made for each request that is
/// encoded.
#[derive(Debug)]
pub(in crate::turn) struct Originals {
    /// By the index of the item. An output is here even if it is sent whole, because it may become
    /// a notice later and is the same output then.
    items: BTreeMap<usize, Original>,
    is_cut: bool,
    bytes_per_token: f32,
    marks: Vec<OutputMark>,
}

/// An item as the client sent it.
#[derive(Clone, Copy, Debug)]
struct Original {
    hash: u64,
    /// How many bytes longer it is than what is sent of it.
    more: u64,
}

impl Originals {
    /// What this plan of a turn shortens, for a model with `bytes_per_token` bytes per token.
    pub(in crate::turn) fn new(turn: &Turn<'_>, plan: &Plan, bytes_per_token: f32) -> Self {
        let is_cut = match turn.purpose.summary_mode() {
            Some(SummaryMode::FitWindow) => true,
            Some(SummaryMode::NextTurn) | None => turn.may_truncate,
        };
        let is_cut = is_cut
            && plan
                .sequence
                .iter()
                .any(|entry| matches!(entry, SequenceEntry::Omitted(_)));
        let items = turn.items.iter().enumerate();
        let items = items.filter_map(|(index, item)| {
            let original = Original::of(item, plan.replacements.get(&index))?;
            Some((index, original))
        });
        Self {
            items: items.collect(),
            is_cut,
            bytes_per_token,
            marks: plan.output_marks.clone(),
        }
    }

    /// The marks of the outputs, in the order of sending.
    pub(super) fn output_marks(&self) -> &[OutputMark] {
        &self.marks
    }

    /// The request with these parts and `tokens` tokens, with nothing shortened. `own_tools` is its
    /// list of tools without those that read artifacts, if it has such.
    pub(super) fn unshortened(
        &self,
        parts: &[PartHash],
        own_tools: Option<PartHash>,
        tokens: u64,
    ) -> Unshortened {
        if self.is_cut {
            return Unshortened::TooLong;
        }
        if self.items.is_empty() {
            return Unshortened::Same;
        }
        let (mut more, mut less) = (0, 0);
        let mut last = None;
        let parts = parts.iter().map(|part| {
            if let Some(own) = own_tools.filter(|own| own.part == part.part) {
                less = u64::from(part.bytes.saturating_sub(own.bytes));
                return own;
            }
            let index = usize::try_from(part.part).unwrap_or(usize::MAX);
            let Some(original) = self.items.get(&index) else {
                return *part;
            };
            // An item may have several parts; its text is in one of them.
            let bytes = if last.replace(index) == Some(index) {
                0
            } else {
                original.more
            };
            more += bytes;
            PartHash {
                hash: original.hash,
                bytes: u32::try_from(u64::from(part.bytes) + bytes).unwrap_or(u32::MAX),
                part: part.part,
            }
        });
        let parts = parts.collect();
        Unshortened::Longer {
            parts,
            tokens: (tokens + self.tokens(more)).saturating_sub(self.tokens(less)),
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate; no request has 2^52 bytes"
    )]
    fn tokens(&self, bytes: u64) -> u64 {
        (bytes as f64 / f64::from(self.bytes_per_token.max(0.1))) as u64
    }
}

impl Original {
    /// The original of an item; `None` if it is no output and sent as it is.
    fn of(item: &Item<'_>, shown: Option<&Replacement>) -> Option<Self> {
        let shown = shown.filter(|shown| shown.kind != ReplacementKind::Summary);
        let original = match (item.output(), shown) {
            (Some(output), _) => output,
            (None, Some(_)) => item.content().or_else(|| item.arguments())?,
            (None, None) => return None,
        };
        let bytes = original.get().as_bytes();
        let mut hasher = Xxh3::new();
        hash_ends(&mut hasher, bytes);
        let more = shown.map_or(0, |shown| {
            let sent = 2 + json::escaped_len(&shown.text);
            bytes.len().saturating_sub(sent)
        });
        Some(Self {
            hash: hasher.digest(),
            more: u64::try_from(more).unwrap_or(u64::MAX),
        })
    }
}
