//! Several tools that run in the proxy as one.

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;

use adapters::fault::Fault;
use adapters::responses::assembler::{HostedItem, WithheldCall};
use adapters::tools::{McpDefinition, ProxyTool};
use adapters::turn::{ApprovalCall, Turn};
use parking_lot::Mutex;

use crate::turn::{
    CallRecord, ListFuture, McpTools, ToolEffect, ToolFuture, ToolResult, ToolRunner, TurnContext,
    TurnTools,
};

/// Tools of several kinds. No two of them have tools of the same name.
pub struct CombinedTools {
    runners: Vec<Arc<dyn ToolRunner>>,
    /// The fixed tools of each, and of all, as they were last.
    fixed: Mutex<FixedTools>,
}

#[derive(Default)]
struct FixedTools {
    of_each: Vec<Arc<[ProxyTool]>>,
    all: Arc<[ProxyTool]>,
}

impl CombinedTools {
    /// All of these.
    pub fn new(runners: Vec<Arc<dyn ToolRunner>>) -> Self {
        Self {
            runners,
            fixed: Mutex::default(),
        }
    }
}

impl CombinedTools {
    /// The one that connects to MCP servers.
    fn mcp(&self) -> Option<&Arc<dyn ToolRunner>> {
        self.runners.iter().find(|runner| runner.runs_mcp())
    }
}

impl ToolRunner for CombinedTools {
    fn fixed(&self) -> Arc<[ProxyTool]> {
        let of_each: Vec<_> = self.runners.iter().map(|runner| runner.fixed()).collect();
        let mut fixed = self.fixed.lock();
        // Every request asks for them, and they change with the configuration alone.
        let is_same = of_each.len() == fixed.of_each.len()
            && of_each
                .iter()
                .zip(&fixed.of_each)
                .all(|(one, before)| one.len() == before.len() && Arc::ptr_eq(one, before));
        if !is_same {
            fixed.all = of_each
                .iter()
                .flat_map(|tools| tools.iter().cloned())
                .collect();
            fixed.of_each = of_each;
        }
        Arc::clone(&fixed.all)
    }

    fn offered(&self, ctx: &TurnContext, turn: &Turn<'_>) -> Vec<ProxyTool> {
        let runners = self.runners.iter();
        runners
            .flat_map(|runner| runner.offered(ctx, turn))
            .collect()
    }

    fn begin(&self, ctx: &TurnContext, turn: &Turn<'_>, session: &str) -> Arc<dyn TurnTools> {
        self.begin_with(ctx, turn, session, None)
    }

    fn searches_the_web(&self) -> bool {
        self.runners.iter().any(|runner| runner.searches_the_web())
    }

    fn runs_mcp(&self) -> bool {
        self.mcp().is_some()
    }

    fn check_mcp(&self, servers: &[McpDefinition]) -> Result<(), Fault> {
        self.mcp()
            .map_or(Ok(()), |runner| runner.check_mcp(servers))
    }

    fn list_mcp<'r>(&'r self, ctx: &'r TurnContext, servers: Vec<McpDefinition>) -> ListFuture<'r> {
        match self.mcp() {
            Some(runner) => runner.list_mcp(ctx, servers),
            None => Box::pin(async { Ok(McpTools::default()) }),
        }
    }

    fn begin_with(
        &self,
        ctx: &TurnContext,
        turn: &Turn<'_>,
        session: &str,
        of_servers: Option<Arc<dyn TurnTools>>,
    ) -> Arc<dyn TurnTools> {
        let runners = self.runners.iter();
        let tools = runners.map(|runner| runner.begin(ctx, turn, session));
        Arc::new(CombinedTurn {
            all: tools.chain(of_servers.clone()).collect(),
            of_servers,
        })
    }
}

/// The tools of one turn.
struct CombinedTurn {
    all: Vec<Arc<dyn TurnTools>>,
    /// Those of MCP servers.
    of_servers: Option<Arc<dyn TurnTools>>,
}

impl CombinedTurn {
    fn of_name(&self, name: &str) -> Option<&dyn TurnTools> {
        let tools = self.all.iter().find(|tools| tools.has(name));
        tools.map(|tools| &**tools)
    }

    fn of_call(&self, call: &WithheldCall) -> Option<&dyn TurnTools> {
        self.of_name(ProxyTool::original_name(&call.name))
    }
}

impl TurnTools for CombinedTurn {
    fn has(&self, name: &str) -> bool {
        self.of_name(name).is_some()
    }

    fn effect(&self, name: &str) -> ToolEffect {
        let tools = self.of_name(name);
        tools.map_or(ToolEffect::READ_ONLY, |tools| tools.effect(name))
    }

    fn shown(&self, call: &WithheldCall) -> Option<HostedItem> {
        self.of_call(call)?.shown(call)
    }

    fn run<'r>(&'r self, ctx: &'r TurnContext, call: &'r WithheldCall) -> ToolFuture<'r> {
        // Servers know what they have.
        match self.of_call(call).or(self.of_servers.as_deref()) {
            Some(tools) => tools.run(ctx, call),
            None => Box::pin(async {
                ToolResult::unusable(format!("There is no tool '{}'.", call.name))
            }),
        }
    }

    fn run_approved<'r>(
        &'r self,
        ctx: &'r TurnContext,
        session: &'r str,
        call: &'r ApprovalCall,
    ) -> ToolFuture<'r> {
        match &self.of_servers {
            Some(tools) => tools.run_approved(ctx, session, call),
            None => Box::pin(ready(ToolResult::of_no_server(call))),
        }
    }

    fn ask(&self, ctx: &TurnContext, session: &str, call: &ApprovalCall) {
        if let Some(tools) = &self.of_servers {
            tools.ask(ctx, session, call);
        }
    }

    fn refuse<'r>(
        &'r self,
        ctx: &'r TurnContext,
        session: &'r str,
        calls: &'r [String],
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'r>> {
        match &self.of_servers {
            Some(tools) => tools.refuse(ctx, session, calls),
            None => Box::pin(ready(())),
        }
    }

    fn take_record(&self, call: &WithheldCall) -> CallRecord {
        let tools = self.of_call(call);
        tools.map_or_else(CallRecord::default, |tools| tools.take_record(call))
    }

    fn take_cost(&self) -> f64 {
        self.all.iter().map(|tools| tools.take_cost()).sum()
    }
}
