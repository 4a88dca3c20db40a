//! The embedded providers, and how a configuration is laid over them.

use toml::{Table, Value};

use crate::provider::Spec;

/// The id of the scripted offline model inside this program.
pub const SANDBOX: &str = "sandbox";

/// The base of every provider that is not built in; no provider itself.
pub const GENERIC: &str = "openai-compatible";

/// Every file of `providers/`, as (id, text). This order is the order of
/// providers that are on without a configuration.
const FILES: &[(&str, &str)] = &[
    ("openai", include_str!("../providers/openai.toml")),
    ("llamacpp", include_str!("../providers/llamacpp.toml")),
    ("vllm", include_str!("../providers/vllm.toml")),
    (GENERIC, include_str!("../providers/openai-compatible.toml")),
    (SANDBOX, include_str!("../providers/sandbox.toml")),
];

/// The ids of the built-in providers.
pub fn ids() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(id, _)| *id).filter(|id| *id != GENERIC)
}

/// Whether a provider with this id is built in.
pub fn is_builtin(id: &str) -> bool {
    ids().any(|known| known == id)
}

/// The provider `id` with `over` laid over its embedded file, or over the
/// generic base if none has its name: values replace values, tables join, models
/// join by their id, families stand in front.
pub fn build(id: &str, over: Table) -> Result<Spec, toml::de::Error> {
    let base = FILES
        .iter()
        .find(|(known, _)| *known == id)
        .or_else(|| FILES.iter().find(|(known, _)| *known == GENERIC))
        .map_or("", |(_, text)| *text);
    let mut table: Table = toml::from_str(base)?;
    if !is_builtin(id) {
        table.remove("name");
    }
    lay(&mut table, over);
    lay_families(&mut table);
    table.try_into()
}

/// A family says only how it differs from its provider.
fn lay_families(table: &mut Table) {
    let quirks = table.get("quirks").cloned();
    let (Some(Value::Table(quirks)), Some(Value::Array(families))) =
        (quirks, table.get_mut("families"))
    else {
        return;
    };
    for family in families {
        let Value::Table(family) = family else {
            continue;
        };
        let mut whole = quirks.clone();
        if let Some(Value::Table(own)) = family.remove("quirks") {
            lay(&mut whole, own);
        }
        family.insert("quirks".to_owned(), Value::Table(whole));
    }
}

fn lay(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => lay(below, above),
            (Some(Value::Array(below)), Value::Array(above)) if key == "models" => {
                lay_models(below, above);
            }
            (Some(Value::Array(below)), Value::Array(mut above)) if key == "families" => {
                above.append(below);
                *below = above;
            }
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

fn lay_models(base: &mut Vec<Value>, over: Vec<Value>) {
    for model in over {
        let id = model.get("id").cloned();
        let known = base.iter_mut().find(|below| below.get("id") == id.as_ref());
        match (known, model) {
            (Some(Value::Table(below)), Value::Table(above)) => lay(below, above),
            (_, model) => base.push(model),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::SystemRole;

    #[test]
    fn every_file_of_the_folder_is_embedded() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/providers");
        let found: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        let listed: BTreeSet<String> = FILES.iter().map(|(id, _)| (*id).to_owned()).collect();
        assert_eq!(found, listed);
    }

    #[test]
    fn every_embedded_provider_is_sound() {
        for id in ids() {
            let provider = build(id, Table::new()).unwrap().provider(id);
            assert_eq!(provider.base_url.is_empty(), id == SANDBOX, "{id}");
            assert_eq!(provider.key_required, !provider.key_env.is_empty(), "{id}");
            assert!(provider.passthrough || !provider.models.is_empty(), "{id}");
            let ids: BTreeSet<&str> = provider.models.iter().map(|m| m.id.as_str()).collect();
            assert_eq!(ids.len(), provider.models.len(), "{id} lists a model twice");
            for model in &provider.models {
                assert!(
                    !model.name.is_empty() && model.window.is_some(),
                    "{}",
                    model.id
                );
                if let Some(level) = &model.default_reasoning {
                    assert!(model.reasoning.contains(level), "{}", model.id);
                }
            }
        }
    }

    #[test]
    fn quirks_are_set_only_beside_a_source() {
        for (id, text) in FILES {
            if let Some((before, quirks)) = text.split_once("[quirks]") {
                let near = before.lines().last().is_some_and(|l| l.starts_with('#'));
                assert!(near || quirks.trim_start().starts_with('#'), "{id}");
            }
        }
    }

    #[test]
    fn a_configuration_lies_over_a_builtin() {
        let over = toml::toml! {
            base_url = "https://gateway.example/v1/"
            quirks = { files = false }
            families = [{ match = ["o*"], quirks = { penalties = false } }]
            models = [{ id = "gpt-4o", window = 1000 }, { id = "gpt-next" }]
        };
        let plain = build("openai", Table::new()).unwrap().provider("openai");
        let provider = build("openai", over).unwrap().provider("openai");
        assert_eq!(provider.base_url, "https://gateway.example/v1");
        let (quirks, family) = (provider.dialect.quirks, provider.dialect_of("o9").quirks);
        assert!(!quirks.files && quirks.system_role == SystemRole::Developer);
        assert!(!family.files && !family.penalties && quirks.penalties);
        assert_eq!(provider.models.len(), plain.models.len() + 1);
        let known = provider.model("gpt-4o").unwrap();
        assert_eq!((known.window, known.images), (Some(1000), true));
    }

    #[test]
    fn an_own_provider_stands_on_the_generic_base() {
        let over = toml::toml! { base_url = "https://llm.example/v1" };
        let provider = build("mine", over).unwrap().provider("mine");
        assert!(provider.passthrough && !provider.key_required);
        assert_eq!(provider.name, "mine");
    }

    #[test]
    fn a_key_that_nobody_knows_is_an_error() {
        assert!(build("mine", toml::toml! { base_ur = "x" }).is_err());
        assert!(build("mine", toml::toml! { quirks = { verbose = true } }).is_err());
    }
}
