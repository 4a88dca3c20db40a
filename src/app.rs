//! What answers behind the edge: turns, the model list, health and figures.

pub mod artifacts;
pub mod diagnostics;

use std::sync::Arc;

use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};

use crate::codex::models::{self, ModelEntry};
use crate::codex::prompt;
use crate::config::Config;
use crate::diagnostics::capture::Capture;
use crate::mcp;
use crate::metrics;
use crate::serve::{App, Body, Reason};
use crate::turn::{self, Caller, Service};
use crate::upstream::LearnedQuirks;

/// The application.
#[derive(Clone)]
pub struct Respondent {
    /// Runs turns.
    pub service: Arc<Service>,
    /// What is known of recent turns.
    pub capture: Capture,
    /// When the program started to serve, in milliseconds since 1970.
    pub started_ms: u64,
}

impl App for Respondent {
    async fn responses(&self, head: Parts, body: String) -> Response<Body> {
        turn::respond(&self.service, &head, body).await
    }

    async fn compact(&self, head: Parts, body: String) -> Response<Body> {
        turn::respond(&self.service, &head, body).await
    }

    async fn input_tokens(&self, head: Parts, body: String) -> Response<Body> {
        turn::input_tokens(&self.service, &head, body).await
    }

    async fn models(&self, _head: Parts) -> Response<Body> {
        let config = self.service.config.load();
        let instructions = config
            .codex
            .instructions
            .as_deref()
            .unwrap_or(prompt::PROMPT);
        let body = models::body(
            &entries(&config, Some(self.service.lessons())),
            instructions,
        );
        if body.shortened + body.dropped > 0 {
            tracing::debug!(
                body.shortened,
                body.dropped,
                "the model list was cut to the size that Codex reads"
            );
        }
        reply("application/json", body.json)
    }

    async fn healthz(&self, _head: Parts) -> Response<Body> {
        reply(
            "application/json",
            concat!(
                r#"{"status":"ok","name":""#,
                env!("CARGO_PKG_NAME"),
                r#"","version":""#,
                env!("CARGO_PKG_VERSION"),
                r#""}"#
            ),
        )
    }

    async fn metrics(&self, _head: Parts) -> Response<Body> {
        reply(metrics::CONTENT_TYPE, self.service.metrics.render())
    }

    async fn turns(&self, _head: Parts) -> Response<Body> {
        diagnostics::turns(self).await
    }

    async fn bundle(&self, head: Parts) -> Response<Body> {
        diagnostics::bundle(self, &head).await
    }

    async fn artifacts(&self, head: Parts) -> Response<Body> {
        artifacts::answer(&self.service.artifacts(), &head).await
    }

    async fn mcp(&self, head: Parts, body: String) -> Response<Body> {
        mcp::answer(self.service.artifacts(), head, body).await
    }

    /// Codex repeats every status of these but 400 five times.
    fn refused(&self, reason: Reason, head: &Parts, answer: &mut Response<Body>) {
        self.service.metrics.refused(reason);
        if Caller::of(&head.headers).codex && answer.status().is_client_error() {
            *answer.status_mut() = StatusCode::BAD_REQUEST;
        }
    }
}

fn reply(content_type: &'static str, body: impl Into<bytes::Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::full(body));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// The listed models, the default one first: the order is Codex's preference.
/// A window that an overflow taught counts where it is smaller than the listed
/// one, or none is listed.
pub fn entries(config: &Config, lessons: Option<&LearnedQuirks>) -> Vec<ModelEntry> {
    let registry = &config.registry;
    let mut entries: Vec<ModelEntry> = registry
        .models()
        .map(|(provider, model)| {
            let learned = lessons
                .and_then(|lessons| lessons.window(&provider.id, &model.id))
                .filter(|learned| model.window.is_none_or(|listed| learned.tokens < listed));
            let window = learned.unwrap_or_else(|| model.window()).tokens;
            ModelEntry {
                slug: registry.public_name(provider, model),
                display_name: model.display_name().to_owned(),
                description: if model.description.is_empty() {
                    format!("by {}", provider.name)
                } else {
                    model.description.clone()
                },
                owned_by: provider.id.clone(),
                window,
                auto_compact: ModelEntry::default_auto_compact(window),
                images: model.images,
                reasoning: model.reasoning.clone(),
                default_reasoning: model.default_reasoning.clone(),
            }
        })
        .collect();
    if let Some(default) = &registry.default_model
        && let Ok(route) = registry.resolve(default, false)
    {
        let name = registry.public_name(&route.provider, &route.model);
        entries.sort_by_key(|entry| entry.slug != name);
    }
    entries
}

/// The model that a new user starts with.
pub fn first_model(config: &Config) -> String {
    let first = || {
        entries(config, None)
            .into_iter()
            .next()
            .map(|entry| entry.slug)
    };
    let passed = || {
        config
            .registry
            .providers
            .first()
            .map(|provider| provider.prefixed("MODEL"))
    };
    config
        .registry
        .default_model
        .clone()
        .or_else(first)
        .or_else(passed)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use adapters::mend::Mend;

    use super::*;
    use crate::config::{Flags, Inputs, UserDirs, load};

    #[test]
    fn a_learned_window_is_shown_where_it_is_smaller_or_none_is_listed() {
        let folder = tempfile::tempdir().unwrap();
        let text = "[providers.lab]\nbase_url = \"https://lab.example/v1\"\nkey_required = false\n\
            models = [{ id = \"unknown\" }, { id = \"small\", window = 4096 }, { id = \"big\", window = 9000000 }]";
        std::fs::write(folder.path().join("proxy-config.toml"), text).unwrap();
        let config = load(&Inputs {
            flags: Flags::default(),
            environment: Box::new(HashMap::<String, String>::new()),
            dirs: UserDirs::under(folder.path()),
        })
        .unwrap();
        let lessons = LearnedQuirks::default();
        let windows = || {
            let entries = entries(&config, Some(&lessons));
            let windows = entries
                .iter()
                .map(|entry| (entry.window, entry.auto_compact));
            windows.collect::<Vec<_>>()
        };
        assert_eq!(
            windows(),
            [(131_072, 108_451), (4_096, 2_991), (9_000_000, 8_100_000)]
        );
        for model in ["lab/unknown", "lab/small", "lab/big"] {
            let route = config.registry.resolve(model, false).unwrap();
            lessons.learn(&route, Mend::Window(200_000));
        }
        assert_eq!(
            windows(),
            [(200_000, 176_000), (4_096, 2_991), (200_000, 176_000)]
        );
    }
}
