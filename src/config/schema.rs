//! The JSON schema of the configuration, for editors. It is derived from the types that read the
//! TOML, so that it cannot differ from them.

use registry::ProviderSpec;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

use super::settings::ConfigFile;

/// The schema of `proxy-config.toml`.
pub fn of_config() -> Schema {
    schema_of::<ConfigFile>()
}

/// The schema of a file in `providers/`.
pub fn of_provider() -> Schema {
    schema_of::<ProviderSpec>()
}

/// Draft 7 is what editors of TOML know.
fn schema_of<T: JsonSchema>() -> Schema {
    SchemaSettings::draft07()
        .with_transform(RecursiveTransform(for_toml))
        .into_generator()
        .into_root_schema_for::<T>()
}

/// Brings a schema into the form of a TOML file and its reader. TOML has no `null`. The defaults of
/// the types are left out: those of a provider depend on its embedded file.
fn for_toml(schema: &mut Schema) {
    schema.remove("default");
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
    }
    // A doc comment has lines, and brackets around the names of other items.
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text
            .replace("[`", "`")
            .replace("`]", "`")
            .replace('\n', " ");
    }
}

#[cfg(test)]
mod tests;
