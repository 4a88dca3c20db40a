//! Compact copies of header maps.

use http::HeaderMap;

/// Headers as one buffer of `name:value\n` lines. A clone of the header map would
/// keep the read buffers alive that its values point into, which are many times as
/// large.
#[derive(Default)]
pub(super) struct RecordedHeaders(Vec<u8>);

impl RecordedHeaders {
    pub(super) fn from_map(headers: &HeaderMap) -> Self {
        let parts = headers.iter();
        let size = parts.map(|(name, value)| name.as_str().len() + value.len() + 2);
        let mut lines = Vec::with_capacity(size.sum());
        for (name, value) in headers {
            lines.extend_from_slice(name.as_str().as_bytes());
            lines.push(b':');
            lines.extend_from_slice(value.as_bytes());
            // A header value cannot contain a line feed.
            lines.push(b'\n');
        }
        Self(lines)
    }

    /// Pairs of lower-case name and value; invalid UTF-8 is replaced.
    pub(super) fn to_pairs(&self) -> Vec<(String, String)> {
        String::from_utf8_lossy(&self.0)
            .split_terminator('\n')
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::{COOKIE, HOST};

    use super::*;

    #[test]
    fn headers_come_back_as_they_were() {
        let mut headers = HeaderMap::new();
        headers.append(HOST, HeaderValue::from_static("[::1]:80"));
        headers.append(COOKIE, HeaderValue::from_static(""));
        headers.append(COOKIE, HeaderValue::from_bytes(b"a\t\xFF:b").unwrap());
        let pairs = RecordedHeaders::from_map(&headers).to_pairs();
        let expected = [
            ("host", "[::1]:80"),
            ("cookie", ""),
            ("cookie", "a\t\u{FFFD}:b"),
        ];
        assert_eq!(
            pairs,
            expected.map(|(name, value)| (name.into(), value.into()))
        );
        assert!(
            RecordedHeaders::from_map(&HeaderMap::new())
                .to_pairs()
                .is_empty()
        );
    }
}
