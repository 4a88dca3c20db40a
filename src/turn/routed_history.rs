//! A client request of which the routes are known.

use std::sync::Arc;

use adapters::responses::request::TurnSource;
use registry::Route;

use super::caller::Session;
use super::shared::SharedState;
use crate::config::Config;

/// A client request with its session and the routes that can answer it. A compaction makes
/// several requests of it, one for each purpose.
#[derive(Clone)]
pub(super) struct RoutedHistory {
    pub(super) config: Arc<Config>,
    pub(super) shared: Arc<SharedState>,
    pub(super) source: TurnSource,
    pub(super) session: Session,
    /// See [`Caller::prompt`](super::caller::Caller::prompt).
    pub(super) prompt: u64,
    /// The first choice and its fallbacks.
    pub(super) routes: Vec<Route>,
}

impl RoutedHistory {
    /// The full name of the first choice.
    pub(super) fn preferred_route(&self) -> String {
        self.routes
            .first()
            .map(Route::full_name)
            .unwrap_or_default()
    }
}
