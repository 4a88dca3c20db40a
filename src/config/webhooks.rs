//! Whom the server tells that a background response has ended, or that it wants an approval:
//! `[webhooks.<name>]`.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use registry::lists::OneOrMany;
use reqwest::Url;
use schemars::JsonSchema;
use serde::Deserialize;
use strum::{EnumString, IntoStaticStr};

use super::address;
use super::keys::KeySources;
use crate::secrets::Secret;

/// What a secret begins with.
const SECRET_PREFIX: &str = "whsec_";
/// A path of this length in the URL of a webhook is taken for a secret.
const MIN_SECRET_PATH: usize = 24;
/// The least bytes of a secret.
const MIN_SECRET_BYTES: usize = 16;

/// A webhook as it is written in the file: `[webhooks.<name>]`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct WebhookSpec {
    /// Where the events are sent.
    pub url: String,
    /// Whether `url` may be plain `http` to another machine.
    pub allow_http: bool,
    /// The events that are sent; all if nothing is set.
    pub events: Option<Vec<WebhookEvent>>,
    /// The environment variables with the secrets.
    pub secret_env: Option<OneOrMany>,
    /// The file with the secrets.
    pub secret_file: Option<PathBuf>,
    /// The command that prints the secrets.
    pub secret_command: Option<OneOrMany>,
    /// The secrets.
    pub secret: Option<OneOrMany>,
}

impl<'a> From<&'a WebhookSpec> for KeySources<'a> {
    fn from(spec: &'a WebhookSpec) -> Self {
        Self {
            environment: ("secret_env", spec.secret_env.as_ref()),
            file: ("secret_file", spec.secret_file.as_deref()),
            command: ("secret_command", spec.secret_command.as_ref()),
            literal: ("secret", spec.secret.as_ref()),
        }
    }
}

/// What webhooks are told of a background response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, EnumString, IntoStaticStr)]
pub enum WebhookEvent {
    /// It was answered completely.
    #[serde(rename = "response.completed")]
    #[strum(serialize = "response.completed")]
    Completed,
    /// It failed.
    #[serde(rename = "response.failed")]
    #[strum(serialize = "response.failed")]
    Failed,
    /// It ended early, at a limit for example.
    #[serde(rename = "response.incomplete")]
    #[strum(serialize = "response.incomplete")]
    Incomplete,
    /// It was cancelled.
    #[serde(rename = "response.cancelled")]
    #[strum(serialize = "response.cancelled")]
    Cancelled,
    /// A person is asked to approve calls of tools.
    #[serde(rename = "response.approval_requested")]
    #[strum(serialize = "response.approval_requested")]
    ApprovalRequested,
}

impl WebhookEvent {
    /// The event of a response that ended with this status.
    pub fn of_status(status: &str) -> Option<Self> {
        format!("response.{status}").parse().ok()
    }

    /// The `type` of the event.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A webhook that is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Its name in the configuration.
    pub name: String,
    /// Where the events are sent. Path and query may hold a secret.
    pub url: Secret,
    /// The events that are sent; all if nothing is set.
    pub events: Option<Vec<WebhookEvent>>,
    /// What signs the events, in the form `whsec_...`. Several while one replaces another.
    pub secrets: Vec<Secret>,
}

impl Webhook {
    /// Whether this event is sent to it.
    pub fn takes(&self, event: WebhookEvent) -> bool {
        self.events
            .as_ref()
            .is_none_or(|events| events.contains(&event))
    }

    /// The host of its URL, for the log.
    pub fn host(&self) -> String {
        let url = Url::parse(self.url.expose()).ok();
        let host = url.and_then(|url| url.host_str().map(str::to_owned));
        host.unwrap_or_default()
    }

    /// The secret as it is configured, and without its prefix.
    pub(super) fn forms_of_secret(secret: &Secret) -> impl Iterator<Item = Secret> {
        let bare = secret.expose().strip_prefix(SECRET_PREFIX);
        [Some(secret.clone()), bare.and_then(Secret::new)]
            .into_iter()
            .flatten()
    }

    /// The part of the URL that may be a secret: its path and query, if they are long.
    pub(super) fn secret_of_url(&self) -> Option<Secret> {
        let (_, path) = address::split_origin(self.url.expose());
        (path.len() >= MIN_SECRET_PATH).then(|| Secret::new(path))?
    }
}

/// The bytes of a secret; `None` if it has not the form `whsec_` and base64.
pub fn secret_bytes(secret: &Secret) -> Option<Vec<u8>> {
    let encoded = secret.expose().strip_prefix(SECRET_PREFIX)?;
    let bytes = STANDARD.decode(encoded).ok()?;
    (bytes.len() >= MIN_SECRET_BYTES).then_some(bytes)
}
