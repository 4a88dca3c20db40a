//! What says nothing. Providers refuse a message of the model that has neither
//! text nor calls.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::text::Text;
use crate::turn::Item;

/// Longer content is not empty, or so strange that it is not worth reading.
const SHORT: usize = 1024;

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
}

/// Whether a message holds nothing but empty texts.
pub(super) fn message(item: &Item<'_>) -> bool {
    match item.plain_text() {
        Some(text) => text.is_empty(),
        None => nothing(item.content()),
    }
}

/// Whether a reasoning item holds nothing.
pub(super) fn reasoning(item: &Item<'_>) -> bool {
    item.encrypted_content().is_none_or(|blob| blob.is_empty()) && thought(item)
}

/// Whether a reasoning item has no thought that can be read.
pub(super) fn thought(item: &Item<'_>) -> bool {
    nothing(item.content()) && nothing(item.summary())
}

fn nothing(raw: Option<&RawValue>) -> bool {
    let Some(json) = raw.map(RawValue::get).filter(|json| *json != "null") else {
        return true;
    };
    if json.len() > SHORT {
        return false;
    }
    let empty = |raw: &RawValue| Text::from_raw(raw).is_some_and(|text| text.is_empty());
    json == "\"\""
        || serde_json::from_str::<Vec<Part<'_>>>(json).is_ok_and(|parts| {
            parts
                .iter()
                .all(|part| part.text.or(part.refusal).is_some_and(empty))
        })
}
