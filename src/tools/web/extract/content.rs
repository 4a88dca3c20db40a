//! Finds the main content of a page: by the rules of Readability on a page without what frames it,
//! or the page's own main element where those rules find little.

use dom_query::{Document, NodeRef};
use dom_smoothie::{Config, Readability, TextMode};
use url::Url;

use super::guard::{MAX_PAGE_BYTES, PageShape};
use super::{MIN_CONTENT_CHARS, SMALL_MARKDOWN, length, links};

/// What is never shown.
const HIDDEN: &str = "script, style, noscript, template, svg";
/// What surrounds the main content in most themes, by whole names of classes.
const FRAME: &str = "nav, footer, aside, body > header, form, button, \
    [hidden], [aria-hidden=true], [role=navigation], [role=banner], [role=contentinfo], \
    [role=dialog], [role=search], .sidebar, #sidebar, .sphinxsidebar, .related, .navbar, \
    .navigation, .nav, #nav, .navheader, .navfooter, .menu, .footer, #footer, #page-footer, \
    .breadcrumb, .breadcrumbs, .pagination, .cookie-consent, .cookie-banner, .cookie-bar, .ad, \
    .ads, .ad-slot, .advertisement, .share-bar, .headerlink, .noprint, .printfooter, \
    .related-posts, .recommended, .newsletter, .widget, #mw-navigation, .t-navbar, .topbar";
/// The main element of a page, where there is one of its kind.
const MAIN: [&str; 6] = [
    "main",
    "[role=main]",
    "article",
    "#content",
    "#main",
    ".content",
];

/// How much of the main element the rules must keep, in percent. 30 and 70 are slightly worse, 85
/// is much.
const MIN_KEPT: usize = 50;
/// The rules read a text again for each element around it. They are left out where that is more
/// than twelve elements around each byte of the largest page.
const MAX_NESTED_BYTES: usize = MAX_PAGE_BYTES * 12;
/// How often the text of a page is read while its frame is looked for. Frames within frames would
/// be read as often as they are nested.
const SWEEP_READS: usize = 8;

/// The title of the page at this address, and its main content as Markdown.
pub(super) fn main_content(page: Document, shape: PageShape, url: &Url) -> (String, String) {
    let own_title = title(&page);
    sweep(&page);
    links::make_whole(&page, url, shape.bytes + SMALL_MARKDOWN);
    let whole = main_element(&page);
    let whole_length = length(&whole);
    if shape.nested_bytes <= MAX_NESTED_BYTES
        && let Some((title, found)) = by_rules(page)
    {
        let kept = length(&found);
        if kept >= MIN_CONTENT_CHARS && kept * 100 >= whole_length * MIN_KEPT {
            let title = if title.trim().is_empty() {
                own_title
            } else {
                title
            };
            return (title, found);
        }
    }
    (own_title, whole)
}

/// The only heading of the first level, or the title of the page.
fn title(page: &Document) -> String {
    let heading = page.select("h1");
    let title = if heading.length() == 1 {
        heading
    } else {
        page.select_single("title")
    };
    let title = title.text();
    title.trim().trim_end_matches(['¶', '#']).to_owned()
}

/// Removes what is hidden and what frames the content. What has half of the text is no frame.
fn sweep(page: &Document) {
    page.select(HIDDEN).remove();
    let all = page.body().map_or(0, |body| length(&body.text()));
    let mut room = all * SWEEP_READS;
    for node in page.select(FRAME).nodes() {
        let held = length(&node.text());
        if held * 2 < all {
            node.remove_from_parent();
        }
        let Some(left) = room.checked_sub(held) else {
            return;
        };
        room = left;
    }
}

/// The page's own main element where it has one with a third of the text, else its body.
fn main_element(page: &Document) -> String {
    let Some(body) = page.body() else {
        return String::new();
    };
    let rest = length(&body.text());
    let main = MAIN.iter().find_map(|selector| {
        let found = page.select(selector);
        let [node] = found.nodes() else { return None };
        (length(&node.text()) * 3 > rest).then_some(*node)
    });
    markdown(main.unwrap_or(body))
}

fn markdown(node: NodeRef<'_>) -> String {
    node.md(Some(&["script", "style", "head"])).to_string()
}

/// What the rules of Readability find, and the title by the same rules.
fn by_rules(page: Document) -> Option<(String, String)> {
    let config = Config {
        text_mode: TextMode::Markdown,
        disable_json_ld: true,
        ..Config::default()
    };
    let mut page = Readability::with_document(page, None, Some(config)).ok()?;
    let article = page.parse().ok()?;
    Some((article.title, article.text_content.to_string()))
}
