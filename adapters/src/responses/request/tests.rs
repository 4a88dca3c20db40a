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
            "tools",
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

#[test]
fn r31_a_long_name_of_a_model_is_refused() {
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
