//! The hosted tool `web_search` of the Responses API, run here: the model gets functions in its
//! place that search the web, open pages and find text in them.
//!
//! | file | contents |
//! |---|---|
//! | `functions` | the functions, as the model sees them |
//! | `pages` | the pages of a session |
//! | `record` | what is stored of the calls |
//! | `settings` | what the client's definition of the tool asks for |
//! | `turn` | the calls of one turn |

mod functions;
mod pages;
mod record;
mod settings;
mod turn;

use std::sync::Arc;

use adapters::tools::{ProviderToolUse, ProxyTool, WebSearchDefinition};
use adapters::turn::Turn;

use super::live::LiveWebTools;
use super::page_artifacts::PageArtifacts;
use crate::artifacts::Artifacts;
use crate::config::search::SearchMode;
use crate::net::memory::MemoryKind;
use crate::turn::{ToolRunner, TurnContext, TurnTools};
use pages::SessionPages;
use settings::HostedSearchSettings;
use turn::SearchTurn;

/// Runs `web_search` for all turns. Made with the server.
pub struct WebSearchTool {
    web: Arc<LiveWebTools>,
    artifacts: Artifacts,
    functions: FunctionsByMode,
}

/// The functions by the mode of the configuration.
struct FunctionsByMode {
    auto: Arc<[ProxyTool]>,
    native: Arc<[ProxyTool]>,
    proxy: Arc<[ProxyTool]>,
}

impl WebSearchTool {
    /// The tool over these web tools, which keeps the pages that it reads as artifacts.
    pub fn new(web: Arc<LiveWebTools>, artifacts: Artifacts) -> Self {
        Self {
            web,
            artifacts,
            functions: FunctionsByMode {
                auto: functions::all(ProviderToolUse::WhereEqual).into(),
                native: vec![functions::echo()].into(),
                proxy: functions::all(ProviderToolUse::Never).into(),
            },
        }
    }
}

impl ToolRunner for WebSearchTool {
    fn fixed(&self) -> Arc<[ProxyTool]> {
        let functions = &self.functions;
        match self.web.mode() {
            SearchMode::Auto => Arc::clone(&functions.auto),
            SearchMode::Native => Arc::clone(&functions.native),
            SearchMode::Proxy => Arc::clone(&functions.proxy),
            SearchMode::Off => Arc::default(),
        }
    }

    fn searches_the_web(&self) -> bool {
        self.web.are_on()
    }

    fn begin(&self, ctx: &TurnContext, turn: &Turn<'_>, session: &str) -> Arc<dyn TurnTools> {
        let definition = WebSearchDefinition::of(&turn.tools).and_then(Result::ok);
        let settings = definition.map(|wanted| HostedSearchSettings::of(&wanted, &turn.controls));
        let settings = settings.unwrap_or_default();
        let (web, limits) = (self.web.of_owner(&ctx.owner), self.web.limits());
        let artifacts = PageArtifacts::new(self.artifacts.clone(), &ctx.owner, session);
        let pages = SessionPages::new(artifacts, turn.known_sources.iter().copied());
        let memory = self.web.memory().of_owner(&ctx.owner);
        let memory = memory.share(MemoryKind::Answers);
        Arc::new(SearchTurn::new(web, limits, settings, pages, memory))
    }
}
