use proptest::prelude::*;

use super::*;
use crate::tools::web::fetch::MAX_URL;

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
        "[new bridge](https://example.com/bridge)",
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

/// Promise: A link of a page that is read has a whole address, so that it can be opened, whatever
/// the page calls its base; a place in the same page and what is no page stay as they are.
#[test]
fn addresses_of_links_are_whole() {
    let links = r##"<a href="b/c?d">1</a> <a href=" /e ">2</a> <a href="//other.example/f">3</a>
        <a href="https://other.example/g">4</a> <a href="?q=1">5</a> <a href="#h">6</a>
        <a href="mailto:i@example.com">7</a> <a href="javascript:j()">8</a> <a href="">9</a>
        <img src="k.png" alt="10"> <a href="httpd.html">11</a>"##;
    let text = "A sentence that is long enough to be the content of a page. ".repeat(5);
    // Each link takes time in proportion to its base.
    let too_long = format!("<base href='/{}/'>", "d".repeat(MAX_URL));
    for (base, expected) in [
        ("", "https://example.com/news/"),
        ("<base href='/docs/x'>", "https://example.com/docs/"),
        (
            "<base href='https://mirror.example/'>",
            "https://mirror.example/",
        ),
        ("<base href='file:///etc/'>", "https://example.com/news/"),
        (&too_long, "https://example.com/news/"),
    ] {
        let html = format!("<head>{base}</head><main><p>{text}</p><p>{links}</p></main>");
        let markdown = read(&html).unwrap().markdown;
        let root = Url::parse(expected).unwrap();
        let whole = |address: &str| root.join(address).unwrap();
        for link in [
            format!("[1]({})", whole("b/c?d")),
            format!("[2]({})", whole("/e")),
            "[3](https://other.example/f)".to_owned(),
            "[4](https://other.example/g)".to_owned(),
            "[6](#h)".to_owned(),
            "[7](mailto:i@example.com)".to_owned(),
            format!("![10]({})", whole("k.png")),
            format!("[11]({})", whole("httpd.html")),
        ] {
            assert!(markdown.contains(&link), "{base}: {link}: {markdown}");
        }
        assert!(!markdown.contains("file:"), "{markdown}");
    }
}

/// A page whose many short links have a long base becomes at most twice as long.
#[test]
fn a_long_base_does_not_multiply_a_page() {
    let text = "A sentence that is long enough to be the content of a page. ".repeat(5);
    let links = "<a href='b'>c</a> ".repeat(20_000);
    let base = format!("<base href='/{}/'>", "d".repeat(1_900));
    let html = format!("<head>{base}</head><main><p>{text}</p><p>{links}</p></main>");
    let markdown = read(&html).unwrap().markdown;
    assert!(
        markdown.len() < 2 * html.len() + (128 << 10),
        "{}",
        markdown.len()
    );
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
        ("many", "<br>".repeat(900_000)),
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
