//! From the model name of a request to a provider and its model.

use std::sync::Arc;

use crate::builtin;
use crate::dialect::Dialect;
use crate::model::Model;
use crate::provider::Provider;
use crate::suggest;

/// The providers that are on, and the names that people gave.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    /// In the order of the configuration.
    pub providers: Vec<Arc<Provider>>,
    /// Own names, as (alias, model name).
    pub aliases: Vec<(String, String)>,
    /// Answers Codex where nobody knows the name.
    pub default_model: Option<String>,
    /// Where a turn goes instead, as (model name or `*`, model names in order).
    pub fallbacks: Vec<(String, Vec<String>)>,
}

/// Where a turn goes.
#[derive(Clone, Debug)]
pub struct Route {
    /// The provider.
    pub provider: Arc<Provider>,
    /// The model, described by its name alone if it is not listed.
    pub model: Arc<Model>,
    /// How the model is spoken to.
    pub dialect: Arc<Dialect>,
    /// The name in the upstream request.
    pub upstream_model: String,
    /// How the name was found.
    pub resolved_by: ResolvedBy,
}

impl Route {
    /// The name that always leads here: provider, slash, model.
    pub fn full_name(&self) -> String {
        self.provider.prefixed_name(&self.upstream_model)
    }
}

/// How a name was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolvedBy {
    /// The whole name is a listed model.
    Exact,
    /// Its prefix is a provider.
    Prefixed,
    /// It is an alias.
    Alias,
    /// Nobody knows it; the default model answers.
    Default,
    /// Nobody lists it; the only provider that takes any name gets it.
    Passthrough,
}

/// A name that leads nowhere. The text is fit for the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("The model '{requested}' does not exist or no provider is on for it.{hint}")]
pub struct UnknownModel {
    /// The name of the request.
    pub requested: String,
    /// Known names that are near, the nearest first, three at most.
    pub suggestions: Vec<String>,
    hint: String,
}

/// Names that cannot work, found at load.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// An alias of an alias, which may be a cycle.
    #[error("alias '{0}' points to '{1}', which is an alias itself; aliases have one level")]
    AliasOfAlias(String, String),
    /// An alias that leads nowhere.
    #[error("alias '{0}' leads nowhere. {1}")]
    UnresolvedAlias(String, UnknownModel),
    /// A default model that leads nowhere.
    #[error("default_model leads nowhere. {0}")]
    UnresolvedDefault(UnknownModel),
    /// Fallbacks of a name that leads nowhere, or to one: the name they are
    /// for comes first.
    #[error("fallbacks of '{0}': '{name}' leads nowhere. {1}", name = .1.requested)]
    UnresolvedFallback(String, UnknownModel),
}

/// Stands for every model in [`Registry::fallbacks`].
pub const EVERY_MODEL: &str = "*";

impl Registry {
    /// The route of `name`. In this order:
    ///
    /// 1. an alias,
    /// 2. `provider/model` of a provider that is on and lists the model or passes
    ///    any on,
    /// 3. a model id as a whole (ids may contain slashes), the first provider
    ///    that lists it,
    /// 4. the default model, for Codex only: it asks for helper models by names
    ///    of its own, which a server that takes any name would refuse or mistake,
    /// 5. the provider that passes any name on, if there is exactly one and the
    ///    name does not begin with another provider's prefix.
    pub fn resolve(&self, name: &str, caller_is_codex: bool) -> Result<Route, UnknownModel> {
        if let Some((_, target)) = self.aliases.iter().find(|(alias, _)| alias == name) {
            let route = self.resolve_target(target);
            return route
                .map(|route| Route {
                    resolved_by: ResolvedBy::Alias,
                    ..route
                })
                .ok_or_else(|| self.unknown_model(name));
        }
        if let Some(route) = self.resolve_listed(name) {
            return Ok(route);
        }
        if caller_is_codex
            && let Some(default) = &self.default_model
            && let Some(route) = self.resolve_without_default(default)
        {
            return Ok(Route {
                resolved_by: ResolvedBy::Default,
                ..route
            });
        }
        self.resolve_passthrough(name)
            .ok_or_else(|| self.unknown_model(name))
    }

    /// Where the turn of `route`, which `asked` led to, goes instead, in order:
    /// what is given for the name that was asked for, for what it stands for
    /// if it is an alias or unknown, for the model, and for every model. Each
    /// model comes once; `route` itself does not.
    pub fn fallbacks(&self, asked: &str, route: &Route) -> Vec<Route> {
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
        let mut names = vec![asked];
        names.extend(target(asked));
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
            let given = self.fallbacks.iter().filter(|(of, _)| of == name);
            for other in given.flat_map(|(_, others)| others) {
                if let Some(other) = self.resolve_without_default(other)
                    && !seen.contains(&other.full_name())
                {
                    seen.push(other.full_name());
                    routes.push(other);
                }
            }
        }
        routes
    }

    /// The name by which `GET /v1/models` lists a model: its id, or with the
    /// provider in front where the id alone leads elsewhere.
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

    /// Every listed model with its provider, in the order of lookup.
    pub fn models(&self) -> impl Iterator<Item = (&Arc<Provider>, &Arc<Model>)> {
        self.providers
            .iter()
            .flat_map(|provider| provider.models.iter().map(move |model| (provider, model)))
    }

    /// The provider with this id, if it is on.
    pub fn provider(&self, id: &str) -> Option<&Arc<Provider>> {
        self.providers.iter().find(|provider| provider.id == id)
    }

    /// Tells the address of a provider whose port is known only once it runs.
    pub fn set_base_url(&mut self, id: &str, base_url: &str) {
        for provider in &mut self.providers {
            if provider.id == id {
                base_url.clone_into(&mut Arc::make_mut(provider).base_url);
            }
        }
    }

    /// Whether every alias, the default model and every fallback lead somewhere.
    pub fn check(&self) -> Result<(), RegistryError> {
        for (alias, target) in &self.aliases {
            if self.aliases.iter().any(|(other, _)| other == target) {
                return Err(RegistryError::AliasOfAlias(alias.clone(), target.clone()));
            }
            if self.resolve_target(target).is_none() {
                return Err(RegistryError::UnresolvedAlias(
                    alias.clone(),
                    self.unknown_model(target),
                ));
            }
        }
        if let Some(name) = &self.default_model
            && self.resolve_without_default(name).is_none()
        {
            return Err(RegistryError::UnresolvedDefault(self.unknown_model(name)));
        }
        for (of, others) in &self.fallbacks {
            let given = Some(of).filter(|of| *of != EVERY_MODEL);
            if let Some(lost) = given
                .into_iter()
                .chain(others)
                .find(|name| self.resolve_without_default(name).is_none())
            {
                return Err(RegistryError::UnresolvedFallback(
                    of.clone(),
                    self.unknown_model(lost),
                ));
            }
        }
        Ok(())
    }

    fn resolve_without_default(&self, name: &str) -> Option<Route> {
        self.resolve(name, false).ok()
    }

    fn resolve_target(&self, name: &str) -> Option<Route> {
        self.resolve_listed(name)
            .or_else(|| self.resolve_passthrough(name))
    }

    fn resolve_listed(&self, name: &str) -> Option<Route> {
        self.resolve_prefixed(name)
            .or_else(|| self.resolve_exact(name))
    }

    fn resolve_prefixed(&self, name: &str) -> Option<Route> {
        let (prefix, rest) = name.split_once('/')?;
        let provider = self.provider(prefix)?;
        match provider.model(rest) {
            Some(model) => Some(route(provider, Arc::clone(model), ResolvedBy::Prefixed)),
            None if provider.passthrough && !rest.is_empty() => {
                let model = Arc::new(Model::unlisted(rest));
                Some(route(provider, model, ResolvedBy::Prefixed))
            }
            None => None,
        }
    }

    fn resolve_exact(&self, name: &str) -> Option<Route> {
        self.providers.iter().find_map(|provider| {
            let model = provider.model(name)?;
            Some(route(provider, Arc::clone(model), ResolvedBy::Exact))
        })
    }

    fn resolve_passthrough(&self, name: &str) -> Option<Route> {
        let mut open = self
            .providers
            .iter()
            .filter(|provider| provider.passthrough);
        let (only, more) = (open.next()?, open.next());
        let prefix = name.split_once('/').map(|(prefix, _)| prefix);
        let taken = prefix.is_some_and(|prefix| self.provider(prefix).is_some());
        (more.is_none() && !taken && !name.is_empty()).then(|| {
            route(
                only,
                Arc::new(Model::unlisted(name)),
                ResolvedBy::Passthrough,
            )
        })
    }

    fn unknown_model(&self, asked: &str) -> UnknownModel {
        let mut known: Vec<String> = self
            .aliases
            .iter()
            .map(|(alias, _)| alias.clone())
            .collect();
        for (provider, model) in self.models() {
            known.push(model.id.clone());
            known.push(provider.prefixed_name(&model.id));
        }
        let near: Vec<String> = suggest::similar(asked, known.iter().map(String::as_str))
            .into_iter()
            .take(3)
            .map(str::to_owned)
            .collect();
        UnknownModel {
            hint: self.hint(asked, &near),
            requested: asked.to_owned(),
            suggestions: near,
        }
    }

    fn hint(&self, asked: &str, near: &[String]) -> String {
        let prefix = asked.split_once('/').map(|(prefix, _)| prefix);
        let off = prefix
            .filter(|prefix| builtin::is_builtin(prefix))
            .or_else(|| builtin::provider_listing(asked))
            .filter(|id| self.provider(id).is_none());
        if let Some(off) = off {
            let way = match builtin::key_env(off).first() {
                Some(variable) => format!("set {variable} or configure it"),
                None => "configure it".to_owned(),
            };
            return format!(" The provider '{off}' is known but off: {way}.");
        }
        if !near.is_empty() {
            return format!(" Near: {}.", near.join(", "));
        }
        let open: Vec<String> = self
            .providers
            .iter()
            .filter(|provider| provider.passthrough)
            .map(|provider| provider.prefixed_name(asked))
            .collect();
        if open.is_empty() {
            " GET /v1/models lists the models.".to_owned()
        } else {
            format!(" Name its provider: {}.", open.join(" or "))
        }
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
