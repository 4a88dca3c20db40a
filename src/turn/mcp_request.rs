//! The MCP servers of a request to which the proxy connects, and the secrets that the request gives
//! for them. These are taken out of its body before anything else sees it: what is recorded, stored
//! and sent to providers does not have them.

use std::sync::Arc;

use adapters::fault::Fault;
use adapters::tools::{McpMention, McpSecrets, take_secrets};
use adapters::wire;
use hashlink::LruCache;
use parking_lot::Mutex;
use registry::RelayToolKind;

use super::context::TurnContext;
use super::turn_memory::ReceivedBody;
use crate::config::Config;
use crate::secrets::Secret;

/// The most jobs that wait whose secrets are kept.
const MAX_WAITING: usize = 500;

/// What a request gives for its MCP servers. Made when it is received, if the proxy connects to
/// them.
#[derive(Default)]
pub struct McpRequest {
    secrets: Vec<McpServerSecrets>,
}

/// What a request gives for one server.
pub struct McpServerSecrets {
    /// The place of the server in the list of tools.
    place: usize,
    /// Its bearer token.
    pub authorization: Option<Secret>,
    /// Further headers.
    pub headers: Vec<(String, Secret)>,
}

impl McpRequest {
    /// What it gives for the server at this place in its list of tools.
    pub fn of(&self, place: usize) -> Option<&McpServerSecrets> {
        self.secrets.iter().find(|secrets| secrets.place == place)
    }
}

impl From<McpSecrets> for McpServerSecrets {
    fn from(secrets: McpSecrets) -> Self {
        let headers = secrets.headers.into_iter();
        Self {
            place: secrets.place,
            authorization: secrets.authorization.as_deref().and_then(Secret::new),
            headers: headers
                .filter_map(|(name, value)| Some((name, Secret::new(&value)?)))
                .collect(),
        }
    }
}

/// The secrets of the requests of jobs that wait, by response id. They are in memory alone: a job
/// that begins after a restart has none.
pub(super) struct WaitingSecrets(Mutex<LruCache<String, Arc<McpRequest>>>);

impl Default for WaitingSecrets {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(MAX_WAITING)))
    }
}

impl WaitingSecrets {
    /// Keeps those of a request, if it has any.
    pub(super) fn keep(&self, id: &str, request: Option<&Arc<McpRequest>>) {
        if let Some(request) = request.filter(|request| !request.secrets.is_empty()) {
            self.0.lock().insert(id.to_owned(), Arc::clone(request));
        }
    }

    /// Those of the job that begins.
    pub(super) fn take(&self, id: &str) -> Option<Arc<McpRequest>> {
        self.0.lock().remove(id)
    }
}

/// Decides whether the proxy connects to the MCP servers of a request, and takes its secrets out of
/// the body if it does. A provider that connects to servers itself gets the request as it is,
/// unless a server has no address for it.
pub(super) fn begin_mcp(
    ctx: &mut TurnContext,
    config: &Config,
    body: &mut ReceivedBody,
) -> Result<(), Fault> {
    let kept = ctx.mcp.take();
    let runner = ctx.environment.tools.as_ref();
    if !runner.is_some_and(|runner| runner.runs_mcp()) || !may_name_servers(&body.text) {
        return Ok(());
    }
    let taken = ctx.run_work(body.text.len(), || {
        let Some(mention) = McpMention::of(&body.text) else {
            return Ok(None);
        };
        let route = config.registry.resolve(&mention.model, ctx.caller.codex);
        let runs =
            |route: registry::Route| wire::runs_hosted(&route.dialect.quirks, RelayToolKind::Mcp);
        if !mention.has_configured && route.is_ok_and(runs) {
            return Ok(None);
        }
        Ok::<_, Fault>(Some(take_secrets(&body.text)?))
    })?;
    let Some(taken) = taken else {
        return Ok(());
    };
    let mut request = kept.unwrap_or_default();
    if let Some((text, secrets)) = taken {
        body.text = text;
        request = Arc::new(McpRequest {
            secrets: secrets.into_iter().map(McpServerSecrets::from).collect(),
        });
    }
    ctx.mcp = Some(request);
    Ok(())
}

/// Whether a body may have a tool of the type `mcp`. In texts the quotes are escaped, so that few
/// others have this; and a letter may be written as an escape.
fn may_name_servers(body: &str) -> bool {
    let spellings: [&[u8]; 3] = [br#""mcp""#, br"\u006", br"\u0070"];
    let has = |spelling| memchr::memmem::find(body.as_bytes(), spelling).is_some();
    spellings.into_iter().any(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_of_other_clients_are_not_read_for_servers() {
        for (body, may) in [
            (r#"{"tools":[{"type":"mcp"}]}"#, true),
            (r#"{"tools":[{"type":"\u006dcp"}]}"#, true),
            (r#"{"tools":[{"type":"m\u0063p"}]}"#, true),
            (r#"{"tools":[{"type":"mc\u0070"}]}"#, true),
            (r#"{"tools":[{"type":"function","name":"mcp__a"}]}"#, false),
            (r#"{"input":"{\"type\":\"mcp\"} \u001b[0m"}"#, false),
        ] {
            assert_eq!(may_name_servers(body), may, "{body}");
        }
    }
}
