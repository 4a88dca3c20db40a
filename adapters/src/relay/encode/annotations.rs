//! The citations that the proxy has added to messages of this upstream, for the links of a text to
//! pages that tools of the proxy have found. Only the client gets them.

use std::collections::HashMap;

use memchr::memmem;
use serde_json::value::RawValue;

use crate::json;
use crate::members::{Members, rewrite};

/// The `content` of a message without the citations of the first `known` of these pages, which were
/// found before it; `None` if it has none. What is found later changes no message, so that a prompt
/// stays as it was.
pub(super) fn without_citations(
    message: &Members<'_>,
    known: usize,
    pages: &HashMap<&str, usize>,
) -> Option<String> {
    let content = message.get("content")?;
    let names_any = memmem::find(content.get().as_bytes(), b"url_citation").is_some();
    if !names_any {
        return None;
    }
    let is_found = |url: &str| pages.get(url).is_some_and(|place| *place < known);
    let mut changed = false;
    let mut out = vec![b'['];
    for part in json::list::<Members<'_>>(Some(content)) {
        let annotations: Vec<&RawValue> = json::list(part.get("annotations"));
        let kept = annotations.iter().filter(|it| !cites_one_of(it, is_found));
        let kept: Vec<&str> = kept.map(|it| it.get()).collect();
        let mut changes = Vec::new();
        if kept.len() < annotations.len() {
            changed = true;
            changes.push(("annotations", Some(format!("[{}]", kept.join(",")))));
        }
        json::separate(&mut out);
        rewrite(&mut out, &part, &changes);
    }
    out.push(b']');
    String::from_utf8(out).ok().filter(|_| changed)
}

fn cites_one_of(annotation: &RawValue, is_found: impl Fn(&str) -> bool) -> bool {
    let members = Members::read(annotation.get()).unwrap_or_default();
    members.text("type").as_deref() == Some("url_citation")
        && members.text("url").is_some_and(|url| is_found(&url))
}
