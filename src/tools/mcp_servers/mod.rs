//! The tools of MCP servers, which the proxy calls for models of any provider.
//!
//! | file | what it does |
//! |---|---|
//! | `target` | how a server is reached: named by a request and allowed, or configured |
//! | `pool` | the connections of all turns, and the lists that are kept |
//! | `connection` | one connection; `http` is the protocol over HTTP |
//! | `error` | why a server cannot be used |
//! | `listed_tool` | the tools of a server, within limits |
//! | `offer` | what a turn offers of them to the model and to the client |
//! | `approvals` | the calls that people were asked to approve |
//! | `turn` | calls them; `result_text` makes text of what they return |
//!
//! A server is not trusted: its texts are data, and what it sends and how long it takes is bounded.

mod approvals;
mod connection;
mod error;
mod http;
mod listed_tool;
mod offer;
mod pool;
mod result_text;
mod target;
mod turn;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use adapters::fault::Fault;
use adapters::tools::McpDefinition;
use adapters::turn::Turn;
use arc_swap::ArcSwap;
use futures_util::future::join_all;
use rustls::ClientConfig;

use self::approvals::McpApprovals;
use self::offer::{AskedServer, McpOffer};
use self::pool::McpPool;
use self::target::McpTarget;
use self::turn::McpTurn;
use super::setup;
use super::web::dialler::{Dialler, SystemDialler};
use crate::config::Config;
use crate::net::memory::ProcessMemory;
use crate::store::Store;
use crate::turn::{ListFuture, McpTools, ToolRunner, TurnContext, TurnTools};

/// The largest message of a server, in bytes.
const MAX_MESSAGE: usize = 8 << 20;

/// Connects to the MCP servers of all turns. Made with the server.
pub struct McpServers {
    config: Arc<ArcSwap<Config>>,
    network: Arc<McpNetwork>,
    pool: McpPool,
    approvals: Arc<McpApprovals>,
}

/// How servers are reached.
struct McpNetwork {
    dialler: Arc<dyn Dialler>,
    tls: OnceLock<Arc<ClientConfig>>,
    memory: OnceLock<ProcessMemory>,
}

impl McpNetwork {
    /// TLS with the certificates of the system, which are read when they are first needed.
    fn tls(&self) -> Result<Arc<ClientConfig>, rustls::Error> {
        if let Some(tls) = self.tls.get() {
            return Ok(Arc::clone(tls));
        }
        let made = Arc::new(setup::tls()?);
        Ok(Arc::clone(self.tls.get_or_init(|| made)))
    }

    fn memory(&self) -> ProcessMemory {
        let memory = self.memory.get().cloned();
        memory.unwrap_or_else(ProcessMemory::unlimited)
    }
}

impl McpServers {
    /// The servers of this configuration.
    pub fn new(config: Arc<ArcSwap<Config>>) -> Self {
        let network = Arc::new(McpNetwork {
            dialler: Arc::new(SystemDialler),
            tls: OnceLock::new(),
            memory: OnceLock::new(),
        });
        Self {
            config,
            pool: McpPool::new(Arc::clone(&network)),
            network,
            approvals: Arc::default(),
        }
    }

    /// Keeps in the store what people were asked to approve.
    pub fn keep_in(&self, store: &Arc<Store>) {
        self.approvals.keep_in(store);
    }

    /// What is received takes memory from this budget. Called before a server is needed.
    pub fn count_memory(&self, memory: &ProcessMemory) {
        self.network.memory.set(memory.clone()).ok();
    }

    /// Asks the servers of a request at the same time.
    async fn list(
        &self,
        ctx: &TurnContext,
        definitions: Vec<McpDefinition>,
    ) -> Result<McpTools, Fault> {
        let config = self.config.load_full();
        let mut servers = Vec::new();
        for definition in definitions {
            let secrets = ctx.mcp.as_ref().and_then(|mcp| mcp.of(definition.place));
            let (target, limits) = McpTarget::of(&definition, secrets, &config.mcp)?;
            servers.push((definition, limits, self.pool.get(target, &ctx.owner)));
        }
        let asking = servers
            .into_iter()
            .map(|(definition, limits, server)| async {
                let listed = server
                    .tools(config.mcp.list_cache, config.tools.call_timeout)
                    .await;
                AskedServer {
                    definition,
                    limits,
                    server,
                    listed,
                }
            });
        let offer = McpOffer::new(join_all(asking).await);
        Ok(McpTools {
            listing: Arc::new(offer.listing),
            functions: offer.functions,
            tools: Some(Arc::new(McpTurn {
                tools: offer.tools,
                approvals: Arc::clone(&self.approvals),
            })),
        })
    }
}

impl ToolRunner for McpServers {
    fn begin(&self, _: &TurnContext, _: &Turn<'_>, _: &str) -> Arc<dyn TurnTools> {
        Arc::new(McpTurn {
            tools: HashMap::new(),
            approvals: Arc::clone(&self.approvals),
        })
    }

    fn runs_mcp(&self) -> bool {
        true
    }

    fn check_mcp(&self, servers: &[McpDefinition]) -> Result<(), Fault> {
        let config = self.config.load();
        let mut servers = servers.iter();
        servers.try_for_each(|server| McpTarget::of(server, None, &config.mcp).map(drop))
    }

    fn list_mcp<'r>(&'r self, ctx: &'r TurnContext, servers: Vec<McpDefinition>) -> ListFuture<'r> {
        Box::pin(self.list(ctx, servers))
    }
}
