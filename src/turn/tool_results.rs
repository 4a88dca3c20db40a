//! The results of the calls of one round, within the room that they share.

use std::collections::BTreeSet;

use adapters::fair_share::fair_share;
use adapters::plan::output::{
    ExcerptSource, ExcerptStyle, OutputMeasure, Wanted, first_page, measure, without_cut_line,
};
use adapters::plan::{MAX_PROXY_TOOL_CHARS, Retention};
use adapters::responses::assembler::WithheldCall;
use adapters::token_count::text_tokens;

use crate::store::NewArtifact;

/// The most bytes of all results of a round together.
const ROUND_BYTES: usize = 50 << 10;
/// The most tokens of all results of an answer, however large the model's window is.
pub(super) const ANSWER_TOKENS: u64 = 128_000;
/// With fewer tokens left than these no call is run: the shortest excerpts of all calls that a
/// round may run take as many.
pub(super) const MIN_ROUND_TOKENS: u64 = 8_000;
/// A result of at most this many bytes is never shortened: no excerpt is shorter.
const SHORT_RESULT: usize = 300;
/// The most characters of an excerpt: as many as an output may have in the smallest window.
const EXCERPT_CHARS: usize = 4_000;

/// A result loses its end, in place of becoming an excerpt, if its share has at least this many
/// bytes, and the result at most [`TIMES_CUT`] times as many as its share: that shows more of it,
/// and tools put first what fits best.
const MIN_CUT: usize = 5_000;
const TIMES_CUT: usize = 3;

/// A result as the model gets it.
pub(super) struct ResultForModel {
    pub(super) text: String,
    /// Whether `text` is an excerpt, because the result was too long.
    pub(super) is_excerpt: bool,
}

/// The results of a round, each with its call. Those that are too long are replaced by an excerpt,
/// once it is known which of them could be kept.
pub(super) struct RoundResults<'c> {
    calls: &'c [WithheldCall],
    texts: Vec<String>,
    /// The texts that were read from artifacts, or tell of some: what does not fit of them can be
    /// read again, and is not kept another time.
    read_back: Vec<bool>,
    /// The most bytes of a result.
    share: usize,
}

impl<'c> RoundResults<'c> {
    /// The results of a round, of which these calls have read artifacts. Those of its answer may
    /// have `tokens_left` more tokens.
    pub(super) fn new(
        calls: &'c [WithheldCall],
        texts: Vec<String>,
        reads_artifacts: impl Fn(&WithheldCall) -> bool,
        tokens_left: u64,
    ) -> Self {
        let tokens: u64 = texts.iter().map(|text| text_tokens(text)).sum();
        let room = if tokens <= tokens_left {
            ROUND_BYTES
        } else {
            // No token has less than a byte.
            let left = usize::try_from(tokens_left).unwrap_or(usize::MAX);
            left.min(ROUND_BYTES)
        };
        let needs = texts.iter().map(String::len);
        let share = fair_share(&needs, room).max(SHORT_RESULT);
        Self {
            calls,
            texts,
            read_back: calls.iter().map(reads_artifacts).collect(),
            share,
        }
    }

    /// The results that are too long, whole.
    pub(super) fn too_long(&self) -> Vec<NewArtifact> {
        let results = self.calls.iter().zip(&self.texts);
        let own = results.zip(&self.read_back).filter(|(_, read)| !**read);
        let own = own.map(|(result, _)| result);
        let long = own.filter(|(_, text)| text.len() > self.share);
        let artifact = |(call, text): (&WithheldCall, &String)| NewArtifact {
            call_id: call.id.clone(),
            ..NewArtifact::of_text(text.clone())
        };
        long.map(artifact).collect()
    }

    /// What the model gets. An excerpt names the artifact that has the whole, unless that is one of
    /// `unkept`.
    pub(super) fn for_model(
        self,
        retention: Retention,
        unkept: &BTreeSet<String>,
    ) -> Vec<ResultForModel> {
        let share = self.share;
        let shorten = |((call, text), read_back): ((&WithheldCall, String), bool)| {
            if text.len() <= share {
                return ResultForModel {
                    text,
                    is_excerpt: false,
                };
            }
            if read_back {
                return ResultForModel {
                    text: page(&text, share),
                    is_excerpt: true,
                };
            }
            let measured = measure(&text);
            let retention = if unkept.contains(&measured.id) {
                Retention::Nothing
            } else {
                retention
            };
            let room = share.saturating_mul(measured.chars) / measured.bytes.max(1);
            let is_cut =
                share >= MIN_CUT && room <= MAX_PROXY_TOOL_CHARS && text.len() <= TIMES_CUT * share;
            let text = if is_cut {
                cut(&text, &measured, share, retention)
            } else {
                excerpt(call, &text, &measured, (room, share), retention)
            };
            ResultForModel {
                text,
                is_excerpt: true,
            }
        };
        let results = self.calls.iter().zip(self.texts).zip(self.read_back);
        results.map(shorten).collect()
    }
}

/// The beginning of a text that was read from an artifact, within this many bytes.
fn page(text: &str, share: usize) -> String {
    let mut chars = text.chars().count().saturating_mul(share) / text.len().max(1);
    loop {
        let page = first_page(text, chars);
        if page.len() <= share || chars == 0 {
            return page;
        }
        // Its characters take more bytes than those behind it.
        chars = (chars.saturating_mul(share) / page.len()).min(chars - 1);
    }
}

/// The beginning of a result, within this many bytes.
fn cut(text: &str, measured: &OutputMeasure, share: usize, retention: Retention) -> String {
    let (all, id) = (measured.chars, &measured.id);
    let note = |chars: usize| match retention {
        Retention::Nothing => format!("\n[Cut: these are {chars} of {all} characters.]"),
        Retention::Disk | Retention::Memory => {
            format!("\n[Cut: these are {chars} of {all} characters. The whole is artifact {id}.]")
        }
    };
    let room = share.saturating_sub(note(all).len());
    let fits = text
        .get(..text.floor_char_boundary(room))
        .unwrap_or_default();
    let shown = without_cut_line(fits);
    format!("{shown}{}", note(shown.chars().count()))
}

/// An excerpt of a result, of about this many characters and within this many bytes.
fn excerpt(
    call: &WithheldCall,
    text: &str,
    measured: &OutputMeasure,
    (room, share): (usize, usize),
    retention: Retention,
) -> String {
    let wanted = Wanted {
        arguments: &call.arguments,
        message: "",
    };
    let source = ExcerptSource::new(text, measured, wanted);
    let of = |chars: usize| {
        let chars = chars.min(EXCERPT_CHARS);
        source.excerpt(&call.id, chars, ExcerptStyle::Adaptive, retention)
    };
    let excerpt = of(room);
    if excerpt.len() <= share {
        return excerpt;
    }
    // On average its characters take more bytes than those of the whole, but none more than four.
    of(share / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: What a model reads of artifacts is never kept as an artifact of its own, also if it
    /// is too long for a round. Then the model gets its beginning, and is told where to read on.
    #[test]
    fn what_was_read_back_is_not_kept_again() {
        let line = "漢字かな交じり文の行です。\n";
        let id = measure(line).id;
        let texts = [40_000, 40_000, 100].map(|bytes| {
            let lines = line.repeat(bytes / line.len());
            format!("[artifact {id} lines 1-9 of 9]\n{lines}")
        });
        let calls = ["a", "b", "c"].map(|id| WithheldCall {
            id: id.to_owned(),
            name: "artifact_read".to_owned(),
            arguments: "{}".to_owned(),
            items: Vec::new(),
        });
        let results = RoundResults::new(&calls, texts.to_vec(), |_| true, ANSWER_TOKENS);
        assert!(results.too_long().is_empty());
        let shown = results.for_model(Retention::Memory, &BTreeSet::new());
        let lengths: Vec<usize> = shown.iter().map(|it| it.text.len()).collect();
        assert!(lengths.iter().sum::<usize>() <= ROUND_BYTES, "{lengths:?}");
        for (shown, whole) in shown.iter().zip(&texts).take(2) {
            assert!(shown.text.len() > ROUND_BYTES * 2 / 5, "{lengths:?}");
            let (page, note) = shown.text.rsplit_once('\n').unwrap();
            assert!(whole.starts_with(page), "{page}");
            assert!(
                note.contains("read on from there with artifact_read"),
                "{note}"
            );
        }
        assert_eq!(shown[2].text, texts[2]);
        assert!(!shown[2].is_excerpt);
    }

    /// Promise: The results of the calls of a round take at most 50 KiB together; each has a fair
    /// share of it. Of one that takes more the model gets an excerpt, which names the artifact that
    /// has the whole if there is one.
    #[test]
    fn long_results_share_the_room() {
        for (lengths, long) in [
            (vec![10, 20_000, 30_000], 0),
            (vec![40_000; 3], 3),
            (vec![10, 100, 200_000], 1),
            (vec![50 << 10], 0),
            (vec![3_000; 20], 20),
            (vec![12_000; 5], 5),
            (vec![12_000; 10], 10),
        ] {
            let calls = lengths.iter().enumerate().map(|(at, _)| WithheldCall {
                id: format!("c{at}"),
                name: "look".to_owned(),
                arguments: "{}".to_owned(),
                items: Vec::new(),
            });
            let calls: Vec<WithheldCall> = calls.collect();
            let texts = lengths.iter().enumerate().map(|(at, length)| {
                let mut text = format!("Zeile {at} über nichts.\n").repeat(length / 24 + 1);
                text.truncate(text.floor_char_boundary(*length));
                text
            });
            let texts: Vec<String> = texts.collect();
            let results = RoundResults::new(&calls, texts.clone(), |_| false, ANSWER_TOKENS);
            let wholes = results.too_long();
            assert_eq!(wholes.len(), long);
            assert!(wholes.iter().all(|whole| texts.contains(&whole.text)));
            let unkept = wholes.last().map(|whole| whole.id.clone());
            let unkept: BTreeSet<String> = unkept.into_iter().collect();
            let shown = results.for_model(Retention::Memory, &unkept).into_iter();
            let shown: Vec<String> = shown.map(|result| result.text).collect();
            assert!(shown.iter().map(String::len).sum::<usize>() <= ROUND_BYTES);
            // Pages of the usual length are shown as far as there is room.
            if lengths[0] == 12_000 {
                let all: usize = shown.iter().map(String::len).sum();
                assert!(all > ROUND_BYTES * 9 / 10, "{all}");
            }
            for (after, before) in shown.iter().zip(&texts) {
                let id = measure(before).id;
                let is_long = wholes.iter().any(|whole| whole.id == id);
                assert_eq!(is_long, after != before);
                let names_it = is_long && !unkept.contains(&id);
                assert_eq!(after.contains(&id), names_it, "{after}");
            }
        }
    }
}
