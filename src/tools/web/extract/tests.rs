use proptest::prelude::*;

use super::*;

fn read(html: &str) -> Result<PageContent, PageError> {
    let url = Url::parse("https://example.com/news/1?q=2").unwrap();
    extract(html, PageShape::of(html)?, &url)
}

const NEWS: &str = r#"<!DOCTYPE html><html><head><title>The harbour - News</title>
<link rel="canonical" href="/news/1">
<script type="application/ld+json">{"@graph": [{"@type": "WebPage"},
 {"@type": "NewsArticle", "datePublished": "2026-03-01T09:00:00Z"}]}</script></head>
<body><nav><ul><li><a href="/">Home</a><li><a href="/about">About us</a></ul></nav>
<main><article><h1>The harbour opens again</h1>
<p>After <b>four years</b> of work the harbour opens on Sunday, said the mayor, and everybody is
invited to see the <a href="/bridge">new bridge</a>.</p>
<p class="newsletter">Subscribe to our letters, which come each week, with news of all harbours.</p>
<pre><code>barge --tide high
</code></pre>
<table><tr><th>Ship</th><th>Day</th></tr><tr><td>Anna</td><td>Sunday</td></tr></table>
<p>The first ship is expected at noon, and a band will play, as it did when the harbour closed.</p>
</article></main>
<aside class="sidebar">Read also: nothing of the kind</aside>
<footer>All rights reserved</footer><script>track("everything")</script></body></html>"#;

/// Promise: Of a web page its main content is read as Markdown, without navigation, scripts and
/// footers, with its title, its own address and its date.
#[test]
fn the_main_content_is_markdown_without_what_frames_it() {
    let content = read(NEWS).unwrap();
    assert!(
        content.title.starts_with("The harbour"),
        "{}",
        content.title
    );
    assert_eq!(
        content.canonical.as_deref(),
        Some("https://example.com/news/1")
    );
    assert_eq!(content.published.as_deref(), Some("2026-03-01T09:00:00Z"));
    let markdown = &content.markdown;
    for shown in [
        "**four years**",
        "[new bridge](/bridge)",
        "```\nbarge --tide high",
        "| Anna | Sunday |",
        "a band will play",
    ] {
        assert!(markdown.contains(shown), "{shown}: {markdown}");
    }
    for hidden in [
        "Home",
        "Subscribe",
        "Read also",
        "rights",
        "track",
        "<div",
        "<p>",
    ] {
        assert!(!markdown.contains(hidden), "{hidden}: {markdown}");
    }
}

#[test]
fn dates_and_addresses_of_a_page_are_used_only_if_they_can_be() {
    let text = "words ".repeat(40);
    let page = |head: &str| read(&format!("<head>{head}</head><body><p>{text}</p>")).unwrap();
    for (head, canonical, published) in [
        ("", None, None),
        ("<link rel=canonical href='file:///etc/passwd'>", None, None),
        ("<link rel=canonical href='//example.com:25/'>", None, None),
        (
            "<meta property=og:url content='https://other.example/'>\
             <meta property='article:published_time' content=' 2026-01-02\n'>",
            Some("https://other.example/"),
            Some("2026-01-02"),
        ),
        (
            "<script type='application/ld+json'>{\"datePublished\": [[]]}</script>\
             <script type='application/ld+json'>{broken</script>\
             <script type='application/ld+json'>[1, {\"datePublished\": \"2026\"}]</script>",
            None,
            Some("2026"),
        ),
    ] {
        let content = page(head);
        assert_eq!(content.canonical.as_deref(), canonical, "{head}");
        assert_eq!(content.published.as_deref(), published, "{head}");
    }
    let title = format!("<title>{}</title>", "標".repeat(900));
    assert_eq!(page(&title).title.chars().count(), 500);
}

/// Promise: A page with fewer than 100 characters of text is a failure, not an empty page.
#[test]
fn a_page_needs_a_hundred_characters() {
    for (length, expected) in [
        (99, Err(PageError::TooShort(99))),
        (100, Ok("字".repeat(100))),
    ] {
        let html = format!("<title>T</title><body><p>{}</p>", "字".repeat(length));
        let markdown = read(&html).map(|content| content.markdown.trim().to_owned());
        assert_eq!(markdown, expected, "{length}");
    }
    assert_eq!(read(""), Err(PageError::TooShort(0)));
    let shell = "<body><div id=root></div><script>render()</script>";
    assert_eq!(read(shell), Err(PageError::TooShort(0)));
}

/// Promise: A page that is built to take all time, stack or memory of a parser is refused.
#[test]
fn pages_that_no_parser_survives_are_refused() {
    let numbered = |count: usize, make: fn(usize) -> String| -> String {
        let made: Vec<String> = (0..count).map(make).collect();
        made.concat()
    };
    let attributes = numbered(300, |number| format!(" a{number}=1"));
    let links = numbered(200, |number| format!("<b a={number}>"));
    let deeper = numbered(100, |number| format!("<p><b a={number}><i a={number}></p>"));
    for (name, html) in [
        ("nested", "<div>".repeat(300)),
        ("unclosed", "<span>word ".repeat(300)),
        ("attributes", format!("<div{attributes}>text</div>")),
        ("large", "x".repeat(MAX_PAGE_BYTES + 1)),
        ("many", "<br>".repeat(500_000)),
        (
            "lists in lists",
            "<ul><li>".repeat(120) + &"<ul><li>x</ul>".repeat(20_000),
        ),
        (
            "repeated",
            format!("<p>{links}</p>{}", "<p>x</p>".repeat(2_000)),
        ),
        (
            "repeated and deeper",
            format!("{deeper}<p>x</p>").repeat(20),
        ),
    ] {
        let refused = read(&html);
        assert!(
            matches!(refused, Err(PageError::Hostile(_))),
            "{name}: {refused:?}"
        );
    }
}

/// A page may be as deep as the guard allows on the stack of a thread that blocks.
#[test]
fn the_deepest_page_fits_the_stack() {
    let html = format!(
        "<body>{}<p>{}",
        "<blockquote><ul><li><b>".repeat(63),
        "word ".repeat(50)
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let content = runtime.block_on(runtime.spawn_blocking(move || read(&html)));
    assert!(content.unwrap().unwrap().markdown.contains("word word"));
}

/// A tag, a text or nonsense, as pages have them.
fn piece() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "p",
        "div",
        "b",
        "i",
        "a",
        "table",
        "tr",
        "td",
        "svg",
        "math",
        "select",
        "template",
        "script",
        "style",
        "noscript",
        "title",
        "body",
        "html",
        "frameset",
        "form",
        "button",
        "li",
        "ul",
        "h1",
        "pre",
        "code",
        "br",
        "img",
        "main",
        "article",
        "nav",
        "aside",
        "meta",
        "link",
        "blockquote",
        "textarea",
        "plaintext",
        "caption",
        "nobr",
        "font",
        "ruby",
        "rt",
        "option",
    ]);
    prop_oneof![
        name.clone().prop_map(|name| format!("<{name}>")),
        name.clone().prop_map(|name| format!("</{name}>")),
        (name, "[a-z]{1,8}", "[ -~]{0,12}")
            .prop_map(|(name, attribute, value)| format!("<{name} {attribute}=\"{value}\">")),
        "[a-z .,\n字]{0,40}".prop_map(|text| text.repeat(3)),
        "[<>&!\\-/='\"\\[\\]\u{0}\u{fffd}]{0,9}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever bytes a server sends, they are read or refused, and what is read is no larger than
    /// a few times what was sent.
    #[test]
    fn any_page_is_read_or_refused(pieces in prop::collection::vec(piece(), 0..120), bytes: Vec<u8>) {
        let html = pieces.concat();
        for body in [html.as_bytes(), &bytes, &[html.as_bytes(), &bytes].concat()] {
            let text = decode(body, "text/html");
            prop_assert!(text.len() <= body.len() * 3);
            if let Ok(content) = read(&text) {
                prop_assert!(content.markdown.len() <= text.len() * 4 + (64 << 10));
                prop_assert!(length(&content.markdown) >= MIN_CONTENT_CHARS);
            }
        }
    }
}
