//! Artifacts for models, over the Model Context Protocol.
//!
//! | module | noun |
//! |---|---|
//! | [`tools`] | what the tools are called, take and are for |
//! | [`read`] | a page of an artifact |
//! | [`find`] | what was found in one, or in the latest |
//! | [`list`] | which there are |
//! | [`call`] | a call of a tool, answered |
//! | [`stdio`] | the same on standard input and output |
//!
//! Over HTTP each request stands alone: no session, no stream, one JSON answer.

pub mod call;
mod find;
mod list;
mod read;
pub mod stdio;
mod tools;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use crate::artifacts::owner::OwnerArtifacts;
use crate::serve::Body;
use call::{Call, Outcome};

/// What a model reads of the server as a whole.
const INSTRUCTIONS: &str = "Tool outputs that were too long for this conversation were replaced by \
    excerpts that name an artifact id (art_...). Nothing of them is lost: artifact_read and \
    artifact_search give back any part.";

/// Where calls are answered.
pub trait Answers: Clone + Send + Sync + 'static {
    /// Answers a call.
    fn answer(&self, call: Call) -> impl Future<Output = Outcome> + Send;
}

impl Answers for OwnerArtifacts {
    async fn answer(&self, call: Call) -> Outcome {
        call.answer(self).await
    }
}

/// A server of the protocol whose calls are answered there.
#[derive(Clone, Debug)]
pub struct Server<A>(pub A);

impl<A: Answers> ServerHandler for Server<A> {
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
    ) -> Result<ListToolsResult, rmcp::ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::all().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, rmcp::ErrorData> {
        let call = Call {
            name: request.name.into_owned(),
            arguments: request.arguments.unwrap_or_default(),
        };
        Ok(self.0.answer(call).await.into())
    }
}

/// Answers `POST /mcp`. Who may ask was checked before.
pub async fn answer(owned: OwnerArtifacts, head: Parts, body: String) -> Response<Body> {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_sse_keep_alive(None)
        // The guard of all routes has checked both.
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(body.len());
    let service = StreamableHttpService::new(
        move || Ok(Server(owned.clone())),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    let request = Request::from_parts(head, Full::new(Bytes::from(body)));
    let (head, body) = service.handle(request).await.into_parts();
    let never = |error: Infallible| -> io::Error { match error {} };
    Response::from_parts(head, Body::stream(body.map_err(never)))
}
