//! Tells from an item alone which upstream made it.
//!
//! An upstream that speaks the Responses API gets the items that it made back as it made
//! them, and no other upstream may see its ids and its encrypted reasoning: it would refuse
//! them. The proxy stores nothing for this. It writes the origin into the two places that
//! clients send back unchanged:
//!
//! - the item id gets a suffix ([`tag_id`]), and loses it on the way back ([`untag_id`]);
//! - `encrypted_content` gets an envelope around the upstream's own string
//!   ([`wrap`], [`unwrap`]): `rse1.<crc32>.<base64 of the origin>.<the string>`.
//!
//! The string inside is not encoded again, because it is base64 already and long.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

const VERSION: &str = "rse1";

/// The longest item id that OpenAI accepts: "string too long. Expected a string with
/// maximum length 64".
const MAX_ID: usize = 64;

/// The mark of an id that the upstream made as it is, and of one to which a prefix such as
/// `msg_` was added; without and with a `phase` that was added to the item. They are hexadecimal,
/// as the ids of OpenAI are.
const MARKS: [[&str; 2]; 2] = [["0a", "0b"], ["0c", "0d"]];

/// The marks of earlier versions, whose ids clients still send.
const EARLIER_MARKS: [[&str; 2]; 2] = [["-r", "-s"], ["-p", "-t"]];

/// Puts the origin around an upstream's `encrypted_content`. The result can be written
/// into a JSON string wherever `content` can.
pub(crate) fn wrap(origin: &str, content: &str) -> String {
    let origin = URL_SAFE_NO_PAD.encode(origin);
    let sum = crc32fast::hash(content.as_bytes());
    format!("{VERSION}.{sum:08x}.{origin}.{content}")
}

/// The upstream's own string, if [`wrap`] made the envelope for this origin.
pub(crate) fn unwrap<'c>(origin: &str, wrapped: &'c str) -> Option<&'c str> {
    let (made_by, content) = open(wrapped)?;
    (made_by == URL_SAFE_NO_PAD.encode(origin)).then_some(content)
}

/// Where the upstream's own string is in an envelope, whichever upstream made it; `None` for other
/// strings.
pub fn content_range(wrapped: &str) -> Option<Range<usize>> {
    let (_, content) = open(wrapped)?;
    Some(wrapped.len() - content.len()..wrapped.len())
}

/// Corrects the checksum of an envelope after its content, which is in this range, was
/// replaced by one of the same length.
pub fn seal_again(wrapped: &mut [u8], content: Range<usize>) {
    let sum = format!(
        "{:08x}",
        crc32fast::hash(wrapped.get(content).unwrap_or_default())
    );
    let start = VERSION.len() + 1;
    if let Some(old) = wrapped.get_mut(start..start + sum.len()) {
        old.copy_from_slice(sum.as_bytes());
    }
}

/// The encoded origin and the content of an envelope.
fn open(wrapped: &str) -> Option<(&str, &str)> {
    let rest = wrapped.strip_prefix(VERSION)?.strip_prefix('.')?;
    let (sum, rest) = rest.split_once('.')?;
    let (made_by, content) = rest.split_once('.')?;
    (sum == format!("{:08x}", crc32fast::hash(content.as_bytes()))).then_some((made_by, content))
}

/// The id under which the client sees an item of this origin. `prefix` is the one that
/// clients expect for the type of the item, such as `msg_`; an empty one means any lower-case
/// word. `adds_phase` says that the item gets a `phase` from us. `None` if the id cannot be
/// kept: it is too long or has unusual characters.
pub(crate) fn tag_id(origin: &str, id: &str, prefix: &str, adds_phase: bool) -> Option<String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if id.is_empty() || !id.bytes().all(allowed) {
        return None;
    }
    let keeps = has_prefix(id, prefix);
    if !keeps && prefix.is_empty() {
        return None;
    }
    let added = if keeps { "" } else { prefix };
    let [kept, prefixed] = MARKS;
    let [plain, with_phase] = if keeps { kept } else { prefixed };
    let mark = if adds_phase { with_phase } else { plain };
    let tagged = format!("{added}{id}{mark}{}", tag(origin));
    (tagged.len() <= MAX_ID).then_some(tagged)
}

/// The upstream's own id and whether the item got a `phase` from us, if [`tag_id`] made this
/// id for the same origin.
pub(crate) fn untag_id<'i>(origin: &str, id: &'i str) -> Option<(&'i str, bool)> {
    let rest = id.strip_suffix(tag(origin).as_str())?;
    for [kept, prefixed] in [MARKS, EARLIER_MARKS] {
        for (adds_phase, mark) in [false, true].into_iter().zip(kept) {
            if let Some(own) = rest.strip_suffix(mark) {
                return Some((own, adds_phase));
            }
        }
        for (adds_phase, mark) in [false, true].into_iter().zip(prefixed) {
            if let Some((_, own)) = rest.strip_suffix(mark).and_then(|id| id.split_once('_')) {
                return Some((own, adds_phase));
            }
        }
    }
    None
}

/// Whether [`tag_id`] made this id, for whatever origin. An id of our own, which has the 32 digits
/// of its response and two of its index, may end like a tag.
pub(crate) fn is_tagged(id: &str) -> bool {
    let is_own = |(_, digits): (&str, &str)| digits.len() == 34;
    if id.split_once('_').is_some_and(is_own) {
        return false;
    }
    let digits = id.len().saturating_sub(8);
    let Some((rest, tag)) = id.split_at_checked(digits) else {
        return false;
    };
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let mut marks = MARKS.into_iter().chain(EARLIER_MARKS).flatten();
    tag.bytes().all(is_hex) && marks.any(|mark| rest.ends_with(mark))
}

fn has_prefix(id: &str, prefix: &str) -> bool {
    let Some((word, rest)) = id.split_once('_') else {
        return false;
    };
    let is_word = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    !rest.is_empty() && is_word && id.starts_with(prefix)
}

fn tag(origin: &str) -> String {
    format!("{:08x}", crc32fast::hash(origin.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_unwrapped_byte_for_byte_by_its_origin_alone() {
        for content in ["", "gAAAAAB==", r"a.b\u00e9.c"] {
            let wrapped = wrap("acme/m", content);
            assert_eq!(unwrap("acme/m", &wrapped), Some(content));
            assert_eq!(unwrap("acme/n", &wrapped), None);
            assert_eq!(unwrap("acme/m", &format!("{wrapped}x")), None);
        }
        for foreign in [
            "",
            "gAAAA",
            "rse1",
            "rse1.",
            "rse1.0.x",
            "rsp1.00000000.e30",
        ] {
            assert_eq!(unwrap("acme/m", foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_replaced_content_is_sealed_again() {
        let mut wrapped = wrap("acme/m", "gAAAAAB==").into_bytes();
        let text = String::from_utf8(wrapped.clone()).unwrap();
        let content = content_range(&text).unwrap();
        assert_eq!(text.get(content.clone()), Some("gAAAAAB=="));
        wrapped[content.clone()].copy_from_slice(b"hijklmnop");
        assert_eq!(
            content_range(&String::from_utf8(wrapped.clone()).unwrap()),
            None
        );
        seal_again(&mut wrapped, content);
        let sealed = String::from_utf8(wrapped).unwrap();
        assert_eq!(unwrap("acme/m", &sealed), Some("hijklmnop"));
    }

    #[test]
    fn an_id_comes_back_to_its_origin_alone() {
        let long = "x".repeat(60);
        for (id, prefix, seen) in [
            ("msg_1", "msg_", Some("msg_10a")),
            ("62bf-7", "fc_", Some("fc_62bf-70c")),
            ("x_1", "msg_", Some("msg_x_10c")),
            ("xs_call_1", "", Some("xs_call_10a")),
            ("62bf", "", None),
            ("", "msg_", None),
            ("msg 1", "msg_", None),
            (long.as_str(), "msg_", None),
        ] {
            let tagged = tag_id("acme/m", id, prefix, false);
            assert_eq!(
                tagged.as_deref().and_then(|id| id.get(..id.len() - 8)),
                seen,
                "{id}"
            );
            if let Some(tagged) = tagged {
                assert!(is_tagged(&tagged) && !is_tagged(id));
                assert_eq!(untag_id("acme/m", &tagged), Some((id, false)));
                assert_eq!(untag_id("acme/n", &tagged), None);
                let phased = tag_id("acme/m", id, prefix, true).unwrap();
                assert_eq!(untag_id("acme/m", &phased), Some((id, true)));
            }
        }
        assert_eq!(untag_id("acme/m", "msg_0123456789abcdef00"), None);
    }

    /// Promise: Ids of items are hexadecimal behind their prefix, and those of earlier versions are
    /// still understood.
    #[test]
    fn an_id_of_an_earlier_version_comes_back() {
        let tag = tag("acme/m");
        for (id, own, adds_phase) in [
            ("msg_1-r", "msg_1", false),
            ("msg_1-s", "msg_1", true),
            ("fc_62bf-7-p", "62bf-7", false),
            ("msg_x_1-t", "x_1", true),
        ] {
            let tagged = format!("{id}{tag}");
            assert_eq!(untag_id("acme/m", &tagged), Some((own, adds_phase)));
            assert_eq!(untag_id("acme/n", &tagged), None);
        }
    }
}
