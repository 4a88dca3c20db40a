//! The citations that the proxy has added to the messages of this upstream: they stand for the links
//! of a text to pages that tools of the proxy have found, and go no further than the client.

use std::collections::HashSet;

use memchr::memmem;
use serde_json::value::RawValue;

use crate::json;
use crate::members::{Members, rewrite};

/// The `content` of a message without the citations of these pages; `None` if it has none.
pub(super) fn without_citations(message: &Members<'_>, pages: &HashSet<&str>) -> Option<String> {
    let content = message.get("content")?;
    let names_any = memmem::find(content.get().as_bytes(), b"url_citation").is_some();
    if pages.is_empty() || !names_any {
        return None;
    }
    let mut changed = false;
    let mut out = vec![b'['];
    for part in json::list::<Members<'_>>(Some(content)) {
        let annotations: Vec<&RawValue> = json::list(part.get("annotations"));
        let kept = annotations.iter().filter(|it| !cites_one_of(it, pages));
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

fn cites_one_of(annotation: &RawValue, pages: &HashSet<&str>) -> bool {
    let members = Members::read(annotation.get()).unwrap_or_default();
    members.text("type").as_deref() == Some("url_citation")
        && members.text("url").is_some_and(|url| pages.contains(&*url))
}
