//! An output in numbers: what it takes, and what is sent of it.

use std::sync::Arc;

use super::known::Known;
use super::limits::{Limits, NOTICE};
use super::weigh;
use crate::plan::output::{self, Measure};
use crate::turn::Item;

/// In the first line of what was read back; it is looked for in so many bytes.
const READ_BACK: (&[u8], usize) = (b"[artifact art_", 1_024);

/// One output.
#[derive(Debug)]
pub(super) struct Entry {
    /// Its item.
    pub(super) item: usize,
    /// Whether it was read back of an artifact.
    pub(super) is_read_back: bool,
    /// Bytes of its text, escaped, as they are sent.
    bytes: usize,
    /// Characters, at most as many as bytes.
    chars: usize,
    /// What is known of it, if that had to be found out.
    pub(super) measure: Option<Arc<Measure>>,
    /// What is sent.
    pub(super) form: Form,
}

/// What is sent of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Whole,
    Excerpt(Most),
    Page(Most),
    Notice,
}

/// How long a text may be; its bytes are those of its escaped form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Most {
    pub(super) chars: usize,
    pub(super) bytes: usize,
}

impl Entry {
    /// The output of an item, if it has text: whole within the limit, else an
    /// excerpt; what was read back is whole. And the bytes that the rest of it
    /// counts for.
    pub(super) fn read<'t>(
        index: usize,
        item: &Item<'t>,
        limits: &Limits,
        known: &mut Known<'t>,
    ) -> (Option<Self>, usize) {
        let bound = output::length_bound(item);
        if bound == 0 {
            return (None, 0);
        }
        let weight = weigh::output(item, bound);
        let begins_like_one = item.output().is_some_and(|raw| {
            let (sign, within) = READ_BACK;
            let raw = raw.get().as_bytes();
            memchr::memmem::find(raw.get(..within).unwrap_or(raw), sign).is_some()
        });
        if weight.text <= limits.whole && !begins_like_one {
            let entry = Self {
                item: index,
                is_read_back: false,
                bytes: weight.text,
                chars: weight.text,
                measure: None,
                form: Form::Whole,
            };
            return (Some(entry), weight.media);
        }
        let Some((measure, is_read_back)) = known.measure(index, item) else {
            return (None, weight.text + weight.media);
        };
        let is_read_back = is_read_back && begins_like_one;
        let counted = if limits.counts_header {
            measure.chars
        } else {
            measure.counted()
        };
        let bytes = measure.bytes.saturating_sub(measure.header.bytes);
        let mut entry = Self {
            item: index,
            is_read_back,
            bytes: weight.text.max(1),
            chars: measure.chars,
            measure: Some(measure),
            form: Form::Whole,
        };
        let over = counted > limits.whole || bytes > limits.whole_bytes;
        if over && !is_read_back {
            entry.form = Form::Excerpt(entry.excerpt(limits));
        }
        (Some(entry), weight.media)
    }

    /// The bytes of what is sent, at most.
    pub(super) fn weight(&self) -> usize {
        match self.form {
            Form::Whole => self.bytes,
            Form::Excerpt(most) | Form::Page(most) => most.bytes,
            Form::Notice => NOTICE,
        }
    }

    /// Makes a notice of it if that is shorter; true if it did.
    pub(super) fn demote(&mut self) -> bool {
        let shrinks = self.weight() > NOTICE;
        if shrinks {
            self.form = Form::Notice;
        }
        shrinks
    }

    /// The length of an excerpt.
    pub(super) fn excerpt(&self, limits: &Limits) -> Most {
        let chars = limits.excerpt.min(self.chars.saturating_sub(1));
        let bytes = chars.saturating_mul(self.bytes) / self.chars.max(1);
        Most {
            chars,
            bytes: bytes.max(limits.excerpt).min(self.bytes),
        }
    }

    /// The length of a part of so many bytes.
    pub(super) fn part(&self, bytes: usize) -> Most {
        Most {
            chars: bytes.saturating_mul(self.chars) / self.bytes.max(1),
            bytes,
        }
    }
}
