//! The models of a server, as it tells them itself: it may have other keys than this process.

use http::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::Value;

use super::server::LocalServer;
use crate::control::{ApiError, ControlError};

/// The models that a server lists, in its order of preference.
#[derive(Debug, Deserialize)]
pub(super) struct ServedModels {
    /// As OpenAI's SDKs read them.
    #[serde(rename = "data")]
    models: Vec<ServedModel>,
    /// As Codex reads them.
    #[serde(rename = "models")]
    pub(super) infos: Vec<Value>,
}

#[derive(Debug, Deserialize)]
struct ServedModel {
    id: String,
    owned_by: String,
}

impl ServedModels {
    /// Asks a server for its models. The list also has the one with this name, if it is served.
    pub(super) async fn of(server: &LocalServer, named: Option<&str>) -> anyhow::Result<Self> {
        let default = server.config().registry.default_model.as_deref();
        let path = match named.or(default) {
            Some(named) => {
                let named = utf8_percent_encode(named, NON_ALPHANUMERIC);
                format!("/v1/models?with={named}")
            }
            None => "/v1/models".to_owned(),
        };
        let (status, body) = server.control().get(&path).await?;
        if status != StatusCode::OK {
            anyhow::bail!(
                "the server does not list its models: {}",
                ApiError::message_in(&body)
            );
        }
        Ok(serde_json::from_slice(&body)?)
    }

    /// The model that Codex starts with: the one that was named, which must be served, or the
    /// server's first.
    pub(super) async fn choose(
        &self,
        server: &LocalServer,
        named: Option<String>,
    ) -> anyhow::Result<String> {
        let default = || server.config().registry.default_model.clone();
        if let Some(name) = named.or_else(default) {
            return match refusal(server, &name).await? {
                None => Ok(name),
                Some(message) => anyhow::bail!("{message}"),
            };
        }
        let Some(first) = self.models.first() else {
            anyhow::bail!("no model is listed; name one with --model PROVIDER/MODEL");
        };
        if self
            .models
            .iter()
            .all(|model| model.owned_by == registry::SANDBOX)
        {
            anyhow::bail!("{}", server.no_key_advice(&first.id));
        }
        Ok(first.id.clone())
    }
}

/// Why the server does not serve a model; `None` if it does.
async fn refusal(server: &LocalServer, model: &str) -> Result<Option<String>, ControlError> {
    let model = utf8_percent_encode(model, NON_ALPHANUMERIC);
    let path = format!("/v1/models/{model}");
    let (status, body) = server.control().get(&path).await?;
    // The message is for programs; this one is read by the person who typed the name.
    let message = || {
        let message = ApiError::message_in(&body);
        message.replace("GET /v1/models lists", "`respondent models` lists")
    };
    Ok((status != StatusCode::OK).then(message))
}
