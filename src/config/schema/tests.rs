use std::fs;
use std::path::Path;

use regex::Regex;
use serde::de::DeserializeOwned;
use serde_json::{Map, json};

use super::*;
use crate::config::settings::tests::uncommented_example;

/// Why a value does not fit a schema of ours.
fn check(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let keywords = match schema {
        Value::Bool(true) => return Ok(()),
        Value::Object(keywords) => keywords,
        _ => return Err(format!("{value} is not allowed")),
    };
    let list = |rule: &Value| rule.as_array().unwrap().clone();
    let count = |rule: &Value| {
        let schemas = list(rule);
        let fitting = schemas.iter().filter(|one| check(root, one, value).is_ok());
        fitting.count()
    };
    for (keyword, rule) in keywords {
        let fits = match keyword.as_str() {
            "$schema" | "title" | "description" | "format" | "definitions" | "examples"
            | "then" => true,
            "$ref" => {
                let pointer = rule.as_str().unwrap().strip_prefix('#').unwrap();
                check(root, root.pointer(pointer).unwrap(), value)?;
                true
            }
            "type" => match rule {
                Value::Array(names) => names.iter().any(|name| is_a(value, name)),
                name => is_a(value, name),
            },
            "const" => value == rule,
            "enum" => list(rule).contains(value),
            "minimum" => value.as_f64().is_none_or(|it| it >= rule.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|it| it <= rule.as_f64().unwrap()),
            "pattern" => {
                let pattern = Regex::new(rule.as_str().unwrap()).unwrap();
                value.as_str().is_none_or(|text| pattern.is_match(text))
            }
            "items" => {
                for item in value.as_array().unwrap_or(&Vec::new()) {
                    check(root, rule, item)?;
                }
                true
            }
            "required" => value.as_object().is_none_or(|table| {
                let mut names = rule.as_array().unwrap().iter();
                names.all(|name| table.contains_key(name.as_str().unwrap()))
            }),
            "properties" => {
                for (name, schema) in rule.as_object().unwrap() {
                    if let Some(inner) = value.get(name) {
                        check(root, schema, inner).map_err(|why| format!("{name}: {why}"))?;
                    }
                }
                true
            }
            "additionalProperties" => {
                let known = keywords.get("properties").and_then(Value::as_object);
                for (name, inner) in value.as_object().unwrap_or(&Map::new()) {
                    if known.is_none_or(|known| !known.contains_key(name)) {
                        check(root, rule, inner).map_err(|why| format!("{name}: {why}"))?;
                    }
                }
                true
            }
            "oneOf" => count(rule) == 1,
            "anyOf" => count(rule) > 0,
            "allOf" => count(rule) == list(rule).len(),
            "if" => {
                if check(root, rule, value).is_ok() {
                    check(root, &keywords["then"], value)?;
                }
                true
            }
            other => panic!("this test does not know the keyword {other}"),
        };
        if !fits {
            return Err(format!("{value} has not {keyword} {rule}"));
        }
    }
    Ok(())
}

fn is_a(value: &Value, name: &Value) -> bool {
    match name.as_str().unwrap() {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("this test does not know the type {other}"),
    }
}

/// Whether a file fits the schema of its kind.
fn fits(schema: fn() -> Schema, file: &Value) -> Result<(), String> {
    let root = schema().to_value();
    check(&root, &root, file)
}

fn parsed(text: &str) -> Value {
    let table: toml::Table = text.parse().unwrap();
    serde_json::to_value(table).unwrap()
}

/// Whether the reader takes a file.
fn is_read<T: DeserializeOwned>(file: &Value) -> bool {
    let table = toml::Table::try_from(file).unwrap();
    table.try_into::<T>().is_ok()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn what_the_pages_show_fits_the_schema() {
    let (mut configs, mut providers) = (0, 0);
    for page in fs::read_dir(root().join("docs")).unwrap() {
        let page = page.unwrap().path();
        if page.extension().is_none_or(|end| end != "md") {
            continue;
        }
        let text = fs::read_to_string(&page).unwrap();
        let blocks = text.split("```toml\n").skip(1);
        for block in blocks.filter_map(|block| block.split("```").next()) {
            let file = parsed(block);
            let schema = if is_read::<ConfigFile>(&file) {
                configs += 1;
                of_config
            } else if is_read::<ProviderSpec>(&file) {
                providers += 1;
                of_provider
            } else {
                // Settings of Codex, and templates of prompts.
                continue;
            };
            assert_eq!(fits(schema, &file), Ok(()), "{}: {block}", page.display());
        }
    }
    assert!(configs > 9 && providers > 0, "{configs} {providers}");
}

#[test]
fn every_provider_file_fits_the_schema() {
    let mut files = 0;
    for folder in ["providers", "import/heads"] {
        for path in fs::read_dir(root().join("registry").join(folder)).unwrap() {
            let path = path.unwrap().path();
            let file = parsed(&fs::read_to_string(&path).unwrap());
            assert_eq!(fits(of_provider, &file), Ok(()), "{}", path.display());
            files += 1;
        }
    }
    assert!(files > 50, "{files}");
}

/// Calls `change` with the JSON pointer of each value, and the value.
fn each_value(value: &Value, path: &str, change: &mut impl FnMut(&str, &Value)) {
    change(path, value);
    match value {
        Value::Object(table) => {
            for (key, inner) in table {
                let key = key.replace('~', "~0").replace('/', "~1");
                each_value(inner, &format!("{path}/{key}"), change);
            }
        }
        Value::Array(items) => {
            for (at, inner) in items.iter().enumerate() {
                each_value(inner, &format!("{path}/{at}"), change);
            }
        }
        _ => {}
    }
}

/// The schema and the reader agree about every key of the example, about a mistyped one beside it,
/// and about values of other types.
#[test]
fn the_schema_takes_what_the_reader_takes() {
    let schema = of_config().to_value();
    let file = parsed(&uncommented_example());
    let (mut taken, mut refused) = (0, 0);
    each_value(&file, "", &mut |path, value| {
        let mut values = vec![
            value.clone(),
            json!(true),
            json!(1),
            json!(-1),
            json!(1.5),
            json!({}),
        ];
        if let Value::Object(table) = value {
            let mut mistyped = table.clone();
            mistyped.insert("no_such_key".to_owned(), json!(1));
            values.push(Value::Object(mistyped));
        } else {
            // In place of a table the reader takes it for one without keys.
            values.push(json!([]));
        }
        for value in values {
            let mut changed = file.clone();
            *changed.pointer_mut(path).unwrap() = value.clone();
            if !changed.is_object() {
                continue;
            }
            let is_read = is_read::<ConfigFile>(&changed);
            let found = check(&schema, &schema, &changed);
            assert_eq!(found.is_ok(), is_read, "{path} = {value}: {found:?}");
            *(if is_read { &mut taken } else { &mut refused }) += 1;
        }
    });
    assert!(taken > 200 && refused > 500, "{taken} {refused}");
}

#[test]
fn quirks_are_those_of_the_wire() {
    for (text, is_allowed) in [
        ("quirks = { phase = false }", true),
        ("quirks = { tool_names = true }", true),
        ("quirks = { phase = false, tool_names = true }", false),
        ("wire = \"chat\"\nquirks = { phase = false }", false),
        ("wire = \"chat\"\nquirks = { tool_names = true }", true),
        ("wire = \"responses\"\nquirks = { phase = false }", true),
        (
            "wire = \"responses\"\nquirks = { tool_names = true }",
            false,
        ),
        (
            "[[families]]\nmatch = [\"x\"]\nwire = \"responses\"\nquirks = { tool_names = true }",
            false,
        ),
    ] {
        let found = fits(of_provider, &parsed(text));
        assert_eq!(found.is_ok(), is_allowed, "{text}: {found:?}");
    }
}

/// An editor shows the descriptions.
#[test]
fn every_key_is_described() {
    let schema = of_config().to_value();
    let (mut lacking, mut keys) = (Vec::new(), 0);
    each_value(&schema, "", &mut |path, value| {
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let is_rule = path.contains("/then/") || path.contains("/if/");
        if !parent.ends_with("/properties") || is_rule {
            return;
        }
        keys += 1;
        let text = value.get("description").and_then(Value::as_str);
        let text = text.unwrap_or_default();
        if text.is_empty() || text.starts_with("See ") || text.contains("[`") {
            lacking.push(format!("{path}: {text}"));
        }
    });
    assert!(lacking.is_empty() && keys > 150, "{keys} {lacking:#?}");
}
