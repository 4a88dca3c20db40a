//! The protocol on standard input and output, for programs that start their servers
//! themselves. Nothing else is written there.

use rmcp::ServiceExt;
use rmcp::transport::io::stdio_pipes;

use super::{Answers, Server};

/// Serves until standard input ends.
pub async fn serve(answers: impl Answers) -> anyhow::Result<()> {
    let service = match Server(answers).serve(stdio_pipes()).await {
        Ok(service) => service,
        // Whoever started it went away before it said anything.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    service.waiting().await?;
    Ok(())
}
