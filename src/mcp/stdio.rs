//! Serves the protocol on standard input and output, for programs that start their
//! servers themselves. Nothing else is written to standard output.

use rmcp::ServiceExt;
use rmcp::transport::io::stdio_pipes;

use super::{McpServer, ToolCallHandler};

/// Serves until standard input ends.
pub async fn serve(handler: impl ToolCallHandler) -> anyhow::Result<()> {
    let service = match McpServer(handler).serve(stdio_pipes()).await {
        Ok(service) => service,
        // The program that started this one went away before it sent anything.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    service.waiting().await?;
    Ok(())
}
