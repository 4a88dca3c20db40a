//! Checks the model names of a configuration: aliases, the default model and fallbacks.

use std::collections::HashSet;
use std::sync::Arc;

use crate::builtin;
use crate::lookup::{EVERY_MODEL, Registry, ResolvedBy, Route};
use crate::provider::Provider;
use crate::suggest;

/// The most mistakes that [`Registry::check`] tells, and the most names of providers that are
/// off. To explain a name costs a look at all others.
pub const MAX_TOLD: usize = 20;

/// A name in the configuration that cannot be resolved. Found when it is loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// An alias of an alias: alias, target. Aliases have one level, so that there are no
    /// cycles.
    #[error("alias `{0}` points to `{1}`, which is an alias itself; aliases have one level")]
    AliasOfAlias(String, String),
    /// An alias whose target is unknown.
    #[error("alias `{0}`: {1}")]
    UnresolvedAlias(String, UnresolvedName),
    /// The default model is unknown.
    #[error("default_model: {0}")]
    UnresolvedDefault(UnresolvedName),
    /// The name that has fallbacks (first field) or one of the fallbacks is unknown.
    #[error("fallbacks of `{0}`: {1}")]
    UnresolvedFallback(String, UnresolvedName),
}

/// A model name that leads to no provider that is on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct UnresolvedName {
    /// The name as it is written.
    pub name: String,
    /// Whether it leads to a provider that is known but off, for example because it has no key.
    pub is_off: bool,
    why: String,
}

impl RegistryError {
    /// Whether the name leads to a provider that is known but off, so that it is no mistake.
    pub fn is_off(&self) -> bool {
        match self {
            Self::AliasOfAlias(..) => false,
            Self::UnresolvedAlias(_, name)
            | Self::UnresolvedDefault(name)
            | Self::UnresolvedFallback(_, name) => name.is_off,
        }
    }
}

impl Registry {
    /// The aliases, default model and fallbacks that cannot be resolved. At most [`MAX_TOLD`]
    /// mistakes and as many names of providers that are off.
    pub fn check(&self) -> Vec<RegistryError> {
        let aliases: HashSet<&str> = self.aliases.iter().map(|(name, _)| &**name).collect();
        let is_known =
            |name: &str| self.resolve_without_default(name).is_some() || aliases.contains(name);
        let mut told = ToldErrors::default();
        for (alias, target) in &self.aliases {
            if aliases.contains(&**target) {
                told.add(false, || {
                    RegistryError::AliasOfAlias(alias.clone(), target.clone())
                });
            } else if self.resolve_target(target).is_none() {
                told.add_unresolved(self, target, |name| {
                    RegistryError::UnresolvedAlias(alias.clone(), name)
                });
            }
        }
        if let Some(name) = &self.default_model
            && !is_known(name)
        {
            told.add_unresolved(self, name, RegistryError::UnresolvedDefault);
        }
        for (of, others) in &self.fallbacks {
            let subject = Some(of).filter(|of| *of != EVERY_MODEL);
            for name in subject.into_iter().chain(others) {
                if !is_known(name) {
                    told.add_unresolved(self, name, |name| {
                        RegistryError::UnresolvedFallback(of.clone(), name)
                    });
                }
            }
        }
        told.errors
    }

    /// Why a model name leads to no provider that is on; `None` if it leads to one.
    pub fn check_name(&self, name: &str) -> Option<UnresolvedName> {
        let is_unknown = self.resolve_without_default(name).is_none();
        is_unknown.then(|| self.unresolved(name, self.off_provider(name)))
    }

    /// Removes the aliases, the default model and the fallbacks that cannot be resolved.
    pub fn remove_unresolved(&mut self) {
        let mut aliases = std::mem::take(&mut self.aliases);
        aliases.retain(|(_, target)| self.resolve_target(target).is_some());
        self.aliases = aliases;
        let mut fallbacks = std::mem::take(&mut self.fallbacks);
        let is_known = |name: &String| self.resolve_without_default(name).is_some();
        for (_, others) in &mut fallbacks {
            others.retain(is_known);
        }
        fallbacks.retain(|(of, others)| (of == EVERY_MODEL || is_known(of)) && !others.is_empty());
        self.fallbacks = fallbacks;
        let default = self.default_model.take();
        self.default_model = default.filter(|name| self.resolve_without_default(name).is_some());
    }

    /// The names that are passed on to a provider that accepts any name, although the part
    /// before their slash is nearly the id of a provider: (name, that id). At most [`MAX_TOLD`].
    pub fn doubtful_names(&self) -> Vec<(&str, &str)> {
        let targets = self.aliases.iter().map(|(_, target)| target);
        let others = self.fallbacks.iter().flat_map(|(_, others)| others);
        let names = targets.chain(&self.default_model).chain(others);
        let mut doubtful = Vec::new();
        for name in names {
            let passed_on = self
                .resolve_target(name)
                .is_some_and(|route| route.resolved_by == ResolvedBy::Passthrough);
            let prefix = name.split_once('/').map(|(prefix, _)| prefix);
            let Some(prefix) = prefix.filter(|_| passed_on) else {
                continue;
            };
            let is_near = |id: &&str| id.len() > 3 && strsim::osa_distance(id, prefix) == 1;
            if let Some(id) = self.known_ids().into_iter().find(is_near)
                && !doubtful.contains(&(name.as_str(), id))
            {
                doubtful.push((name.as_str(), id));
                if doubtful.len() == MAX_TOLD {
                    break;
                }
            }
        }
        doubtful
    }

    /// The names with fallbacks that no provider lists although the one that would get them lists
    /// its models, as (name, the id of that provider, a listed name that is near). At most
    /// [`MAX_TOLD`].
    pub fn unlisted_subjects(&self) -> Vec<(String, String, Option<String>)> {
        let subjects = self.fallbacks.iter().map(|(of, _)| of);
        let unlisted = subjects.filter(|of| *of != EVERY_MODEL).filter_map(|of| {
            let is_alias = self.aliases.iter().any(|(alias, _)| alias == of);
            let Route {
                provider, model, ..
            } = self.resolve_target(of).filter(|_| !is_alias)?;
            let is_listed = provider.model(&model.id).is_some();
            if is_listed || provider.models.is_empty() {
                return None;
            }
            let listed = provider.models.iter().map(|model| model.id.as_str());
            let near = suggest::nearest(&model.id, listed).map(str::to_owned);
            Some((of.clone(), provider.id.clone(), near))
        });
        unlisted.take(MAX_TOLD).collect()
    }

    /// The ids of the providers that are on, of those that are off, and of the built-in ones.
    fn known_ids(&self) -> Vec<&str> {
        let on = self.providers.iter().map(Arc::as_ref);
        let mut ids: Vec<&str> = on.chain(&self.off).map(|known| known.id.as_str()).collect();
        for id in builtin::ids() {
            ids.push(id);
        }
        ids
    }

    /// The id of the provider that is known, but off, and to which a name leads.
    fn off_provider<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        let prefix = name.split_once('/').map(|(prefix, _)| prefix);
        prefix
            .filter(|prefix| {
                self.off.iter().any(|off| off.id == *prefix) || builtin::is_builtin(prefix)
            })
            .or_else(|| {
                let lists = |provider: &&Provider| provider.model(name).is_some();
                self.off
                    .iter()
                    .find(lists)
                    .map(|provider| provider.id.as_str())
            })
            .or_else(|| builtin::provider_listing(name))
            .filter(|id| self.provider(id).is_none())
    }

    /// Explains a name that leads to no provider that is on. `off` is the id of the provider
    /// to which it would lead.
    fn unresolved(&self, name: &str, off: Option<&str>) -> UnresolvedName {
        let why = if let Some(id) = off {
            format!("the provider `{id}` of `{name}` is off")
        } else {
            let prefix = name.split_once('/').map(|(prefix, _)| prefix);
            self.why_unknown(name, prefix.filter(|id| self.provider(id).is_none()))
        };
        UnresolvedName {
            name: name.to_owned(),
            is_off: off.is_some(),
            why,
        }
    }

    /// What is wrong with a name that leads nowhere. `missing` is the part before its slash if
    /// no provider that is on has this id.
    fn why_unknown(&self, name: &str, missing: Option<&str>) -> String {
        let mut models: Vec<String> = self
            .aliases
            .iter()
            .map(|(alias, _)| alias.clone())
            .collect();
        for (provider, model) in self.models() {
            models.extend([model.id.clone(), provider.prefixed_name(&model.id)]);
        }
        let models = models
            .iter()
            .map(String::as_str)
            .filter(|known| *known != name);
        let ids = self.known_ids();
        match (suggest::nearest(name, models), missing) {
            (Some(near), _) => format!("there is no model `{name}`; did you mean `{near}`?"),
            (None, Some(id)) => match suggest::nearest(id, ids) {
                Some(near) => format!("there is no provider `{id}`; did you mean `{near}`?"),
                None => format!("there is no provider `{id}` and no model `{name}`"),
            },
            (None, None) => format!("there is no model `{name}`"),
        }
    }
}

/// The errors of one check. Mistakes and names of providers that are off are limited separately, so
/// that neither hides the other, and only those that are reported are explained.
#[derive(Default)]
struct ToldErrors {
    errors: Vec<RegistryError>,
    mistakes: usize,
    off: usize,
}

impl ToldErrors {
    fn add(&mut self, is_off: bool, error: impl FnOnce() -> RegistryError) {
        let told = if is_off {
            &mut self.off
        } else {
            &mut self.mistakes
        };
        if *told < MAX_TOLD {
            *told += 1;
            self.errors.push(error());
        }
    }

    fn add_unresolved(
        &mut self,
        registry: &Registry,
        name: &str,
        error: impl FnOnce(UnresolvedName) -> RegistryError,
    ) {
        let off = registry.off_provider(name);
        self.add(off.is_some(), || error(registry.unresolved(name, off)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::ProviderSpec;

    fn provider(id: &str, toml: &str) -> Provider {
        let spec = toml::from_str::<ProviderSpec>(toml).unwrap();
        spec.to_provider(id)
    }

    /// A registry with the provider `mine`, which accepts any name, and one that lists `big`.
    fn registry(alias: &str, target: &str) -> Registry {
        Registry {
            providers: vec![
                Arc::new(provider("mine", "passthrough = true")),
                Arc::new(provider("lab", "models = [{ id = \"big\" }]")),
            ],
            aliases: vec![(alias.to_owned(), target.to_owned())],
            ..Registry::default()
        }
    }

    fn errors(registry: &Registry) -> Vec<String> {
        let errors = registry.check();
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_unknown_name_is_explained_with_the_nearest_one() {
        for (target, why) in [
            (
                "lab/bigg",
                "there is no model `lab/bigg`; did you mean `lab/big`?",
            ),
            ("labs/x", "there is no provider `labs`; did you mean `lab`?"),
            (
                "zzzzzzzz/x",
                "there is no provider `zzzzzzzz` and no model `zzzzzzzz/x`",
            ),
            (
                "openai/gpt-5",
                "the provider `openai` of `openai/gpt-5` is off",
            ),
            ("attic/x", "the provider `attic` of `attic/x` is off"),
            ("large", "the provider `attic` of `large` is off"),
        ] {
            let mut registry = registry("fast", target);
            // With two providers that accept any name, none gets an unknown one.
            let another = provider("more", "passthrough = true");
            registry.providers.push(Arc::new(another));
            registry.off = vec![provider("attic", "models = [{ id = \"large\" }]")];
            assert_eq!(errors(&registry), [format!("alias `fast`: {why}")]);
        }
    }

    #[test]
    fn every_unknown_name_is_an_error_and_can_be_removed() {
        let mut registry = registry("fast", "lab/none");
        registry.aliases.push(("good".into(), "big".into()));
        registry.default_model = Some("lab/nothing".into());
        registry.fallbacks = vec![
            ("big".into(), vec!["lab/no".into(), "mine/x".into()]),
            ("lab/nil".into(), vec!["big".into()]),
        ];
        assert_eq!(registry.check().len(), 4);
        registry.remove_unresolved();
        assert_eq!(registry.check(), []);
        assert_eq!(registry.aliases, [("good".into(), "big".into())]);
        assert_eq!(registry.default_model, None);
        assert_eq!(registry.fallbacks, [("big".into(), vec!["mine/x".into()])]);
    }

    #[test]
    fn names_of_providers_that_are_off_hide_no_mistake() {
        let mut registry = registry("fast", "big");
        registry.off = vec![provider("attic", "")];
        for n in 0..MAX_TOLD + 5 {
            let off = (format!("old-{n}"), format!("attic/{n}"));
            let wrong = (format!("new-{n}"), format!("lab/{n}"));
            registry.aliases.extend([off, wrong]);
        }
        let errors = registry.check();
        let off = errors.iter().filter(|error| error.is_off()).count();
        assert_eq!((off, errors.len() - off), (MAX_TOLD, MAX_TOLD));
    }

    #[test]
    fn a_name_of_a_provider_that_is_off_goes_to_no_other() {
        let mut registry = registry("fast", "attic/x");
        assert_eq!(registry.check(), []);
        registry.off = vec![provider("attic", "")];
        assert!(registry.check()[0].is_off());
        assert!(registry.resolve("attic/x", false).is_err());
        assert!(registry.resolve("maker/x", false).is_ok());
    }

    #[test]
    fn a_misspelt_provider_whose_name_is_passed_on_is_doubtful() {
        for (target, doubtful) in [
            ("minee/foo", Some("mine")),
            ("opanai/gpt-9", Some("openai")),
            ("maker/model", None),
            ("mine/foo", None),
            ("big", None),
        ] {
            let registry = registry("fast", target);
            assert_eq!(registry.check(), []);
            let found: Vec<_> = registry.doubtful_names();
            let expected = doubtful.map(|id| (target, id));
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{target}");
        }
    }
}
