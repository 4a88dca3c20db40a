//! Parses a page, and looks for elements that multiply.

use dom_query::{Document, NodeRef};
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::tree_builder::TreeBuilderOpts;
use html5ever::{ParseOpts, parse_document};

use super::guard::{MAX_DEPTH, PageShape};
use crate::tools::web::page::PageError;

/// How much is parsed between two looks at the size of the tree.
const PIECE_BYTES: usize = 4 << 10;
/// A page may have this many elements for each of its parts, and some more. The parser repeats what
/// is bold or a link, and was not ended, in each of the following paragraphs: few bytes could
/// become any number of elements, nested as deep.
const MAX_REPEATED: usize = 2;
const MORE_NODES: usize = 1_000;
/// Elements that are in no page, but in each tree.
const MORE_DEPTH: usize = 8;

/// The tree of a page.
pub(super) fn parse(html: &str, shape: PageShape) -> Result<Document, PageError> {
    let options = ParseOpts {
        tree_builder: TreeBuilderOpts {
            scripting_enabled: false,
            ..TreeBuilderOpts::default()
        },
        ..ParseOpts::default()
    };
    let mut parser = parse_document(Document::default(), options);
    let most = shape.parts * MAX_REPEATED + MORE_NODES;
    let mut rest = html;
    while !rest.is_empty() {
        let end = rest.floor_char_boundary(PIECE_BYTES);
        let (piece, behind) = rest.split_at_checked(end).unwrap_or((rest, ""));
        parser.process(StrTendril::from(piece));
        let page = &parser.tokenizer.sink.sink;
        page.errors.borrow_mut().clear();
        if page.tree.len() > most {
            return Err(PageError::Hostile("its elements multiply"));
        }
        rest = behind;
    }
    let page = parser.finish();
    page.errors.borrow_mut().clear();
    if is_deeper_than(page.root(), MAX_DEPTH + MORE_DEPTH) {
        return Err(PageError::Hostile("its elements are nested too deep"));
    }
    Ok(page)
}

fn is_deeper_than(root: NodeRef<'_>, most: usize) -> bool {
    let mut depth = 0;
    let mut node = root;
    loop {
        if let Some(child) = node.first_child() {
            depth += 1;
            if depth > most {
                return true;
            }
            node = child;
            continue;
        }
        loop {
            if depth == 0 {
                return false;
            }
            if let Some(next) = node.next_sibling() {
                node = next;
                break;
            }
            let Some(parent) = node.parent() else {
                return false;
            };
            depth -= 1;
            node = parent;
        }
    }
}
