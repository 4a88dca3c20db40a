//! A provider: its address, wire, keys, timeouts and models.

use std::cmp::Reverse;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::dialect::{BodyFields, Dialect, ModelFamily, ModelPatterns};
use crate::discovery::Discovery;
use crate::duration::{self, DurationText};
use crate::lists::{OneOrMany, Pairs};
use crate::model::Model;
use crate::wire::{QuirksTable, Wire, quirks_by_wire};

/// A provider that is enabled.
///
/// Made from a [`ProviderSpec`] when the configuration is loaded; replaced when it is loaded
/// again. `Debug` shows only the id and the address, because headers, query and proxy may
/// contain secrets.
#[derive(Clone, PartialEq)]
pub struct Provider {
    /// The id, which is the prefix of its model names: `vllm` in `vllm/qwen3`.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// The URL to which paths such as `/chat/completions` are appended, without a final
    /// slash. For the sandbox inside this program it is empty until its port is known.
    pub base_url: String,
    /// Environment variables that usually contain its key, the preferred one first.
    pub key_env: Vec<String>,
    /// Whether the provider refuses requests without a key.
    pub key_required: bool,
    /// The dialect of the models that belong to no family.
    pub dialect: Arc<Dialect>,
    /// Families of models with their dialects, in the order of the file.
    pub families: Vec<(ModelPatterns, Arc<Dialect>)>,
    /// The listed models, in the order of the file.
    pub models: Vec<Arc<Model>>,
    /// Whether model names that are not in `models` are passed to the provider.
    pub passthrough: bool,
    /// How the provider is asked for models that are not in `models`.
    pub discovery: Discovery,
    /// The name of the header that carries the key, for servers that do not use
    /// `Authorization: Bearer`.
    pub key_header: Option<String>,
    /// The word in front of the key in its header, for servers that want another one than
    /// `Bearer`.
    pub key_scheme: Option<String>,
    /// The query parameter that carries the key, for servers that want it in no header.
    pub key_query: Option<String>,
    /// The weight of each key in the choice between keys; empty if they are used in
    /// order.
    pub key_weights: Vec<u32>,
    /// Upper bound of concurrent requests; further requests wait.
    pub max_concurrent: Option<u32>,
    /// Extra request headers.
    pub headers: Vec<(String, String)>,
    /// Extra query parameters.
    pub query: Vec<(String, String)>,
    /// The URL of an HTTP proxy for this provider; without one the system's proxy settings
    /// apply.
    pub proxy: Option<String>,
    /// A PEM file with additional certificate authorities to trust.
    pub ca_file: Option<PathBuf>,
    /// How long to wait for the provider.
    pub timeouts: Timeouts,
    /// How it caches prompts.
    pub prompt_cache: PromptCache,
    /// Upper bound of retries after the first attempt. Nothing is retried after the first
    /// content event.
    pub max_retries: u32,
    /// Whether `base_url` may be an unencrypted `http` address of another host.
    pub allow_http: bool,
}

impl Provider {
    /// The listed model with this id.
    pub fn model(&self, id: &str) -> Option<&Arc<Model>> {
        self.models.iter().find(|model| model.id == id)
    }

    /// Whether `base_url` is a template with a placeholder in braces that the user must
    /// replace by an own address.
    pub fn has_address_placeholder(&self) -> bool {
        self.base_url.contains('{')
    }

    /// The dialect of the model with this id.
    pub fn dialect_for(&self, model: &str) -> &Arc<Dialect> {
        self.families
            .iter()
            .find(|(family, _)| family.matches(model))
            .map_or(&self.dialect, |(_, dialect)| dialect)
    }

    /// Whether a family of its models has this one.
    pub fn has_family_of(&self, model: &str) -> bool {
        let mut families = self.families.iter();
        families.any(|(family, _)| family.has_member(model))
    }

    /// A model that is not listed; see [`Self::fill_from_family`].
    pub fn unlisted_model(&self, id: &str) -> Model {
        let mut model = Model::unlisted(id);
        self.fill_from_family(&mut model);
        model
    }

    /// Completes a model of which little is known from the most similar listed model of its family:
    /// its limits, and how it reasons. Prices differ too much within a family.
    pub fn fill_from_family(&self, model: &mut Model) {
        let family = |id: &str| {
            let mut families = self.families.iter();
            families.position(|(family, _)| family.has_member(id))
        };
        let Some(own) = family(&model.id) else {
            return;
        };
        let relatives = self
            .models
            .iter()
            .filter(|one| family(&one.id) == Some(own));
        let shared = |one: &&Arc<Model>| {
            let pairs = one.id.bytes().zip(model.id.bytes());
            Reverse(pairs.take_while(|(a, b)| a == b).count())
        };
        let Some(nearest) = relatives.min_by_key(shared) else {
            return;
        };
        if model.window.is_none() {
            model.window = nearest.window;
            model.reported = false;
        }
        model.max_output = model.max_output.or(nearest.max_output);
        model.reasoning.clone_from(&nearest.reasoning);
        model
            .default_reasoning
            .clone_from(&nearest.default_reasoning);
        model.sampling = nearest.sampling;
        model.bytes_per_token = nearest.bytes_per_token;
    }

    /// `provider/model`, the name that resolves to this provider regardless of the others.
    pub fn prefixed_name(&self, model: &str) -> String {
        format!("{}/{model}", self.id)
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("id", &self.id)
            .field("base_url", &self.base_url)
            .finish_non_exhaustive()
    }
}

/// How long to wait for a provider; in TOML `"10s"` or `"500ms"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize, SmartDefault)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct Timeouts {
    /// For the connection, including TLS.
    #[serde(with = "duration")]
    #[schemars(with = "DurationText")]
    #[default(Duration::from_secs(10))]
    pub connect: Duration,
    /// Between the end of the request and the first byte of the answer.
    #[serde(with = "duration")]
    #[schemars(with = "DurationText")]
    #[default(Duration::from_mins(5))]
    pub first_byte: Duration,
    /// Between two reads of the answer.
    #[serde(with = "duration")]
    #[schemars(with = "DurationText")]
    #[default(Duration::from_mins(5))]
    pub idle: Duration,
}

/// How a provider caches the beginnings of prompts, to estimate what a request costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize, SmartDefault)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct PromptCache {
    /// Beginnings with fewer tokens are not cached.
    #[default = 1024]
    pub min_tokens: u64,
    /// Prompts are cached in steps of this many tokens.
    #[default = 128]
    pub block_tokens: u64,
    /// How long a beginning stays cached after it was last used.
    #[serde(with = "duration")]
    #[schemars(with = "DurationText")]
    #[default(Duration::from_mins(5))]
    pub lifetime: Duration,
}

impl PromptCache {
    /// How many of these tokens, which begin an earlier prompt too, are read from the cache.
    pub fn reusable(&self, shared: u64) -> u64 {
        if shared < self.min_tokens {
            return 0;
        }
        shared - shared % self.block_tokens.max(1)
    }
}

/// The TOML form of a provider: an embedded file, a file in `providers/` or a
/// `[providers.<id>]` table. Every key is optional.
#[derive(Clone, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(transform = quirks_by_wire)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches of a file format"
)]
pub struct ProviderSpec {
    /// The name for people; the id if left out.
    pub name: Option<String>,
    /// `false` disables the provider.
    #[default = true]
    pub enabled: bool,
    /// The protocol of its API, except for families that name another one.
    pub wire: Wire,
    /// The address of the API, to which paths such as `/chat/completions` are appended.
    pub base_url: Option<String>,
    /// Environment variables that contain one key each.
    pub api_key_env: Option<OneOrMany>,
    /// A file with one key per line.
    pub api_key_file: Option<PathBuf>,
    /// A command that prints one key per line: a string is run by the shell, a list is a
    /// program and its arguments.
    pub api_key_command: Option<OneOrMany>,
    /// The keys themselves.
    pub api_key: Option<OneOrMany>,
    /// Whether the provider refuses requests without a key.
    #[default = true]
    pub key_required: bool,
    /// The name of the header that carries the bare key, in place of
    /// `Authorization: Bearer`.
    pub key_header: Option<String>,
    /// The word in front of the key in its header, such as `Token`: in `Authorization` in place of
    /// `Bearer`, in the header of `key_header` in place of none.
    pub key_scheme: Option<String>,
    /// The name of the query parameter that carries the key, in place of a header.
    pub key_query: Option<String>,
    /// The share of the sessions that each key gets. Without it all sessions use the first key,
    /// and the next one while that is at its limits.
    pub key_weights: Vec<u32>,
    /// The most requests at the same time; further ones wait.
    pub max_concurrent: Option<u32>,
    /// Whether model names that are not in `models` are passed on.
    pub passthrough: bool,
    /// How the provider is asked for models that are not in `models`. If left out, a provider
    /// without `models` is asked for its list.
    pub discover: Option<Discovery>,
    /// Extra request headers.
    pub headers: Pairs<String>,
    /// Extra query parameters.
    pub query: Pairs<String>,
    /// The URL of an HTTP proxy for this provider.
    pub proxy: Option<String>,
    /// A PEM file with additional certificate authorities to trust.
    pub ca_file: Option<PathBuf>,
    /// How long to wait for the provider.
    pub timeouts: Timeouts,
    /// How the provider caches prompts, to estimate what a request costs.
    pub prompt_cache: PromptCache,
    /// The most retries of a request. Nothing is retried after the first content.
    #[default = 3]
    pub max_retries: u32,
    /// Whether `base_url` may be an unencrypted `http` address of another host.
    pub allow_http: bool,
    /// How requests differ from the plain protocol of the wire.
    pub quirks: QuirksTable,
    /// Extra fields of every request body.
    pub body: BodyFields,
    /// Families of models with quirks of their own; the first one that matches applies.
    pub families: Vec<ModelFamily>,
    /// The models; merged by id with those of a built-in provider.
    pub models: Vec<Model>,
}

impl ProviderSpec {
    /// Makes the provider with this id. Keys are read elsewhere. Quirks of another wire are
    /// ignored; [`crate::build`] refuses them.
    pub fn to_provider(&self, id: &str) -> Provider {
        Provider {
            id: id.to_owned(),
            name: self.name.clone().unwrap_or_else(|| id.to_owned()),
            base_url: self
                .base_url
                .as_deref()
                .unwrap_or_default()
                .trim_end_matches('/')
                .to_owned(),
            key_env: self.api_key_env.clone().map_or_else(Vec::new, |env| env.0),
            key_required: self.key_required,
            key_header: self.key_header.clone(),
            key_scheme: self.key_scheme.clone(),
            key_query: self.key_query.clone(),
            key_weights: self.key_weights.clone(),
            max_concurrent: self.max_concurrent,
            dialect: Arc::new(Dialect {
                quirks: self.quirks.quirks(self.wire),
                body: self.body.0.clone(),
            }),
            families: self
                .families
                .iter()
                .map(|family| self.family_dialect(family))
                .collect(),
            models: self.models.iter().cloned().map(Arc::new).collect(),
            passthrough: self.passthrough,
            discovery: self.discover.unwrap_or(if self.models.is_empty() {
                Discovery::Models
            } else {
                Discovery::Off
            }),
            headers: self.headers.0.clone(),
            query: self.query.0.clone(),
            proxy: self.proxy.clone(),
            ca_file: self.ca_file.clone(),
            timeouts: self.timeouts,
            prompt_cache: self.prompt_cache,
            max_retries: self.max_retries,
            allow_http: self.allow_http,
        }
    }

    /// The dialect of a family: its quirks, and its body fields in addition to those of the
    /// provider, if both have the same wire.
    fn family_dialect(&self, family: &ModelFamily) -> (ModelPatterns, Arc<Dialect>) {
        let wire = family.wire.unwrap_or(self.wire);
        let mut body = if wire == self.wire {
            self.body.0.clone()
        } else {
            Vec::new()
        };
        body.retain(|(name, _)| family.body.0.iter().all(|(over, _)| over != name));
        body.extend(family.body.0.iter().cloned());
        let dialect = Dialect {
            quirks: family.quirks.quirks(wire),
            body,
        };
        (family.patterns.clone(), Arc::new(dialect))
    }
}
