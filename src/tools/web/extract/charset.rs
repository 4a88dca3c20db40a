//! Decodes the bytes of a page.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use html5gum::{Token, Tokenizer};

/// Browsers look for `<meta charset>` in the first bytes of a page, up to this many.
const META_BYTES: usize = 1_024;

/// The text of a page. Its encoding is that of the header, else that of a byte order mark, else
/// that of a `<meta>` element at the beginning. Without any it is UTF-8, if it can be, or
/// Windows-1252, as in browsers. What is broken becomes U+FFFD.
pub fn decode<'b>(body: &'b [u8], content_type: &str) -> Cow<'b, str> {
    let marked = || Encoding::for_bom(body).map(|(encoding, _)| encoding);
    let named = of_header(content_type).or_else(marked);
    let encoding = named.or_else(|| of_meta(body)).unwrap_or_else(|| {
        if str::from_utf8(body).is_ok() {
            UTF_8
        } else {
            WINDOWS_1252
        }
    });
    encoding.decode_with_bom_removal(body).0
}

fn of_header(content_type: &str) -> Option<&'static Encoding> {
    let mut parameters = content_type.split(';').skip(1);
    parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let is_charset = name.trim().eq_ignore_ascii_case("charset");
        let label = value.trim().trim_matches(['"', '\'']);
        is_charset.then(|| Encoding::for_label(label.as_bytes()))?
    })
}

fn of_meta(body: &[u8]) -> Option<&'static Encoding> {
    let begin = body.get(..META_BYTES).unwrap_or(body);
    let found = Tokenizer::new(begin).find_map(|token| {
        let Ok(Token::StartTag(tag)) = token else {
            return None;
        };
        if tag.name.as_slice() != b"meta" {
            return None;
        }
        let attribute = |name: &[u8]| tag.attributes.get(name).map(|value| value.to_vec());
        if let Some(label) = attribute(b"charset") {
            return Encoding::for_label(&label);
        }
        let names_type = attribute(b"http-equiv")?.eq_ignore_ascii_case(b"content-type");
        let content = String::from_utf8(attribute(b"content")?).ok()?;
        names_type.then(|| of_header(&content))?
    })?;
    // It could not have been read if it were true.
    let is_wide = found == UTF_16LE || found == UTF_16BE;
    Some(if is_wide { UTF_8 } else { found })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: A page in any encoding of the web is read: header, then byte order mark, then
    /// `<meta charset>` say which.
    #[test]
    fn a_page_is_decoded_as_its_header_its_mark_or_its_meta_element_says() {
        let meta = b"<html><head><meta charset=\"Shift_JIS\"></head>\x93\xfa\x96\x7b\x8c\xea";
        let equiv = b"<meta http-equiv=Content-Type content='text/html; charset=GBK'>\xc4\xe3";
        let wide = b"<meta charset=utf-16>caf\xc3\xa9";
        let late = [&[b' '; META_BYTES][..], b"<meta charset=koi8-r>\xc4\xe3"].concat();
        let cases: [(&str, &[u8], &str); 11] = [
            ("text/html; charset=utf-8", "日本語".as_bytes(), "日本語"),
            ("text/html; Charset=\"EUC-KR\"", b"\xc7\xd1", "한"),
            ("text/html; charset=iso-8859-1", meta, "“ú–{Œê"),
            ("text/html", meta, "日本語"),
            ("text/html", equiv, "你"),
            ("text/html", wide, "café"),
            ("text/html", &late, "Äã"),
            ("text/html", b"\xff\xfeh\0i\0", "hi"),
            ("text/html", b"\xef\xbb\xbfhi", "hi"),
            ("text/html", b"caf\xe9", "café"),
            ("text/html; charset=nonsense", "café".as_bytes(), "café"),
        ];
        for (content_type, body, expected) in cases {
            let text = decode(body, content_type);
            assert!(text.ends_with(expected), "{content_type}: {text}");
        }
        assert_eq!(decode(b"\xef\xbb\xbfhi", "text/html"), "hi");
    }
}
