use super::parse::MAX_MODEL_BYTES;
use super::*;
use crate::stop_flag::StopReason;

#[test]
fn an_invalid_request_names_the_parameter() {
    for (body, param, code) in [
        ("", "body", Some("invalid_json")),
        ("[]", "body", Some("invalid_json")),
        (
            r#"{"model":"m","input":"a","input":"b"}"#,
            "body",
            Some("invalid_json"),
        ),
        (r#"{"model":"m","input":{}}"#, "body", Some("invalid_json")),
        (
            r#"{"input":"a"}"#,
            "model",
            Some("missing_required_parameter"),
        ),
        (r#"{"model":7,"input":"a"}"#, "model", None),
        (r#"{"model":" ","input":"a"}"#, "model", None),
        (
            r#"{"model":"m"}"#,
            "input",
            Some("missing_required_parameter"),
        ),
        (
            r#"{"model":"m","input":[]}"#,
            "input",
            Some("missing_required_parameter"),
        ),
        (
            r#"{"model":"m","input":"a","instructions":7}"#,
            "instructions",
            None,
        ),
        (
            r#"{"model":"m","input":"a","temperature":3}"#,
            "temperature",
            None,
        ),
        (r#"{"model":"m","input":"a","top_p":"1"}"#, "top_p", None),
        (
            r#"{"model":"m","input":"a","top_logprobs":21}"#,
            "top_logprobs",
            None,
        ),
        (
            r#"{"model":"m","input":"a","max_output_tokens":0}"#,
            "max_output_tokens",
            None,
        ),
        (
            r#"{"model":"m","input":"a","stream":"yes"}"#,
            "stream",
            None,
        ),
        (
            r#"{"model":"m","input":"a","metadata":{"k":1}}"#,
            "metadata",
            None,
        ),
        (
            r#"{"model":"m","input":"a","previous_response_id":"resp_%"}"#,
            "previous_response_id",
            Some("previous_response_not_found"),
        ),
        (
            r#"{"model":"m","input":"a","conversation":"conv_"}"#,
            "conversation",
            Some("conversation_not_found"),
        ),
        (
            r#"{"model":"m","input":"a","background":true,"store":false}"#,
            "background",
            Some("unsupported_parameter"),
        ),
        (
            r#"{"model":"m","input":"a","prompt":{"id":"p"}}"#,
            "prompt",
            Some("unsupported_parameter"),
        ),
        (
            r#"{"model":"m","input":"a","text":{"format":{"type":"xml"}}}"#,
            "text.format.type",
            None,
        ),
        (
            r#"{"model":"m","input":"a","text":{"format":{"type":"json_schema","name":"n"}}}"#,
            "text.format.schema",
            None,
        ),
        (
            r#"{"model":"m","input":"a","tools":[{"type":"function"}]}"#,
            "tools[0].name",
            Some("missing_required_parameter"),
        ),
        (
            r#"{"model":"m","input":"a","tools":[{"type":"shell"},{"type":"function","function":{"name":"f"}}]}"#,
            "tools[1].name",
            Some("missing_required_parameter"),
        ),
        (
            r#"{"model":"m","input":"a","tool_choice":{"name":"f"}}"#,
            "tool_choice.type",
            Some("missing_required_parameter"),
        ),
        (
            r#"{"model":"m","input":"a","tool_choice":{"type":"function","function":{}}}"#,
            "tool_choice.name",
            Some("missing_required_parameter"),
        ),
        (
            r#"{"model":"m","input":"a","tool_choice":{"type":"allowed_tools","tools":[{"type":"custom"}]}}"#,
            "tool_choice.tools[0].name",
            Some("missing_required_parameter"),
        ),
        (
            r#"{"model":"m","input":"a","tool_choice":{"type":"allowed_tools","allowed_tools":{"tools":"x"}}}"#,
            "tool_choice",
            None,
        ),
        (r#"{"model":"m","input":"a","tools":{}}"#, "tools", None),
        (
            r#"{"model":"m","input":"a","tool_choice":"maybe"}"#,
            "tool_choice",
            None,
        ),
        (
            r#"{"model":"m","input":"a","tool_choice":"required"}"#,
            "tool_choice",
            None,
        ),
        (
            r#"{"model":"m","input":"a","tools":[{"type":"web_search"}],"tool_choice":{"type":"web_search"}}"#,
            "tool_choice",
            None,
        ),
        (
            r#"{"model":"m","input":"a","tool_choice":{"type":"function","name":"f"}}"#,
            "tool_choice",
            None,
        ),
    ] {
        let fault = TurnSource::new(body.into())
            .without_templates()
            .turn()
            .unwrap_err();
        assert_eq!(fault.kind, crate::fault::Kind::InvalidRequest, "{body}");
        assert_eq!(fault.param.as_deref(), Some(param), "{body}");
        assert_eq!(fault.code(), code, "{body}");
    }
}

/// Promise: In a request parameters of Chat Completions are refused with the name of the right one.
#[test]
fn a_parameter_of_chat_completions_names_the_one_that_replaces_it() {
    for (parameter, wanted) in [
        (r#""messages":[]"#, "'input'"),
        (
            r#""response_format":{"type":"json_object"}"#,
            "'text.format'",
        ),
        (r#""max_tokens":5"#, "'max_output_tokens'"),
        (r#""stop":["x"]"#, "leave it out"),
        (r#""n":2"#, "leave it out"),
        (r#""logprobs":true"#, "'top_logprobs'"),
    ] {
        // The error is about the parameter, whatever else is missing.
        let source = TurnSource::new(format!(r#"{{"model":"m",{parameter}}}"#));
        let fault = source.turn().unwrap_err();
        assert!(fault.message.contains(wanted), "{}", fault.message);
        assert_eq!(fault.code(), Some("unsupported_parameter"));
    }
    let harmless =
        r#"{"model":"m","input":"a","messages":null,"n":1,"logprobs":false,"stop":[],"seed":7}"#;
    assert!(TurnSource::new(harmless.into()).turn().is_ok());
}

#[test]
fn the_form_of_chat_completions_is_a_choice_of_a_tool() {
    let tools = r#"[{"type":"function","name":"f"},{"type":"custom","name":"c"}]"#;
    let named = |name: &str| ToolChoice::Named(name.to_owned());
    let allowed = |required| ToolChoice::Allowed {
        required,
        names: ["f".to_owned()].into(),
    };
    for (choice, expected, echoed) in [
        (
            r#"{"type":"function","function":{"name":"f"}}"#,
            named("f"),
            r#"{"type":"function","name":"f"}"#,
        ),
        (
            r#"{"type":"custom","custom":{"name":"c"}}"#,
            named("c"),
            r#"{"type":"custom","name":"c"}"#,
        ),
        (
            r#"{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"f"}}]}}"#,
            allowed(true),
            r#"{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"}]}"#,
        ),
        (
            r#"{"type":"allowed_tools","tools":[{"type":"function","name":"f"}]}"#,
            allowed(false),
            r#"{"type":"allowed_tools","tools":[{"type":"function","name":"f"}]}"#,
        ),
    ] {
        let body = format!(r#"{{"model":"m","input":"a","tools":{tools},"tool_choice":{choice}}}"#);
        let source = TurnSource::new(body);
        let turn = source.turn().unwrap();
        assert_eq!(turn.tool_choice, expected, "{choice}");
        assert_eq!(turn.echo.tool_choice.as_deref(), Some(echoed));
    }
}

/// Promise: What clients name themselves cannot fill the memory: ids of more than 256 bytes are
/// remembered as a hash, and a model name of more than 256 bytes is refused.
#[test]
fn a_long_name_of_a_model_is_refused() {
    let with = |bytes: usize| {
        let body = format!(r#"{{"model":"{}","input":"a"}}"#, "m".repeat(bytes));
        TurnSource::new(body)
            .turn()
            .err()
            .and_then(|fault| fault.param)
    };
    assert_eq!(with(MAX_MODEL_BYTES), None);
    assert_eq!(with(MAX_MODEL_BYTES + 1).as_deref(), Some("model"));
}

#[test]
fn work_that_was_stopped_has_no_turn() {
    let stop = StopFlag::new();
    let body = r#"{"model":"m","input":"a"}"#;
    let source = TurnSource::new(body.into()).with_stop_flag(stop.clone());
    assert!(source.turn().is_ok());
    stop.raise(StopReason::TurnTimeout);
    let fault = source.turn().unwrap_err();
    assert_eq!(fault.kind, crate::fault::Kind::TurnTimeout);
}

#[test]
fn unknown_parameters_items_and_tools_are_accepted() {
    for body in [
        r#"{"model":"m","input":"a","client_metadata":{"a":"b"},"access_programs":[]}"#,
        r#"{"model":"m","input":[{"type":"new_item","x":[1]}]}"#,
        r#"{"model":"m","input":"a","tools":[{"type":"new_tool","format":{"type":"text"}}]}"#,
        r#"{"model":"m","input":"a","temperature":null,"tools":null,"tool_choice":null,"metadata":null}"#,
        r#"{"model":"m","instructions":"only"}"#,
    ] {
        assert!(TurnSource::new(body.into()).turn().is_ok(), "{body}");
    }
}

#[test]
fn a_list_is_no_object() {
    for (param, value) in [
        ("conversation", r#"["conv_1"]"#),
        ("reasoning", r#"["high"]"#),
        ("reasoning", "[]"),
        ("prompt_cache_options", "[]"),
        ("prompt_cache_options", r#"["resp_1"]"#),
        ("text", r#"[{"type":"json_object"},"low"]"#),
        ("text", "[]"),
        ("text", r#"{"format":["json_object"]}"#),
        ("metadata", r#"[["a","b"]]"#),
        ("context_management", r#"[["compaction",100000]]"#),
        ("tool_choice", r#"["function","f"]"#),
        ("tool_choice", r#"{"type":"function","function":["f"]}"#),
        ("tools", r#"[["function","f"]]"#),
        (
            "tools",
            r#"[{"type":"custom","name":"f","format":["lark","x"]}]"#,
        ),
    ] {
        let body = format!(r#"{{"model":"m","input":"x","{param}":{value}}}"#);
        let source = TurnSource::new(body.clone());
        let read = source.turn();
        let fault = read.as_ref().err().unwrap_or_else(|| panic!("{body}"));
        let named = fault.param.as_deref().unwrap_or_default();
        assert!(named.starts_with(param), "{body}: {}", fault.message);
    }
    for body in [
        r#"["m","x"]"#,
        r#"{"model":"m","input":[["message","hi"]]}"#,
    ] {
        let source = TurnSource::new(body.to_owned());
        assert!(source.turn().is_err(), "{body}");
    }
}
