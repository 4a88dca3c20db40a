//! Loads `[routing]`: aliases, the default model and fallbacks.

use registry::RegistryError;

use super::ConfigLoader;
use crate::config::settings::RoutingConfig;
use crate::config::toml_file::TomlFile;

impl ConfigLoader<'_> {
    /// Takes over the names and checks that they lead to models. A name whose provider is known
    /// but off is left out with a warning, because that provider may only lack its key.
    pub(super) fn routing(&mut self, main: &TomlFile, routing: RoutingConfig) {
        let registry = &mut self.config.registry;
        let fallbacks = routing.fallbacks.0.into_iter();
        registry.fallbacks = fallbacks.map(|(of, others)| (of, others.0)).collect();
        registry.aliases = routing.aliases.0;
        registry.default_model = routing.default_model;
        if self.has_bad_provider {
            return;
        }
        for refused in registry.check() {
            if refused.is_off() {
                self.warn(format!("{refused}, so it is left out"));
                continue;
            }
            let path = match &refused {
                RegistryError::AliasOfAlias(alias, _)
                | RegistryError::UnresolvedAlias(alias, _) => {
                    ["routing", "aliases", alias.as_str()]
                }
                RegistryError::UnresolvedDefault(_) => ["routing", "default_model", ""],
                RegistryError::UnresolvedFallback(of, _) => ["routing", "fallbacks", of.as_str()],
            };
            self.fail(main.error(&path, refused.to_string()));
        }
        self.distrust_routing(main);
        self.config.registry.remove_unresolved();
        let doubtful: Vec<String> = self
            .config
            .registry
            .doubtful_names()
            .iter()
            .map(|(name, near)| {
                let (prefix, _) = name.split_once('/').unwrap_or((name, ""));
                format!(
                    "`{name}` is passed on as the name of a model, because there is no provider \
                     `{prefix}`; did you mean `{near}`?"
                )
            })
            .collect();
        let unlisted = self.config.registry.unlisted_subjects();
        let unlisted = unlisted.into_iter().map(|(name, provider, near)| {
            let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            format!(
                "fallbacks of `{name}`: the provider `{provider}` does not list this model{near}"
            )
        });
        for warning in doubtful.into_iter().chain(unlisted) {
            self.warn(warning);
        }
    }
}
