//! Which addresses can be those of a page.

use url::Url;

use super::FetchError;

/// The longest address that is opened, in bytes.
pub const MAX_URL: usize = 2_000;

/// The longest address of a redirect, in bytes. An address that may be opened is never longer once
/// it is percent-encoded.
const MAX_ENCODED_URL: usize = 3 * MAX_URL;
/// Refuses what is longer than either.
const TOO_LONG: FetchError = FetchError::BadUrl("it is longer than 2,000 bytes");

/// The ports of pages. Others belong to services that must not be spoken to through a page.
const PORTS: [u16; 4] = [80, 443, 8080, 8443];

/// The address of a page: HTTP, without user and password, on a port of pages, and without the
/// fragment, which servers do not get. Numbers in any spelling become IPv4 addresses.
pub fn page_url(text: &str) -> Result<Url, FetchError> {
    let text = text.trim();
    if text.len() > MAX_URL {
        return Err(TOO_LONG);
    }
    let mut url = Url::parse(text).map_err(|_| FetchError::BadUrl("it is not a URL"))?;
    check(&url)?;
    url.set_fragment(None);
    Ok(url)
}

/// Whether this is the address of a page.
pub(super) fn check(url: &Url) -> Result<(), FetchError> {
    if url.as_str().len() > MAX_ENCODED_URL {
        return Err(TOO_LONG);
    }
    if !matches!(url.scheme(), "http" | "https") {
        return Err(FetchError::BadUrl("it is neither http nor https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(FetchError::BadUrl("it has a user name or a password"));
    }
    if url.host().is_none() {
        return Err(FetchError::BadUrl("it has no host"));
    }
    match url.port_or_known_default() {
        Some(port) if PORTS.contains(&port) => Ok(()),
        _ => Err(FetchError::BadUrl(
            "its port is none of 80, 443, 8080, 8443",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_pages_are_opened() {
        for (text, expected) in [
            ("https://example.com/a?b#c", Ok("https://example.com/a?b")),
            (" http://例え.jp/ ", Ok("http://xn--r8jz45g.jp/")),
            ("http://2130706433/", Ok("http://127.0.0.1/")),
            ("http://0x7f.1/", Ok("http://127.0.0.1/")),
            ("http://①②⑦.0.0.1/", Ok("http://127.0.0.1/")),
            ("http://[::ffff:127.0.0.1]/", Ok("http://[::ffff:7f00:1]/")),
            ("http://example.com:8080/", Ok("http://example.com:8080/")),
            (
                "http://example.com:22/",
                Err("its port is none of 80, 443, 8080, 8443"),
            ),
            (
                "http://u@example.com/",
                Err("it has a user name or a password"),
            ),
            (
                "http://:p@example.com/",
                Err("it has a user name or a password"),
            ),
            ("file:///etc/passwd", Err("it is neither http nor https")),
            ("gopher://example.com/", Err("it is neither http nor https")),
            ("example.com", Err("it is not a URL")),
            ("http://", Err("it is not a URL")),
            ("", Err("it is not a URL")),
        ] {
            let found = page_url(text);
            let found = found.as_ref().map(Url::as_str);
            let expected = expected.map_err(FetchError::BadUrl);
            assert_eq!(found, expected.as_ref().copied(), "{text}");
        }
        let long = format!("https://example.com/{}", "a".repeat(MAX_URL));
        assert_eq!(page_url(&long), Err(TOO_LONG));
        let encoded = format!("https://example.com/{}", "é".repeat(900));
        assert!(page_url(&encoded).is_ok());
        let redirect = format!("https://example.com/{}", "a".repeat(MAX_ENCODED_URL));
        let redirect = Url::parse(&redirect).unwrap();
        assert_eq!(check(&redirect), Err(TOO_LONG));
    }
}
