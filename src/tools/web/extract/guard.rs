//! Refuses pages that take all the time, the stack or the memory of a parser, before one sees them.

use html5gum::{DefaultEmitter, Token, Tokenizer};

use crate::tools::web::page::PageError;

/// The most bytes of a page.
pub const MAX_PAGE_BYTES: usize = 10 << 20;
/// The most elements that are open at once. Parsers compare a tag with each of them.
pub(super) const MAX_DEPTH: usize = 256;
/// The most attributes of an element. Parsers compare each with each other one.
const MAX_ATTRIBUTES: usize = 256;
/// The most tags, texts and comments. People do not write pages with more.
const MAX_PARTS: usize = 800_000;
/// How many elements are around all parts of a page together, at most. An item of a list is copied
/// once for each list around it, with more space before it.
const MAX_NESTED_PARTS: usize = 8_000_000;

const WITHOUT_END: &[&[u8]] = &[
    b"area", b"base", b"br", b"col", b"embed", b"hr", b"img", b"input", b"link", b"meta",
    b"source", b"track", b"wbr",
];
/// Elements whose end may be left out: the next one ends them.
const ENDED_BY_THE_NEXT: &[&[u8]] = &[
    b"p", b"li", b"dt", b"dd", b"tr", b"td", b"th", b"thead", b"tbody", b"tfoot", b"option",
];

/// What the size of a page does not tell of the work that it makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageShape {
    /// The bytes of the page.
    pub(super) bytes: usize,
    /// Its tags, texts and comments.
    pub(super) parts: usize,
    /// The attributes of its tags.
    attributes: usize,
    /// The bytes of its texts, each as often as elements are around it.
    pub(super) nested_bytes: usize,
}

impl PageShape {
    /// Looks at a page. Fails if it is larger, or its elements are nested deeper or have more
    /// attributes, than in any page that people write. An end tag counts only where it ends an open
    /// element, since a parser ignores all others.
    pub fn of(html: &str) -> Result<Self, PageError> {
        let mut shape = Self {
            bytes: html.len(),
            ..Self::default()
        };
        if html.len() > MAX_PAGE_BYTES {
            return Err(PageError::Hostile("it is too large"));
        }
        let mut emitter = DefaultEmitter::<()>::default();
        emitter.naively_switch_states(true);
        let mut open: Vec<Vec<u8>> = Vec::new();
        let mut nested_parts = 0;
        for token in Tokenizer::new_with_emitter(html, emitter) {
            let Ok(token) = token;
            shape.parts += usize::from(!matches!(token, Token::Error(_)));
            if shape.parts > MAX_PARTS {
                return Err(PageError::Hostile("it has too many elements"));
            }
            nested_parts += open.len();
            match token {
                Token::StartTag(tag) => {
                    shape.attributes += tag.attributes.len();
                    if tag.attributes.len() > MAX_ATTRIBUTES {
                        return Err(PageError::Hostile("an element has too many attributes"));
                    }
                    begin(&mut open, &tag.name);
                    if open.len() > MAX_DEPTH || nested_parts > MAX_NESTED_PARTS {
                        return Err(PageError::Hostile("its elements are nested too deep"));
                    }
                }
                Token::EndTag(tag) => {
                    let name: &[u8] = &tag.name;
                    if let Some(at) = open.iter().rposition(|element| element == name) {
                        open.truncate(at);
                    }
                }
                Token::String(text) => {
                    let nested = text.len().saturating_mul(open.len());
                    shape.nested_bytes = shape.nested_bytes.saturating_add(nested);
                }
                Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
            }
        }
        Ok(shape)
    }

    /// The most memory that the content of the page takes while it is looked for, in bytes: trees
    /// of its elements, and copies of its text.
    pub fn memory(self) -> usize {
        self.bytes * BYTE_COPIES + self.parts * PART_BYTES + self.attributes * ATTRIBUTE_BYTES
    }
}

/// What a byte, a part and an attribute of a page become, at most: up to three trees of nodes in
/// vectors that have doubled, and twice the Markdown. That was measured as 12 bytes for each byte,
/// 600 for each part and 120 for each attribute. Addresses that are made whole may add as many
/// bytes as the page has, to a tree and to both texts.
const BYTE_COPIES: usize = 15;
const PART_BYTES: usize = 600;
const ATTRIBUTE_BYTES: usize = 120;

fn begin(open: &mut Vec<Vec<u8>>, name: &[u8]) {
    if WITHOUT_END.contains(&name) {
        return;
    }
    let ended = |name: &[u8]| ENDED_BY_THE_NEXT.contains(&name);
    if ended(name) {
        // What ends without an end tag goes up to the last element that stays open.
        let first = open.iter().rposition(|element| !ended(element));
        let first = first.map_or(0, |at| at + 1);
        let mut rest = open.iter().skip(first);
        if let Some(at) = rest.position(|element| element == name) {
            open.truncate(first + at);
        }
    }
    open.push(name.to_vec());
}
