//! The format of blobs that clients keep for the proxy:
//! `<version>.<crc32>.<base64 of JSON>`. The version distinguishes formats; the checksum
//! rejects damaged blobs and those of other servers.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Encodes `content` as a blob, which needs no escapes in a JSON string.
pub(crate) fn seal<T: Serialize>(version: &str, content: &T) -> String {
    let json = serde_json::to_vec(content).unwrap_or_default();
    let sum = crc32fast::hash(&json);
    let mut blob = String::with_capacity(version.len() + 10 + json.len().div_ceil(3) * 4);
    // Writing to a string does not fail.
    let _ = write!(blob, "{version}.{sum:08x}.");
    URL_SAFE_NO_PAD.encode_string(json, &mut blob);
    blob
}

/// Decodes a blob that [`seal`] made with this version; `None` for any other string.
pub(crate) fn open<T: DeserializeOwned>(version: &str, blob: &str) -> Option<T> {
    let (sum, encoded) = blob
        .strip_prefix(version)?
        .strip_prefix('.')?
        .split_once('.')?;
    let json = URL_SAFE_NO_PAD.decode(encoded).ok()?;
    let expected = u32::from_str_radix(sum, 16).ok()?;
    (crc32fast::hash(&json) == expected).then_some(())?;
    serde_json::from_slice(&json).ok()
}
