//! What is known before a turn and decides how it goes: taken down for a
//! capture, and put back for a replay.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use adapters::mend::Mend;
use adapters::plan::{Keeping, Outputs};
use registry::Route;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::way::Shared;
use super::weighed::Weighed;
use crate::config::Config;

/// The memory of the program, as far as one turn uses it. Without `Debug`: it
/// holds what was said.
#[derive(Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Given {
    /// What providers taught, in the order of learning.
    pub lessons: Vec<Lesson>,
    /// Items that the request refers to: id and JSON.
    pub items: BTreeMap<String, String>,
    /// What providers want back with calls: call id and blobs.
    pub baggage: BTreeMap<String, String>,
    /// The route that the session is on, if it moved.
    pub moved_to: Option<String>,
    /// Providers along the routes.
    pub providers: Vec<ProviderState>,
    /// The tools of the session, a JSON list, where the request wants a summary and
    /// came without them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<String>,
    /// The last request of the session, where this one wants a summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weighed: Option<Weighed>,
    /// How outputs were bounded.
    pub outputs: Outputs,
    /// Where what was shortened was kept.
    pub keeping: Keeping,
    /// What stands for the secrets of the configuration, and for others that a
    /// fault quotes, where a turn was redacted. Empty where it was not.
    pub stand_ins: Vec<String>,
}

/// What was learned about a model.
#[derive(Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Lesson {
    /// The provider's id.
    pub provider: String,
    /// The provider's name of the model.
    pub model: String,
    /// How it wants to be spoken to.
    pub mends: Vec<Mend>,
}

/// How a provider does.
#[derive(Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProviderState {
    /// The provider's id.
    pub provider: String,
    /// Milliseconds that each key still rests; 0 for one that is awake.
    pub keys_rest_ms: Vec<u64>,
    /// Milliseconds that the provider is still left alone; 0 if it is not.
    pub down_ms: u64,
}

impl Shared {
    /// What is known of the routes and of the session.
    pub(super) fn given(
        &self,
        config: &Config,
        owner: &Arc<str>,
        session: &str,
        routes: &[Route],
    ) -> Given {
        let now = Instant::now();
        let mut given = Given {
            moved_to: self.sessions.moved_to(owner, session),
            outputs: config.context.outputs,
            keeping: self.artifacts.keeping(),
            ..Given::default()
        };
        for route in routes {
            let (provider, model) = (&route.provider.id, &route.upstream_model);
            let mends = self.upstreams.lessons().patches(provider, model);
            if !mends.is_empty() {
                given.lessons.push(Lesson {
                    provider: provider.clone(),
                    model: model.clone(),
                    mends,
                });
            }
            let known = given
                .providers
                .iter()
                .any(|state| state.provider == *provider);
            if known {
                continue;
            }
            if let Ok(upstream) = self.upstreams.get(config, &route.provider) {
                given.providers.push(ProviderState {
                    provider: provider.clone(),
                    keys_rest_ms: upstream
                        .keys()
                        .cooldowns()
                        .into_iter()
                        .map(milliseconds)
                        .collect(),
                    down_ms: upstream.health().down_for(now).map_or(0, milliseconds),
                });
            }
        }
        given
    }

    /// Knows from now on what was known then.
    pub(super) fn restore(
        &self,
        given: &Given,
        config: &Config,
        owner: &Arc<str>,
        session: &str,
        routes: &[Route],
    ) {
        for route in routes {
            for lesson in &given.lessons {
                if (&lesson.provider, &lesson.model) == (&route.provider.id, &route.upstream_model)
                {
                    for mend in &lesson.mends {
                        self.upstreams.lessons().learn(route, *mend);
                    }
                }
            }
            let state = given
                .providers
                .iter()
                .find(|state| state.provider == route.provider.id);
            if let (Some(state), Ok(upstream)) =
                (state, self.upstreams.get(config, &route.provider))
            {
                for (key, rest) in upstream.keys().indexes().zip(&state.keys_rest_ms) {
                    if *rest > 0 {
                        upstream.keys().cool_down(key, Duration::from_millis(*rest));
                    }
                }
                if state.down_ms > 0 {
                    upstream
                        .health()
                        .record_limit(Duration::from_millis(state.down_ms));
                }
            }
        }
        if let Some(on) = &given.moved_to {
            self.sessions.moves(owner, session, on.clone());
        }
        let items = given.items.iter();
        self.recent.keep(
            owner,
            items.map(|(id, json)| (id.as_str(), json.as_bytes())),
        );
        self.kept.put(owner, session, given.baggage.iter());
        if let Some(tools) = &given.tools {
            self.tools.put(owner, session, tools);
        }
        if let Some(weighed) = &given.weighed {
            self.weighings.put(owner, session, weighed.clone());
        }
    }
}

/// Rounded up: what is left is never nothing.
fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}
