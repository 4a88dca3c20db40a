//! What is remembered of a request: a hash of each of its parts.

use std::fmt;
use std::ops::Range;

use adapters::encoded::Encoded;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{Reason, Telling};

/// A request as hashes, some 16 bytes an item.
#[derive(Debug)]
pub(in crate::turn) struct Print {
    situation: Situation,
    parameters: Part,
    /// Tools, instructions, and the items in the order of the body.
    parts: Vec<Part>,
}

/// What a request is sent for, as far as it explains a difference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::turn) struct Situation {
    /// Provider and model, named in full.
    pub(in crate::turn) route: String,
    /// See [`Plan::epochs`](adapters::plan::Plan).
    pub(in crate::turn) epochs: u32,
    /// The request asks for a summary.
    pub(in crate::turn) compacts: bool,
    /// Summaries that stand in the history.
    pub(in crate::turn) summaries: usize,
}

/// A part of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    hash: u64,
    bytes: u32,
    /// The item, or one of the two below.
    of: u32,
}

const TOOLS: u32 = u32::MAX;
const INSTRUCTIONS: u32 = u32::MAX - 1;

/// A place in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::turn) enum Place {
    /// Parameters.
    Parameters,
    /// The list of tools.
    Tools,
    /// The instructions.
    Instructions,
    /// The item of this index in the client's request.
    Item(u32),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parameters => f.write_str("parameters"),
            Self::Tools => f.write_str("tools"),
            Self::Instructions => f.write_str("instructions"),
            Self::Item(index) => write!(f, "item {index}"),
        }
    }
}

impl Part {
    fn place(self) -> Place {
        match self.of {
            TOOLS => Place::Tools,
            INSTRUCTIONS => Place::Instructions,
            index => Place::Item(index),
        }
    }
}

impl Print {
    /// Of a request that is about to be sent.
    pub(in crate::turn) fn new(encoded: &Encoded, situation: Situation) -> Self {
        let head = &encoded.offsets;
        let mut reader = Reader {
            body: &encoded.body,
            marks: &encoded.cache_marks,
        };
        let mut parts = Vec::with_capacity(encoded.spans.len() + 2);
        let parameters = Part {
            of: 0,
            ..reader.joined([0..head.tools.start, head.tools.end..head.messages])
        };
        parts.push(reader.part(head.tools.clone(), TOOLS));
        parts.push(reader.part(head.messages..head.instructions, INSTRUCTIONS));
        let mut from = head.instructions;
        for span in &encoded.spans {
            // What closes a text or a message is another once something follows.
            let to = reader.without_closers(&span.bytes);
            if to > from {
                let of = u32::try_from(span.item).unwrap_or(INSTRUCTIONS - 1);
                parts.push(reader.part(from..to, of));
                from = to;
            }
        }
        Self {
            situation,
            parameters,
            parts,
        }
    }

    /// Bytes of it.
    pub(super) fn bytes(&self) -> u64 {
        let parts = self.parts.iter().chain([&self.parameters]);
        parts.map(|part| u64::from(part.bytes)).sum()
    }

    /// What it takes in memory is in proportion to these.
    pub(super) fn parts(&self) -> usize {
        self.parts.len()
    }

    pub(super) fn route(&self) -> &str {
        &self.situation.route
    }

    pub(super) fn compacts(&self) -> bool {
        self.situation.compacts
    }

    /// Bytes that this one and an earlier one of the same route begin with.
    pub(super) fn shared(&self, last: &Self) -> u64 {
        let parts = self.parts.iter().zip(&last.parts);
        let same = parts.take_while(|(one, other)| one == other);
        let bytes: u64 = same.map(|(part, _)| u64::from(part.bytes)).sum();
        if self.parameters == last.parameters {
            bytes + u64::from(self.parameters.bytes)
        } else {
            bytes
        }
    }

    /// This one beside an earlier one of the same route. `summarised`: a summary was
    /// asked for meanwhile.
    pub(super) fn beside(&self, last: &Self, summarised: bool) -> Telling {
        let mut parts = self.parts.iter().zip(&last.parts);
        let differing = parts.position(|(one, other)| one != other);
        let differing = differing.or_else(|| {
            let ended = self.parts.len();
            (ended < last.parts.len()).then_some(ended)
        });
        let place = differing.and_then(|at| {
            let part = self.parts.get(at).or_else(|| last.parts.get(at));
            part.map(|part| part.place())
        });
        let (now, then) = (&self.situation, &last.situation);
        let compaction = now.compacts || summarised || now.summaries > then.summaries;
        let (reason, place) = match place {
            None if self.parameters == last.parameters => (Reason::NewTurn, None),
            None | Some(Place::Parameters) => (Reason::ParametersChanged, Some(Place::Parameters)),
            Some(_) if compaction => (Reason::Compaction, place),
            Some(Place::Tools) => (Reason::ToolsChanged, place),
            Some(Place::Instructions) => (Reason::InstructionsChanged, place),
            Some(Place::Item(_)) if now.epochs > then.epochs => (Reason::Epoch, place),
            Some(Place::Item(_)) => (Reason::ClientChangedHistory, place),
        };
        Telling {
            sent: self.bytes(),
            last: last.bytes(),
            shared: self.shared(last),
            reason,
            place,
        }
    }
}

/// Hashes parts of a body.
struct Reader<'b> {
    body: &'b [u8],
    /// Bytes that do not count, in their order.
    marks: &'b [Range<usize>],
}

impl Reader<'_> {
    fn part(&mut self, part: Range<usize>, of: u32) -> Part {
        let marked = self
            .marks
            .iter()
            .any(|mark| mark.start < part.end && part.start < mark.end);
        if marked {
            return Part {
                of,
                ..self.joined([part])
            };
        }
        let bytes = self.body.get(part).unwrap_or_default();
        Part {
            hash: xxh3_64(bytes),
            bytes: length(bytes.len()),
            of,
        }
    }

    /// The parts as one, without what does not count.
    fn joined<const N: usize>(&self, parts: [Range<usize>; N]) -> Part {
        let mut hasher = Xxh3::new();
        let mut length_of_all = 0;
        let mut push = |part: Range<usize>| {
            let bytes = self.body.get(part).unwrap_or_default();
            hasher.update(bytes);
            length_of_all += bytes.len();
        };
        for part in parts {
            let mut from = part.start;
            for mark in self.marks {
                if mark.start < part.end && from < mark.end {
                    push(from..mark.start.max(from));
                    from = mark.end.min(part.end);
                }
            }
            push(from..part.end);
        }
        Part {
            hash: hasher.digest(),
            bytes: length(length_of_all),
            of: 0,
        }
    }

    /// The end of a span before the quotes and brackets that close it, and before
    /// marks among them.
    fn without_closers(&self, span: &Range<usize>) -> usize {
        let mut end = span.end;
        loop {
            let bytes = self.body.get(span.start..end).unwrap_or_default();
            let closers = bytes
                .iter()
                .rev()
                .take_while(|byte| matches!(byte, b'"' | b'}' | b']'));
            let inner = end - closers.count();
            // The brackets that a mark brings were taken off with the others.
            let marks = self.marks.iter().rev();
            let mut within = marks.filter(|mark| span.start < mark.start && mark.start < end);
            match within.find(|mark| mark.contains(&inner)) {
                Some(mark) => end = mark.start,
                None => return inner,
            }
        }
    }
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
