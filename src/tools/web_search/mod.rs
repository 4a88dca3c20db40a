//! The hosted tool `web_search` of the Responses API, run here: the model gets functions in its
//! place that search the web, open pages and find text in them.
//!
//! | file | contents |
//! |---|---|
//! | `functions` | the functions, as the model sees them |
//! | `settings` | what the client's definition of the tool asks for |
//! | `turn` | the calls of one turn |

mod functions;
mod settings;
mod turn;

use std::sync::Arc;

use adapters::tools::ProxyTool;
use adapters::turn::Turn;
use registry::RelayToolKind;

use super::live::LiveWebTools;
use crate::artifacts::Artifacts;
use crate::turn::{ToolRunner, TurnContext, TurnTools};
use settings::HostedSearchSettings;
use turn::SearchTurn;

/// Runs `web_search` for all turns. Made with the server.
pub struct WebSearchTool {
    web: Arc<LiveWebTools>,
    artifacts: Artifacts,
    functions: Arc<[ProxyTool]>,
}

impl WebSearchTool {
    /// The tool over these web tools, which keeps the pages that it reads as artifacts.
    pub fn new(web: Arc<LiveWebTools>, artifacts: Artifacts) -> Self {
        Self {
            web,
            artifacts,
            functions: functions::all().into(),
        }
    }
}

impl ToolRunner for WebSearchTool {
    fn in_place_of_hosted(&self) -> Arc<[ProxyTool]> {
        if self.web.are_on() {
            Arc::clone(&self.functions)
        } else {
            Arc::default()
        }
    }

    fn begin(&self, _: &TurnContext, turn: &Turn<'_>, session: &str) -> Arc<dyn TurnTools> {
        let definition = turn.tools.hosted(RelayToolKind::WebSearch).next();
        let settings = HostedSearchSettings::of(definition, &turn.controls);
        let session = session.to_owned();
        let (web, limits) = (self.web.get(), self.web.limits());
        let artifacts = self.artifacts.clone();
        Arc::new(SearchTurn::new(web, limits, settings, session, artifacts))
    }
}
