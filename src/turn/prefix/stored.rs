//! Prompts as they are stored, so that a later process can compare with them.

use std::sync::Arc;

use adapters::responses::prompt_cache::PromptCacheDiagnostics;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::fingerprint::{
    CacheSettings, ComparedPrompt, FingerprintContext, MeasuredRequest, PartHash,
    RequestFingerprint,
};
use super::recent_requests::diagnose;
use crate::store::FoundPrompt;

/// The bytes of the hash of a part.
pub(super) const PART_BYTES: usize = 16;

/// A prompt that is going to be stored.
#[derive(Clone, Debug)]
pub(in crate::turn) struct StoredPrompt {
    pub(in crate::turn) response: Arc<str>,
    /// The response whose prompt this one begins with, if it is known.
    pub(in crate::turn) continues: Option<Arc<str>>,
    pub(in crate::turn) parts: Vec<u8>,
    /// [`PromptDetails`] as JSON.
    pub(in crate::turn) details: String,
    pub(in crate::turn) asks_for_summary: bool,
}

/// What is compared of a prompt besides its parts.
#[derive(Debug, Deserialize, Serialize)]
struct PromptDetails {
    /// A hash of the route's full name: a client may choose any name for a model.
    route: u64,
    parameters: PartHash,
    tokens: u64,
    /// The counted tokens for each estimated one.
    scale: f64,
    epochs: u32,
    summaries: usize,
    settings: CacheSettings,
}

impl StoredPrompt {
    /// A prompt for which the provider counted `scale` tokens for each estimated one.
    pub(super) fn new(
        response: &Arc<str>,
        continues: Option<&Arc<str>>,
        prompt: ComparedPrompt<'_>,
        scale: f64,
    ) -> Self {
        let context = prompt.context;
        let details = PromptDetails {
            route: xxh3_64(context.route.as_bytes()),
            parameters: prompt.request.parameters,
            tokens: prompt.request.tokens,
            scale,
            epochs: context.epochs,
            summaries: context.summaries,
            settings: context.settings.clone(),
        };
        let parts = prompt.request.parts.iter().flat_map(|part| to_bytes(*part));
        Self {
            response: Arc::clone(response),
            continues: continues.cloned(),
            parts: parts.collect(),
            details: serde_json::to_string(&details).unwrap_or_default(),
            asks_for_summary: context.asks_for_summary,
        }
    }
}

/// Compares the prompt of a request with a stored one; `None` if that cannot be read.
pub(in crate::turn) fn diagnose_stored(
    request: &RequestFingerprint,
    found: &FoundPrompt,
) -> Option<PromptCacheDiagnostics> {
    let details: PromptDetails = serde_json::from_str(&found.details).ok()?;
    let (parts, _) = found.parts.as_chunks::<PART_BYTES>();
    let parts: Vec<PartHash> = parts.iter().copied().map(from_bytes).collect();
    let is_same_route = details.route == xxh3_64(request.route().as_bytes());
    let context = FingerprintContext {
        route: if is_same_route {
            request.route().to_owned()
        } else {
            String::new()
        },
        epochs: details.epochs,
        asks_for_summary: found.summarized,
        summaries: details.summaries,
        settings: details.settings,
    };
    let earlier = ComparedPrompt {
        context: &context,
        request: MeasuredRequest {
            parameters: details.parameters,
            parts: &parts,
            tokens: details.tokens,
        },
    };
    Some(diagnose(request, earlier, details.scale, found.summarized))
}

fn to_bytes(part: PartHash) -> [u8; PART_BYTES] {
    let (hash, rest) = (u128::from(part.hash), u128::from(part.bytes));
    (hash | rest << 64 | u128::from(part.part) << 96).to_le_bytes()
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "each is the part of the number that it was made of"
)]
fn from_bytes(bytes: [u8; PART_BYTES]) -> PartHash {
    let number = u128::from_le_bytes(bytes);
    PartHash {
        hash: number as u64,
        bytes: (number >> 64) as u32,
        part: (number >> 96) as u32,
    }
}
