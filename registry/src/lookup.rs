//! Resolves the model name of a request to a route: a provider and a model.

use std::sync::Arc;

use crate::builtin;
use crate::dialect::Dialect;
use crate::discovery::DiscoveredModels;
use crate::model::Model;
use crate::provider::Provider;
use crate::suggest;

/// The enabled providers, with the aliases, default model and fallbacks of the configuration.
///
/// Made when the configuration is loaded; replaced when it is loaded again.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    /// The enabled providers, in the order of the configuration.
    pub providers: Vec<Arc<Provider>>,
    /// The configured providers that are off, because they are disabled or have no key. Nothing
    /// resolves to them, and names that begin with their ids go to no other provider.
    pub off: Vec<Provider>,
    /// Aliases, as (alias, model name).
    pub aliases: Vec<(String, String)>,
    /// The model for unknown names that Codex asks for.
    pub default_model: Option<String>,
    /// Fallbacks, as (model name or [`EVERY_MODEL`], the model names to try instead, in
    /// order).
    pub fallbacks: Vec<(String, Vec<String>)>,
    /// The ids of the providers whose addresses are in a configuration file that the user has not
    /// named. The name of another provider's model never leads to them.
    pub strangers: Vec<String>,
    /// The models that the providers have listed themselves. What is configured comes first.
    pub discovered: Arc<DiscoveredModels>,
}

/// The provider and model that answer a turn. Made by [`Registry::resolve`] and
/// [`Registry::fallbacks`] for each turn.
#[derive(Clone, Debug)]
pub struct Route {
    /// The provider.
    pub provider: Arc<Provider>,
    /// The listed model, one that the provider has listed itself, or [`Model::unlisted`].
    pub model: Arc<Model>,
    /// The dialect of the model.
    pub dialect: Arc<Dialect>,
    /// The model name in the upstream request.
    pub upstream_model: String,
    /// Which rule resolved the name.
    pub resolved_by: ResolvedBy,
}

impl Route {
    /// `provider/model`, which always resolves to this route.
    pub fn full_name(&self) -> String {
        self.provider.prefixed_name(&self.upstream_model)
    }
}

/// The rule by which a model name was resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolvedBy {
    /// The name is the id of a listed model.
    Exact,
    /// The name begins with the id of a provider and a slash.
    Prefixed,
    /// The name is an alias.
    Alias,
    /// The name is unknown; the default model answers.
    Default,
    /// The name is not listed; it is passed to the provider that has its family, or to the only
    /// one that accepts any name.
    Passthrough,
}

/// The error for a model name that no provider serves. The message is meant for the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}", self.fact(), self.hint.as_deref().unwrap_or(" GET /v1/models lists the models."))]
pub struct UnknownModel {
    /// The model name that was requested.
    pub requested: String,
    /// At most three similar known names, the most similar first.
    pub suggestions: Vec<String>,
    /// What to do, with a space before it; `None` if there is only the list of all models.
    hint: Option<String>,
}

impl UnknownModel {
    fn fact(&self) -> String {
        format!(
            "The model '{}' does not exist, or its provider is off.",
            self.requested
        )
    }

    /// The message for a user who typed the name on the command line.
    pub fn on_command_line(&self) -> String {
        let list = " `respondent models` lists the models.";
        format!("{}{}", self.fact(), self.hint.as_deref().unwrap_or(list))
    }
}

/// The name in [`Registry::fallbacks`] that means every model.
pub const EVERY_MODEL: &str = "*";

impl Registry {
    /// The route for the model name `name`. The first rule that applies decides:
    ///
    /// 1. The name is an alias.
    /// 2. It is `provider/model` of an enabled provider that lists the model or accepts any
    ///    name.
    /// 3. It is a model id (ids may contain slashes); the first provider whose configuration
    ///    lists it answers, else the first one that has listed it itself.
    /// 4. It is of a family of models in the configuration of a provider, and no built-in provider
    ///    lists it: makers bring out new models more often than this program does.
    /// 5. The default model answers, for Codex only. Codex requests helper models by fixed
    ///    names, which a provider that accepts any name would refuse or misunderstand.
    /// 6. Exactly one provider accepts any name, and the name does not begin with the id of
    ///    another provider, on or off.
    pub fn resolve(&self, name: &str, caller_is_codex: bool) -> Result<Route, UnknownModel> {
        if let Some(route) = self.resolve_known(name) {
            return Ok(route);
        }
        if self.aliases.iter().any(|(alias, _)| alias == name) {
            return Err(self.unknown_model(name));
        }
        if caller_is_codex
            && let Some(default) = &self.default_model
            && let Some(route) = self.resolve_without_default(default)
            && self.may_answer(&route.provider, name)
        {
            return Ok(Route {
                resolved_by: ResolvedBy::Default,
                ..route
            });
        }
        self.resolve_passthrough(name)
            .ok_or_else(|| self.unknown_model(name))
    }

    /// The route of a name that is an alias, listed, or of a family: one of the first four rules.
    fn resolve_known(&self, name: &str) -> Option<Route> {
        let as_listed = || {
            let listed = self.resolve_listed(name);
            listed.or_else(|| self.resolve_family(name))
        };
        let Some((_, target)) = self.aliases.iter().find(|(alias, _)| alias == name) else {
            return as_listed();
        };
        let route = self.resolve_target(target)?;
        if !self.may_answer(&route.provider, name) {
            return as_listed();
        }
        Some(Route {
            resolved_by: ResolvedBy::Alias,
            ..route
        })
    }

    /// Whether the address of a provider is in a configuration file that the user has not named.
    pub fn is_stranger(&self, provider: &Provider) -> bool {
        self.strangers.contains(&provider.id)
    }

    /// Whether a name may lead to a provider: one whose address the user has not chosen gets no
    /// name of another provider or of its models.
    pub fn may_answer(&self, provider: &Provider, name: &str) -> bool {
        if !self.is_stranger(provider) {
            return true;
        }
        let prefix = name.split_once('/').map(|(prefix, _)| prefix);
        let is_of_other_prefix = prefix.is_some_and(|prefix| {
            prefix != provider.id
                && (builtin::is_builtin(prefix) || self.begins_with_provider(name))
        });
        let mut others = self.own_providers();
        !is_of_other_prefix
            && builtin::provider_listing(name).is_none()
            && !others.any(|it| self.model(it, name).is_some() || it.has_family_of(name))
    }

    /// The providers, on or off, whose addresses the user or this program has chosen.
    pub fn own_providers(&self) -> impl Iterator<Item = &Provider> {
        let on = self.providers.iter().map(Arc::as_ref);
        on.chain(&self.off).filter(|it| !self.is_stranger(it))
    }

    /// Whether a provider may have the model with this name. One that accepts any name has what it
    /// lists itself, with or without a tag, or else what no file of another one lists.
    pub fn serves(&self, name: &str) -> bool {
        if self.resolve_known(name).is_some() {
            return true;
        }
        let passed_on = self.resolve_passthrough(name);
        passed_on.is_some_and(|route| match self.discovered.of(&route.provider) {
            Some(list) if !list.models().is_empty() => {
                let is_tagged = |id: &str| {
                    id.strip_prefix(name)
                        .is_some_and(|tag| tag.starts_with(':'))
                };
                list.models().iter().any(|model| is_tagged(&model.id))
            }
            Some(_) | None => builtin::provider_listing(name).is_none(),
        })
    }

    /// The routes to try if `route`, to which the name `requested` was resolved, fails. In order:
    /// the fallbacks of the requested name, of the name to which an alias or the default model
    /// resolves, of the model, and of every model. Each model appears once, `route` itself not at
    /// all.
    pub fn fallbacks(&self, requested: &str, route: &Route) -> Vec<Route> {
        if self.fallbacks.is_empty() {
            return Vec::new();
        }
        let full = route.full_name();
        let public = self.public_name(&route.provider, &route.model);
        let default = match route.resolved_by {
            ResolvedBy::Default => self.default_model.as_deref(),
            ResolvedBy::Exact
            | ResolvedBy::Prefixed
            | ResolvedBy::Alias
            | ResolvedBy::Passthrough => None,
        };
        let target = |name| {
            let alias = self.aliases.iter().find(|(alias, _)| alias == name);
            alias.map(|(_, target)| target.as_str())
        };
        let mut names = vec![requested];
        names.extend(target(requested));
        names.extend(default);
        names.extend(default.and_then(target));
        names.extend([full.as_str(), &public, EVERY_MODEL]);
        let mut seen = vec![full.clone()];
        let mut used: Vec<&str> = Vec::new();
        let mut routes = Vec::new();
        for name in names {
            if used.contains(&name) {
                continue;
            }
            used.push(name);
            let entries = self.fallbacks.iter().filter(|(of, _)| of == name);
            for other in entries.flat_map(|(_, others)| others) {
                if let Some(other) = self.resolve_without_default(other)
                    && (self.is_stranger(&route.provider) || !self.is_stranger(&other.provider))
                    && !seen.contains(&other.full_name())
                {
                    seen.push(other.full_name());
                    routes.push(other);
                }
            }
        }
        routes
    }

    /// The name under which `GET /v1/models` lists a model: its id, or `provider/model` if the
    /// id resolves to something else.
    pub fn public_name(&self, provider: &Provider, model: &Model) -> String {
        let leads_here = self
            .resolve(&model.id, false)
            .is_ok_and(|route| route.provider.id == provider.id && route.model.id == model.id);
        if leads_here {
            model.id.clone()
        } else {
            provider.prefixed_name(&model.id)
        }
    }

    /// All listed models with their providers, in the order of resolution: those of the
    /// configuration, then those that the providers have listed themselves.
    pub fn models(&self) -> impl Iterator<Item = (&Arc<Provider>, Arc<Model>)> {
        let listed = self.providers.iter().flat_map(move |provider| {
            let models = provider.models.iter();
            models.map(move |model| (provider, self.with_reported_window(provider, model)))
        });
        let discovered = self.providers.iter().flat_map(|provider| {
            let models = self.discovered_models(provider);
            models.into_iter().map(move |model| (provider, model))
        });
        listed.chain(discovered)
    }

    /// The models that a provider has listed itself and its configuration has not, in its order.
    pub fn discovered_models(&self, provider: &Provider) -> Vec<Arc<Model>> {
        let Some(found) = self.discovered.of(provider) else {
            return Vec::new();
        };
        let is_new = |model: &&Arc<Model>| provider.model(&model.id).is_none();
        found.models().iter().filter(is_new).cloned().collect()
    }

    /// A model of the configuration. If that has no window, it gets the one that its provider has
    /// told.
    pub fn with_reported_window(&self, provider: &Provider, model: &Arc<Model>) -> Arc<Model> {
        if model.window.is_some() {
            return Arc::clone(model);
        }
        let found = self.discovered.of(provider);
        let found = found.as_ref().and_then(|found| found.get(&model.id));
        match found.and_then(|found| found.window) {
            None => Arc::clone(model),
            window => Arc::new(Model {
                window,
                reported: true,
                ..Model::clone(model)
            }),
        }
    }

    /// The model of a provider with this id: that of the configuration, or one that it has listed
    /// itself.
    pub fn model(&self, provider: &Provider, id: &str) -> Option<Arc<Model>> {
        if let Some(model) = provider.model(id) {
            return Some(self.with_reported_window(provider, model));
        }
        self.discovered.of(provider)?.get(id).cloned()
    }

    /// The provider with this id, if it is enabled.
    pub fn provider(&self, id: &str) -> Option<&Arc<Provider>> {
        self.providers.iter().find(|provider| provider.id == id)
    }

    /// Puts a provider in the place of the one with its id, if that is enabled.
    pub fn replace_provider(&mut self, provider: &Arc<Provider>) {
        for place in &mut self.providers {
            if place.id == provider.id {
                *place = Arc::clone(provider);
            }
        }
    }

    /// Sets the address of a provider whose port is known only after it has started.
    pub fn set_base_url(&mut self, id: &str, base_url: &str) {
        for provider in &mut self.providers {
            if provider.id == id {
                base_url.clone_into(&mut Arc::make_mut(provider).base_url);
            }
        }
    }

    pub(crate) fn resolve_without_default(&self, name: &str) -> Option<Route> {
        self.resolve(name, false).ok()
    }

    pub(crate) fn resolve_target(&self, name: &str) -> Option<Route> {
        self.resolve_listed(name)
            .or_else(|| self.resolve_family(name))
            .or_else(|| self.resolve_passthrough(name))
    }

    fn resolve_listed(&self, name: &str) -> Option<Route> {
        self.resolve_prefixed(name)
            .or_else(|| self.resolve_exact(name))
    }

    fn resolve_prefixed(&self, name: &str) -> Option<Route> {
        let (prefix, rest) = name.split_once('/')?;
        let provider = self.provider(prefix)?;
        if !self.may_answer(provider, name) {
            return None;
        }
        match self.model(provider, rest) {
            Some(model) => Some(route(provider, model, ResolvedBy::Prefixed)),
            None if !rest.is_empty() && (provider.passthrough || provider.has_family_of(rest)) => {
                let model = Arc::new(provider.unlisted_model(rest));
                Some(route(provider, model, ResolvedBy::Prefixed))
            }
            None => None,
        }
    }

    fn resolve_exact(&self, name: &str) -> Option<Route> {
        let listed = |provider: &Arc<Provider>| {
            let model = self.with_reported_window(provider, provider.model(name)?);
            Some(route(provider, model, ResolvedBy::Exact))
        };
        let discovered = |provider: &Arc<Provider>| {
            let found = self.discovered.of(provider)?;
            let model = Arc::clone(found.get(name)?);
            Some(route(provider, model, ResolvedBy::Exact))
        };
        let providers = self.providers.iter();
        let mut providers = providers.filter(|provider| self.may_answer(provider, name));
        let known = providers.clone().find_map(listed);
        known.or_else(|| providers.find_map(discovered))
    }

    /// A provider that accepts any name is asked by its prefix, or if it is the only one.
    fn resolve_family(&self, name: &str) -> Option<Route> {
        let mut providers = self.providers.iter();
        let provider = providers.find(|one| {
            !one.passthrough && one.has_family_of(name) && self.may_answer(one, name)
        })?;
        if self.begins_with_provider(name) || builtin::provider_listing(name).is_some() {
            return None;
        }
        let model = Arc::new(provider.unlisted_model(name));
        Some(route(provider, model, ResolvedBy::Passthrough))
    }

    fn resolve_passthrough(&self, name: &str) -> Option<Route> {
        let mut open = self
            .providers
            .iter()
            .filter(|provider| provider.passthrough);
        let (only, more) = (open.next()?, open.next());
        let taken = self.begins_with_provider(name);
        let is_taken = self.is_stranger(only) && self.own_providers().any(|it| it.passthrough);
        let may_answer = more.is_none() && !is_taken && self.may_answer(only, name);
        (may_answer && !taken && !name.is_empty()).then(|| {
            let model = Arc::new(only.unlisted_model(name));
            route(only, model, ResolvedBy::Passthrough)
        })
    }

    /// Whether a name begins with the id of a provider, on or off, and a slash.
    fn begins_with_provider(&self, name: &str) -> bool {
        let prefix = name.split_once('/').map(|(prefix, _)| prefix);
        prefix.is_some_and(|prefix| {
            self.provider(prefix).is_some() || self.off.iter().any(|off| off.id == prefix)
        })
    }

    fn unknown_model(&self, requested: &str) -> UnknownModel {
        let mut known: Vec<String> = self
            .aliases
            .iter()
            .map(|(alias, _)| alias.clone())
            .collect();
        for (provider, model) in self.models() {
            known.push(model.id.clone());
            known.push(provider.prefixed_name(&model.id));
        }
        let suggestions: Vec<String> =
            suggest::similar(requested, known.iter().map(String::as_str))
                .into_iter()
                .take(3)
                .map(str::to_owned)
                .collect();
        UnknownModel {
            hint: self.hint(requested, &suggestions),
            requested: requested.to_owned(),
            suggestions,
        }
    }

    fn hint(&self, requested: &str, suggestions: &[String]) -> Option<String> {
        let prefix = requested.split_once('/').map(|(prefix, _)| prefix);
        let disabled = prefix
            .filter(|prefix| builtin::is_builtin(prefix))
            .or_else(|| builtin::provider_listing(requested))
            .filter(|id| self.provider(id).is_none());
        if let Some(id) = disabled {
            let remedy = match builtin::key_env(id).first() {
                Some(variable) => format!("set {variable} or configure it"),
                None => "configure it".to_owned(),
            };
            return Some(format!(" The provider '{id}' is off: {remedy}."));
        }
        if !suggestions.is_empty() {
            return Some(format!(" Did you mean {}?", suggest::one_of(suggestions)));
        }
        let open: Vec<String> = self
            .providers
            .iter()
            .filter(|provider| provider.passthrough)
            .map(|provider| provider.prefixed_name(requested))
            .collect();
        if !open.is_empty() {
            return Some(format!(" Name its provider: {}.", suggest::one_of(&open)));
        }
        let is_off = |id: &str| self.provider(id).is_none();
        if prefix.is_none_or(is_off)
            && let Some((id, model)) = builtin::nearest_model(requested, is_off)
        {
            let remedy = match builtin::key_env(id).first() {
                Some(variable) => format!("set {variable}"),
                None => format!("add [providers.{id}] to the configuration"),
            };
            return Some(format!(
                " Did you mean {model}? Its provider {id} is off: {remedy}."
            ));
        }
        None
    }
}

fn route(provider: &Arc<Provider>, model: Arc<Model>, found: ResolvedBy) -> Route {
    Route {
        provider: Arc::clone(provider),
        dialect: Arc::clone(provider.dialect_for(&model.id)),
        upstream_model: model.id.clone(),
        model,
        resolved_by: found,
    }
}

#[cfg(test)]
mod tests;
