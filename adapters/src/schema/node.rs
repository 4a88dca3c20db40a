//! Applies the rules to one node of a schema. A node is visited before its
//! children.

use std::collections::HashSet;

use registry::{EnumSet, SchemaRule};
use serde_json::{Map, Value, json};

use super::refs;

pub(super) struct SchemaNode<'s> {
    pub(super) schema: &'s mut Map<String, Value>,
    pub(super) is_root: bool,
}

impl SchemaNode<'_> {
    pub(super) fn apply(&mut self, rules: EnumSet<SchemaRule>) {
        for rule in rules.iter() {
            match rule {
                // Applied to the whole schema beforehand.
                SchemaRule::InlineRefs => {}
                SchemaRule::LoneRefs => self.lone_ref(),
                SchemaRule::NoMetaKeys => self.no_meta_keys(),
                SchemaRule::AnyOfOnly => self.any_of_only(),
                SchemaRule::OneItemSchema => self.one_item_schema(),
                SchemaRule::TypedProperties => self.typed_properties(),
                SchemaRule::NoConst => self.no_const(),
                SchemaRule::StringEnums => self.string_enums(),
                SchemaRule::SingleType => self.single_type(),
                SchemaRule::TypeInBranches => self.type_in_branches(),
                SchemaRule::NoAdditionalProperties => self.no_additional_properties(),
                SchemaRule::KnownRequired => self.known_required(),
                SchemaRule::NoPatterns => self.remove(&["pattern"]),
                SchemaRule::NoBounds => self.no_bounds(),
            }
        }
    }

    fn remove(&mut self, names: &[&str]) {
        for name in names {
            self.schema.shift_remove(*name);
        }
    }

    fn lone_ref(&mut self) {
        if self.schema.get("$ref").is_some_and(Value::is_string) {
            self.schema
                .retain(|key, _| matches!(key.as_str(), "$ref" | "$defs" | "definitions"));
        }
    }

    fn no_meta_keys(&mut self) {
        self.remove(&[
            "$schema",
            "$id",
            "$anchor",
            "$dynamicAnchor",
            "$vocabulary",
            "$comment",
        ]);
    }

    /// Renames `oneOf` to `anyOf`, or drops it if both exist: the schema then
    /// allows more, never less.
    fn any_of_only(&mut self) {
        if let Some(branches) = self.schema.shift_remove("oneOf") {
            self.schema.entry("anyOf").or_insert(branches);
        }
    }

    /// Turns a tuple into a list whose elements may be any of its items.
    fn one_item_schema(&mut self) {
        let tuple = match self.schema.get("items") {
            Some(Value::Array(tuple)) => Some(tuple.clone()),
            _ => self
                .schema
                .get("prefixItems")
                .and_then(Value::as_array)
                .cloned(),
        };
        self.remove(&["prefixItems", "additionalItems"]);
        if let Some(tuple) = tuple {
            let mut known = HashSet::new();
            let mut kinds = tuple;
            kinds.retain(|item| known.insert(item.to_string()));
            let items = match kinds.len() {
                0 => json!({"type": "string"}),
                1 => kinds.remove(0),
                _ => json!({ "anyOf": kinds }),
            };
            self.schema.insert("items".to_owned(), items);
        }
        let is_array = has_type(self.schema, "array");
        if is_array && !self.schema.get("items").is_some_and(Value::is_object) {
            self.schema
                .insert("items".to_owned(), json!({"type": "string"}));
        }
    }

    fn typed_properties(&mut self) {
        let Some(Value::Object(properties)) = self.schema.get_mut("properties") else {
            return;
        };
        for property in properties.values_mut() {
            if !property.is_object() {
                *property = json!({});
            }
            if let Value::Object(schema) = property
                && !has_type_keyword(schema)
            {
                let kind = inferred_type(schema);
                schema.insert("type".to_owned(), kind.into());
            }
        }
    }

    fn no_const(&mut self) {
        if let Some(value) = self.schema.shift_remove("const") {
            self.schema.insert("enum".to_owned(), json!([value]));
        }
    }

    /// Keeps enums of non-empty strings and gives them a type. The values of any
    /// other enum go to the description.
    fn string_enums(&mut self) {
        let Some(Value::Array(values)) = self.schema.get_mut("enum") else {
            return;
        };
        let all = values.clone();
        if values.iter().any(Value::is_string)
            && values.iter().all(|v| v.is_string() || v.is_null())
        {
            values.retain(|value| value.as_str().is_some_and(|text| !text.is_empty()));
            if !values.is_empty() {
                self.schema.entry("type").or_insert("string".into());
                return;
            }
        }
        let listed: Vec<String> = all.iter().take(32).map(Value::to_string).collect();
        let values = format!("One of: {}.", listed.join(", "));
        let described = match self.schema.get("description").and_then(Value::as_str) {
            Some(text) if !text.is_empty() => format!("{text} {values}"),
            _ => values,
        };
        self.schema.shift_remove("enum");
        self.schema
            .insert("description".to_owned(), described.into());
    }

    fn single_type(&mut self) {
        if let Some(Value::Array(kinds)) = self.schema.get("type") {
            let mut kinds = kinds.clone();
            let all = kinds.len();
            kinds.retain(|kind| kind != "null");
            if kinds.len() < all {
                self.schema.insert("nullable".to_owned(), true.into());
            }
            match (kinds.pop(), kinds.is_empty()) {
                (Some(kind), true) => {
                    self.schema.insert("type".to_owned(), kind);
                }
                (Some(last), false) => {
                    kinds.push(last);
                    self.schema.shift_remove("type");
                    self.type_branches(&kinds);
                }
                (None, _) => {
                    self.schema.shift_remove("type");
                }
            }
        }
        self.null_branch();
    }

    /// Replaces several types by an `anyOf`, each branch with the keywords of its
    /// type.
    fn type_branches(&mut self, kinds: &[Value]) {
        if self.schema.contains_key("anyOf") {
            return;
        }
        let mut branches = Vec::with_capacity(kinds.len());
        for kind in kinds {
            let own: &[&str] = match kind.as_str() {
                Some("array") => &["items", "minItems", "maxItems", "uniqueItems"],
                Some("object") => &["properties", "required", "additionalProperties"],
                Some("string") => &["minLength", "maxLength", "pattern", "format"],
                _ => &[],
            };
            let mut branch = Map::new();
            branch.insert("type".to_owned(), kind.clone());
            for name in own {
                if let Some(value) = self.schema.shift_remove(*name) {
                    branch.insert((*name).to_owned(), value);
                }
            }
            branches.push(Value::Object(branch));
        }
        self.schema.insert("anyOf".to_owned(), branches.into());
    }

    /// Replaces a null branch by `nullable`. A single remaining branch is merged
    /// into the node.
    fn null_branch(&mut self) {
        let Some(Value::Array(branches)) = self.schema.get_mut("anyOf") else {
            return;
        };
        let all = branches.len();
        branches.retain(|branch| branch.get("type").is_none_or(|kind| kind != "null"));
        if branches.len() == all {
            return;
        }
        let alone = match branches.as_mut_slice() {
            [Value::Object(branch)] => Some(std::mem::take(branch)),
            _ => None,
        };
        if branches.is_empty() || alone.is_some() {
            self.schema.shift_remove("anyOf");
        }
        for (key, value) in alone.into_iter().flatten() {
            self.schema.entry(key).or_insert(value);
        }
        self.schema.insert("nullable".to_owned(), true.into());
    }

    /// Moves the type into the branches of `anyOf`. The root keeps its type,
    /// because a tool's arguments are an object.
    fn type_in_branches(&mut self) {
        if self.is_root || !self.schema.get("anyOf").is_some_and(Value::is_array) {
            return;
        }
        let kind = self.schema.shift_remove("type");
        // It is written for each branch, so that a long one would multiply. None is.
        let Some(kind) = kind.filter(refs::is_short_type) else {
            return;
        };
        let branches = self.schema.get_mut("anyOf").and_then(Value::as_array_mut);
        for branch in branches.into_iter().flatten() {
            if let Value::Object(branch) = branch
                && !has_type_keyword(branch)
            {
                branch.insert("type".to_owned(), kind.clone());
            }
        }
    }

    fn no_additional_properties(&mut self) {
        self.remove(&["additionalProperties", "unevaluatedProperties"]);
    }

    fn known_required(&mut self) {
        let Some(Value::Array(mut required)) = self.schema.get("required").cloned() else {
            return;
        };
        let known = self.schema.get("properties").and_then(Value::as_object);
        required.retain(|name| {
            name.as_str()
                .is_some_and(|name| known.is_some_and(|known| known.contains_key(name)))
        });
        if required.is_empty() {
            self.schema.shift_remove("required");
        } else {
            self.schema.insert("required".to_owned(), required.into());
        }
    }

    fn no_bounds(&mut self) {
        self.remove(&[
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minContains",
            "maxContains",
            "minProperties",
            "maxProperties",
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
        ]);
    }
}

fn has_type(schema: &Map<String, Value>, wanted: &str) -> bool {
    match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == wanted),
        Some(kind) => kind == wanted,
        None => false,
    }
}

/// Whether the node names its type, or refers to schemas that do.
fn has_type_keyword(schema: &Map<String, Value>) -> bool {
    ["type", "$ref", "anyOf", "oneOf", "allOf"]
        .iter()
        .any(|key| schema.get(*key).is_some_and(|value| !value.is_null()))
}

/// The type that the other keywords imply, else `string`, which can hold anything.
fn inferred_type(schema: &Map<String, Value>) -> &'static str {
    let listed = schema.get("enum").and_then(Value::as_array);
    let examples = || listed.into_iter().flatten().chain(schema.get("const"));
    let all_examples = |is: fn(&Value) -> bool| examples().next().is_some() && examples().all(is);
    if schema.contains_key("properties") || all_examples(Value::is_object) {
        "object"
    } else if schema.contains_key("items") || all_examples(Value::is_array) {
        "array"
    } else if all_examples(|value| value.is_i64() || value.is_u64()) {
        "integer"
    } else if all_examples(Value::is_number) {
        "number"
    } else if all_examples(Value::is_boolean) {
        "boolean"
    } else {
        "string"
    }
}
