//! Files and images that are text: source code, JSON, SVG. Every model can read them as text, and
//! most providers refuse them as what they are.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::value::RawValue;

use crate::content::ContentPart;
use crate::json::string_value;
use crate::text::Text;

/// With or without padding, and with stray bits at the end.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

const SVG: &str = "data:image/svg+xml";

/// The text of a part that holds text as a file or an image, with a line that says so.
pub(crate) fn of_part(part: &ContentPart<'_>) -> Option<String> {
    match part.image().and_then(Text::from_raw) {
        Some(url) => of_image(&url),
        None => of_file(part.file_data?, part.filename),
    }
}

/// Whether a part may be such a file or image, by its beginning.
pub(crate) fn may_be(part: &ContentPart<'_>) -> bool {
    match (part.image().and_then(Text::from_raw), part.file_data) {
        (Some(url), _) => is_svg(&url),
        (None, Some(data)) => {
            let name = string_value(part.filename).unwrap_or_default();
            Text::from_raw(data).is_some_and(|data| may_be_text(&data.start(128), &name))
        }
        (None, None) => false,
    }
}

pub(crate) fn is_svg(url: &Text<'_>) -> bool {
    // The only character of the beginning that needs an escape is the slash.
    let start = url.start(SVG.len() + 8);
    let start = start.trim_start().get(..SVG.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(SVG))
}

/// The text of an SVG image with this URL.
pub(crate) fn of_image(url: &Text<'_>) -> Option<String> {
    if !is_svg(url) {
        return None;
    }
    let decoded = url.decoded();
    let text = decode(&data_of_url(decoded.trim_start())?)?;
    Some(format!("[An SVG image, as text:]\n{text}"))
}

/// The text of a file with these data, a data URL or base64, and this name.
pub(crate) fn of_file(data: &RawValue, name: Option<&RawValue>) -> Option<String> {
    let name = string_value(name).unwrap_or_default();
    let data = Text::from_raw(data)?;
    if !may_be_text(&data.start(128), &name) {
        return None;
    }
    let decoded = data.decoded();
    let data = data_of_url(decoded.trim_start()).unwrap_or(Data::Base64(&decoded));
    let text = decode(&data).filter(|text| !text.starts_with("%PDF-"))?;
    let name = if name.is_empty() { "A file" } else { &name };
    Some(format!("[{name}, as text:]\n{text}"))
}

/// Whether a file may be text, by the media type at the start of its data and by its name.
fn may_be_text(start: &str, name: &str) -> bool {
    let media_type = start.trim_start().strip_prefix("data:").unwrap_or_default();
    let end = media_type.find([';', ',']).unwrap_or_default();
    let media_type = media_type.get(..end).unwrap_or_default();
    let media_type = media_type.trim().to_ascii_lowercase();
    if !matches!(
        media_type.as_str(),
        "" | "application/octet-stream" | "binary/octet-stream"
    ) {
        let (kind, rest) = media_type.split_once('/').unwrap_or_default();
        return kind == "text"
            || rest.ends_with("+json")
            || rest.ends_with("+xml")
            || TEXT_SUBTYPES.contains(&rest.trim_start_matches("x-"));
    }
    let extension = name
        .rsplit_once('.')
        .map(|(_, end)| end.to_ascii_lowercase());
    !extension.is_some_and(|extension| BINARY_EXTENSIONS.contains(&extension.as_str()))
}

/// Types of text that are not `text/…`.
const TEXT_SUBTYPES: [&str; 20] = [
    "json",
    "ndjson",
    "jsonl",
    "jsonlines",
    "json5",
    "xml",
    "yaml",
    "toml",
    "javascript",
    "typescript",
    "ecmascript",
    "sh",
    "shellscript",
    "python",
    "ruby",
    "perl",
    "php",
    "httpd-php",
    "sql",
    "graphql",
];

/// Files of a name without a media type are text unless they end so or hold something else.
const BINARY_EXTENSIONS: [&str; 12] = [
    "pdf", "doc", "docx", "xls", "xlsx", "ppt", "pptx", "odt", "zip", "gz", "png", "jpg",
];

/// The content of a data URL, as it is encoded.
enum Data<'d> {
    Base64(&'d str),
    Percent(&'d str),
}

fn data_of_url(url: &str) -> Option<Data<'_>> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let is_base64 = head.trim_end().to_ascii_lowercase().ends_with(";base64");
    Some(if is_base64 {
        Data::Base64(data)
    } else {
        Data::Percent(data)
    })
}

/// The text; `None` for data that are no text in UTF-8, or in UTF-16 with its mark.
fn decode(data: &Data<'_>) -> Option<String> {
    let bytes = match data {
        Data::Base64(data) => {
            let data: Vec<u8> = data
                .bytes()
                .filter(|byte| !byte.is_ascii_whitespace())
                .collect();
            BASE64.decode(data).ok()?
        }
        Data::Percent(data) => percent_encoding::percent_decode_str(data).collect(),
    };
    let is_control = |byte: &u8| matches!(byte, 0..=8 | 14..=26 | 28..=31);
    let text = match bytes.get(..2) {
        Some([0xFF, 0xFE]) => of_utf16(&bytes, u16::from_le_bytes)?,
        Some([0xFE, 0xFF]) => of_utf16(&bytes, u16::from_be_bytes)?,
        _ => String::from_utf8(bytes).ok()?,
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    (!text.as_bytes().iter().any(is_control)).then(|| text.to_owned())
}

fn of_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<String> {
    let (units, rest) = bytes.as_chunks();
    let units: Vec<u16> = units.iter().copied().map(unit).collect();
    String::from_utf16(&units).ok().filter(|_| rest.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::{json, value::to_raw_value};

    use super::*;

    fn file(data: &str, name: Option<&str>) -> Option<String> {
        let raw = |text: &str| to_raw_value(&json!(text)).unwrap();
        of_file(&raw(data), name.map(raw).as_deref())
    }

    #[test]
    fn a_file_is_text_by_its_type_its_name_and_what_it_holds() {
        for (data, name, text) in [
            (
                "data:text/csv;base64,YSxi",
                Some("a.csv"),
                Some("[a.csv, as text:]\na,b"),
            ),
            (
                "data:text/plain;charset=utf-8,a%20b%C3%A9%",
                None,
                Some("[A file, as text:]\na bé%"),
            ),
            (
                "data:application/json;base64,e30=",
                Some("a"),
                Some("[a, as text:]\n{}"),
            ),
            (
                "data:application/ld+json;base64,e30",
                Some("a"),
                Some("[a, as text:]\n{}"),
            ),
            (
                "data:application/x-yaml;base64,YTog\nMQ==",
                Some("a.yml"),
                Some("[a.yml, as text:]\na: 1"),
            ),
            (
                "data:application/octet-stream;base64,bWFpbg==",
                Some("Makefile"),
                Some("[Makefile, as text:]\nmain"),
            ),
            (
                "Zm4gbWFpbigpIHt9",
                Some("main.rs"),
                Some("[main.rs, as text:]\nfn main() {}"),
            ),
            ("77u/YQ==", Some("bom.txt"), Some("[bom.txt, as text:]\na")),
            (
                "//5hAOkA",
                Some("utf16.txt"),
                Some("[utf16.txt, as text:]\naé"),
            ),
            (
                "/v8AYQDp",
                Some("utf16.txt"),
                Some("[utf16.txt, as text:]\naé"),
            ),
            // A PDF, whatever its name, a picture, and what is in no known encoding.
            ("data:application/pdf;base64,JVBERi0=", Some("a.pdf"), None),
            ("JVBERi0=", Some("a.txt"), None),
            ("JVBERi0=", Some("A.PDF"), None),
            ("data:image/png;base64,iVBORw0KGgo=", Some("a.txt"), None),
            ("data:text/plain;base64,/+8=", Some("a.txt"), None),
            ("data:text/plain;base64,YQBi", Some("a.txt"), None),
            ("data:text/plain;base64,*", Some("a.txt"), None),
        ] {
            assert_eq!(file(data, name).as_deref(), text, "{data} {name:?}");
        }
    }

    #[test]
    fn only_an_svg_image_is_text() {
        for (url, text) in [
            (
                "data:image/svg+xml;base64,PHN2Zy8+",
                Some("[An SVG image, as text:]\n<svg/>"),
            ),
            (
                "data:image/svg+xml;utf8,%3Csvg/%3E",
                Some("[An SVG image, as text:]\n<svg/>"),
            ),
            ("DATA:IMAGE/SVG+XML,<svg/>", None),
            ("data:image/png;base64,iVBORw0KGgo=", None),
            ("https://example.org/a.svg", None),
        ] {
            assert_eq!(of_image(&Text::from(url)).as_deref(), text, "{url}");
        }
        let escaped: &RawValue = serde_json::from_str(r#""data:image\/svg+xml,<svg\/>""#).unwrap();
        let escaped = Text::from_raw(escaped).unwrap();
        assert_eq!(
            of_image(&escaped).as_deref(),
            Some("[An SVG image, as text:]\n<svg/>")
        );
    }
}
