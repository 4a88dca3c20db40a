//! The part of the registry that one turn used: its routes with everything that influences
//! their requests. Diagnostics store it, and a replay makes a registry from it.

use std::sync::Arc;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::dialect::{Dialect, ModelPatterns};
use crate::discovery::Discovery;
use crate::lookup::{EVERY_MODEL, Registry, ResolvedBy, Route};
use crate::model::Model;
use crate::provider::{PromptCache, Provider, ProviderSpec, Timeouts};
use crate::wire::Wire;

/// The routes of one turn. The diagnostics of a turn contain one, as JSON.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RegistrySnapshot {
    /// The requested model name.
    pub asked: String,
    /// Whether the name was unknown and the default model answered.
    pub default: bool,
    /// The preferred route and its fallbacks; for an unknown name the routes of similar
    /// names.
    pub routes: Vec<RouteSnapshot>,
    /// Whether the name was unknown and no route was found.
    pub unresolved: bool,
    /// In that case the ids of the providers that accept any name.
    pub open: Vec<String>,
}

/// One route with the settings of its provider. It contains no API key, but header and query
/// values may be secrets.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, remote = "Self")]
#[expect(missing_docs, reason = "see the fields of `Provider` and `Route`")]
pub struct RouteSnapshot {
    pub provider: String,
    pub name: String,
    /// The wire of `dialect`, which does not name it.
    pub wire: Wire,
    pub base_url: String,
    pub upstream_model: String,
    pub model: Model,
    /// See [`Model::unlisted`], which a stored model does not tell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unlisted: bool,
    /// See [`Model::reported`], which a stored model does not tell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reported: bool,
    #[serde(skip_deserializing)]
    pub dialect: Dialect,
    pub key_required: bool,
    pub key_header: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_scheme: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_query: Option<String>,
    pub key_weights: Vec<u32>,
    pub headers: Vec<(String, String)>,
    pub query: Vec<(String, String)>,
    pub timeouts: Timeouts,
    pub max_retries: u32,
}

impl RegistrySnapshot {
    /// The snapshot of a turn that requested `asked` and has these routes.
    pub fn new(asked: &str, routes: &[Route]) -> Self {
        Self {
            asked: asked.to_owned(),
            default: routes
                .first()
                .is_some_and(|route| route.resolved_by == ResolvedBy::Default),
            routes: routes.iter().map(RouteSnapshot::of).collect(),
            unresolved: false,
            open: Vec::new(),
        }
    }

    /// The snapshot of a turn whose model name is unknown. `near` are the similar names that
    /// the error suggests.
    pub fn for_unknown_model(asked: &str, registry: &Registry, near: &[String]) -> Self {
        let routes: Vec<Route> = near
            .iter()
            .filter_map(|name| registry.resolve(name, false).ok())
            .collect();
        let open = registry.providers.iter();
        Self {
            default: false,
            unresolved: true,
            open: open
                .filter(|provider| provider.passthrough)
                .map(|provider| provider.id.clone())
                .collect(),
            ..Self::new(asked, &routes)
        }
    }

    /// A registry in which the same turn gets the same routes, or the same error.
    pub fn to_registry(&self) -> Registry {
        let mut registry = Registry::default();
        for route in &self.routes {
            route.add_to(&mut registry.providers);
        }
        if self.unresolved {
            let providers = &mut registry.providers;
            for id in &self.open {
                if !providers.iter().any(|provider| provider.id == *id) {
                    providers.push(Arc::new(ProviderSpec::default().to_provider(id)));
                }
            }
            for provider in providers {
                Arc::make_mut(provider).passthrough = self.open.contains(&provider.id);
            }
            // Its provider may have been off, so that no other one got the name.
            let prefix = self.asked.split_once('/').map(|(prefix, _)| prefix);
            registry.off = prefix
                .map(|id| ProviderSpec::default().to_provider(id))
                .into_iter()
                .collect();
            return registry;
        }
        let mut names = self.routes.iter().map(RouteSnapshot::full_name);
        if let Some(first) = names.next() {
            if self.default {
                registry.default_model = Some(first);
            } else {
                registry.aliases.push((self.asked.clone(), first));
            }
        }
        let others: Vec<String> = names.collect();
        if !others.is_empty() {
            registry.fallbacks.push((EVERY_MODEL.to_owned(), others));
        }
        registry
    }
}

impl<'de> Deserialize<'de> for RouteSnapshot {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut json = Map::deserialize(from)?;
        let dialect = json
            .remove("dialect")
            .ok_or_else(|| D::Error::missing_field("dialect"))?;
        let mut route = Self::deserialize(Value::Object(json)).map_err(D::Error::custom)?;
        route.dialect = Dialect::from_json(route.wire, dialect).map_err(D::Error::custom)?;
        Ok(route)
    }
}

impl Serialize for RouteSnapshot {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, to)
    }
}

impl RouteSnapshot {
    fn of(route: &Route) -> Self {
        let provider = &route.provider;
        Self {
            provider: provider.id.clone(),
            name: provider.name.clone(),
            wire: route.dialect.quirks.wire(),
            base_url: provider.base_url.clone(),
            upstream_model: route.upstream_model.clone(),
            model: Model::clone(&route.model),
            unlisted: route.model.unlisted,
            reported: route.model.reported,
            dialect: Dialect::clone(&route.dialect),
            key_required: provider.key_required,
            key_header: provider.key_header.clone(),
            key_scheme: provider.key_scheme.clone(),
            key_query: provider.key_query.clone(),
            key_weights: provider.key_weights.clone(),
            headers: provider.headers.clone(),
            query: provider.query.clone(),
            timeouts: provider.timeouts,
            max_retries: provider.max_retries,
        }
    }

    /// See [`Route::full_name`].
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.provider, self.upstream_model)
    }

    /// Adds the provider with its model, or only the model if the provider is there already.
    fn add_to(&self, providers: &mut Vec<Arc<Provider>>) {
        let family = (
            ModelPatterns(vec![self.model.id.clone()]),
            Arc::new(self.dialect.clone()),
        );
        let model = Arc::new(Model {
            unlisted: self.unlisted,
            reported: self.reported,
            ..self.model.clone()
        });
        if let Some(known) = providers
            .iter_mut()
            .find(|provider| provider.id == self.provider)
        {
            let known = Arc::make_mut(known);
            known.families.push(family);
            known.models.push(model);
            return;
        }
        providers.push(Arc::new(Provider {
            id: self.provider.clone(),
            name: self.name.clone(),
            base_url: self.base_url.clone(),
            key_env: Vec::new(),
            key_required: self.key_required,
            dialect: Arc::new(self.dialect.clone()),
            families: vec![family],
            models: vec![model],
            passthrough: false,
            discovery: Discovery::Off,
            key_header: self.key_header.clone(),
            key_scheme: self.key_scheme.clone(),
            key_query: self.key_query.clone(),
            key_weights: self.key_weights.clone(),
            max_concurrent: None,
            headers: self.headers.clone(),
            query: self.query.clone(),
            proxy: None,
            ca_file: None,
            timeouts: self.timeouts,
            // It decides about no request.
            prompt_cache: PromptCache::default(),
            max_retries: self.max_retries,
            allow_http: true,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::ProviderSpec;

    fn registry() -> Registry {
        let spec = |toml: &str| toml::from_str::<ProviderSpec>(toml).unwrap();
        let lab = spec(
            "base_url = \"https://lab.example\"\nmodels = [{ id = \"one\", window = 9 }, { id = \"two\" }]\n\
             [[families]]\nmatch = [\"two\"]\nquirks = { tool_choice = [\"none\"], schema = [\"no_const\"] }",
        );
        let hall = spec("base_url = \"https://hall.example\"\npassthrough = true");
        Registry {
            providers: vec![
                Arc::new(lab.to_provider("lab")),
                Arc::new(hall.to_provider("hall")),
            ],
            aliases: vec![("fast".into(), "lab/two".into())],
            default_model: Some("one".into()),
            fallbacks: vec![(
                "fast".into(),
                vec!["lab/one".into(), "hall/any/thing".into()],
            )],
            ..Registry::default()
        }
    }

    fn routes(registry: &Registry, asked: &str, codex: bool) -> Vec<Route> {
        let first = registry.resolve(asked, codex).unwrap();
        let mut routes = registry.fallbacks(asked, &first);
        routes.insert(0, first);
        routes
    }

    #[test]
    fn a_restored_registry_resolves_to_the_same_routes() {
        let registry = registry();
        for (asked, codex) in [
            ("fast", false),
            ("two", false),
            ("lab/one", false),
            ("hall/x", true),
            ("gpt", true),
        ] {
            let routes_before = routes(&registry, asked, codex);
            let snapshot = RegistrySnapshot::new(asked, &routes_before);
            let json = serde_json::to_string(&snapshot).unwrap();
            let snapshot: RegistrySnapshot = serde_json::from_str(&json).unwrap();
            let routes_after = routes(&snapshot.to_registry(), asked, codex);
            assert_eq!(routes_after.len(), routes_before.len(), "{asked}");
            for (after, before) in routes_after.iter().zip(&routes_before) {
                assert_eq!(after.full_name(), before.full_name());
                assert_eq!(after.model, before.model);
                let all = |route: &Route| serde_json::to_string(&*route.dialect).unwrap();
                assert_eq!(all(after), all(before));
                assert_eq!(
                    after.resolved_by == ResolvedBy::Default,
                    before.resolved_by == ResolvedBy::Default
                );
            }
        }
    }

    /// The quirks that both wires have are not enough to tell their wire.
    #[test]
    fn quirks_are_read_for_the_wire_beside_them() {
        let hall = toml::from_str::<ProviderSpec>("wire = \"responses\"\npassthrough = true");
        let registry = Registry {
            providers: vec![Arc::new(hall.unwrap().to_provider("hall"))],
            ..Registry::default()
        };
        let snapshot = RegistrySnapshot::new("hall/x", &routes(&registry, "hall/x", false));
        let stored = serde_json::to_value(&snapshot).unwrap();
        let read = |change: &dyn Fn(&mut Value)| {
            let mut stored = stored.clone();
            change(&mut stored["routes"][0]);
            serde_json::from_value::<RegistrySnapshot>(stored)
                .map(|read| read.routes[0].dialect.quirks.wire())
                .map_err(|error| error.to_string())
        };
        let shared = serde_json::json!({"strict_tools": false});
        assert_eq!(
            read(&|route| route["dialect"]["quirks"] = shared.clone()),
            Ok(Wire::Responses)
        );
        for (change, expected) in [
            (
                &(|route: &mut Value| route["wire"] = "chat".into()) as &dyn Fn(&mut Value),
                "unknown field `tools`",
            ),
            (
                &|route| route["dialect"]["mood"] = 1.into(),
                "unknown field `mood`",
            ),
            (&|route| route["mood"] = 1.into(), "unknown field `mood`"),
            (
                &|route| {
                    route.as_object_mut().unwrap().remove("dialect");
                },
                "missing field `dialect`",
            ),
        ] {
            let error = read(change).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn a_restored_registry_has_the_same_error_for_an_unknown_name() {
        let mut registry = registry();
        // With two providers that accept any name, a name without a provider is unknown.
        let another = toml::from_str::<ProviderSpec>(
            "base_url = \"https://shed.example\"\npassthrough = true\nmodels = [{ id = \"any\" }]",
        );
        let another = Arc::new(another.unwrap().to_provider("shed"));
        registry.providers.push(another);
        for asked in ["twoo", "anyy", "nobody/knows"] {
            let error = registry.resolve(asked, false).unwrap_err();
            let snapshot =
                RegistrySnapshot::for_unknown_model(asked, &registry, &error.suggestions);
            let restored = snapshot.to_registry().resolve(asked, false).unwrap_err();
            assert_eq!(restored.to_string(), error.to_string());
        }
        registry.providers.pop();
        registry
            .off
            .push(ProviderSpec::default().to_provider("attic"));
        for asked in ["attic/x", "lab/nothing"] {
            let error = registry.resolve(asked, false).unwrap_err();
            let snapshot =
                RegistrySnapshot::for_unknown_model(asked, &registry, &error.suggestions);
            let restored = snapshot.to_registry().resolve(asked, false).unwrap_err();
            assert_eq!(restored.to_string(), error.to_string());
        }
    }
}
