//! What models and people read of searches and pages: one text for both.

use std::fmt::Write as _;
use std::ops::Range;
use std::time::Duration;

use serde::Deserialize;
use strum::{EnumString, IntoStaticStr};
use url::Url;

use super::excerpt::{EXCERPT_CHARS, excerpt};
use super::find::find_in_page;
use super::page::{PAGE_LIFETIME, Page, PageError};
use super::search::{SearchAttempt, SearchError, SearchFailure, SearchHit, SearchKind, WebQuery};
use super::service::{SearchReport, SearchResult};

/// The most characters of a search in a link, so that no spelling of them makes it too long.
const MAX_LINKED_CHARS: usize = 150;

/// How much of a search a model reads: `search_context_size` of the Responses API.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, EnumString, IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum SearchContext {
    /// Little.
    Low,
    /// The usual.
    #[default]
    Medium,
    /// Much.
    High,
}

impl SearchContext {
    /// How many results are asked for.
    pub fn results(self) -> usize {
        match self {
            Self::Low => 3,
            Self::Medium => 5,
            Self::High => 10,
        }
    }

    /// The most characters of the text.
    pub fn chars(self) -> usize {
        match self {
            Self::Low => 4_000,
            Self::Medium => 8_000,
            Self::High => 16_000,
        }
    }
}

/// The characters of the note that some results are not shown.
const NOT_SHOWN_CHARS: usize = 30;

/// The characters of the note that parts of a page are not shown, with the ends of lines.
const LEFT_OUT_CHARS: usize = 100;

/// What a search has found, as models, endpoints and commands show it. Titles and excerpts are on
/// one line each, so that none can look like another result.
pub fn render_results(report: &SearchReport, context: SearchContext) -> String {
    render_within(report, context.chars()).0
}

/// What the searches of one call have found, in the order of their queries and in the room of one
/// search, and where the text shows the results of each. `left_out` more were not run.
pub fn render_searches(
    queries: &[String],
    reports: &[SearchReport],
    left_out: usize,
    context: SearchContext,
) -> (String, Vec<Vec<Range<usize>>>) {
    let mut text = String::new();
    let mut places = Vec::new();
    let note = match left_out {
        0 => String::new(),
        _ => format!("\nNot run because of a limit: {left_out} more searches.\n"),
    };
    let mut left = context.chars().saturating_sub(note.len());
    for (at, (query, report)) in queries.iter().zip(reports).enumerate() {
        let head = if reports.len() == 1 {
            String::new()
        } else {
            let words = cut(&one_line(query), MAX_LINKED_CHARS);
            format!("{}Search for: {words}\n", if at == 0 { "" } else { "\n" })
        };
        let waiting = reports.len() - at;
        let room = (left / waiting).saturating_sub(head.chars().count());
        text += &head;
        let begin = text.len();
        let (shown, shown_at) = render_within(report, room);
        left = left.saturating_sub(head.chars().count() + shown.chars().count());
        text += &shown;
        let shown_at = shown_at.into_iter();
        places.push(
            shown_at
                .map(|at| begin + at.start..begin + at.end)
                .collect(),
        );
    }
    text += &note;
    (text, places)
}

/// What a search has found in about `chars` characters, and where the text shows each result; what
/// is not shown has no place.
fn render_within(report: &SearchReport, chars: usize) -> (String, Vec<Range<usize>>) {
    let mut places = Vec::new();
    if report.results.is_empty() && report.engine.is_some() {
        return ("Nothing more is shown of this search.\n".to_owned(), places);
    }
    if report.results.is_empty() {
        let nothing = "No earlier search has found anything for this, and only what was found \
                       earlier may be used: nothing was asked.\n";
        return (nothing.to_owned(), places);
    }
    let mut text = String::new();
    match report.engine {
        None => {
            text += "There are no search results.\n";
            for attempt in &report.attempts {
                if let Err(failure) = &attempt.found {
                    let (engine, why) = (attempt.engine.name(), failure.to_string());
                    let _ = writeln!(text, "{engine}: {}.", one_line(&why));
                }
            }
        }
        Some(engine) => {
            let cached = if report.is_cached { " a while ago" } else { "" };
            let _ = write!(text, "Found by {}{cached}.", engine.name());
            text += match engine.kind() {
                SearchKind::Raw => "\n",
                SearchKind::Summary => {
                    " A model has written what stands below the addresses: do not quote it.\n"
                }
            };
        }
    }
    let used = text.chars().count() + NOT_SHOWN_CHARS;
    let mut left = chars.saturating_sub(used);
    for (at, result) in report.results.iter().enumerate() {
        let waiting = report.results.len() - at;
        let Some(shown) = render_result(at + 1, result, left / waiting, left) else {
            let _ = writeln!(text, "\n{waiting} more are not shown.");
            break;
        };
        left -= shown.chars().count();
        places.push(text.len()..text.len() + shown.len());
        text += &shown;
    }
    (text, places)
}

/// One result in about `share` characters, but with its address whole; `None` if that takes more
/// than `left`.
fn render_result(
    number: usize,
    result: &SearchResult,
    share: usize,
    left: usize,
) -> Option<String> {
    let hit = &result.hit;
    let mut text = format!("\n{number}. {}", one_line(&hit.title));
    if result.is_synthetic {
        text += " (no search result: never cite it)";
    } else if result.has_low_relevance {
        text += " (low relevance)";
    }
    let _ = write!(text, "\n{}\n", hit.url);
    if let Some(published) = &hit.published {
        let _ = writeln!(text, "Published: {}", one_line(published));
    }
    let used = text.chars().count();
    let snippet = one_line(&hit.snippet);
    if !snippet.is_empty() {
        text += &cut(&snippet, share.saturating_sub(used + 1));
        text.push('\n');
    }
    (text.chars().count() <= left).then_some(text)
}

/// A page as models, endpoints and commands show it, from the character `from` on: of a long one
/// the parts that fit the query, or as much as there is room for.
pub fn render_page(page: &Page, query: Option<&str>, from: usize) -> String {
    let mut text = page_head(page);
    let used = text.chars().count() + LEFT_OUT_CHARS;
    let left = EXCERPT_CHARS.saturating_sub(used);
    let excerpt = excerpt(&page.markdown, query.unwrap_or_default(), from, left);
    if excerpt.left_out > 0 {
        let chars = page.markdown.chars().count();
        let shown = chars - excerpt.left_out;
        let _ = writeln!(text, "{shown} of {chars} characters are shown.");
    }
    let _ = writeln!(text, "\n{}", excerpt.text.trim_end());
    // It is last, so that it is lost with what comes before it where the result is cut.
    if let Some(next) = excerpt.next {
        let _ = writeln!(text, "Read on with from = {next}.");
    }
    text
}

/// What models, endpoints and commands show of a page in which a text is looked for.
pub fn render_found(page: &Page, pattern: &str) -> String {
    let found = find_in_page(&page.markdown, pattern);
    let mut text = page_head(page);
    let _ = match (found.lines, found.shown) {
        (0, _) => writeln!(
            text,
            "\nThe page does not have this text: {}",
            one_line(pattern)
        ),
        (lines, shown) if shown < lines => {
            writeln!(
                text,
                "{shown} of {lines} lines with the text are shown.\n\n{}",
                found.text.trim_end()
            )
        }
        _ => writeln!(text, "\n{}", found.text.trim_end()),
    };
    text
}

/// Title, address and date.
fn page_head(page: &Page) -> String {
    let mut text = String::new();
    if !page.title.is_empty() {
        let _ = writeln!(text, "{}", one_line(&page.title));
    }
    let _ = writeln!(text, "{}", page.url);
    if let Some(published) = &page.published {
        let _ = writeln!(text, "Published: {}", one_line(published));
    }
    text
}

/// Says how old a page is, if it is not as it is today.
pub fn age_note(age: Duration) -> Option<String> {
    if age < PAGE_LIFETIME {
        return None;
    }
    let hours = age.as_secs() / 3_600;
    let ago = match hours {
        0 | 1 => "1 hour".to_owned(),
        2..48 => format!("{hours} hours"),
        _ => format!("{} days", hours / 24),
    };
    Some(format!("This is how the page was {ago} ago."))
}

/// Why there is no page, as models, endpoints and commands show it.
pub fn render_page_error(url: &str, error: &PageError) -> String {
    let url = cut(&one_line(url), 300);
    format!("{url} could not be read: {error}.\n")
}

/// The only result of a search that nobody answers.
pub(super) fn synthetic(query: &WebQuery, attempts: &[SearchAttempt]) -> Option<SearchResult> {
    let words = cut(&one_line(&query.text), MAX_LINKED_CHARS);
    let url = Url::parse_with_params("https://duckduckgo.com/", [("q", words)]).ok()?;
    let is_nothing = |attempt: &SearchAttempt| {
        matches!(
            attempt.found,
            Ok(0) | Err(SearchFailure::Refused(SearchError::Empty) | SearchFailure::OtherDomains)
        )
    };
    let why = if attempts.is_empty() {
        "No search engine is configured"
    } else if attempts.iter().any(is_nothing) {
        "The search engines that answered have found nothing"
    } else {
        "No search engine that is configured could be reached or has answered"
    };
    Some(SearchResult {
        hit: SearchHit {
            url: url.into(),
            title: "A search page, for a person to open".to_owned(),
            snippet: format!("{why}. Nothing is known about this search from the web."),
            ..SearchHit::default()
        },
        has_low_relevance: false,
        is_synthetic: true,
    })
}

/// The text with single spaces in place of all white space and control characters.
pub(super) fn one_line(text: &str) -> String {
    let mut words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let mut line = String::with_capacity(text.len());
    for word in words.by_ref().filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

/// The first `chars` characters of a text, with a mark if it has more.
fn cut(text: &str, chars: usize) -> String {
    if text.char_indices().nth(chars).is_none() {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(chars.saturating_sub(1)).collect();
    cut.push('…');
    cut
}
