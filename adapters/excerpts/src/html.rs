//! Web pages, as the tags and texts that a browser shows.
//!
//! A page is read as tokens, not as a tree: reading takes one pass over it and memory for one
//! token, however its elements are nested.

use html5gum::{DefaultEmitter, HtmlString, StartTag, Token, Tokenizer};

/// A part of a page that a browser shows.
pub enum VisiblePart {
    /// An element begins.
    Open(StartTag<()>),
    /// The element with this name ends.
    Close(HtmlString),
    /// A text, with its character references decoded.
    Text(String),
}

/// The parts of a page without comments, scripts, styles and other hidden elements. A text that is
/// no page is one part.
pub fn visible_parts(html: &str) -> impl Iterator<Item = VisiblePart> {
    let mut emitter = DefaultEmitter::default();
    // Scripts and styles are one text each, whatever they hold.
    emitter.naively_switch_states(true);
    // The name of the open element whose content is hidden.
    let mut hidden: Option<HtmlString> = None;
    Tokenizer::new_with_emitter(html, emitter).filter_map(move |token| {
        let Ok(token) = token;
        match token {
            Token::StartTag(tag) if hidden.is_none() => {
                if !is_hidden(&tag) {
                    return Some(VisiblePart::Open(tag));
                }
                if !tag.self_closing || tag.name.as_slice() != b"svg" {
                    hidden = Some(tag.name);
                }
                None
            }
            Token::EndTag(tag) if hidden.is_none() => Some(VisiblePart::Close(tag.name)),
            Token::String(text) if hidden.is_none() => {
                let text = String::from_utf8_lossy(&text).into_owned();
                Some(VisiblePart::Text(text))
            }
            Token::EndTag(tag) => {
                if hidden.as_ref() == Some(&tag.name) {
                    hidden = None;
                }
                None
            }
            Token::StartTag(_)
            | Token::String(_)
            | Token::Comment(_)
            | Token::Doctype(_)
            | Token::Error(_) => None,
        }
    })
}

fn is_hidden(tag: &StartTag<()>) -> bool {
    matches!(
        tag.name.as_slice(),
        b"script" | b"style" | b"svg" | b"noscript" | b"template" | b"iframe"
    )
}
