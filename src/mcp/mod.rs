//! Tools with which a model reads artifacts, over the Model Context Protocol.
//!
//! | module | content |
//! |---|---|
//! | `tools` | the definitions of the tools |
//! | `read` | reads a page of an artifact |
//! | `search` | searches one artifact or the most recent ones |
//! | `list` | lists artifacts |
//! | [`call`] | checks and answers a tool call |
//! | [`stdio`] | the protocol on standard input and output |
//!
//! Over HTTP every request is independent: no session, no stream, one JSON response.

pub mod call;
mod error;
pub(crate) mod list;
mod read;
pub(crate) mod search;
pub mod stdio;
mod tools;

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler};
use serde::de::IgnoredAny;
use serde_json::json;

use crate::artifacts::owner::OwnerArtifacts;
use axum::body::Body;
pub(crate) use error::{NAMES, READ, unsearchable};
pub(crate) use read::DEFAULT_CHARS;
pub(crate) use tools::definitions;

/// The description of the server for the model.
const INSTRUCTIONS: &str = "Tool outputs that were too long for this conversation were replaced by \
    excerpts. Those that name an artifact id (art_...) are kept whole: artifact_read and \
    artifact_search give back any part.";

/// Answers tool calls: from the artifacts themselves, or through another server that has
/// them.
pub trait ToolCallHandler: Clone + Send + Sync + 'static {
    /// Answers one call, as [`call::answer`] does.
    fn call_tool(
        &self,
        call: CallToolRequestParams,
    ) -> impl Future<Output = Result<String, String>> + Send;
}

impl ToolCallHandler for OwnerArtifacts {
    async fn call_tool(&self, call: CallToolRequestParams) -> Result<String, String> {
        call::answer(self, call).await
    }
}

/// A server of the protocol that passes its tool calls to this handler.
#[derive(Clone, Debug)]
pub struct McpServer<H>(pub H);

impl<H: ToolCallHandler> ServerHandler for McpServer<H> {
    fn get_info(&self) -> ServerConfig {
        let mut config = ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_instructions(INSTRUCTIONS);
        config.server_info = Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        config
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::definitions()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::definitions()
            .into_iter()
            .find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let answered = tokio::select! {
            answered = self.0.call_tool(request) => answered,
            // The client has left, or does not want the result any more.
            () = context.ct.cancelled() => Err("The call was cancelled.".to_owned()),
        };
        Ok(match answered {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(why) => CallToolResult::error(vec![ContentBlock::text(why)]),
        }
        .into())
    }
}

/// The largest message in bytes. Calls of the tools have a few hundred; the parsed form of a
/// message can take many times its bytes.
const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// Answers `POST /mcp`. The guard of the HTTP edge has checked the request.
pub async fn answer(owned: OwnerArtifacts, head: Parts, body: String) -> Response<Body> {
    if body.len() > MAX_MESSAGE_BYTES {
        return unreadable(
            StatusCode::PAYLOAD_TOO_LARGE,
            &ErrorData::invalid_request("The message is longer than 1 MiB.", None),
        );
    }
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_sse_keep_alive(None)
        // The guard has checked both.
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(body.len());
    let service = StreamableHttpService::new(
        move || Ok(McpServer(owned.clone())),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    let body = Bytes::from(body);
    let request = Request::from_parts(head, Full::new(body.clone()));
    let response = service.handle(request).await;
    // The guard has checked the content type, so this status means that the body is no message.
    if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        let error = match serde_json::from_slice::<IgnoredAny>(&body) {
            Ok(_) => ErrorData::invalid_request("The body is not a JSON-RPC message.", None),
            Err(error) => ErrorData::parse_error(format!("The body is not JSON: {error}."), None),
        };
        return unreadable(StatusCode::BAD_REQUEST, &error);
    }
    let (head, body) = response.into_parts();
    Response::from_parts(head, Body::new(body))
}

/// The response to a request whose message, and therefore whose id, is unknown.
fn unreadable(status: StatusCode, error: &ErrorData) -> Response<Body> {
    let message = json!({"jsonrpc": "2.0", "id": null, "error": error});
    let mut response = Response::new(Body::from(message.to_string()));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}
