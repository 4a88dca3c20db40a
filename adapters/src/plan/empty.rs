//! Finds items without content. Providers refuse an assistant message that has neither
//! text nor calls.

use serde_json::value::RawValue;

use crate::content;
use crate::text::Text;
use crate::turn::Item;

/// Content with more bytes of JSON counts as not empty without being parsed.
const MAX_EMPTY_BYTES: usize = 1024;

/// Whether a message holds nothing but empty texts.
pub(super) fn is_empty_message(item: &Item<'_>) -> bool {
    match item.plain_text() {
        Some(text) => text.is_empty(),
        None => is_empty_content(item.content()),
    }
}

/// Whether a reasoning item has neither readable text nor encrypted content.
pub(super) fn is_empty_reasoning(item: &Item<'_>) -> bool {
    item.encrypted_content().is_none_or(|blob| blob.is_empty()) && has_no_readable_reasoning(item)
}

pub(super) fn has_no_readable_reasoning(item: &Item<'_>) -> bool {
    is_empty_content(item.content()) && is_empty_content(item.summary())
}

fn is_empty_content(raw: Option<&RawValue>) -> bool {
    let Some(json) = raw.map(RawValue::get).filter(|json| *json != "null") else {
        return true;
    };
    if json.len() > MAX_EMPTY_BYTES {
        return false;
    }
    let is_empty = |raw: &RawValue| Text::from_raw(raw).is_some_and(|text| text.is_empty());
    json == "\"\""
        || content::read_parts(json)
            .is_ok_and(|parts| parts.iter().all(|part| part.text().is_some_and(is_empty)))
}
