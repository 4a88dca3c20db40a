//! Reasoning inside the text, between tags such as `<think>`.
//!
//! A tag opens reasoning where the text begins, at the start of an answer or behind a call. Within
//! the text it does so at the start of a line or right behind a word, outside of code, if it is
//! closed again: anywhere else the text is about tags. Some chat templates open the tag themselves,
//! so that an answer has only the closing one. What is before it is then reasoning, if the model is
//! known for this; of any other model it was passed on as text already, and becomes a message of
//! its own.

use registry::ThinkTags;

use super::harmony::{self, HarmonyParser};
use super::tags;

/// The tags of most models, MiniMax, Gemma (NousResearch/hermes-agent, pull request 6149) and
/// Seed-OSS (its chat template).
const OPENING: [&str; 4] = ["<think>", "<mm:think>", "<thought>", "<seed:think>"];
const CLOSING: [&str; 4] = ["</think>", "</mm:think>", "</thought>", "</seed:think>"];
const TAGS: [&str; 8] = [
    OPENING[0], OPENING[1], OPENING[2], OPENING[3], CLOSING[0], CLOSING[1], CLOSING[2], CLOSING[3],
];

/// How many bytes are held of an answer that begins inside thinking, and behind a tag in the text.
/// A longer text is reasoning, and is passed on as it comes.
const MAX_HELD: usize = 4096;

/// How many bytes of reasoning in a field of its own are kept to notice its repetition.
const MAX_COMPARED: usize = 256;

/// Separates reasoning from text. Holds back text that may be the beginning of a tag.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(super) struct ThinkTagParser {
    state: ThinkState,
    /// The beginning of a tag, or a tag that what follows decides about.
    held: String,
    /// The beginning of the reasoning that came in a field of its own.
    separate: String,
    /// The reasoning between the tags so far, and how much of it was passed on.
    thought: String,
    passed_on: usize,
    /// The text between the tags repeats the reasoning of a separate field, and is skipped.
    skips: bool,
    /// Text that is not blank was passed on.
    has_text: bool,
    /// The text so far ends in code between backticks.
    in_code: bool,
    /// The last character of the text so far.
    last: Option<char>,
    /// The open tag came behind text.
    in_text: bool,
    /// Whether the answers of the model begin inside thinking, if this one shows it.
    begins_inside: Option<bool>,
}

#[derive(Debug)]
enum ThinkState {
    /// Tags are text.
    Off,
    /// Only white space so far. `unopened`: the model omits the opening tag.
    Start {
        unopened: bool,
    },
    /// Behind the opening tag with this index; `None` if there was none.
    Thinking(Option<usize>),
    /// After the closing tag, in the line breaks before the text.
    Between,
    /// In text, where a tag may open reasoning. `closes`: a closing tag alone shows that all of it
    /// was reasoning.
    Watching {
        closes: bool,
    },
    Harmony(HarmonyParser),
    Text,
}

/// A piece of escaped text.
#[derive(Debug, PartialEq)]
pub(super) enum ThinkPiece {
    Reasoning(String),
    /// Reasoning that came in a field of its own as well.
    Repeated,
    Text(String),
    /// The text so far was reasoning.
    TextWasReasoning,
    /// A call in the Harmony format.
    Call {
        name: String,
        arguments: String,
    },
}

impl ThinkTagParser {
    pub(super) fn new(quirk: ThinkTags) -> Self {
        let state = match quirk {
            ThinkTags::Off => ThinkState::Off,
            ThinkTags::On => ThinkState::Start { unopened: false },
            ThinkTags::Unopened => ThinkState::Start { unopened: true },
        };
        Self {
            state,
            held: String::new(),
            separate: String::new(),
            thought: String::new(),
            passed_on: 0,
            skips: false,
            has_text: false,
            in_code: false,
            last: None,
            in_text: false,
            begins_inside: None,
        }
    }

    /// Whether this piece is text as it is. Most pieces are, so that nothing else may cost much.
    pub(super) fn is_plain_text(&mut self, escaped: &str) -> bool {
        match self.state {
            ThinkState::Off | ThinkState::Text => true,
            ThinkState::Watching { .. } if self.held.is_empty() && !may_have_tags(escaped) => {
                self.has_text = self.has_text || !tags::trim_start(escaped, true).is_empty();
                self.last = last_char(escaped);
                true
            }
            ThinkState::Start { unopened: false }
                if self.held.is_empty() && !may_have_tags(escaped) =>
            {
                if !tags::trim_start(escaped, true).is_empty() {
                    self.enter_text();
                    self.has_text = true;
                    self.last = last_char(escaped);
                }
                true
            }
            _ => false,
        }
    }

    /// What the answer shows of the model: whether its answers begin inside thinking.
    pub(super) fn begins_inside_thinking(&self) -> Option<bool> {
        self.begins_inside
    }

    /// Takes note of reasoning that came in a field of its own: the text does not begin with
    /// reasoning unless a tag says so.
    pub(super) fn note_separate_reasoning(&mut self, escaped: &str) {
        if self.separate.len() < MAX_COMPARED {
            self.separate.push_str(escaped);
        }
        match self.state {
            ThinkState::Start { unopened: true } => {
                self.state = ThinkState::Start { unopened: false };
            }
            ThinkState::Watching { .. } if self.held.is_empty() => self.state = ThinkState::Text,
            _ => {}
        }
    }

    /// Takes note of a call. Text behind it may begin with reasoning again.
    pub(super) fn note_call(&mut self) {
        if matches!(
            self.state,
            ThinkState::Between | ThinkState::Watching { .. } | ThinkState::Text
        ) {
            self.has_text = true;
            self.state = ThinkState::Start { unopened: false };
        }
    }

    /// Reads more text.
    pub(super) fn push(&mut self, escaped: &str) -> Vec<ThinkPiece> {
        self.held.push_str(&tags::unescape_tag_chars(escaped));
        let text = std::mem::take(&mut self.held);
        let mut pieces = Vec::new();
        let mut rest = text.as_str();
        while !rest.is_empty() {
            match &mut self.state {
                ThinkState::Start { unopened } => {
                    let unopened = *unopened;
                    let Some(after) = self.read_start(rest, unopened) else {
                        rest.clone_into(&mut self.held);
                        break;
                    };
                    rest = after;
                }
                ThinkState::Thinking(tag) => {
                    let closing = match *tag {
                        Some(tag) => CLOSING.get(tag..=tag).unwrap_or_default(),
                        None => &CLOSING,
                    };
                    if self.thought.is_empty() && self.separate.is_empty() && !self.in_text {
                        rest = tags::trim_start(rest, true);
                    }
                    let (thought, after) = split_at_end(rest, closing);
                    if !self.skips {
                        self.thought.push_str(thought);
                    }
                    match after {
                        Ok(after) => {
                            pieces.extend(self.end_thought());
                            self.in_text = false;
                            self.state = ThinkState::Between;
                            rest = after;
                        }
                        Err(held) => {
                            held.clone_into(&mut self.held);
                            pieces.extend(self.pass_on());
                            break;
                        }
                    }
                }
                ThinkState::Between => {
                    rest = tags::trim_start(rest, false);
                    if !rest.is_empty() {
                        self.state = ThinkState::Watching { closes: false };
                    }
                }
                ThinkState::Watching { closes } => {
                    let closes = *closes;
                    rest = self.watch(rest, closes, &mut pieces);
                }
                ThinkState::Harmony(parser) => {
                    parser.push(rest, &mut pieces);
                    break;
                }
                ThinkState::Off | ThinkState::Text => {
                    push_piece(&mut pieces, ThinkPiece::Text, rest);
                    break;
                }
            }
        }
        pieces
    }

    /// Leaves the start as soon as something else than white space is there. Returns what is to be
    /// read next; `None` if this may become a tag.
    fn read_start<'t>(&mut self, text: &'t str, unopened: bool) -> Option<&'t str> {
        let body = tags::trim_start(text, true);
        if body.is_empty() {
            return Some(body);
        }
        let tag = OPENING.iter().position(|tag| body.starts_with(tag));
        if let Some(tag) = tag {
            self.state = ThinkState::Thinking(Some(tag));
            return body.get(OPENING.get(tag)?.len()..);
        }
        let closing = CLOSING.iter().find_map(|tag| body.strip_prefix(tag));
        if closing.is_some() && !self.separate.is_empty() {
            // The end of the reasoning that came in a field of its own.
            self.state = ThinkState::Between;
            return closing;
        }
        if harmony::OPENING.iter().any(|tag| body.starts_with(tag)) {
            self.state = ThinkState::Harmony(HarmonyParser::default());
            return Some(body);
        }
        let mut known = OPENING.iter().chain(&CLOSING).chain(&harmony::OPENING);
        if known.any(|tag| tag.starts_with(body)) {
            return None;
        }
        if unopened {
            self.state = ThinkState::Thinking(None);
        } else {
            self.enter_text();
        }
        Some(text)
    }

    /// The text begins, and not with reasoning.
    fn enter_text(&mut self) {
        self.state = if self.separate.is_empty() {
            ThinkState::Watching {
                closes: !self.has_text,
            }
        } else {
            ThinkState::Text
        };
    }

    /// Passes text on up to a tag that opens reasoning, or to a closing one without an opening one.
    /// Returns what is to be read next.
    fn watch<'t>(&mut self, text: &'t str, closes: bool, pieces: &mut Vec<ThinkPiece>) -> &'t str {
        let Some((before, after)) = tags::split_at_tag(text, &TAGS) else {
            let (before, held) = tags::split_partial_tag(text, &TAGS);
            self.pass_text(before, pieces);
            held.clone_into(&mut self.held);
            return "";
        };
        let with_tag = text.get(..text.len() - after.len()).unwrap_or_default();
        let tag = with_tag.get(before.len()..).unwrap_or_default();
        let in_code = self.in_code ^ has_open_code(before);
        let last = last_char(before).or(self.last);
        if let Some(tag) = OPENING.iter().position(|opening| *opening == tag) {
            let opens = |c: char| c.is_alphanumeric() || "\n.!?:>".contains(c);
            if !in_code && last.is_none_or(opens) {
                self.pass_text(before, pieces);
                self.in_text = self.has_text;
                self.state = ThinkState::Thinking(Some(tag));
            } else {
                self.pass_text(with_tag, pieces);
                // A closing tag behind it is the end of this one.
                self.state = ThinkState::Watching {
                    closes: closes && in_code,
                };
            }
            return after;
        }
        if !closes {
            self.pass_text(with_tag, pieces);
            return after;
        }
        if after.is_empty() && !in_code {
            self.pass_text(before, pieces);
            tag.clone_into(&mut self.held);
            return "";
        }
        let is_alone = last.is_none_or(|c| c == '\n')
            || after.starts_with("\\n")
            || after.starts_with("\\r")
            || after.starts_with(char::is_alphanumeric);
        if in_code || !is_alone {
            self.pass_text(with_tag, pieces);
            return after;
        }
        self.begins_inside = Some(true);
        self.state = ThinkState::Between;
        if self.has_text {
            push_piece(pieces, ThinkPiece::Text, before);
            pieces.push(ThinkPiece::TextWasReasoning);
        } else {
            push_piece(pieces, ThinkPiece::Reasoning, before);
        }
        after
    }

    fn pass_text(&mut self, text: &str, pieces: &mut Vec<ThinkPiece>) {
        if !text.is_empty() {
            self.has_text |= !tags::trim_start(text, true).is_empty();
            self.in_code ^= has_open_code(text);
            self.last = last_char(text);
            push_piece(pieces, ThinkPiece::Text, text);
        }
    }

    /// Passes the new reasoning on, unless it may be a repetition, or the answer after all.
    fn pass_on(&mut self) -> Option<ThinkPiece> {
        let held = match self.state {
            _ if self.in_text => MAX_HELD,
            ThinkState::Thinking(Some(_)) if self.separate.is_empty() => 0,
            ThinkState::Thinking(Some(_)) => MAX_COMPARED,
            _ => MAX_HELD,
        };
        if self.thought.len() <= held.max(self.passed_on) {
            return None;
        }
        if self.passed_on == 0 && self.repeats_separate_reasoning() {
            self.skips = true;
            self.thought.clear();
            return None;
        }
        let new = self.thought.get(self.passed_on..).map(str::to_owned);
        self.passed_on = self.thought.len();
        new.map(ThinkPiece::Reasoning)
    }

    /// Ends the reasoning that is open.
    fn end_thought(&mut self) -> Option<ThinkPiece> {
        let is_repeated = std::mem::take(&mut self.skips)
            || self.passed_on == 0 && self.repeats_separate_reasoning();
        let thought = std::mem::take(&mut self.thought);
        if is_repeated {
            return Some(ThinkPiece::Repeated);
        }
        let new = thought.get(std::mem::take(&mut self.passed_on)..)?;
        (!new.is_empty()).then(|| ThinkPiece::Reasoning(new.to_owned()))
    }

    fn repeats_separate_reasoning(&self) -> bool {
        let [one, other] = [&self.thought, &self.separate].map(|text| tags::trim_start(text, true));
        let compared = one.len().min(other.len());
        compared > 0 && one.as_bytes().get(..compared) == other.as_bytes().get(..compared)
    }

    /// Returns what was held back, because something else than text follows.
    pub(super) fn flush(&mut self) -> Vec<ThinkPiece> {
        let held = std::mem::take(&mut self.held);
        let mut pieces = Vec::new();
        match &mut self.state {
            ThinkState::Thinking(_) => {
                self.thought.push_str(&held);
                pieces.extend(self.end_thought());
            }
            ThinkState::Harmony(parser) => parser.finish(&mut pieces),
            _ => push_piece(&mut pieces, ThinkPiece::Text, &held),
        }
        pieces
    }

    /// Ends the text. Returns what was held back, and whether reasoning had no end. Such reasoning
    /// was the answer, if nothing else was said in an answer that the model ended itself
    /// (`is_all`): it is passed on as text.
    pub(super) fn finish(&mut self, is_all: bool) -> (Vec<ThinkPiece>, bool) {
        let ThinkState::Thinking(tag) = self.state else {
            return (self.flush(), false);
        };
        let held = std::mem::take(&mut self.held);
        self.thought.push_str(&held);
        let whole = self.thought.clone();
        let was_passed_on = self.passed_on > 0;
        let is_repeated = self.skips || !was_passed_on && self.repeats_separate_reasoning();
        let mut pieces = Vec::new();
        match tag {
            // Text about a tag.
            Some(tag)
                if self.in_text && !was_passed_on
                    || is_all && !self.separate.is_empty() && !is_repeated =>
            {
                let tag = OPENING.get(tag).copied().unwrap_or_default();
                pieces.push(ThinkPiece::Text(format!("{tag}{whole}")));
                return (pieces, false);
            }
            None if is_all => {
                self.begins_inside = Some(false);
                if was_passed_on {
                    pieces.extend(self.end_thought());
                }
            }
            Some(_) | None => pieces.extend(self.end_thought()),
        }
        if is_all && !is_repeated {
            push_piece(&mut pieces, ThinkPiece::Text, &whole);
        }
        (pieces, tag.is_some() || was_passed_on)
    }
}

/// Whether a text may hold a part of a tag, or begin or end code.
fn may_have_tags(escaped: &str) -> bool {
    let sign = memchr::memchr3(b'<', b'`', b'\\', escaped.as_bytes());
    sign.and_then(|at| escaped.get(at..))
        .is_some_and(|rest| rest.contains(['<', '`']) || rest.contains("\\u003"))
}

/// Whether a text turns code between backticks on or off: one or three of them do.
fn has_open_code(text: &str) -> bool {
    memchr::memchr_iter(b'`', text.as_bytes()).count() % 2 == 1
}

/// Splits reasoning at its closing tag: the reasoning, and what follows the tag, or else what may
/// become it. A tag between backticks is quoted.
fn split_at_end<'t>(text: &'t str, closing: &[&str]) -> (&'t str, Result<&'t str, &'t str>) {
    let mut from = 0;
    while let Some((before, after)) = text
        .get(from..)
        .and_then(|rest| tags::split_at_tag(rest, closing))
    {
        let start = from + before.len();
        let thought = text.get(..start).unwrap_or_default();
        match thought.strip_suffix('`') {
            Some(quoted) if after.is_empty() => {
                return (quoted, Err(text.get(quoted.len()..).unwrap_or_default()));
            }
            Some(_) if after.starts_with('`') => from = text.len() - after.len(),
            _ => return (thought, Ok(after)),
        }
    }
    let rest = text.get(from..).unwrap_or_default();
    let (_, held) = tags::split_partial_tag(rest, closing);
    let mut end = text.len() - held.len();
    // A backtick before the tag says whether it is quoted.
    if text.get(..end).is_some_and(|before| before.ends_with('`')) {
        end -= 1;
    }
    let thought = text.get(..end).unwrap_or_default();
    (thought, Err(text.get(end..).unwrap_or_default()))
}

/// The last character of a text. Line breaks and tabs are written as escapes.
fn last_char(escaped: &str) -> Option<char> {
    match escaped {
        text if text.ends_with("\\n") => Some('\n'),
        text if text.ends_with("\\t") => Some('\t'),
        text => text.chars().next_back(),
    }
}

fn push_piece(pieces: &mut Vec<ThinkPiece>, kind: fn(String) -> ThinkPiece, text: &str) {
    if !text.is_empty() {
        pieces.push(kind(text.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reasoning, text, and what the answer shows of its model: `+` if it begins inside thinking,
    /// `-` if not. `|` marks where the text turned out to be reasoning.
    fn read(quirk: ThinkTags, separate: &str, chunks: &[&str]) -> (String, String, String) {
        let (mut thought, mut text) = (String::new(), String::new());
        let mut think = ThinkTagParser::new(quirk);
        if !separate.is_empty() {
            think.note_separate_reasoning(separate);
        }
        let mut pieces: Vec<ThinkPiece> = Vec::new();
        for chunk in chunks {
            if think.is_plain_text(chunk) {
                pieces.push(ThinkPiece::Text((*chunk).to_owned()));
            } else {
                pieces.extend(think.push(chunk));
            }
        }
        let has_text =
            |piece: &ThinkPiece| matches!(piece, ThinkPiece::Text(text) if !text.trim().is_empty());
        let is_all = !pieces.iter().any(has_text);
        pieces.extend(think.finish(is_all).0);
        for piece in pieces {
            match piece {
                ThinkPiece::Reasoning(more) => thought.push_str(&more),
                ThinkPiece::Text(more) => text.push_str(&more),
                ThinkPiece::TextWasReasoning => text.push('|'),
                ThinkPiece::Repeated => thought.push('='),
                ThinkPiece::Call { name, .. } => text.push_str(&name),
            }
        }
        let shown = match think.begins_inside_thinking() {
            None => "",
            Some(true) => "+",
            Some(false) => "-",
        };
        (thought, text, shown.to_owned())
    }

    /// Reads a text whole and split at every place.
    fn check(quirk: ThinkTags, separate: &str, whole: &str, expected: (&str, &str, &str)) {
        let (thought, text, shown) = expected;
        let expected = (thought.to_owned(), text.to_owned(), shown.to_owned());
        assert_eq!(read(quirk, separate, &[whole]), expected, "{whole}");
        for (left, right) in tags::splits(whole) {
            let got = read(quirk, separate, &[left, right]);
            assert_eq!(got, expected, "{left} {right}");
        }
    }

    /// Promise: Thinking between tags at the beginning of a text, and within it at the start of a
    /// line or right behind a word, is reasoning, from local servers, OpenRouter and own providers
    /// too; tags in code and anywhere else are text, no reasoning comes twice, and no answer ends
    /// empty because a tag was not closed.
    #[test]
    fn tags_separate_reasoning_from_text_wherever_they_are_split() {
        use ThinkTags::{Off, On, Unopened};
        for (quirk, whole, expected) in [
            (On, "<think>\\na<b</think>\\n\\nc", ("a<b", "c", "")),
            (On, "<think>a</think>c</think>", ("a", "c</think>", "")),
            (On, "<mm:think>a</mm:think>  c", ("a", "  c", "")),
            (On, "<thought>a</think></thought>c", ("a</think>", "c", "")),
            (On, "<seed:think>a</seed:think>c", ("a", "c", "")),
            (
                On,
                "\\u003cthink\\u003ea\\u003C\\/think\\u003e\\nc",
                ("a", "c", ""),
            ),
            (On, " <thin", ("", " <thin", "")),
            (On, "\\\\u003c", ("", "\\\\u003c", "")),
            // A tag that is quoted does not end the reasoning.
            (
                On,
                "<think>`</think>` ends `it`</think>c",
                ("`</think>` ends `it`", "c", ""),
            ),
            // Reasoning that never ends was the answer.
            (On, "<think>a</thi", ("a</thi", "a</thi", "")),
            (Unopened, "a", ("", "a", "-")),
            (Unopened, "a</think>\\n\\nc", ("a", "c", "")),
            (Unopened, "<think>a</think>c", ("a", "c", "")),
            // It may begin again, at the start of a line or right behind a word.
            (On, "<think>a</think>b<think>c</think>d", ("ac", "bd", "")),
            (On, "<think>a</think>\\n<think>b</think>c", ("ab", "c", "")),
            (
                On,
                "Hi.\\n\\n<think>a</think>\\nc `<think>`",
                ("a", "Hi.\\n\\nc `<think>`", ""),
            ),
            (
                Unopened,
                "a</think>b\\n<think>c</think>d",
                ("ac", "b\\nd", ""),
            ),
            // Text about tags is text.
            (On, "a <think>b</think> c", ("", "a <think>b</think> c", "")),
            (
                On,
                "a\\n\\t<think>b</think> c",
                ("", "a\\n\\t<think>b</think> c", ""),
            ),
            (
                On,
                "a <think>b\\n</think>\\nc",
                ("", "a <think>b\\n</think>\\nc", ""),
            ),
            (
                On,
                "Write\\n<think>\\nfirst",
                ("", "Write\\n<think>\\nfirst", ""),
            ),
            (
                On,
                "```\\n<think>b\\n</think>\\n```",
                ("", "```\\n<think>b\\n</think>\\n```", ""),
            ),
            (On, "Write `</think>`.", ("", "Write `</think>`.", "")),
            (Off, "<think>a</think>c", ("", "<think>a</think>c", "")),
        ] {
            check(quirk, "", whole, expected);
        }
    }

    #[test]
    fn a_closing_tag_alone_shows_that_the_text_was_reasoning() {
        for (chunks, expected) in [
            (&["hm</think>\\n\\nhello"][..], ("hm", "hello", "+")),
            (&["hm", "</think>", "\\n\\nhello"], ("", "hm|hello", "+")),
            (&["hm", "</thi", "nk>", "hello"], ("", "hm|hello", "+")),
            (&["hm\\n", "</think>", " hello"], ("", "hm\\n| hello", "+")),
            (&["the ", "</think>", " tag"], ("", "the </think> tag", "")),
            (&["a `b", "</think>", "\\n`"], ("", "a `b</think>\\n`", "")),
            (&["hm", "</think>"], ("", "hm</think>", "")),
        ] {
            let (thought, text, shown) = expected;
            let expected = (thought.to_owned(), text.to_owned(), shown.to_owned());
            assert_eq!(read(ThinkTags::On, "", chunks), expected, "{chunks:?}");
        }
    }

    #[test]
    fn reasoning_in_a_field_of_its_own_is_not_repeated() {
        use ThinkTags::{On, Unopened};
        let long = "x".repeat(2 * MAX_COMPARED);
        let repeated = format!("<think>{long}</think>c");
        check(On, &long, &repeated, ("=", "c", ""));
        for (separate, whole, expected) in [
            ("abc", "<think>\\nabc</think>c", ("=", "c", "")),
            ("abc", "<think>other</think>c", ("other", "c", "")),
            ("abc", "<think> is a tag", ("", "<think> is a tag", "")),
            ("abc", "b</think>\\nc", ("", "b</think>\\nc", "")),
            ("abc", "</think>\\nc", ("", "c", "")),
        ] {
            check(On, separate, whole, expected);
            check(Unopened, separate, whole, expected);
        }
    }

    #[test]
    fn an_answer_that_begins_inside_thinking_is_held_within_bounds() {
        // Nothing is held of any other.
        let mut other = ThinkTagParser::new(ThinkTags::On);
        let first = other.push("<think>a");
        assert_eq!(first, [ThinkPiece::Reasoning("a".to_owned())]);
        let mut think = ThinkTagParser::new(ThinkTags::Unopened);
        assert_eq!(think.push(&"x".repeat(MAX_HELD)), []);
        let passed = "x".repeat(MAX_HELD + 1);
        assert_eq!(think.push("x"), [ThinkPiece::Reasoning(passed.clone())]);
        assert_eq!(think.push("y"), [ThinkPiece::Reasoning("y".to_owned())]);
        // It was the answer.
        let (pieces, is_unclosed) = think.finish(true);
        assert_eq!(pieces, [ThinkPiece::Text(passed + "y")]);
        assert!(is_unclosed);
        assert_eq!(think.begins_inside_thinking(), Some(false));
    }

    #[test]
    fn reasoning_may_begin_again_behind_a_call() {
        let mut think = ThinkTagParser::new(ThinkTags::On);
        assert!(think.is_plain_text("a"));
        assert_eq!(think.flush(), []);
        think.note_call();
        assert_eq!(
            think.push("<think>b</think>c"),
            [
                ThinkPiece::Reasoning("b".to_owned()),
                ThinkPiece::Text("c".to_owned())
            ]
        );
    }

    #[test]
    fn text_behind_reasoning_is_noticed_however_it_comes() {
        let pieces = ["<think>a</think>", " ", "b", "\\n<think>c"];
        let expected = read(ThinkTags::On, "", &[&pieces.concat()]);
        assert_eq!(read(ThinkTags::On, "", &pieces), expected);
    }
}
