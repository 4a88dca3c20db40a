//! `search`: a search in an artifact. The first line of an input is the pattern, the rest is the
//! text; the last byte of the pattern also chooses the options.

use respondent::artifacts::search::{
    InvalidQuery, SearchLimits, SearchQuery, format_lines, search,
};

pub(super) fn run(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    let (pattern, text) = text.split_once('\n').unwrap_or((text, ""));
    let options = pattern.bytes().last().unwrap_or_default();
    for regex in [false, true] {
        let mut query = match SearchQuery::new(pattern, regex, options & 1 != 0) {
            Ok(query) => query,
            Err(InvalidQuery::Syntax(reason)) => {
                assert!(regex && !reason.is_empty(), "{reason:?}");
                continue;
            }
            Err(_) => continue,
        };
        query.context = usize::from(options & 7);
        query.limits = SearchLimits {
            matches: 5,
            bytes: 2_000,
        };
        check(text, &query);
    }
}

/// A search keeps its limits, and can go on where it stopped.
fn check(text: &str, query: &SearchQuery) {
    let found = search(text, query, &|| false);
    assert!(found.shown <= 5 && found.shown <= found.matches);
    assert_eq!(found.next_byte.is_some(), found.shown < found.matches);
    assert!(found.lines.is_sorted_by_key(|line| line.line));
    let shown: usize = found.lines.iter().map(|line| line.text.len()).sum();
    assert!(shown <= 4_000, "{shown} bytes");
    let _ = format_lines(&found.lines);
    if let Some(next) = found.next_byte {
        assert!(next <= text.len() as u64);
        let mut rest = query.clone();
        rest.from_byte = next;
        let rest = search(text, &rest, &|| false);
        assert_eq!(rest.matches, found.matches - found.shown);
    }
}
