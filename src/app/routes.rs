//! Every route of the server, one line each.
use axum::extract::FromRef;
use http::request::Parts;
use http::{Request, Response};
use tower::ServiceExt;

use super::{
    AppState, artifacts, diagnostics, health, index, jobs, mcp, metrics, models, openapi,
    responses, standalone_search, status, store, stored, web, websocket,
};
use crate::artifacts::owner::OwnerArtifacts;
use crate::net::Owner;
use crate::serve::routes::{Endpoint, RouteService, RouteTable, delete, get, post};
use axum::body::Body;

/// Where the API is served: under the path of OpenAI's base URL, which error messages
/// name, under those of Azure's, and without a prefix.
const API_PREFIXES: [&str; 4] = ["/v1", "/openai/v1", "/openai", ""];

/// The routes of a server.
pub fn routes(state: &AppState) -> RouteService {
    let api = [
        post("/responses", responses::create).or_websocket(websocket::connect),
        get("/responses", stored::responses::list),
        post("/responses/compact", responses::compact),
        post("/responses/input_tokens", responses::count_input_tokens),
        post("/alpha/search", standalone_search::run),
        get("/responses/{id}", stored::responses::retrieve),
        delete("/responses/{id}", stored::responses::remove),
        post("/responses/{id}/cancel", stored::responses::cancel),
        get(
            "/responses/{id}/input_items",
            stored::responses::input_items,
        ),
        get("/responses/{id}/sources", stored::sources::list),
        get(
            "/responses/{id}/sources/{source}",
            stored::sources::retrieve,
        ),
        post("/conversations", stored::conversations::create),
        get("/conversations/{id}", stored::conversations::retrieve),
        post("/conversations/{id}", stored::conversations::update),
        delete("/conversations/{id}", stored::conversations::remove),
        post(
            "/conversations/{id}/items",
            stored::conversations::add_items,
        ),
        get(
            "/conversations/{id}/items",
            stored::conversations::list_items,
        ),
        get(
            "/conversations/{id}/items/{item}",
            stored::conversations::retrieve_item,
        ),
        delete(
            "/conversations/{id}/items/{item}",
            stored::conversations::remove_item,
        ),
        post("/search", web::search),
        post("/scrape", web::scrape),
        get("/models", models::list),
        get("/models/{*id}", models::retrieve),
    ];
    let others = [
        post("/mcp", mcp),
        get("/healthz", health),
        get("/metrics", metrics).for_operator(),
        get("/diagnostics/turns", diagnostics::list_turns),
        get("/diagnostics/bundle", diagnostics::bundle),
        get("/diagnostics/status", status::status).for_operator(),
        get("/diagnostics/models", models::providers::list).for_operator(),
        get("/", index),
        get("/openapi.json", openapi::document),
        get("/diagnostics/jobs", jobs::list),
        delete("/diagnostics/store", store::purge).for_operator(),
    ];
    RouteTable::new()
        .under(&API_PREFIXES, state, api)
        .under(&API_PREFIXES, state, artifact_endpoints())
        .under(&[""], state, others)
        .into_service(not_found_message)
}

/// Answers a request for artifacts without a server, for commands of the operator.
pub async fn answer_artifact_request(owned: &OwnerArtifacts, mut head: Parts) -> Response<Body> {
    head.extensions.insert(Owner::local());
    let request = Request::from_parts(head, Body::empty());
    let Ok(response) = artifact_routes(owned).oneshot(request).await;
    response
}

fn artifact_routes(owned: &OwnerArtifacts) -> RouteService {
    RouteTable::new()
        .under(&API_PREFIXES, owned, artifact_endpoints())
        .into_service(not_found_message)
}

fn artifact_endpoints<S>() -> [Endpoint<S>; 5]
where
    OwnerArtifacts: FromRef<S>,
    S: Clone + Send + Sync + 'static,
{
    [
        get("/artifacts", artifacts::list),
        get("/artifacts/{id}", artifacts::read),
        get("/artifacts/{id}/search", artifacts::search),
        delete("/artifacts/{id}", artifacts::remove),
        delete("/artifacts/expired", artifacts::sweep).for_operator(),
    ]
}

/// Paths of other APIs that clients ask for by mistake.
const OTHER_APIS: [&str; 3] = ["/chat/completions", "/completions", "/messages"];
/// Where clients send files first.
const FILES: [&str; 2] = ["/files", "/uploads"];

fn not_found_message(path: &str, served: &str) -> String {
    let asked = path.strip_suffix('/').unwrap_or(path);
    let below = API_PREFIXES.iter().filter_map(|it| asked.strip_prefix(it));
    let is_at = |routes: &[&str]| {
        let begins = |below: &str, route: &&str| {
            let rest = below.strip_prefix(route);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let mut below = below.clone();
        below.any(|below| routes.iter().any(|route| begins(below, route)))
    };
    let hint = if is_at(&OTHER_APIS) || OTHER_APIS.iter().any(|route| asked.ends_with(route)) {
        " Respondent answers the Responses API only: use POST /v1/responses."
    } else if is_at(&FILES) {
        " Respondent keeps no files: send the file itself, in 'file_data' of an 'input_file', or as \
         a data URL in 'image_url' of an 'input_image'."
    } else if is_at(&["/vector_stores"]) {
        " Respondent has no file search: send their text in the input."
    } else {
        ""
    };
    format!(
        "There is nothing at \"{path}\".{hint} This server has {served}. See GET /v1/models for the models."
    )
}

#[cfg(test)]
mod tests {
    use super::not_found_message;

    #[test]
    fn who_asks_for_another_api_is_pointed_to_responses() {
        let hint = "answers the Responses API only: use POST /v1/responses.";
        for path in [
            "/v1/chat/completions",
            "/chat/completions/",
            "/openai/v1/completions",
            "/v1/messages",
            "/openai/deployments/m/chat/completions",
        ] {
            let message = not_found_message(path, "POST /v1/responses");
            assert!(message.contains(hint), "{message}");
        }
        for (path, hint) in [
            ("/v1/files", "in 'file_data'"),
            ("/openai/files/file_1/content", "in 'file_data'"),
            ("/uploads/", "in 'file_data'"),
            ("/openai/v1/vector_stores", "send their text in the input"),
        ] {
            let message = not_found_message(path, "POST /v1/responses");
            assert!(message.contains(hint), "{message}");
        }
        assert_eq!(
            not_found_message("/v1/chat", "GET /a, GET /b"),
            "There is nothing at \"/v1/chat\". This server has GET /a, GET /b. See GET /v1/models for the models."
        );
    }
}
