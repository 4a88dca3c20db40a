//! The sizes of one output, and the form in which it is sent.

use std::sync::Arc;

use super::estimate;
use super::limits::{MAX_PROXY_TOOL_CHARS, NOTICE_BYTES, OutputLimits};
use super::origin::Origin;
use super::output_reader::OutputReader;
use crate::plan::output::{self, OutputKind, OutputMeasure};
use crate::turn::{Item, Turn};

/// The first line of a text that was read back from an artifact begins so. It is looked
/// for in the first bytes of the output's JSON only.
const READ_BACK_SIGN: &[u8] = b"[artifact art_";
const READ_BACK_SIGN_WITHIN: usize = 1_024;

#[derive(Debug)]
pub(super) struct BoundedOutput {
    /// The index of its item.
    pub(super) item: usize,
    /// Whether it was read back from an artifact.
    pub(super) is_read_back: bool,
    /// What precedes it in the history.
    pub(super) origin: Origin,
    /// Whether it instructs an agent. Then it has no excerpt.
    pub(super) is_instructions: bool,
    /// Bytes of its text, escaped as it is sent.
    bytes: usize,
    /// Characters of its text; if they were not counted, an upper limit of them.
    chars: usize,
    /// Its measure, if the text had to be read.
    pub(super) measure: Option<Arc<OutputMeasure>>,
    pub(super) form: OutputForm,
}

/// The form in which an output is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputForm {
    Whole,
    Excerpt(Cap),
    /// The beginning of a text that was read back from an artifact.
    Page(Cap),
    Notice,
}

/// The maximum length of a text. The bytes are those of its escaped form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cap {
    pub(super) chars: usize,
    pub(super) bytes: usize,
}

impl BoundedOutput {
    /// The output of an item, if it has text: whole within the limits, otherwise as an
    /// excerpt. A text that was read back is whole. Also returns the size charged for
    /// parts that are not text.
    pub(super) fn from_item<'t>(
        (index, item): (usize, &'t Item<'t>),
        (turn, origin): (&Turn<'_>, Origin),
        limits: &OutputLimits,
        reader: &mut OutputReader<'t>,
    ) -> (Option<Self>, usize) {
        let bound = output::max_text_len(item);
        if bound == 0 {
            return (None, 0);
        }
        let size = estimate::output_size(item, bound);
        let looks_read_back = origin.reads_artifact(turn)
            && item.output().is_some_and(|raw| {
                let raw = raw.get().as_bytes();
                let start = raw.get(..READ_BACK_SIGN_WITHIN).unwrap_or(raw);
                memchr::memmem::find(start, READ_BACK_SIGN).is_some()
            });
        let is_instructions = size.text > NOTICE_BYTES && origin.is_instructions(turn);
        if size.text <= limits.whole_chars && !looks_read_back {
            let output = Self {
                item: index,
                is_read_back: false,
                origin,
                is_instructions,
                bytes: size.text,
                chars: size.text,
                measure: None,
                form: OutputForm::Whole,
            };
            return (Some(output), size.media);
        }
        let Some((measure, is_read_back)) = reader.measure(index, item) else {
            return (None, size.text + size.media);
        };
        let is_read_back = is_read_back && looks_read_back;
        let (chars, bytes) = (measure.chars, measure.bytes);
        let mut output = Self {
            item: index,
            is_read_back,
            origin,
            is_instructions,
            bytes: size.text.max(1),
            chars,
            measure: Some(measure),
            form: OutputForm::Whole,
        };
        if is_read_back {
            return (Some(output), size.media);
        }
        if is_instructions {
            if bytes > limits.instructions {
                output.demote();
            }
            return (Some(output), size.media);
        }
        let is_too_long = chars > limits.whole_chars || bytes > limits.whole_bytes;
        let is_file = |kind: OutputKind| {
            kind == OutputKind::FileOrCodeOutput
                && chars <= limits.file_chars
                && bytes <= limits.file_bytes
                && origin.reads_file(turn)
        };
        let kind = output.measure.as_ref().map(|measure| measure.kind);
        let is_of_proxy_tool = || {
            chars <= MAX_PROXY_TOOL_CHARS
                && bytes <= limits.proxy_tool_bytes
                && origin.is_of_proxy_tool(turn)
        };
        if is_too_long && !kind.is_some_and(is_file) && !is_of_proxy_tool() {
            output.form = OutputForm::Excerpt(output.excerpt_cap(limits));
        }
        (Some(output), size.media)
    }

    /// The maximum bytes of what is sent.
    pub(super) fn size(&self) -> usize {
        match self.form {
            OutputForm::Whole => self.bytes,
            OutputForm::Excerpt(cap) | OutputForm::Page(cap) => cap.bytes,
            OutputForm::Notice => NOTICE_BYTES,
        }
    }

    /// The bytes of the whole output.
    pub(super) fn whole_size(&self) -> usize {
        self.bytes
    }

    /// Reduces the output to a notice, unless it is as short as a notice already. Returns
    /// whether it did.
    pub(super) fn demote(&mut self) -> bool {
        let shrinks = self.size() > NOTICE_BYTES;
        if shrinks {
            self.form = OutputForm::Notice;
        }
        shrinks
    }

    /// The length of an excerpt of this output.
    pub(super) fn excerpt_cap(&self, limits: &OutputLimits) -> Cap {
        let chars = limits.excerpt_chars.min(self.chars.saturating_sub(1));
        let bytes = chars.saturating_mul(self.bytes) / self.chars.max(1);
        Cap {
            chars,
            bytes: bytes.max(limits.excerpt_chars).min(self.bytes),
        }
    }

    /// The length of a part of this output with `bytes` bytes.
    pub(super) fn cap_for_bytes(&self, bytes: usize) -> Cap {
        Cap {
            chars: bytes.saturating_mul(self.chars) / self.bytes.max(1),
            bytes,
        }
    }
}
