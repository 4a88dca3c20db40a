//! The fingerprint of an upstream request: a hash of each of its parts.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use adapters::encoded::Encoded;
use adapters::plan::OutputMark;
use adapters::responses::prompt_cache::CacheMissReason;
use adapters::turn::Controls;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::report::{PrefixReason, PrefixReport, RequestPart};
use super::unshortened::{Originals, Unshortened};

/// An upstream request as hashes, about 16 bytes for each item, twice that if there are outputs.
#[derive(Debug)]
pub(in crate::turn) struct RequestFingerprint {
    context: Arc<FingerprintContext>,
    parameters: PartHash,
    /// Tools, instructions, then the items in the order of the body.
    parts: Vec<PartHash>,
    /// Its estimated tokens.
    tokens: u64,
    unshortened: Unshortened,
    /// The marks of its outputs.
    outputs: Vec<OutputMark>,
}

/// The facts about a request that can explain why its prefix differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::turn) struct FingerprintContext {
    /// The full name of the route: provider and model.
    pub(in crate::turn) route: String,
    /// See [`Plan::epochs`](adapters::plan::Plan).
    pub(in crate::turn) epochs: u32,
    pub(in crate::turn) asks_for_summary: bool,
    /// The number of summaries in the history.
    pub(in crate::turn) summaries: usize,
    pub(in crate::turn) settings: CacheSettings,
}

/// Hashes of the client's parameters on which a provider's prompt cache can depend.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(in crate::turn) struct CacheSettings([u64; 5]);

impl CacheSettings {
    /// Why a provider may not reuse a prompt when the parameter at this index changes, the one that
    /// matters most first.
    const REASONS: [CacheMissReason; 5] = [
        CacheMissReason::PromptCacheKeyChanged,
        CacheMissReason::TextFormatChanged,
        CacheMissReason::ReasoningEffortChanged,
        CacheMissReason::VerbosityChanged,
        CacheMissReason::ServiceTierChanged,
    ];

    pub(in crate::turn) fn new(controls: &Controls<'_>) -> Self {
        let hash = |value: &dyn Debug| xxh3_64(format!("{value:?}").as_bytes());
        Self([
            hash(&controls.prompt_cache_key),
            hash(&controls.format),
            hash(&controls.effort),
            hash(&controls.verbosity),
            hash(&controls.service_tier),
        ])
    }

    fn changed(&self, earlier: &Self) -> Option<CacheMissReason> {
        let mut pairs = self.0.iter().zip(earlier.0).zip(Self::REASONS);
        pairs
            .find(|((now, then), _)| *now != then)
            .map(|(_, reason)| reason)
    }
}

/// The hash of one part of the body. Two are equal if their bytes are, wherever the item is in the
/// client's request: items that are not sent move those behind them.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct PartHash {
    pub(super) hash: u64,
    /// The length of the part.
    pub(super) bytes: u32,
    /// The index of the item, [`TOOLS`] or [`INSTRUCTIONS`].
    pub(super) part: u32,
}

const TOOLS: u32 = u32::MAX;
const INSTRUCTIONS: u32 = u32::MAX - 1;

impl PartialEq for PartHash {
    fn eq(&self, other: &Self) -> bool {
        (self.hash, self.bytes) == (other.hash, other.bytes)
    }
}

impl Eq for PartHash {}

impl PartHash {
    fn request_part(self) -> RequestPart {
        match self.part {
            TOOLS => RequestPart::Tools,
            INSTRUCTIONS => RequestPart::Instructions,
            index => RequestPart::Item(index),
        }
    }
}

impl RequestFingerprint {
    /// Fingerprints a request that is about to be sent, in which these items are shortened.
    pub(in crate::turn) fn new(
        encoded: &Encoded,
        context: FingerprintContext,
        originals: &Originals,
    ) -> Self {
        let head = &encoded.offsets;
        let mut hasher = PartHasher {
            body: &encoded.body,
            marks: &encoded.cache_marks,
        };
        let mut parts = Vec::with_capacity(encoded.spans.len() + 2);
        let parameters = PartHash {
            part: 0,
            ..hasher.hash_joined([0..head.tools.start, head.tools.end..head.messages])
        };
        parts.push(hasher.hash(head.tools.clone(), TOOLS));
        parts.push(hasher.hash(head.messages..head.instructions, INSTRUCTIONS));
        let mut from = head.instructions;
        for span in &encoded.spans {
            // The brackets that close a text or a message change once something follows it.
            let to = hasher.without_closers(&span.bytes);
            if to > from {
                let part = u32::try_from(span.item).unwrap_or(INSTRUCTIONS - 1);
                parts.push(hasher.hash(from..to, part));
                from = to;
            }
        }
        // Where nothing is shortened, nothing has to be read back.
        let (tools, read) = (&head.tools, &head.artifact_tools);
        let own_tools = (!read.is_empty()).then(|| PartHash {
            part: TOOLS,
            ..hasher.hash_joined([tools.start..read.start, read.end..tools.end])
        });
        let tokens = encoded.estimated_tokens;
        Self {
            context: Arc::new(context),
            parameters,
            tokens,
            unshortened: originals.unshortened(&parts, own_tools, tokens),
            parts,
            outputs: originals.output_marks().to_vec(),
        }
    }

    /// The estimated tokens of the request as it is sent, and what it is measured by.
    pub(super) fn sent(&self) -> MeasuredRequest<'_> {
        MeasuredRequest {
            parameters: self.parameters,
            parts: &self.parts,
            tokens: self.tokens,
        }
    }

    /// The same request with nothing shortened; `None` if no window holds it.
    pub(super) fn unshortened(&self) -> Option<MeasuredRequest<'_>> {
        match &self.unshortened {
            Unshortened::Same => Some(self.sent()),
            Unshortened::Longer { parts, tokens } => Some(MeasuredRequest {
                parameters: self.parameters,
                parts,
                tokens: *tokens,
            }),
            Unshortened::TooLong => None,
        }
    }

    /// What is compared with other prompts.
    pub(super) fn prompt(&self) -> ComparedPrompt<'_> {
        ComparedPrompt {
            context: &self.context,
            request: self.sent(),
        }
    }

    /// Encoded size, without the end of the body and without cache marks.
    pub(super) fn encoded_size(&self) -> u64 {
        self.sent().bytes()
    }

    /// Number of stored hashes; memory use is proportional to it.
    pub(super) fn parts(&self) -> usize {
        self.parts.len() + self.unshortened.parts() + self.outputs.len().div_ceil(2)
    }

    pub(super) fn context(&self) -> &Arc<FingerprintContext> {
        &self.context
    }

    pub(super) fn route(&self) -> &str {
        &self.context.route
    }

    /// The marks of its outputs, in their order.
    pub(super) fn outputs(&self) -> &[OutputMark] {
        &self.outputs
    }

    /// The bytes that this request and an earlier one of the same route begin with.
    pub(super) fn shared_bytes(&self, earlier: &Self) -> u64 {
        self.sent().shared_bytes(earlier.sent())
    }

    /// Whether this request begins with all of another one.
    pub(super) fn continues(&self, other: &Self) -> bool {
        self.route() == other.route() && self.sent().continues(other.sent())
    }
}

/// The prompt of a request as it is compared with others: its own, or the beginning of a later one.
#[derive(Clone, Copy, Debug)]
pub(super) struct ComparedPrompt<'f> {
    pub(super) context: &'f FingerprintContext,
    pub(super) request: MeasuredRequest<'f>,
}

impl ComparedPrompt<'_> {
    /// Why a provider cannot reuse all of an earlier prompt for this request, and the bytes of it
    /// that it can. `None` if this one begins with it.
    pub(super) fn miss(
        self,
        earlier: ComparedPrompt<'_>,
        summarized: bool,
    ) -> Option<(CacheMissReason, u64)> {
        if self.context.route != earlier.context.route {
            return Some((CacheMissReason::ModelChanged, 0));
        }
        let report = self.compare(earlier, summarized);
        // A parameter that the provider does not get changes nothing.
        let setting = self.context.settings.changed(&earlier.context.settings);
        let setting = setting.filter(|_| self.request.parameters != earlier.request.parameters);
        let part = match report.reason {
            PrefixReason::NewTurn | PrefixReason::ParametersChanged => None,
            PrefixReason::ToolsChanged => Some(CacheMissReason::ToolsChanged),
            PrefixReason::Epoch | PrefixReason::Compaction => {
                Some(CacheMissReason::ContextCompacted)
            }
            PrefixReason::InstructionsChanged | PrefixReason::ClientChangedHistory => {
                Some(CacheMissReason::InputChanged)
            }
            PrefixReason::First | PrefixReason::ModelChanged => Some(CacheMissReason::ModelChanged),
        };
        match (setting, part) {
            (Some(setting), _) => Some((setting, 0)),
            (None, part) => Some((part?, report.shared_bytes)),
        }
    }

    /// Compares this request with an earlier one of the same route. `summarized` is true if a
    /// summary was asked for since.
    pub(super) fn compare(self, earlier: ComparedPrompt<'_>, summarized: bool) -> PrefixReport {
        let mut parts = self.request.parts.iter().zip(earlier.request.parts);
        let differing = parts.position(|(one, other)| one != other);
        let differing = differing.or_else(|| {
            let ended = self.request.parts.len();
            (ended < earlier.request.parts.len()).then_some(ended)
        });
        let part = differing.and_then(|at| {
            let part = self
                .request
                .parts
                .get(at)
                .or_else(|| earlier.request.parts.get(at));
            part.map(|part| part.request_part())
        });
        let (now, then) = (self.context, earlier.context);
        let is_compaction = now.asks_for_summary || summarized || now.summaries > then.summaries;
        let (reason, differs_at) = match part {
            None if self.request.parameters == earlier.request.parameters => {
                (PrefixReason::NewTurn, None)
            }
            None | Some(RequestPart::Parameters) => (
                PrefixReason::ParametersChanged,
                Some(RequestPart::Parameters),
            ),
            Some(_) if is_compaction => (PrefixReason::Compaction, part),
            Some(RequestPart::Tools) => (PrefixReason::ToolsChanged, part),
            Some(RequestPart::Instructions) => (PrefixReason::InstructionsChanged, part),
            Some(RequestPart::Item(_)) if now.epochs > then.epochs => (PrefixReason::Epoch, part),
            Some(RequestPart::Item(_)) => (PrefixReason::ClientChangedHistory, part),
        };
        PrefixReport {
            request_bytes: self.request.bytes(),
            previous_bytes: earlier.request.bytes(),
            shared_bytes: self.request.shared_bytes(earlier.request),
            reason,
            differs_at,
        }
    }
}

/// A request in one of its two forms: as it is sent, or with nothing shortened.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeasuredRequest<'f> {
    pub(super) parameters: PartHash,
    pub(super) parts: &'f [PartHash],
    /// The estimated tokens.
    pub(super) tokens: u64,
}

impl MeasuredRequest<'_> {
    /// The first `parts` parts of this request, which were a request of `tokens` tokens before.
    pub(super) fn beginning(self, parts: usize, tokens: u64) -> Self {
        Self {
            parts: self.parts.get(..parts).unwrap_or(self.parts),
            tokens,
            ..self
        }
    }

    /// Whether this request begins with all of another one.
    pub(super) fn continues(self, other: MeasuredRequest<'_>) -> bool {
        self.shared_bytes(other) >= other.bytes()
    }

    /// The size without the end of the body and without cache marks.
    pub(super) fn bytes(&self) -> u64 {
        let parts = self.parts.iter().chain([&self.parameters]);
        parts.map(|part| u64::from(part.bytes)).sum()
    }

    /// The bytes that this request and an earlier one of the same route begin with.
    pub(super) fn shared_bytes(&self, earlier: MeasuredRequest<'_>) -> u64 {
        let parts = self.parts.iter().zip(earlier.parts);
        let same = parts.take_while(|(one, other)| one == other);
        let bytes: u64 = same.map(|(part, _)| u64::from(part.bytes)).sum();
        if self.parameters == earlier.parameters {
            bytes + u64::from(self.parameters.bytes)
        } else {
            bytes
        }
    }
}

struct PartHasher<'b> {
    body: &'b [u8],
    /// The cache marks in their order; they are left out.
    marks: &'b [Range<usize>],
}

impl PartHasher<'_> {
    fn hash(&mut self, range: Range<usize>, part: u32) -> PartHash {
        let marked = self
            .marks
            .iter()
            .any(|mark| mark.start < range.end && range.start < mark.end);
        if marked {
            return PartHash {
                part,
                ..self.hash_joined([range])
            };
        }
        let bytes = self.body.get(range).unwrap_or_default();
        PartHash {
            hash: xxh3_64(bytes),
            bytes: length(bytes.len()),
            part,
        }
    }

    /// Hashes several ranges as one part, without cache marks.
    fn hash_joined<const N: usize>(&self, ranges: [Range<usize>; N]) -> PartHash {
        let mut hasher = Xxh3::new();
        let mut total = 0;
        let mut push = |range: Range<usize>| {
            let bytes = self.body.get(range).unwrap_or_default();
            hasher.update(bytes);
            total += bytes.len();
        };
        for range in ranges {
            let mut from = range.start;
            for mark in self.marks {
                if mark.start < range.end && from < mark.end {
                    push(from..mark.start.max(from));
                    from = mark.end.min(range.end);
                }
            }
            push(from..range.end);
        }
        PartHash {
            hash: hasher.digest(),
            bytes: length(total),
            part: 0,
        }
    }

    /// The end of a span without the quotes and brackets that close it, and without the cache marks
    /// among them.
    fn without_closers(&self, span: &Range<usize>) -> usize {
        let mut end = span.end;
        loop {
            let bytes = self.body.get(span.start..end).unwrap_or_default();
            let closers = bytes
                .iter()
                .rev()
                .take_while(|byte| matches!(byte, b'"' | b'}' | b']'));
            let inner = end - closers.count();
            // A cache mark ends with brackets of its own, which were counted as closers.
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
