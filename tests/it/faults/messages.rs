//! What a person reads when a provider fails: who, where, why and what to do.
use kit::player::{PlayerWire, ScriptedAnswer};
use serde_json::json;

use super::{answer, body, player};
use crate::proxy::{CODEX, Proxy, Setup, streaming};

/// What a provider answers, and what the clients make of it.
struct MessageCase {
    answer: ScriptedAnswer,
    /// The status for a client other than Codex.
    status: u16,
    /// The code of the failed stream for Codex; `None` if it gets the error by itself.
    code: Option<&'static str>,
    /// The message; `{post}` stands for the method and the address.
    message: &'static str,
}

fn case(
    answer: ScriptedAnswer,
    (status, code): (u16, Option<&'static str>),
    message: &'static str,
) -> MessageCase {
    MessageCase {
        answer,
        status,
        code,
        message,
    }
}

pub const FINAL: Option<&str> = Some("invalid_prompt");
pub const REPEAT: Option<&str> = Some("server_error");

fn error(status: u16, message: &str, code: &str) -> ScriptedAnswer {
    ScriptedAnswer {
        json: Some(json!({"error": {"message": message, "code": code}})),
        ..ScriptedAnswer::error(status, "")
    }
}

fn page(status: u16, html: &str) -> ScriptedAnswer {
    ScriptedAnswer {
        status,
        body: Some(html.to_owned()),
        ..ScriptedAnswer::default()
    }
}

fn with_header(name: &str, value: &str, mut answer: ScriptedAnswer) -> ScriptedAnswer {
    answer.headers.insert(name.to_owned(), value.to_owned());
    answer
}

/// Addresses at which there is no such API.
fn wrong_addresses() -> Vec<MessageCase> {
    const NGINX: &str = "<html>\r\n<head><title>404 Not Found</title></head>\r\n<body>\r\n<center><h1>404 Not Found</h1></center>\r\n<hr><center>nginx/1.25</center>\r\n</body>\r\n</html>";
    const SPA: &str = "<!doctype html><html><head><title>LM Studio</title><script>1 < 2</script></head><body><div id=\"root\"></div></body></html>";
    const PYTHON: &str = "<!DOCTYPE HTML><html><head><title>Error response</title></head><body><h1>Error response</h1><p>Message: Unsupported method ('POST').</p></body></html>";
    const PLAIN: &str = "<html><head><title>400</title></head><body>The plain HTTP request was sent to HTTPS port</body></html>";
    vec![
        case(
            page(404, "{\"detail\":\"Not Found\"}"),
            (404, FINAL),
            "The provider 'up' has no such address. {post} answered 404: \"Not Found\". Check its base_url: {path} is appended to it, and most end in /v1.",
        ),
        case(
            page(404, NGINX),
            (404, FINAL),
            "The provider 'up' has no such address. {post} answered 404: \"404 Not Found nginx/1.25\". Check its base_url: {path} is appended to it, and most end in /v1.",
        ),
        case(
            page(404, ""),
            (404, FINAL),
            "The provider 'up' has no such address. {post} answered 404 without a message. Check its base_url: {path} is appended to it, and most end in /v1.",
        ),
        case(
            page(405, "Method Not Allowed"),
            (405, FINAL),
            "The provider 'up' has no such address. {post} answered 405: \"Method Not Allowed\". Check its base_url: {path} is appended to it, and most end in /v1.",
        ),
        case(
            page(200, SPA),
            (502, FINAL),
            "The provider 'up' sent a web page in place of an answer. {post} answered 200: \"LM Studio\". Check its base_url: {path} is appended to it, and most end in /v1.",
        ),
        case(
            page(501, PYTHON),
            (501, FINAL),
            "The provider 'up' failed. {post} answered 501: \"Error response Message: Unsupported method ('POST').\" Check its base_url: {path} is appended to it, and most end in /v1.",
        ),
        case(
            page(400, PLAIN),
            (400, FINAL),
            "The provider 'up' refused the request. {post} answered 400: \"The plain HTTP request was sent to HTTPS port\". Write https:// in its base_url.",
        ),
        case(
            with_header(
                "location",
                "https://elsewhere.example/v1?key=1",
                page(301, ""),
            ),
            (502, FINAL),
            "The provider 'up' redirects to https://elsewhere.example/v1, and a key does not follow. {post} answered 301. If you trust the new address, write it in base_url.",
        ),
    ]
}

/// What the provider holds against the account or the request.
fn refusals() -> Vec<MessageCase> {
    vec![
        case(
            error(401, "Incorrect API key provided.", "invalid_api_key"),
            (401, FINAL),
            "The provider 'up' does not accept the key from UP_API_KEY. {post} answered 401: \"Incorrect API key provided.\" Set UP_API_KEY to a valid key and restart Respondent.",
        ),
        case(
            ScriptedAnswer::error(403, "Your country is not served"),
            (403, FINAL),
            "The provider 'up' refuses access with the key from UP_API_KEY. {post} answered 403: \"Your country is not served\". Check what this key may do at the provider, or give another one.",
        ),
        case(
            ScriptedAnswer::error(402, "Insufficient Balance"),
            (429, FINAL),
            "The account of the provider 'up' has no credit or quota left (key from UP_API_KEY). {post} answered 402: \"Insufficient Balance\". Check your plan and billing at the provider, or give another key.",
        ),
        case(
            ScriptedAnswer::error(400, "the marzipan parameter is not supported"),
            (400, FINAL),
            "The provider 'up' refused the request. {post} answered 400: \"the marzipan parameter is not supported\".",
        ),
        case(
            ScriptedAnswer::error(400, "The request was rejected: considered high risk"),
            (400, FINAL),
            "The content filter of the provider 'up' blocked the request. {post} answered 400: \"The request was rejected: considered high risk\".",
        ),
        case(
            error(404, "The model `m` does not exist.", "model_not_found"),
            (404, None),
            "The provider 'up' has no model 'm'. {post} answered 404: \"The model `m` does not exist.\" Check the name of the model, and whether your key may use it.",
        ),
        case(
            error(400, "That is too long.", "context_length_exceeded"),
            (400, None),
            "The input is too long for the model 'm' of the provider 'up'. {post} answered 400: \"That is too long.\" Shorten the input, or use a model with a larger window.",
        ),
    ]
}

/// What may pass.
fn outages() -> Vec<MessageCase> {
    vec![
        case(
            ScriptedAnswer::error(500, "Internal pudding error."),
            (500, REPEAT),
            "The provider 'up' failed. {post} answered 500: \"Internal pudding error.\" The fault is the provider's: try again later.",
        ),
        case(
            ScriptedAnswer::error(503, "no healthy upstream"),
            (503, REPEAT),
            "The provider 'up' is overloaded. {post} answered 503: \"no healthy upstream\". Try again later, or use another model.",
        ),
        case(
            with_header(
                "retry-after",
                "100",
                error(429, "Rate limit reached.", "rate_limit_exceeded"),
            ),
            (429, Some("rate_limit_exceeded")),
            "The provider 'up' limits the rate of requests. {post} answered 429: \"Rate limit reached.\" Please try again in 100.0s.",
        ),
        case(
            answer(json!([{"error": {"message": "The pudding collapsed.", "code": 500}}])),
            (500, REPEAT),
            "The provider 'up' failed. The answer of {post} ended with an error: \"The pudding collapsed.\" The fault is the provider's: try again later.",
        ),
        case(
            answer(json!([{"text": "It "}, {"raw": ""}])),
            (502, REPEAT),
            "The answer of the provider 'up' ended before it was complete. The request was {post}.",
        ),
        case(
            answer(json!([{"text": "It "}, {"cut": "fin"}])),
            (502, REPEAT),
            "The provider 'up' broke the connection before its answer was complete. The request was {post}.",
        ),
    ]
}

/// Every message of the tables, as a person may read it.
pub fn provider_messages() -> Vec<String> {
    let cases = cases().into_iter().map(|case| case.message);
    let post = "POST https://api.example/v1/chat/completions";
    cases
        .map(|message| message.replace("{post}", post))
        .map(|message| message.replace("{path}", path(PlayerWire::Chat)))
        .collect()
}

fn cases() -> Vec<MessageCase> {
    let groups = [wrong_addresses(), refusals(), outages()];
    groups.into_iter().flatten().collect()
}

/// Promise: An error says which provider failed, at which address, with which status and words,
/// where the key came from, and what to do.
#[kit::test(on_each_wire)]
async fn an_error_says_who_where_why_and_what_to_do(wire: PlayerWire) {
    let player = player(wire).await;
    let setup = Setup::new()
        .provider("max_retries = 0\napi_key_env = \"UP_API_KEY\"")
        .env("UP_API_KEY", "a-key-of-nobody");
    let proxy = Proxy::start_with(&player, setup).await;
    let post = format!("POST {}{}", player.base_url(), path(wire));
    for case in cases() {
        let expected = case.message.replace("{post}", &post);
        let expected = expected.replace("{path}", path(wire));
        player.push(case.answer.clone());
        let reply = proxy.post(&body()).await;
        assert_eq!(reply.error(case.status)["message"], *expected);
        let is_final = !matches!(case.code, Some("server_error" | "rate_limit_exceeded"));
        let header = is_final.then_some("false");
        assert_eq!(reply.header("x-should-retry"), header, "{expected}");
        player.push(case.answer);
        let reply = proxy.post_with(&streaming(&body()), CODEX).await;
        match case.code {
            None => assert_eq!(reply.error(case.status)["message"], *expected),
            Some(code) => {
                let stream = reply.stream_for_codex();
                assert_eq!(stream.error_code(), Some(code), "{expected}");
                assert_eq!(stream.response["error"]["message"], *expected);
            }
        }
    }
}

#[kit::test(on_each_wire)]
async fn codex_is_told_whose_content_filter_cut_an_answer_off(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = Proxy::start(&player).await;
    player.push(answer(
        json!([{"text": "It "}, {"finish": "content_filter"}]),
    ));
    let reply = proxy.post_with(&streaming(&body()), CODEX).await;
    let stream = reply.stream_for_codex();
    assert_eq!(stream.error_code(), FINAL);
    let post = format!("POST {}{}", player.base_url(), path(wire));
    let expected = format!(
        "The provider 'up' cut off its answer with its content filter. The request was {post}."
    );
    assert_eq!(stream.response["error"]["message"], *expected);
}

/// The path that is appended to a base URL.
pub fn path(wire: PlayerWire) -> &'static str {
    match wire {
        PlayerWire::Chat => "/chat/completions",
        PlayerWire::Responses => "/responses",
    }
}

#[kit::test(on_each_wire)]
async fn a_refused_key_is_told_by_where_it_came_from(wire: PlayerWire) {
    for (provider, phrase, remedy) in [
        (
            "api_key_env = [\"FIRST_KEY\", \"SECOND_KEY\"]",
            "does not accept the key from SECOND_KEY.",
            "Set SECOND_KEY to a valid key and restart Respondent.",
        ),
        (
            "api_key_file = \"key\"",
            "does not accept the key from the file ",
            "/key.",
        ),
        (
            "api_key_command = \"echo a-key-of-nobody\"",
            "does not accept the key from its api_key_command.",
            "Check what its api_key_command prints.",
        ),
        (
            "api_key = \"a-key-of-nobody\"",
            "does not accept the key from api_key in the configuration.",
            "Correct api_key in the section [providers.up].",
        ),
        (
            "",
            "asks for a key, and none is configured.",
            "Give one with api_key_env in the section [providers.up].",
        ),
    ] {
        let player = player(wire).await;
        let setup = Setup::new()
            .provider(provider)
            .env("SECOND_KEY", "a-key-of-nobody")
            .file("key", "a-key-of-nobody");
        let proxy = Proxy::start_with(&player, setup).await;
        player.push(ScriptedAnswer::error(401, "Who are you?"));
        let error = proxy.post(&body()).await.error(401);
        let message = error["message"].as_str().unwrap();
        let start = format!("The provider 'up' {phrase}");
        assert!(message.starts_with(&start), "{message}");
        assert!(message.ends_with(remedy), "{message}");
        assert!(message.contains("\"Who are you?\" "), "{message}");
    }
}
