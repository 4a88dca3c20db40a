//! The ways to get the main content of a page as Markdown.

use dom_query::{Document, NodeRef};
use dom_smoothie::{CandidateSelectMode, Config, ParsePolicy, Readability, TextMode};

pub struct Content {
    pub title: String,
    pub markdown: String,
}

pub type Arm = fn(&str) -> Result<Content, String>;

pub const ARMS: &[(&str, Arm)] = &[
    ("dom_smoothie", dom_smoothie),
    ("dom_smoothie own", dom_smoothie_own),
    ("trafilatura", trafilatura),
    ("trafilatura recall", trafilatura_recall),
    ("rs-trafilatura", rs_trafilatura),
    ("rs-trafilatura recall", rs_trafilatura_recall),
    ("body", body),
    ("landmarks", landmarks),
    ("dom_smoothie or body", |html| or_body(dom_smoothie, html)),
    ("trafilatura or body", |html| {
        or_body(trafilatura_recall, html)
    }),
    ("rs-trafilatura or body", |html| {
        or_body(rs_trafilatura_recall, html)
    }),
    ("dom_smoothie or landmarks", |html| {
        or_landmarks(dom_smoothie, html)
    }),
    ("trafilatura or landmarks", |html| {
        or_landmarks(trafilatura_recall, html)
    }),
    ("rs-trafilatura or landmarks", |html| {
        or_landmarks(rs_trafilatura_recall, html)
    }),
    ("swept dom_smoothie", swept_dom_smoothie),
    ("swept dom_smoothie or landmarks", |html| {
        or_landmarks(swept_dom_smoothie, html)
    }),
    ("swept raw dom_smoothie or landmarks", |html| {
        or_landmarks(swept_raw, html)
    }),
];

fn smoothie(
    page: Document,
    mode: CandidateSelectMode,
    policy: Option<ParsePolicy>,
) -> Result<Content, String> {
    let config = Config {
        text_mode: TextMode::Markdown,
        candidate_select_mode: mode,
        ..Config::default()
    };
    let article = Readability::with_document(page, None, Some(config))
        .and_then(|mut page| match policy {
            Some(policy) => page.parse_with_policy(policy),
            None => page.parse(),
        })
        .map_err(|error| error.to_string())?;
    Ok(Content {
        title: article.title,
        markdown: article.text_content.to_string(),
    })
}

fn dom_smoothie(html: &str) -> Result<Content, String> {
    smoothie(Document::from(html), CandidateSelectMode::Readability, None)
}

fn dom_smoothie_own(html: &str) -> Result<Content, String> {
    smoothie(Document::from(html), CandidateSelectMode::DomSmoothie, None)
}

fn swept_dom_smoothie(html: &str) -> Result<Content, String> {
    smoothie(swept(html).0, CandidateSelectMode::Readability, None)
}

fn swept_raw(html: &str) -> Result<Content, String> {
    smoothie(
        swept(html).0,
        CandidateSelectMode::Readability,
        Some(ParsePolicy::Raw),
    )
}

fn trafilatura_with(html: &str, focus: trafilatura::ExtractionFocus) -> Result<Content, String> {
    let options = trafilatura::Options::default()
        .with_fallback(true)
        .with_links(true)
        .with_focus(focus);
    let found = trafilatura::extract(html, &options).map_err(|error| error.to_string())?;
    let markdown = format!(
        "{}\n\n{}",
        found.content_markdown(),
        found.comments_markdown()
    );
    Ok(Content {
        title: found.metadata.title,
        markdown,
    })
}

fn trafilatura(html: &str) -> Result<Content, String> {
    trafilatura_with(html, trafilatura::ExtractionFocus::Balanced)
}

fn trafilatura_recall(html: &str) -> Result<Content, String> {
    trafilatura_with(html, trafilatura::ExtractionFocus::FavorRecall)
}

fn rs_trafilatura_with(html: &str, favor_recall: bool) -> Result<Content, String> {
    let options = rs_trafilatura::Options {
        include_comments: true,
        include_links: true,
        output_markdown: true,
        favor_recall,
        ..rs_trafilatura::Options::default()
    };
    let found =
        rs_trafilatura::extract_with_options(html, &options).map_err(|error| error.to_string())?;
    let comments = found.comments_text.unwrap_or_default();
    let markdown = format!(
        "{}\n\n{comments}",
        found.content_markdown.unwrap_or(found.content_text)
    );
    Ok(Content {
        title: found.metadata.title.unwrap_or_default(),
        markdown,
    })
}

fn rs_trafilatura(html: &str) -> Result<Content, String> {
    rs_trafilatura_with(html, false)
}

fn rs_trafilatura_recall(html: &str) -> Result<Content, String> {
    rs_trafilatura_with(html, true)
}

const HIDDEN: &str = "script, style, noscript, template, svg";
const FRAME: &str = "nav, footer, aside";

fn title(page: &Document) -> String {
    let heading = page.select("h1");
    let heading = if heading.length() == 1 {
        heading
    } else {
        page.select("title")
    };
    heading
        .text()
        .trim()
        .trim_end_matches(['¶', '#'])
        .to_owned()
}

fn markdown(node: Option<NodeRef<'_>>) -> String {
    node.map(|node| node.md(Some(&["script", "style", "head"])).to_string())
        .unwrap_or_default()
}

/// How many characters without spaces a text has.
pub fn length(text: &str) -> usize {
    text.chars().filter(|char| !char.is_whitespace()).count()
}

fn body(html: &str) -> Result<Content, String> {
    let page = Document::from(html);
    let title = title(&page);
    page.select(HIDDEN).remove();
    page.select(FRAME).remove();
    Ok(Content {
        title,
        markdown: markdown(page.body()),
    })
}

/// What an extractor found, or the body where that is nearly nothing.
fn or_body(arm: Arm, html: &str) -> Result<Content, String> {
    let whole = body(html)?;
    match arm(html) {
        Ok(found) if is_enough(&found.markdown, &whole.markdown, 10) => Ok(found),
        _ => Ok(whole),
    }
}

fn is_enough(found: &str, whole: &str, percent: usize) -> bool {
    let found = length(found);
    found >= 100 && found * 100 >= length(whole) * percent
}

/// What surrounds the main content in most themes, by whole names of classes.
const BOILERPLATE: &str = "nav, footer, aside, body > header, form, button, \
    [hidden], [aria-hidden=true], [role=navigation], [role=banner], [role=contentinfo], \
    [role=dialog], [role=search], .sidebar, #sidebar, .sphinxsidebar, .related, .navbar, \
    .navigation, .nav, #nav, .navheader, .navfooter, .menu, .footer, #footer, #page-footer, \
    .breadcrumb, .breadcrumbs, .pagination, .cookie-consent, .cookie-banner, .cookie-bar, .ad, \
    .ads, .ad-slot, .advertisement, .share-bar, .headerlink, .noprint, .printfooter, \
    .related-posts, .recommended, .newsletter, .widget, #mw-navigation, .t-navbar, .topbar";
const MAIN: &[&str] = &[
    "main",
    "[role=main]",
    "article",
    "#content",
    "#main",
    ".content",
];

/// A page without what frames its main content, and its title.
fn swept(html: &str) -> (Document, String) {
    let page = Document::from(html);
    let title = title(&page);
    page.select(HIDDEN).remove();
    let all = page.body().map_or(0, |body| length(&body.text()));
    for node in page.select(BOILERPLATE).nodes() {
        if length(&node.text()) * 2 < all {
            node.remove_from_parent();
        }
    }
    (page, title)
}

/// The page's own main element where it has one, else the body, without what frames it.
fn landmarks(html: &str) -> Result<Content, String> {
    let (page, title) = swept(html);
    let Some(body) = page.body() else {
        return Err("no body".to_owned());
    };
    let rest = length(&body.text());
    let main = MAIN.iter().find_map(|selector| {
        let found = page.select(selector);
        let [node] = found.nodes() else { return None };
        (length(&node.text()) * 3 > rest).then_some(*node)
    });
    Ok(Content {
        title,
        markdown: markdown(Some(main.unwrap_or(body))),
    })
}

/// What an extractor found where it kept half of the main element, else that element. 30 % and 70 %
/// are slightly worse, 85 % much.
fn or_landmarks(arm: Arm, html: &str) -> Result<Content, String> {
    let whole = landmarks(html)?;
    match arm(html) {
        Ok(found) if is_enough(&found.markdown, &whole.markdown, 50) => Ok(found),
        _ => Ok(whole),
    }
}
