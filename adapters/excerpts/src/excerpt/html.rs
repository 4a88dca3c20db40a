//! The text of an HTML page, without its tags, scripts and styles.

use html5gum::StartTag;

use crate::html::{VisiblePart, visible_parts};

/// An excerpt does not need more bytes of text than this.
const MAX_TEXT_BYTES: usize = 24 * 1024;

/// Whether a text has HTML tags.
pub(super) fn is_tagged(text: &str) -> bool {
    memchr::memmem::find(text.as_bytes(), b"</").is_some()
}

/// The text between the tags, with a heading as `# …`, a link as `[text](address)`, and a
/// line end where a block begins. A long text is cut.
pub(super) fn plain(html: &str) -> String {
    let mut page = HtmlText::default();
    for part in visible_parts(html) {
        match part {
            VisiblePart::Open(tag) => page.open(&tag),
            VisiblePart::Close(name) => page.close(&name),
            VisiblePart::Text(text) => page.text(&text),
        }
        if page.out.len() > MAX_TEXT_BYTES {
            break;
        }
    }
    page.out
}

#[derive(Default)]
struct HtmlText {
    out: String,
    /// Where the text of the open link begins, and its address.
    link: Option<(usize, String)>,
}

impl HtmlText {
    fn text(&mut self, text: &str) {
        for character in text.chars() {
            if character.is_whitespace() {
                self.gap(character == '\n');
            } else if !character.is_control() {
                self.out.push(character);
            }
            if self.out.len() > MAX_TEXT_BYTES {
                return;
            }
        }
    }

    fn gap(&mut self, line: bool) {
        if self.out.is_empty() || self.out.ends_with('\n') {
            return;
        }
        if line {
            self.out.truncate(self.out.trim_end_matches(' ').len());
            self.out.push('\n');
        } else if !self.out.ends_with(' ') {
            self.out.push(' ');
        }
    }

    fn open(&mut self, tag: &StartTag<()>) {
        match tag.name.as_slice() {
            b"a" => {
                self.close_link();
                let address = tag.attributes.get(b"href".as_slice());
                let address = address.map(|address| String::from_utf8_lossy(address).into_owned());
                let address = address.filter(|address| address.starts_with("http"));
                self.link = address.map(|address| (self.out.len(), address));
            }
            name => {
                self.block(name);
                match name {
                    b"h1" | b"h2" | b"h3" | b"h4" | b"title" => self.out.push_str("# "),
                    b"li" => self.out.push_str("- "),
                    _ => {}
                }
            }
        }
    }

    fn close(&mut self, name: &[u8]) {
        if name == b"a" {
            self.close_link();
        } else {
            self.block(name);
        }
    }

    /// Separates what precedes the tag of an element from what follows it.
    fn block(&mut self, name: &[u8]) {
        match name {
            b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" | b"title" | b"p" | b"div" | b"br"
            | b"ul" | b"ol" | b"li" | b"tr" | b"table" | b"section" | b"article" | b"header"
            | b"footer" | b"nav" | b"main" | b"pre" | b"blockquote" | b"body" | b"head" | b"dt"
            | b"dd" | b"form" | b"button" | b"option" => self.gap(true),
            b"td" | b"th" => self.gap(false),
            _ => {}
        }
    }

    fn close_link(&mut self) {
        let Some((start, address)) = self.link.take() else {
            return;
        };
        let text = self.out.get(start..).unwrap_or_default().trim();
        if text.is_empty() {
            return;
        }
        let link = format!("[{}]({address})", text.replace('\n', " "));
        self.out.truncate(start);
        self.out.push_str(&link);
    }
}
