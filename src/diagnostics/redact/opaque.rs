//! Opaque contents: images, files, encrypted reasoning and signatures. Unless they are
//! to be kept, a hash of the same length replaces them, which still distinguishes them.

use std::ops::Range;
use std::sync::LazyLock;

use adapters::baggage::Baggage;
use adapters::compaction_blob::CompactionBlob;
use adapters::event::ReasoningStateMember;
use adapters::origin;
use adapters::wire;
use bytes::Bytes;
use memchr::memmem;
use regex::bytes::Regex;
use sha2::{Digest, Sha256};

use super::Scrubber;
use super::edits::Edit;
use super::strings::{BodyStrings, StringValue};
use crate::secrets::constant_regex;

static DATA_URLS: LazyLock<Regex> =
    LazyLock::new(|| constant_regex(r"(?-u);base64,((?:[A-Za-z0-9+/_=-]|\\/)+)"));
static BLOBS: LazyLock<Regex> =
    LazyLock::new(|| constant_regex(r"(?-u)\brs[cp]1\.[0-9a-f]{8}\.[A-Za-z0-9_-]+"));
/// Base64 data, not a word such as the documented placeholders for signatures.
static SIGNATURE: LazyLock<Regex> =
    LazyLock::new(|| constant_regex(r"(?-u)\A[A-Za-z0-9+/=_\\-]{16,}\z"));

/// JSON members that contain a file.
const FILES: [&[u8]; 3] = [b"file_data", b"b64_json", b"partial_image_b64"];

/// The placeholder for opaque contents, see [`by_hash`].
static HASH: LazyLock<Regex> =
    LazyLock::new(|| constant_regex(r"(?-u)\A(?:sha256/[0-9a-f]*)?A*=*\z"));

/// Which kind of opaque content a JSON member contains.
#[derive(Clone, Copy)]
enum OpaqueContent {
    File,
    Encrypted,
}

/// Whether a JSON member of this name may contain something opaque.
pub(super) fn may_be_opaque(name: &[u8]) -> bool {
    name == b"encrypted_content" || FILES.contains(&name) || reasoning_state(name).is_some()
}

/// The member with this name in which providers put reasoning state, if there is one.
fn reasoning_state(name: &[u8]) -> Option<ReasoningStateMember> {
    wire::reasoning_state_members().find(|member| member.name.as_bytes() == name)
}

impl Scrubber {
    /// Replaces opaque contents by hashes, and redacts the contents of the proxy's own sealed
    /// blobs. What is to stay is replaced by itself.
    pub(super) fn opaque(&self, text: &[u8], strings: &BodyStrings) -> Vec<Edit> {
        let mut edits = Vec::new();
        if !self.keep.images {
            let urls = DATA_URLS.captures_iter(text).filter_map(|hit| hit.get(1));
            edits.extend(urls.flat_map(|payload| hashed(text, &[payload.range()])));
        }
        for values in strings.values() {
            let parts: Vec<Range<usize>> = values.iter().map(|value| value.part.clone()).collect();
            let first = values.first();
            let is_kept = match first.and_then(|value| content(text, value, &parts)) {
                None => true,
                Some(OpaqueContent::File) => self.keep.images,
                Some(OpaqueContent::Encrypted) => self.keep.encrypted,
            };
            if is_kept {
                continue;
            }
            match hash_wrapped(text, &parts) {
                Some(edit) => edits.push(edit),
                None => edits.extend(hashed(text, &parts)),
            }
        }
        edits.extend(BLOBS.find_iter(text).filter_map(|hit| {
            let blob = std::str::from_utf8(hit.as_bytes()).ok()?;
            Some(Edit {
                range: hit.range(),
                with: self.resealed(blob)?.into(),
            })
        }));
        edits
    }

    /// Redacts a text that is a single blob, the proxy's own or a provider's.
    pub(super) fn blob(&self, blob: &str) -> String {
        match self.resealed(blob) {
            Some(blob) => blob,
            None if self.keep.encrypted => self.text(blob).into_owned(),
            None => String::from_utf8_lossy(&by_hash(blob.as_bytes())).into_owned(),
        }
    }

    /// Opens a sealed blob, redacts each text in it like the body that it is sent in, and seals it
    /// again; `None` if it is not one of the proxy's own.
    fn resealed(&self, blob: &str) -> Option<String> {
        if let Some(mut baggage) = Baggage::open(blob) {
            let old = baggage.clone();
            let Baggage {
                reasoning,
                origin,
                states,
            } = &mut baggage;
            let states = states.iter_mut().map(|(_, blob)| blob);
            for text in [reasoning, origin].into_iter().chain(states) {
                self.string(text);
            }
            return Some(if baggage == old {
                blob.to_owned()
            } else {
                baggage.seal()
            });
        }
        let mut compaction = CompactionBlob::open(blob)?;
        let old = compaction.clone();
        self.string(&mut compaction.summary);
        for line in &mut compaction.artifacts {
            self.string(&mut line.id);
            self.string(&mut line.made_by);
        }
        Some(if compaction == old {
            blob.to_owned()
        } else {
            compaction.seal()
        })
    }
}

/// The kind of opaque content of a value, judged by its member name.
fn content(text: &[u8], value: &StringValue, parts: &[Range<usize>]) -> Option<OpaqueContent> {
    let name = text.get(value.name.clone())?;
    let value = text.get(value.part.clone())?;
    if FILES.contains(&name) {
        return (!value.starts_with(b"data:")).then_some(OpaqueContent::File);
    }
    if name == b"encrypted_content" {
        let value = std::str::from_utf8(value).unwrap_or_default();
        let is_ours = Baggage::open(value).is_some() || CompactionBlob::open(value).is_some();
        return (!is_ours).then_some(OpaqueContent::Encrypted);
    }
    let member = reasoning_state(name)?;
    let (start, end) = (parts.first()?.start, parts.last()?.end);
    let bytes = parts.iter().filter_map(|part| text.get(part.clone()));
    let joined: Vec<u8> = bytes.flatten().copied().collect();
    let mut letters = joined.iter();
    if !SIGNATURE.is_match(&joined)
        || !letters.any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
    {
        return None;
    }
    let around = text.get(start.saturating_sub(256)..start)?;
    let behind = text.get(end..text.len().min(end + 256))?;
    let is_near = |word: &str| {
        let mut texts = [around, behind].into_iter();
        texts.any(|text| memmem::find(text, word.as_bytes()).is_some())
    };
    let is_encrypted = member.beside.is_none_or(is_near);
    Some(if is_encrypted {
        OpaqueContent::Encrypted
    } else {
        OpaqueContent::File
    })
}

/// If a content is in the proxy's envelope ([`origin::content_range`]), replaces it by a hash there
/// and seals the envelope again. So a replay unwraps the same hash that is in the upstream's
/// request and answer.
fn hash_wrapped(text: &[u8], parts: &[Range<usize>]) -> Option<Edit> {
    let range = parts.first()?.clone();
    let wrapped = std::str::from_utf8(text.get(range.clone())?).ok()?;
    let content = origin::content_range(wrapped)?;
    let mut with = wrapped.as_bytes().to_vec();
    let hash = by_hash(with.get(content.clone())?);
    with.get_mut(content.clone())?.copy_from_slice(&hash);
    origin::seal_again(&mut with, content);
    Some(Edit { range, with })
}

/// Replaces the joined parts by a hash.
fn hashed(text: &[u8], parts: &[Range<usize>]) -> Vec<Edit> {
    // The only character of base64 that may be escaped is the slash.
    let unescaped = |part: &Range<usize>| {
        let bytes = text.get(part.clone()).unwrap_or_default().iter();
        bytes.copied().filter(|byte| *byte != b'\\').collect()
    };
    let contents: Vec<Vec<u8>> = parts.iter().map(unescaped).collect();
    let hash = by_hash(&contents.concat());
    let mut rest = hash.as_slice();
    let parts = parts.iter().zip(contents);
    let edits = parts.map(|(range, content)| {
        let (with, behind) = rest.split_at_checked(content.len()).unwrap_or((rest, &[]));
        rest = behind;
        Edit {
            range: range.clone(),
            with: with.to_vec(),
        }
    });
    edits.collect()
}

/// A placeholder of the same length that still decodes as base64: `sha256/` and as many hex digits
/// of the content's hash as fit. A content of a few bytes therefore cannot be guessed from it.
fn by_hash(content: &[u8]) -> Vec<u8> {
    if HASH.is_match(content) {
        return content.to_vec();
    }
    let padding = content
        .iter()
        .rev()
        .take_while(|byte| **byte == b'=')
        .count();
    let size = content.len() - padding;
    let digest = Bytes::copy_from_slice(&Sha256::digest(content));
    let mut filler = format!("sha256/{digest:x}").into_bytes();
    // `A` as the last character: its unused low bits must be zero.
    filler.truncate(if size > 8 { size - 1 } else { 0 });
    filler.resize(size, b'A');
    filler.resize(content.len(), b'=');
    filler
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn opaque_contents_stay_base64() {
        for content in ["QQ==", "c2lnbmVk", "aGVsbG8gd29ybGQ=", &"QUJD".repeat(40)] {
            let hash = by_hash(content.as_bytes());
            assert_eq!(hash.len(), content.len());
            assert_ne!(hash, content.as_bytes());
            assert_eq!(by_hash(&hash), hash, "{content}");
            STANDARD.decode(&hash).unwrap();
        }
    }
}
