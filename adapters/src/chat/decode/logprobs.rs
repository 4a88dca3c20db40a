//! Log probabilities of tokens.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::event::TokenLogprob;

/// An entry of `logprobs.content`. Servers leave out `bytes` and `top_logprobs` or send null.
#[derive(Deserialize)]
struct LogprobEntry<'a> {
    #[serde(borrow)]
    token: Cow<'a, str>,
    logprob: &'a RawValue,
    bytes: Option<Vec<u8>>,
    #[serde(default)]
    top_logprobs: Option<Vec<LogprobEntry<'a>>>,
}

/// The entries of a `logprobs.content` list; `None` if there are none, or it is no such list.
pub(super) fn read(raw: &RawValue) -> Option<Vec<TokenLogprob<'_>>> {
    let entries: Vec<LogprobEntry<'_>> = serde_json::from_str(raw.get()).ok()?;
    (!entries.is_empty()).then(|| {
        entries
            .into_iter()
            .map(|entry| token(entry, true))
            .collect()
    })
}

fn token(entry: LogprobEntry<'_>, with_top: bool) -> TokenLogprob<'_> {
    let top = entry.top_logprobs.filter(|_| with_top).unwrap_or_default();
    TokenLogprob {
        token: entry.token,
        logprob: entry.logprob.get().into(),
        bytes: entry.bytes,
        top: top.into_iter().map(|entry| token(entry, false)).collect(),
    }
}
