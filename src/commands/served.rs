//! The models that commands work with: those of the server that runs on the configured address, as
//! it tells them itself, because it may have other keys than this process; without one, those that
//! a server with this process's environment would have.

use http::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::Value;

use super::{ok_body, parse_answer, print_error};
use crate::app::models::list::codex_infos;
use crate::app::models::{catalog_with, first_model};
use crate::config::Config;
use crate::control::{ApiError, ControlClient, ControlError};

/// Who tells which models there are.
#[derive(Clone, Debug)]
pub(super) enum ModelSource {
    /// The running server.
    Server(ControlClient),
    /// The configuration and the environment of this process.
    Shell,
}

impl ModelSource {
    /// Looks for the server, and says on standard error who tells.
    pub(super) async fn find(config: &Config) -> Result<Self, ControlError> {
        let control = ControlClient::new(config);
        let address = control.address();
        let (source, notice) = match control.check_health().await {
            Ok(_) => (
                Self::Server(control),
                format!("From the server on {address}."),
            ),
            Err(ControlError::NotRunning(_)) => (
                Self::Shell,
                format!("No server runs on {address}; these are the models of this shell."),
            ),
            Err(ControlError::NotRespondent(_)) => (
                Self::Shell,
                format!(
                    "Another program listens on {address}; these are the models of this shell."
                ),
            ),
            Err(error) => return Err(error),
        };
        print_error(&format!("{notice}\n"));
        Ok(source)
    }
}

/// The models that are served, in the order of preference.
#[derive(Debug, Deserialize)]
pub(super) struct ServedModels {
    /// As OpenAI's SDKs read them.
    #[serde(rename = "data")]
    models: Vec<ServedModel>,
    /// As Codex reads them. Their instructions are empty.
    #[serde(rename = "models")]
    pub(super) infos: Vec<Value>,
}

#[derive(Debug, Deserialize)]
struct ServedModel {
    id: String,
    owned_by: String,
}

impl ServedModels {
    /// Asks a server for its models. The list also has the one with this name, if it is served, or
    /// else the default one of this configuration.
    pub(super) async fn of_server(
        control: &ControlClient,
        config: &Config,
        named: Option<&str>,
    ) -> anyhow::Result<Self> {
        let mut path = "/v1/models?instructions=none".to_owned();
        if let Some(named) = named.or(config.registry.default_model.as_deref()) {
            path = format!(
                "{path}&with={}",
                utf8_percent_encode(named, NON_ALPHANUMERIC)
            );
        }
        parse_answer(&ok_body(control.get(&path).await?)?)
    }

    /// The models of a configuration, and the one with this name, if it is served.
    pub(super) fn of_config(config: &Config, named: Option<&str>) -> Self {
        let named = named.or(config.registry.default_model.as_deref());
        let entries = catalog_with(config, None, named);
        let models = entries.iter().map(|entry| ServedModel {
            id: entry.slug.clone(),
            owned_by: entry.owned_by.clone(),
        });
        Self {
            models: models.collect(),
            infos: codex_infos(&entries, "").collect(),
        }
    }

    /// The names of the models.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.models.iter().map(|model| model.id.as_str())
    }

    /// The demo model, if there is no other one.
    pub(super) fn only_demo(&self) -> Option<&str> {
        let first = self.models.first()?;
        let is_demo = |model: &ServedModel| model.owned_by == registry::SANDBOX;
        self.models.iter().all(is_demo).then_some(&first.id)
    }

    /// The model that Codex starts with: the one that was named, which must be served; else the
    /// default one, if it is served; else the first one that is no demo.
    pub(super) async fn choose(
        &self,
        source: &ModelSource,
        config: &Config,
        named: Option<&str>,
    ) -> anyhow::Result<String> {
        if let Some(name) = named {
            return match refusal(source, config, name).await? {
                None => Ok(name.to_owned()),
                Some(message) => anyhow::bail!("{message}"),
            };
        }
        if let Some(name) = &config.registry.default_model
            && refusal(source, config, name).await?.is_none()
        {
            return Ok(name.clone());
        }
        let is_real = |model: &&ServedModel| model.owned_by != registry::SANDBOX;
        let real = self.models.iter().find(is_real);
        if let Some(model) = real.or(self.models.first()) {
            return Ok(model.id.clone());
        }
        let example = match source {
            ModelSource::Server(_) => "PROVIDER/MODEL".to_owned(),
            ModelSource::Shell => first_model(config),
        };
        anyhow::bail!("no model is listed; name one with --model, such as --model {example}")
    }
}

/// Why a model is not served; `None` if it is. For the person who typed the name.
pub(super) async fn refusal(
    source: &ModelSource,
    config: &Config,
    model: &str,
) -> Result<Option<String>, ControlError> {
    let ModelSource::Server(control) = source else {
        let resolved = config.registry.resolve(model, false);
        return Ok(resolved.err().map(|error| error.on_command_line()));
    };
    let model = utf8_percent_encode(model, NON_ALPHANUMERIC);
    let (status, body) = control.get(&format!("/v1/models/{model}")).await?;
    let message = || {
        let message = ApiError::message_in(&body);
        message.replace("GET /v1/models lists", "`respondent models` lists")
    };
    Ok((status != StatusCode::OK).then(message))
}
