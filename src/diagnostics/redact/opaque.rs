//! Opaque contents: images, files, encrypted reasoning and signatures. Unless they are
//! to be kept, a hash replaces them, which still distinguishes them.

use std::ops::Range;
use std::sync::LazyLock;

use adapters::baggage::Baggage;
use adapters::compaction_blob::{ArtifactLine, CompactionBlob};
use adapters::origin;
use memchr::memmem;
use regex::bytes::Regex;

use super::Scrubber;
use super::filler::by_hash;
use super::strings::{BodyStrings, Value};

static DATA_URLS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?-u);base64,((?:[A-Za-z0-9+/_=-]|\\/)+)").ok());
static BLOBS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?-u)\brs[cp]1\.[0-9a-f]{8}\.[A-Za-z0-9_-]+").ok());

/// JSON members that contain a file.
const FILES: [&[u8]; 3] = [b"file_data", b"b64_json", b"partial_image_b64"];

/// Which kind of opaque content a JSON member contains.
enum OpaqueContent {
    File,
    Encrypted,
    /// What an upstream encrypted, in the proxy's envelope ([`origin::content_range`]).
    Wrapped,
}

impl Scrubber {
    /// Replaces opaque contents by hashes.
    pub(super) fn opaque(&self, text: &mut [u8], strings: &BodyStrings) {
        if !self.keep.images {
            let Some(urls) = DATA_URLS.as_ref() else {
                return;
            };
            let parts: Vec<Range<usize>> = urls
                .captures_iter(text)
                .filter_map(|hit| hit.get(1).map(|payload| payload.range()))
                .collect();
            for part in parts {
                hash(text, &[part]);
            }
        }
        for values in strings.texts() {
            let all: Vec<Vec<Range<usize>>> = match values.first() {
                Some(first) if first.delta && strings.events => {
                    vec![values.iter().map(|value| value.part.clone()).collect()]
                }
                _ => values
                    .iter()
                    .map(|value| vec![value.part.clone()])
                    .collect(),
            };
            for (parts, value) in all.into_iter().zip(values) {
                match content(text, value, &parts) {
                    Some(OpaqueContent::File) if !self.keep.images => hash(text, &parts),
                    Some(OpaqueContent::Encrypted) if !self.keep.encrypted => hash(text, &parts),
                    Some(OpaqueContent::Wrapped) if !self.keep.encrypted => {
                        for part in parts {
                            hash_wrapped(text, part);
                        }
                    }
                    Some(
                        OpaqueContent::File | OpaqueContent::Encrypted | OpaqueContent::Wrapped,
                    )
                    | None => {}
                }
            }
        }
    }

    /// Redacts the contents of the proxy's own sealed blobs; returns where they are.
    pub(super) fn blobs(&self, text: &mut [u8]) -> Vec<Range<usize>> {
        let mut ours = Vec::new();
        for part in blobs(text) {
            let Some(blob) = text.get_mut(part.clone()) else {
                continue;
            };
            let Some(sealed) = std::str::from_utf8(blob)
                .ok()
                .and_then(|blob| resealed(blob, &|text| self.string(text)))
            else {
                continue;
            };
            if sealed.len() == blob.len() {
                blob.copy_from_slice(sealed.as_bytes());
                ours.push(part);
            } else {
                // Sealing again gave another length, so it was not sealed by us.
                hash(text, &[part]);
            }
        }
        ours
    }

    /// Redacts a text that is a single blob.
    pub(super) fn blob(&self, blob: &str) -> String {
        let mut text = blob.as_bytes().to_vec();
        let whole = 0..text.len();
        if !self.blobs(&mut text).contains(&whole) {
            if self.keep.encrypted {
                return self.string(blob.to_owned());
            }
            hash(&mut text, &[whole]);
        }
        String::from_utf8(text).unwrap_or_default()
    }
}

/// Where texts are that look like the proxy's own sealed blobs.
pub(super) fn blobs(text: &[u8]) -> Vec<Range<usize>> {
    let hits = BLOBS.as_ref().map(|blobs| blobs.find_iter(text));
    hits.into_iter().flatten().map(|hit| hit.range()).collect()
}

/// Opens a sealed blob, applies `change` to each text in it and seals it again; `None`
/// if it is not one of the proxy's own.
pub(super) fn resealed(blob: &str, change: &impl Fn(String) -> String) -> Option<String> {
    if let Some(baggage) = Baggage::open(blob) {
        let Baggage {
            reasoning,
            origin,
            reasoning_details: details,
            extra_content: call_extra,
        } = baggage;
        let baggage = Baggage {
            reasoning: change(reasoning),
            origin: change(origin),
            reasoning_details: change(details),
            extra_content: change(call_extra),
        };
        return Some(baggage.seal());
    }
    let CompactionBlob {
        summary,
        artifacts,
        retained_items,
    } = CompactionBlob::open(blob)?;
    let artifacts = artifacts.into_iter().map(|line| ArtifactLine {
        id: change(line.id),
        made_by: change(line.made_by),
        kind: line.kind,
        chars: line.chars,
    });
    let blob = CompactionBlob {
        artifacts: artifacts.collect(),
        summary: change(summary),
        retained_items,
    };
    Some(blob.seal())
}

/// The kind of opaque content of a value, judged by its member name.
fn content(text: &[u8], value: &Value, parts: &[Range<usize>]) -> Option<OpaqueContent> {
    let name = text.get(value.name.clone())?;
    let value = text.get(value.part.clone())?;
    if FILES.contains(&name) {
        return (!value.starts_with(b"data:")).then_some(OpaqueContent::File);
    }
    match name {
        b"encrypted_content" => {
            let ours = std::str::from_utf8(value).is_ok_and(|value| {
                (value.starts_with("rsp1.") && Baggage::open(value).is_some())
                    || (value.starts_with("rsc1.") && CompactionBlob::open(value).is_some())
            });
            let wrapped = std::str::from_utf8(value)
                .is_ok_and(|value| origin::content_range(value).is_some());
            match (ours, wrapped) {
                (true, _) => None,
                (false, true) => Some(OpaqueContent::Wrapped),
                (false, false) => Some(OpaqueContent::Encrypted),
            }
        }
        b"signature" | b"thought_signature" | b"data" if is_opaque(text, parts) => {
            let start = parts.first()?.start;
            let around = text.get(start.saturating_sub(256)..start)?;
            let end = parts.last()?.end;
            let behind = text.get(end..text.len().min(end + 256))?;
            let file = name == b"data"
                && memmem::find(around, b"encrypted").is_none()
                && memmem::find(behind, b"encrypted").is_none();
            Some(if file {
                OpaqueContent::File
            } else {
                OpaqueContent::Encrypted
            })
        }
        _ => None,
    }
}

/// Whether it is base64 data and not a word, such as the documented placeholders for
/// signatures.
fn is_opaque(text: &[u8], parts: &[Range<usize>]) -> bool {
    let bytes = || {
        parts
            .iter()
            .filter_map(|part| text.get(part.clone()))
            .flatten()
    };
    bytes().count() >= 16
        && bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=-_\\".contains(byte))
        && bytes().any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
}

/// Replaces the content of an envelope by a hash and seals the envelope again, so that a
/// replay unwraps the same hash that stands in the upstream's request and answer.
fn hash_wrapped(text: &mut [u8], part: Range<usize>) {
    let Some(content) = text
        .get(part.clone())
        .and_then(|value| std::str::from_utf8(value).ok())
        .and_then(origin::content_range)
    else {
        return;
    };
    let place = part.start + content.start..part.start + content.end;
    hash(text, std::slice::from_ref(&place));
    if let Some(wrapped) = text.get_mut(part) {
        origin::seal_again(wrapped, content);
    }
}

/// Replaces the joined parts by a hash.
fn hash(text: &mut [u8], parts: &[Range<usize>]) {
    let mut places: Vec<usize> = Vec::new();
    for part in parts {
        let mut escaped = false;
        for at in part.clone() {
            // JSON escapes stay as they are.
            match text.get(at) {
                _ if escaped => escaped = false,
                Some(b'\\') => escaped = true,
                _ => places.push(at),
            }
        }
    }
    let content: Vec<u8> = places
        .iter()
        .filter_map(|at| text.get(*at).copied())
        .collect();
    let Some(filler) = by_hash(&content) else {
        return;
    };
    for (at, byte) in places.into_iter().zip(filler) {
        if let Some(old) = text.get_mut(at) {
            *old = byte;
        }
    }
}
