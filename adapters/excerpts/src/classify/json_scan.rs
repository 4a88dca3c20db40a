//! Checks whether a text is JSON.

use serde::de::IgnoredAny;

/// How much of a text whose middle is missing must be JSON.
const MIN_VALID_BYTES: usize = 200;

/// Whether a text is one JSON object or array, or several in a row, however deep they are nested.
/// `cut` says that the middle of the text is missing: then it is enough that it begins so.
pub(crate) fn is_json(text: &str, cut: bool) -> bool {
    let mut rest = text;
    loop {
        rest = rest.trim_ascii_start();
        if !rest.starts_with(['{', '[']) {
            return rest.is_empty() && !text.is_empty();
        }
        let mut documents = serde_json::Deserializer::from_str(rest).into_iter::<IgnoredAny>();
        match documents.next() {
            Some(Ok(_)) => rest = rest.get(documents.byte_offset()..).unwrap_or_default(),
            Some(Err(error)) => {
                let read = text.len() - rest.len() + error_offset(rest, &error);
                return cut && read >= MIN_VALID_BYTES;
            }
            None => return false,
        }
    }
}

/// The byte at which a text stops to be JSON.
fn error_offset(text: &str, error: &serde_json::Error) -> usize {
    let lines = text.split_inclusive('\n').take(error.line() - 1);
    lines.map(str::len).sum::<usize>() + error.column()
}
