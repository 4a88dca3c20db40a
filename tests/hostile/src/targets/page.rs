//! `page`: a web page, and what a model reads of it. The first line of an input is what is searched
//! for, the rest is what the server of the page has sent.

use respondent::tools::web::excerpt::excerpt;
use respondent::tools::web::extract::{self, MIN_CONTENT_CHARS, PageShape};
use respondent::tools::web::fetch::page_url;
use respondent::tools::web::find::find_in_page;

pub(super) fn run(input: &[u8]) {
    let mut lines = input.splitn(2, |byte| *byte == b'\n');
    let query = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let body = lines.next().unwrap_or_default();
    let html = extract::decode(body, "text/html");
    let url = page_url("https://example.com/a/b").unwrap();
    let Ok(shape) = PageShape::of(&html) else {
        return;
    };
    let Ok(content) = extract::extract(&html, shape, &url) else {
        return;
    };
    let page = content.markdown;
    let chars = page.chars().count();
    assert!(chars >= MIN_CONTENT_CHARS, "{chars} characters");
    assert!(
        page.len() <= html.len() * 4 + (64 << 10),
        "{} bytes",
        page.len()
    );
    assert!(content.title.chars().count() <= 500);
    if let Some(canonical) = content.canonical {
        assert!(page_url(&canonical).is_ok(), "{canonical}");
    }
    for (from, most) in [(0, 200), (0, 2_000), (chars / 2, 2_000)] {
        let part = excerpt(&page, &query, from, most);
        assert!(part.text.chars().count() <= most);
        assert!(part.left_out <= chars);
    }
    let found = find_in_page(&page, &query);
    assert!(found.shown <= found.lines && found.lines <= page.lines().count());
    assert!(found.text.len() <= 200_000, "{} bytes", found.text.len());
}
