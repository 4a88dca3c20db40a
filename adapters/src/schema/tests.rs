use serde_json::{Value, json};

use super::*;

fn rules(names: &[&str]) -> EnumSet<SchemaRule> {
    serde_json::from_value(json!(names)).unwrap()
}

fn raw(schema: &Value) -> Box<RawValue> {
    RawValue::from_string(schema.to_string()).unwrap()
}

fn fitted(schema: &Value, names: &[&str]) -> Value {
    fit(&raw(schema), rules(names), &mut ReferenceRoom::default()).map_or_else(
        || schema.clone(),
        |text| serde_json::from_str(&text).unwrap(),
    )
}

#[test]
fn each_rule_changes_nothing_but_its_subject() {
    let p = |schema: Value| json!({"type": "object", "properties": {"p": schema}});
    for (rule, before, after) in [
        (
            "inline_refs",
            json!({"$ref": "#/$defs/a", "description": "mine"}),
            json!({"description": "mine"}),
        ),
        (
            "lone_refs",
            json!({"$ref": "#/$defs/a", "description": "x", "type": "string"}),
            json!({"$ref": "#/$defs/a"}),
        ),
        (
            "typed_properties",
            json!({"enum": ["a", "b"]}),
            json!({"enum": ["a", "b"], "type": "string"}),
        ),
        (
            "typed_properties",
            json!({"const": 1}),
            json!({"const": 1, "type": "integer"}),
        ),
        (
            "typed_properties",
            json!({"enum": [0.5, 1]}),
            json!({"enum": [0.5, 1], "type": "number"}),
        ),
        (
            "typed_properties",
            json!({"items": {}}),
            json!({"items": {}, "type": "array"}),
        ),
        ("typed_properties", json!(true), json!({"type": "string"})),
        (
            "type_in_branches",
            json!({"type": "string", "anyOf": [{"enum": ["a"]}, {"type": "null"}]}),
            json!({"anyOf": [{"enum": ["a"], "type": "string"}, {"type": "null"}]}),
        ),
        (
            "single_type",
            json!({"type": ["string", "null"]}),
            json!({"type": "string", "nullable": true}),
        ),
        (
            "single_type",
            json!({"type": ["array", "string"], "items": {"type": "string"}, "title": "t"}),
            json!({"title": "t", "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}),
        ),
        (
            "single_type",
            json!({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": null}),
            json!({"default": null, "type": "integer", "minimum": 1, "nullable": true}),
        ),
        (
            "any_of_only",
            json!({"oneOf": [{"type": "string"}]}),
            json!({"anyOf": [{"type": "string"}]}),
        ),
        (
            "string_enums",
            json!({"enum": ["a", "", null]}),
            json!({"enum": ["a"], "type": "string"}),
        ),
        (
            "string_enums",
            json!({"type": "string", "enum": [""]}),
            json!({"type": "string", "description": "One of: \"\"."}),
        ),
        (
            "string_enums",
            json!({"type": "integer", "enum": [1, 2], "description": "How many."}),
            json!({"type": "integer", "description": "How many. One of: 1, 2."}),
        ),
        ("no_const", json!({"const": "a"}), json!({"enum": ["a"]})),
        (
            "one_item_schema",
            json!({"type": "array", "items": [{"type": "string"}, {"type": "string"}]}),
            json!({"type": "array", "items": {"type": "string"}}),
        ),
        (
            "one_item_schema",
            json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false}),
            json!({"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}),
        ),
        (
            "one_item_schema",
            json!({"type": "array"}),
            json!({"type": "array", "items": {"type": "string"}}),
        ),
        (
            "no_additional_properties",
            json!({"type": "object", "additionalProperties": false}),
            json!({"type": "object"}),
        ),
        (
            "no_meta_keys",
            json!({"$schema": "s", "$id": "i", "$comment": "c", "title": "t"}),
            json!({"title": "t"}),
        ),
        (
            "known_required",
            json!({"properties": {"a": {}}, "required": ["a", "b"]}),
            json!({"properties": {"a": {}}, "required": ["a"]}),
        ),
        (
            "known_required",
            json!({"type": "object", "required": ["b"]}),
            json!({"type": "object"}),
        ),
        (
            "no_patterns",
            json!({"type": "string", "pattern": "^(?!x)"}),
            json!({"type": "string"}),
        ),
        (
            "no_bounds",
            json!({"type": "string", "minLength": 1, "maxLength": 2, "format": "f"}),
            json!({"type": "string", "format": "f"}),
        ),
    ] {
        assert_eq!(
            fitted(&p(before.clone()), &[rule]),
            p(after),
            "{rule} {before}"
        );
        assert_eq!(fitted(&p(before.clone()), &[]), p(before));
    }
}

#[test]
fn the_root_keeps_its_type_beside_branches() {
    let schema = json!({"type": "object", "anyOf": [{"required": ["a"]}], "properties": {}});
    let rules = rules(&["type_in_branches"]);
    let room = &mut ReferenceRoom::default();
    assert_eq!(fit(&raw(&schema), rules, room), None);
}

#[test]
fn properties_may_have_the_names_of_keywords() {
    let schema = json!({"type": "object", "properties": {
        "pattern": {"type": "string"}, "const": {"type": "string"}, "oneOf": {"type": "string"},
        "$schema": {"type": "string"}, "minimum": {"type": "string"}, "required": {"type": "string"},
    }});
    let all = [
        "no_patterns",
        "no_const",
        "any_of_only",
        "no_meta_keys",
        "no_bounds",
        "known_required",
    ];
    let room = &mut ReferenceRoom::default();
    assert_eq!(fit(&raw(&schema), rules(&all), room), None);
}

#[test]
fn a_schema_that_satisfies_the_rules_is_unchanged() {
    let text =
        "{ \"type\":\"object\",\n \"properties\":{\"a\":{\"type\":\"number\",\"default\":1.0}} }";
    let raw = RawValue::from_string(text.to_owned()).unwrap();
    let rules = rules(&[
        "inline_refs",
        "typed_properties",
        "no_bounds",
        "single_type",
    ]);
    assert_eq!(
        fit_parameters(&raw, rules, &mut ReferenceRoom::default()),
        None
    );
}

#[test]
fn references_are_replaced_by_their_targets() {
    let schema = json!({
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/a"},
            "tree": {"$ref": "#/definitions/tree", "description": "The root."},
            "lost": {"$ref": "#/$defs/none", "title": "t"},
            "whole": {"$ref": "#"},
        },
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"type": "string", "minLength": 2}},
        "definitions": {"tree": {
            "type": "object",
            "description": "A tree.",
            "properties": {"children": {"type": "array", "items": {"$ref": "#/definitions/tree"}}},
        }},
    });
    let inlined = fitted(&schema, &["inline_refs"]);
    assert!(!inlined.to_string().contains("$ref"), "{inlined}");
    assert!(inlined.get("$defs").is_none() && inlined.get("definitions").is_none());
    let properties = &inlined["properties"];
    assert_eq!(properties["a"], json!({"type": "string", "minLength": 2}));
    assert_eq!(properties["lost"], json!({"title": "t"}));
    assert_eq!(properties["tree"]["description"], "The root.");
    assert_eq!(
        properties["tree"]["properties"]["children"]["items"],
        json!({"type": "object", "description": "A tree."})
    );
    assert_eq!(properties["whole"]["type"], "object");
}

#[test]
fn references_that_multiply_end() {
    let mut schema =
        json!({"type": "object", "properties": {"p": {"$ref": "#/$defs/d0"}}, "$defs": {}});
    for level in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        schema["$defs"][format!("d{level}")] =
            json!({"type": "object", "properties": {"a": next, "b": next, "c": next}});
    }
    let text = fitted(&schema, &["inline_refs"]).to_string();
    assert!(
        !text.contains("$ref") && text.len() < 5 << 20,
        "{}",
        text.len()
    );
}

#[test]
fn the_root_describes_an_object() {
    for (before, after) in [
        (r#"{"type": "object"}"#, None),
        (r"{}", Some(NO_PARAMETERS)),
        (r"null", Some(NO_PARAMETERS)),
        (r"[]", Some(NO_PARAMETERS)),
        (r"true", Some(NO_PARAMETERS)),
        (
            r#"{ "properties": {"a": {"x": 1.0}} }"#,
            Some(r#"{"type":"object", "properties": {"a": {"x": 1.0}} }"#),
        ),
        (
            r#"{"type":null,"properties":{}}"#,
            Some(r#"{"type":"object","properties":{}}"#),
        ),
        (
            r#"{"type":["object","null"]}"#,
            Some(r#"{"type":"object"}"#),
        ),
        (
            r##"{"$ref":"#/$defs/a","$defs":{"a":{"type":"object","properties":{}}}}"##,
            Some(
                r#"{"$defs":{"a":{"type":"object","properties":{}}},"type":"object","properties":{}}"#,
            ),
        ),
    ] {
        let raw = RawValue::from_string(before.to_owned()).unwrap();
        let got = fit_parameters(&raw, EnumSet::empty(), &mut ReferenceRoom::default());
        assert_eq!(got.as_deref(), after, "{before}");
    }
}

/// A schema with `references` references to one target whose description has `length` bytes.
fn bomb(references: usize, length: usize) -> String {
    let properties: Vec<String> = (0..references)
        .map(|number| format!(r##""p{number}":{{"$ref":"#/$defs/a"}}"##))
        .collect();
    format!(
        r#"{{"type":"object","properties":{{{}}},"$defs":{{"a":{{"type":"string","description":"{}"}}}}}}"#,
        properties.join(","),
        "d".repeat(length)
    )
}

/// The schema without references, and the room that they left.
fn inlined(schema: &str, room: &mut ReferenceRoom) -> String {
    let raw = serde_json::from_str(schema).unwrap();
    let rules = EnumSet::empty().with(SchemaRule::InlineRefs);
    fit(raw, rules, room).unwrap()
}

#[test]
fn references_to_large_strings_do_not_multiply_them() {
    let schema = bomb(10_000, 100_000);
    assert!(schema.len() < 400_000);
    let fitted = inlined(&schema, &mut ReferenceRoom::default());
    assert!(fitted.len() < 5 << 20, "{} bytes", fitted.len());
    // Every property keeps its type.
    assert_eq!(fitted.matches(r#""type":"string""#).count(), 10_000);
}

#[test]
fn references_to_long_keys_do_not_multiply_them() {
    let schema = bomb(10_000, 0).replace("description", &"k".repeat(100_000));
    let fitted = inlined(&schema, &mut ReferenceRoom::default());
    assert!(fitted.len() < 5 << 20, "{} bytes", fitted.len());
}

#[test]
fn all_schemas_of_a_request_share_the_room_for_references() {
    let schema = bomb(40, 100_000);
    let room = &mut ReferenceRoom::default();
    let first = inlined(&schema, room);
    let second = inlined(&schema, room);
    assert!(first.len() > 3 << 20, "{} bytes", first.len());
    assert!(second.len() < 1 << 20, "{} bytes", second.len());
    assert_eq!(second.matches(r#""type":"string""#).count(), 40);
}

#[test]
fn a_long_type_is_not_written_for_each_branch() {
    let branches = vec![json!({"minimum": 1}); 1_000];
    let schema = json!({"type": "object", "properties": {
        "p": {"type": ["t".repeat(10_000)], "anyOf": branches},
    }});
    let rules = rules(&["type_in_branches"]);
    let fitted = fit(&raw(&schema), rules, &mut ReferenceRoom::default()).unwrap();
    assert!(fitted.len() < 20_000, "{} bytes", fitted.len());
}

#[test]
fn equal_elements_of_a_tuple_become_one() {
    let same = json!({"type": "integer"});
    let schema = json!({"type": "array", "items": [same, {"type": "string"}, same]});
    let fitted = fitted(&schema, &["one_item_schema"]);
    assert_eq!(
        fitted["items"],
        json!({"anyOf": [same, {"type": "string"}]})
    );
}

#[test]
fn no_schema_asks_for_encryption() {
    let schema = json!({
        "type": "object",
        "properties": {
            "message": {"type": "string", "encrypted": true},
            "encrypted": {"type": "boolean", "default": {"encrypted": 1}},
            "list": {"type": "array", "items": {"anyOf": [{"type": "string", "encrypted": true}]}},
            "enum": {"enum": ["encrypted"]},
        },
        "required": ["encrypted"],
        "$defs": {"a": {"encrypted": false, "type": "string"}},
        "encrypted": true,
    });
    let expected = json!({
        "type": "object",
        "properties": {
            "message": {"type": "string"},
            "encrypted": {"type": "boolean", "default": {"encrypted": 1}},
            "list": {"type": "array", "items": {"anyOf": [{"type": "string"}]}},
            "enum": {"enum": ["encrypted"]},
        },
        "required": ["encrypted"],
        "$defs": {"a": {"type": "string"}},
    });
    let room = &mut ReferenceRoom::default();
    let parse = |text: String| serde_json::from_str::<Value>(&text).unwrap();
    let fitted = fit_parameters(&raw(&schema), EnumSet::empty(), room).map(parse);
    assert_eq!(fitted, Some(expected.clone()));
    assert_eq!(
        fit_parameters(&raw(&expected), EnumSet::empty(), room),
        None
    );

    let tools = |schema: &Value| {
        let tool = json!({"type": "function", "name": "encrypted", "parameters": schema});
        json!([tool, {"type": "namespace", "name": "n", "tools": [tool], "description": "encrypted"}])
    };
    let plain = without_encryption(&tools(&schema).to_string()).map(parse);
    assert_eq!(plain, Some(tools(&expected)));
    assert_eq!(without_encryption(&tools(&expected).to_string()), None);
}
