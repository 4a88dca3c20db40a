//! Searches that would find more of an output than its excerpt shows.

use std::fmt::Write as _;

use memchr::memmem;
use regex::Regex;

use crate::OutputMeasure;
use crate::Retention;
use crate::evidence::FoundMark;

/// `artifact_search` (`src/artifacts/search.rs`) counts a longer line once for each match that is
/// not within this many bytes behind another. Its test
/// `a_search_that_an_excerpt_names_finds_as_many_lines_as_it_says` compares both.
const LONG_LINE: usize = 600;
const BYTES_AROUND_MATCH: usize = 200;

/// No more searches are named.
const MAX_QUERIES: usize = 2;

/// A search for a word, and what it finds in the whole output.
pub(super) struct Query {
    /// As it is written in the output.
    word: String,
    finder: QueryMatcher,
    matches: usize,
    /// Whether some matches are parts of one line.
    in_parts: bool,
}

enum QueryMatcher {
    Text(Box<memmem::Finder<'static>>),
    Expression(Regex),
}

impl QueryMatcher {
    fn next(&self, text: &str, from: usize) -> Option<(usize, usize)> {
        match self {
            Self::Text(finder) => {
                let at = finder.find(text.as_bytes().get(from..)?)? + from;
                Some((at, at + finder.needle().len()))
            }
            Self::Expression(expression) => {
                let found = expression.find_at(text, from)?;
                Some((found.start(), found.end()))
            }
        }
    }
}

/// The searches for the words that were found, at most two. `text` is the whole output, and the
/// places of `marks` are in the part of it behind `above` bytes.
pub(super) fn queries(text: &str, above: usize, marks: &[FoundMark]) -> Vec<Query> {
    let queries = marks.iter().filter_map(|mark| {
        let word = text.get(above + mark.start..above + mark.end)?;
        let is_written = !word.is_empty() && !word.contains(char::is_control);
        is_written.then(|| Query::new(text, word, mark.lines))
    });
    queries.take(MAX_QUERIES).collect()
}

impl Query {
    /// A search for a word that `lines` lines have in small or capital letters.
    fn new(text: &str, word: &str, lines: usize) -> Self {
        let finder = QueryMatcher::Text(Box::new(memmem::Finder::new(word).into_owned()));
        let mut query = Self {
            word: word.to_owned(),
            finder,
            matches: 0,
            in_parts: false,
        };
        query.count(text);
        if query.matches < lines
            && word.is_ascii()
            && let Ok(expression) = Regex::new(&format!("(?i){}", regex::escape(word)))
        {
            query.finder = QueryMatcher::Expression(expression);
            query.count(text);
        }
        query
    }

    /// Whether the word is written in small and capital letters.
    fn ignores_case(&self) -> bool {
        matches!(self.finder, QueryMatcher::Expression(_))
    }

    /// Counts the matches as the search does.
    fn count(&mut self, text: &str) {
        let bytes = text.as_bytes();
        (self.matches, self.in_parts) = (0, false);
        // The line of the last match.
        let (mut start, mut end) = (0, 0);
        let mut at = 0;
        while let Some((from, to)) = self.finder.next(text, at) {
            if from >= end {
                let before = bytes.get(end..from).unwrap_or_default();
                start = memchr::memrchr(b'\n', before).map_or(end, |line| end + line + 1);
                let rest = bytes.get(to..).unwrap_or_default();
                end = memchr::memchr(b'\n', rest).map_or(bytes.len(), |line| to + line + 1);
            } else {
                self.in_parts = true;
            }
            self.matches += 1;
            let line = text.get(start..end).unwrap_or_default();
            let is_long =
                line.len() > LONG_LINE && line.trim_end_matches(['\n', '\r']).len() > LONG_LINE;
            at = if is_long {
                let shown = to.min(from + BYTES_AROUND_MATCH) + BYTES_AROUND_MATCH;
                to.max(text.ceil_char_boundary(shown.min(end)))
            } else {
                end
            };
        }
    }

    /// How many lines of a text that is shown have the word.
    fn shown_in(&self, shown: &str) -> usize {
        let lines = shown.lines();
        lines
            .filter(|line| self.finder.next(line, 0).is_some())
            .count()
    }

    /// The line that says how many matches are not among the lines `shown`, and how to find them.
    pub(super) fn text(
        &self,
        shown: &str,
        measure: &OutputMeasure,
        retention: Retention,
    ) -> Option<String> {
        let hidden = self.matches.checked_sub(self.shown_in(shown))?;
        if hidden == 0 {
            return None;
        }
        let units = if self.in_parts { "parts" } else { "lines" };
        let contain = if self.matches == 1 {
            "1 line contains".to_owned()
        } else {
            format!("{} {units} contain", self.matches)
        };
        let case = if self.ignores_case() {
            " in small or capital letters"
        } else {
            ""
        };
        let mut text = format!(
            "[{contain} `{}`{case}, {hidden} of them not shown",
            self.word
        );
        match retention {
            Retention::Disk | Retention::Memory => {
                let (query, regex) = if self.ignores_case() {
                    (
                        format!("(?i){}", regex::escape(&self.word)),
                        ",\"regex\":true",
                    )
                } else {
                    (self.word.clone(), "")
                };
                let query = serde_json::to_string(&query).unwrap_or_default();
                let id = &measure.id;
                let _ = write!(
                    text,
                    ": artifact_search {{\"id\":\"{id}\",\"query\":{query}{regex}}}"
                );
            }
            Retention::Nothing => {}
        }
        text.push_str("]\n");
        Some(text)
    }
}
