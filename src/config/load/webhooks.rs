//! Loads `[webhooks]`.

use std::path::Path;

use super::ConfigLoader;
use crate::config::keys::{self, KeyError, KeyOrigin};
use crate::config::toml_file::TomlFile;
use crate::config::webhooks::{Webhook, WebhookSpec, secret_bytes};
use crate::config::{ConfigError, address};
use crate::secrets::Secret;

/// What a secret looks like, for messages.
const SECRET_FORM: &str = "a secret is whsec_ and at least 16 bytes in base64, as `echo whsec_$(openssl rand -base64 32)` makes one";

impl ConfigLoader<'_> {
    /// Adds the webhooks. One whose secret is missing is off, with a warning.
    pub(super) fn webhooks(&mut self, main: &TomlFile, specs: Vec<(String, WebhookSpec)>) {
        // Those of a file that was found are refused already, and no command of it runs.
        if self.config.paths.is_found {
            return;
        }
        for (name, spec) in specs {
            let error = |key: &str, why: &str| {
                main.error(
                    &["webhooks", &name, key],
                    format!("webhook `{name}`: {why}"),
                )
            };
            let errors_before = self.errors.len();
            if let Some((key, why)) = mistake(&name, &spec) {
                self.fail(error(key, why));
            }
            let secrets = self.webhook_secrets(&name, &spec, &error);
            if self.errors.len() > errors_before {
                continue;
            }
            if let (Some(secrets), Some(url)) = (secrets, Secret::new(&spec.url)) {
                self.config.webhooks.push(Webhook {
                    name,
                    url,
                    events: spec.events,
                    secrets,
                });
            }
        }
    }

    /// The secrets of a webhook; `None` if it is off without them.
    fn webhook_secrets(
        &mut self,
        name: &str,
        spec: &WebhookSpec,
        error: &dyn Fn(&str, &str) -> ConfigError,
    ) -> Option<Vec<Secret>> {
        let environment = self.inputs.environment.as_ref();
        let resolve = |path: &Path| self.resolve(path);
        let found = keys::api_keys(
            &spec.into(),
            environment,
            self.purpose.reads_keys(),
            resolve,
        );
        let keys = match found {
            Ok(Some(keys)) => keys,
            Ok(None) => {
                let why =
                    "it needs a secret: give secret_env, secret_file, secret_command or secret";
                self.fail(error("url", why));
                return None;
            }
            Err(KeyError::Mistake(key, why)) => {
                self.fail(error(key, &why));
                return None;
            }
            Err(KeyError::Missing(why)) => {
                self.warn(format!("webhook `{name}` is off: {why}"));
                return None;
            }
        };
        if let KeyOrigin::File(path) = &keys.origin {
            self.add_secret_file(path);
        }
        if keys.secrets.iter().any(|it| secret_bytes(it).is_none()) {
            self.fail(error(keys.setting, SECRET_FORM));
            return None;
        }
        Some(keys.secrets)
    }
}

/// The setting that is wrong, and why.
fn mistake(name: &str, spec: &WebhookSpec) -> Option<(&'static str, &'static str)> {
    if let Err(why) = super::check_name(name) {
        return Some(("url", why));
    }
    if spec.events.as_ref().is_some_and(Vec::is_empty) {
        return Some(("events", "events is empty; leave it out to get all"));
    }
    let why = address::webhook_url_error(&spec.url, spec.allow_http)?;
    Some(("url", why))
}
