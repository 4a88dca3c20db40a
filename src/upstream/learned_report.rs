//! What was learned of models, as `respondent status` and `respondent models --learned` show it.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::{LearnedQuirks, LearnedRatios};
use crate::secrets::Redactor;

/// The most changes, and the most ratios, that are listed.
const MAX_LISTED: usize = 100;

/// What was learned of models, without secrets.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct LearnedReport {
    /// What requests do otherwise after refusals, the newest first.
    pub changes: Vec<LearnedChange>,
    /// The bytes per token of models, those that were used last first.
    pub token_ratios: Vec<LearnedTokenRatio>,
}

/// A change of the requests to a model.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct LearnedChange {
    /// The provider's id.
    pub provider: String,
    /// The provider's name of the model.
    pub model: String,
    /// What is changed.
    pub change: String,
    /// The refusal that it has answered.
    pub evidence: String,
    /// The owner, if it holds for one alone.
    pub for_owner: Option<String>,
    /// When it was learned, in seconds since 1970.
    pub learned_at: u64,
}

/// How large the tokens of a model are.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct LearnedTokenRatio {
    /// The provider's id.
    pub provider: String,
    /// The provider's name of the model.
    pub model: String,
    /// The owner whose sessions have shown it, and whose new ones begin with it.
    pub for_owner: String,
    /// Bytes of request text per token.
    pub bytes_per_token: f32,
    /// When the oldest of these sessions began, in seconds since 1970.
    pub learned_at: u64,
}

impl LearnedReport {
    /// The newest of what is known. Clients choose the names of models, and refusals may quote
    /// requests, so both may have secrets.
    pub fn new(quirks: &LearnedQuirks, ratios: &LearnedRatios, redactor: &Redactor) -> Self {
        let all = quirks.all();
        let mut patches: Vec<_> = all
            .iter()
            .flat_map(|(provider, model, patches)| {
                patches.iter().map(move |it| (provider, model, it))
            })
            .collect();
        patches.sort_by_key(|(_, _, learned)| Reverse(learned.learned));
        let changes = patches.into_iter().take(MAX_LISTED);
        let changes = changes.map(|(provider, model, learned)| LearnedChange {
            provider: provider.clone(),
            model: redactor.redact_known(model).into_owned(),
            change: learned.patch.to_string(),
            evidence: redactor.redact(&learned.evidence).into_owned(),
            for_owner: (!learned.owner.is_empty()).then(|| learned.owner.to_string()),
            learned_at: learned.learned,
        });
        let ratios = ratios.list().into_iter().take(MAX_LISTED);
        let token_ratios = ratios.map(|learned| LearnedTokenRatio {
            provider: learned.provider,
            model: redactor.redact_known(&learned.model).into_owned(),
            for_owner: learned.owner.to_string(),
            bytes_per_token: learned.bytes_per_token,
            learned_at: learned.since,
        });
        Self {
            changes: changes.collect(),
            token_ratios: token_ratios.collect(),
        }
    }

    /// Whether nothing was learned.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.token_ratios.is_empty()
    }

    /// Leaves out other providers.
    pub fn keep_provider(&mut self, id: &str) {
        self.changes.retain(|it| it.provider == id);
        self.token_ratios.retain(|it| it.provider == id);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use adapters::quirk_patch::ModelPatch;
    use registry::Registry;
    use toml::toml;

    use super::super::PatchesOf;
    use super::*;
    use crate::secrets::Secret;

    #[test]
    fn the_newest_changes_are_listed_without_secrets() {
        let quirks = LearnedQuirks::default();
        let over = toml! { base_url = "https://lab.example/v1" passthrough = true };
        let provider = registry::build("lab", over).unwrap().to_provider("lab");
        let registry = Registry {
            providers: vec![Arc::new(provider)],
            ..Registry::default()
        };
        for now in 0..150 {
            let route = registry.resolve(&format!("lab/m{now}"), false).unwrap();
            let of = PatchesOf {
                now,
                ..PatchesOf::owner("alice")
            };
            let said = "the key-of-the-server-1 is odd";
            quirks.learn(&route, of, ModelPatch::NoImages.into(), said);
        }
        let secret = Secret::new("key-of-the-server-1").unwrap();
        let redactor = Redactor::new(&[secret]);
        let report = LearnedReport::new(&quirks, &LearnedRatios::default(), &redactor);
        let times: Vec<u64> = report.changes.iter().map(|it| it.learned_at).collect();
        assert_eq!(times, (50..150).rev().collect::<Vec<_>>());
        let newest = &report.changes[0];
        assert_eq!(
            (&*newest.model, &*newest.evidence),
            ("m149", "the [redacted] is odd")
        );
    }
}
