//! The built-in providers, which are TOML files embedded in the program, and the merge of a
//! configuration with them.

use serde::de::Error as _;
use toml::{Table, Value};

use crate::lists::OneOrMany;
use crate::provider::ProviderSpec;
use crate::suggest;
use crate::wire::{QuirksTable, Wire};

/// The id of the provider inside this program, whose scripted models work offline.
pub const SANDBOX: &str = "sandbox";

/// The file with the defaults of providers that are not built in. It is not a provider
/// itself.
pub const GENERIC: &str = "openai-compatible";

/// The provider files with these ids, as (id, text).
macro_rules! provider_files {
    ($($id:literal),* $(,)?) => {
        &[$(($id, include_str!(concat!("../providers/", $id, ".toml")))),*]
    };
}

/// The files of `providers/`, as (id, text). Without a configuration, providers are enabled in
/// this order: vendors, then hosts of other vendors' models, then local servers. Of two
/// providers with the same key variable the first one is enabled.
const FILES: &[(&str, &str)] = provider_files![
    "openai",
    "moonshot",
    "kimi-code",
    "deepseek",
    "zai",
    "zai-coding",
    "bigmodel",
    "qwen",
    "qwen-cn",
    "minimax",
    "minimax-cn",
    "mimo",
    "gemini",
    "xai",
    "mistral",
    "azure-openai",
    "volcengine-ark",
    "groq",
    "cerebras",
    "together",
    "fireworks",
    "openrouter",
    "siliconflow",
    "nvidia",
    "ollama",
    "lmstudio",
    "llamacpp",
    "vllm",
    "sglang",
    "openai-compatible",
    "sandbox",
];

/// The ids of the built-in providers.
pub fn ids() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(id, _)| *id).filter(|id| *id != GENERIC)
}

/// The environment variables that usually contain the key of a built-in provider. Parses only
/// the top-level keys of its file, because this is called for every provider at every start.
pub fn key_env(id: &str) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct KeyEnvHead {
        #[serde(default)]
        api_key_env: OneOrMany,
    }
    let file = FILES.iter().find(|(known, _)| *known == id);
    let text = file.map_or("", |(_, text)| *text);
    let head = text.split_once("\n[").map_or(text, |(head, _)| head);
    toml::from_str::<KeyEnvHead>(head).map_or_else(|_| Vec::new(), |head| head.api_key_env.0)
}

/// Whether a provider with this id is built in.
pub fn is_builtin(id: &str) -> bool {
    ids().any(|known| known == id)
}

/// Whether `base_url` is the address of the built-in provider `id`. A part of that address in
/// braces matches any name.
pub fn has_address(id: &str, base_url: &str) -> bool {
    let (own, base_url) = (address(id), base_url.trim_end_matches('/'));
    let Some((before, rest)) = own.split_once('{') else {
        return has_fixed_address(id, base_url);
    };
    let after = rest.split_once('}').map_or("", |(_, after)| after);
    let name = base_url.strip_prefix(before);
    let name = name.and_then(|rest| rest.strip_suffix(after));
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
    name.is_some_and(|name| !name.is_empty() && name.chars().all(is_allowed))
}

/// Whether `base_url` is the address of the built-in provider `id` to the letter, apart from a
/// slash at its end.
pub fn has_fixed_address(id: &str, base_url: &str) -> bool {
    let own = address(id);
    !own.is_empty() && own == base_url.trim_end_matches('/')
}

/// The address of a built-in provider; empty if it has none or is not built in.
fn address(id: &str) -> String {
    let spec = build(id, Table::new());
    let base_url = spec.ok().and_then(|spec| spec.base_url);
    base_url.map_or_else(String::new, |url| url.trim_end_matches('/').to_owned())
}

/// The id of the first built-in provider that lists a model with this id.
pub fn provider_listing(model: &str) -> Option<&'static str> {
    let line = format!("\nid = \"{model}\"\n");
    let file = FILES.iter().find(|(_, text)| text.contains(&line));
    file.map(|(id, _)| *id)
}

/// The model of a built-in provider whose name is most similar to `name`, as (provider id, model
/// id). Only providers for which `of` is true count; of several with the model it is the first.
pub fn nearest_model(
    name: &str,
    of: impl Fn(&str) -> bool,
) -> Option<(&'static str, &'static str)> {
    let files = FILES.iter().filter(|(id, _)| *id != SANDBOX && of(id));
    let models: Vec<(&str, &str)> = files
        .flat_map(|(id, text)| {
            let ids = text.lines().filter_map(|line| {
                let id = line.strip_prefix("id = \"")?;
                id.strip_suffix('"')
            });
            ids.map(move |model| (*id, model))
        })
        .collect();
    let nearest = suggest::nearest(name, models.iter().map(|(_, model)| *model))?;
    models.into_iter().find(|(_, model)| *model == nearest)
}

/// The description of the provider `id`: its embedded file, or the generic defaults if it is
/// not built in, with the configuration `over` merged into it. Tables are merged key by key,
/// models by id, families of `over` come first, and any other value replaces the embedded one.
/// If `over` names another wire, nothing of the embedded file applies that belongs to its wire:
/// quirks, body fields, and families that do not name a wire themselves. Fails if a quirk is not
/// one of the provider's or the family's wire.
pub fn build(id: &str, over: Table) -> Result<ProviderSpec, toml::de::Error> {
    let base = FILES
        .iter()
        .find(|(known, _)| *known == id)
        .or_else(|| FILES.iter().find(|(known, _)| *known == GENERIC))
        .map_or("", |(_, text)| *text);
    let mut table: Table = toml::from_str(base)?;
    if !is_builtin(id) {
        table.remove("name");
    }
    if over
        .get("wire")
        .is_some_and(|wire| table.get("wire") != Some(wire))
    {
        remove_wire_settings(&mut table);
    }
    overlay(&mut table, over);
    inherit_family_quirks(&mut table);
    let spec: ProviderSpec = table.try_into()?;
    refuse_foreign_quirks(&spec.quirks, spec.wire)?;
    for family in &spec.families {
        refuse_foreign_quirks(&family.quirks, family.wire.unwrap_or(spec.wire))?;
    }
    Ok(spec)
}

fn refuse_foreign_quirks(quirks: &QuirksTable, wire: Wire) -> Result<(), toml::de::Error> {
    let Some(key) = quirks.foreign_key(wire) else {
        return Ok(());
    };
    Err(toml::de::Error::custom(format!(
        "the wire `{}` has no quirk `{key}`; known are {}",
        wire.name(),
        wire.quirk_names().join(", ")
    )))
}

/// Removes what is written for the wire that a provider's file names.
fn remove_wire_settings(table: &mut Table) {
    table.remove("quirks");
    table.remove("body");
    if let Some(Value::Array(families)) = table.get_mut("families") {
        families.retain(|family| family.get("wire").is_some());
    }
}

/// Fills the quirks of every family of the same wire with those of its provider: the file
/// lists only the differences.
fn inherit_family_quirks(table: &mut Table) {
    let (wire, quirks) = (table.get("wire").cloned(), table.get("quirks").cloned());
    let (Some(Value::Table(quirks)), Some(Value::Array(families))) =
        (quirks, table.get_mut("families"))
    else {
        return;
    };
    for family in families {
        let Value::Table(family) = family else {
            continue;
        };
        if family
            .get("wire")
            .is_some_and(|own| wire.as_ref() != Some(own))
        {
            continue;
        }
        let mut whole = quirks.clone();
        if let Some(Value::Table(own)) = family.remove("quirks") {
            overlay(&mut whole, own);
        }
        family.insert("quirks".to_owned(), Value::Table(whole));
    }
}

fn overlay(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => overlay(below, above),
            (Some(Value::Array(below)), Value::Array(above)) if key == "models" => {
                overlay_models(below, above);
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

fn overlay_models(base: &mut Vec<Value>, over: Vec<Value>) {
    for model in over {
        let id = model.get("id").cloned();
        let known = base.iter_mut().find(|below| below.get("id") == id.as_ref());
        match (known, model) {
            (Some(Value::Table(below)), Value::Table(above)) => overlay(below, above),
            (_, model) => base.push(model),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{Price, SystemRole};

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
    fn every_embedded_provider_is_valid() {
        for id in ids() {
            let provider = build(id, Table::new()).unwrap().to_provider(id);
            assert_eq!(provider.base_url.is_empty(), id == SANDBOX, "{id}");
            assert_eq!(key_env(id), provider.key_env, "{id}");
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
                assert!(
                    model.price.as_ref().is_none_or(is_plausible),
                    "{id}/{}: {:?}",
                    model.id,
                    model.price
                );
            }
        }
    }

    /// Prices per million tokens are nothing, cents or a few dollars; cached tokens cost less, and
    /// long requests do not cost less.
    fn is_plausible(price: &Price) -> bool {
        let tiers = price.tiers.windows(2);
        (price.input > 0.0 || price.output <= 0.0)
            && price.output >= price.input
            && price.output < 200.0
            && price
                .cached_input
                .is_none_or(|cached| cached <= price.input)
            && price.tiers.iter().all(|tier| tier.input >= price.input)
            && tiers.into_iter().all(|pair| pair[0].above < pair[1].above)
    }

    #[test]
    fn every_file_begins_with_its_handwritten_head() {
        let head = |id: &str| {
            let path = format!("{}/import/heads/{id}.toml", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        for (id, text) in FILES {
            assert!(text.starts_with(&head(id)), "{id}: run registry/import");
        }
    }

    #[test]
    fn every_quirk_has_a_comment_with_its_source() {
        let sets = |line: &str| {
            ["[quirks]", "[body]", "quirks =", "body ="]
                .iter()
                .any(|start| line.starts_with(start))
        };
        for (id, text) in FILES {
            for paragraph in text.split("\n\n").filter(|part| part.lines().any(sets)) {
                assert!(
                    paragraph.contains('#'),
                    "{id} names no source:\n{paragraph}"
                );
            }
        }
    }

    #[test]
    fn a_configuration_overrides_a_builtin_provider() {
        let over = toml::toml! {
            base_url = "https://gateway.example/v1/"
            quirks = { files = false }
            families = [{ match = ["o*"], quirks = { penalties = false } }]
            models = [{ id = "gpt-4o", window = 1000 }, { id = "gpt-next" }]
        };
        let plain = build("openai", Table::new()).unwrap().to_provider("openai");
        let provider = build("openai", over).unwrap().to_provider("openai");
        assert_eq!(provider.base_url, "https://gateway.example/v1");
        let chat = |dialect: &crate::Dialect| *dialect.quirks.as_chat().unwrap();
        let (quirks, family) = (chat(&provider.dialect), chat(provider.dialect_for("o9")));
        assert!(!quirks.files && quirks.system_role == SystemRole::Developer);
        assert!(!family.files && !family.penalties && quirks.penalties);
        assert_eq!(provider.models.len(), plain.models.len() + 1);
        let known = provider.model("gpt-4o").unwrap();
        assert_eq!((known.window, known.images), (Some(1000), true));
    }

    #[test]
    fn an_address_is_a_providers_own_only_if_it_leads_to_its_server() {
        for (id, base_url, expected) in [
            ("openai", "https://api.openai.com/v1", true),
            ("openai", "https://api.openai.com/v1/", true),
            ("openai", "https://api.openai.com.evil.example/v1", false),
            ("openai", "https://evil.example/v1", false),
            (
                "azure-openai",
                "https://mine.openai.azure.com/openai/v1",
                true,
            ),
            ("azure-openai", "https://.openai.azure.com/openai/v1", false),
            (
                "azure-openai",
                "https://evil.example/.openai.azure.com/openai/v1",
                false,
            ),
            (
                "azure-openai",
                "https://evil.example#.openai.azure.com/openai/v1",
                false,
            ),
            ("mine", "https://llm.example/v1", false),
        ] {
            assert_eq!(has_address(id, base_url), expected, "{id} {base_url}");
        }
    }

    #[test]
    fn another_provider_has_the_generic_defaults() {
        let over = toml::toml! { base_url = "https://llm.example/v1" };
        let provider = build("mine", over).unwrap().to_provider("mine");
        assert!(provider.passthrough && !provider.key_required);
        assert_eq!(provider.name, "mine");
    }

    #[test]
    fn another_wire_has_its_own_quirks_and_families_may_name_one() {
        let over = toml::toml! {
            wire = "responses"
            quirks = { phase = false }
            families = [{ match = ["old*"], wire = "chat", quirks = { files = true } }]
        };
        let provider = build("openai", over).unwrap().to_provider("openai");
        let crate::WireQuirks::Responses(quirks) = provider.dialect.quirks else {
            unreachable!("the provider names the wire");
        };
        assert!(!quirks.phase && provider.dialect.body.is_empty());
        let family = provider.dialect_for("old-1").quirks;
        assert!(family.as_chat().unwrap().files);
        assert_eq!(family.as_chat().unwrap().system_role, SystemRole::System);
    }

    #[test]
    fn a_quirk_of_another_wire_is_an_error_that_lists_those_of_the_wire() {
        for (over, wire, key, known) in [
            (
                toml::toml! { wire = "responses" quirks = { tool_names = true } },
                "responses",
                "tool_names",
                "phase",
            ),
            (
                toml::toml! { quirks = { phase = true } },
                "chat",
                "phase",
                "files",
            ),
            (
                toml::toml! { families = [{ match = ["x"], wire = "responses", quirks = { tool_names = true } }] },
                "responses",
                "tool_names",
                "phase",
            ),
        ] {
            let error = build("mine", over).err().unwrap();
            let begin = format!("the wire `{wire}` has no quirk `{key}`; known are ");
            assert!(error.message().starts_with(&begin), "{error}");
            assert!(error.message().contains(known), "{error}");
        }
    }

    #[test]
    fn an_unknown_key_is_an_error() {
        assert!(build("mine", toml::toml! { base_ur = "x" }).is_err());
        assert!(build("mine", toml::toml! { quirks = { verbose = true } }).is_err());
    }
}
