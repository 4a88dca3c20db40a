//! What is stored of a turn when it ends.

use std::sync::Arc;

use adapters::responses::request::TurnSource;
use adapters::responses::response_object::{ResponseObject, ResponseStatus};
use adapters::stored_history::OwnItem;
use adapters::turn::Continuation;
use tokio::time::Instant;

use super::history::origin;
use super::input_sources::input_sources;
use super::{BusyConversation, ResponseBacking, ResponseStore};
use crate::clock::milliseconds;
use crate::log;
use crate::net::blocking::block_in_place_if_large;
use crate::store::{
    NewItem, NewResponse, PausedRun, ResponseText, SpentRow, StoreError, StoredOrigin, ToolChanges,
    ToolRecord,
};

/// A turn that is stored when it ends. Made when the turn is prepared, dropped with it.
pub struct StoredTurn {
    /// Where it is stored.
    pub responses: ResponseStore,
    /// The id of its HTTP request, for the log.
    pub request_id: Arc<str>,
    /// The owner.
    pub owner: Arc<str>,
    /// The session of the turn.
    pub session: String,
    /// What it continues.
    pub continues: Option<Continuation>,
    /// The request, with its own items.
    pub source: TurnSource,
    /// The conversation that no other turn may use meanwhile.
    pub busy: Option<BusyConversation>,
    /// When it was made.
    pub began: Instant,
    /// What tools of the proxy have done so far. Times are in milliseconds since `began`.
    pub tools: ToolRecord,
    /// Whether the client wants to see later what the model saw of each source.
    pub keeps_shown: bool,
    /// The run of a workflow that waits for a person.
    pub paused: Option<PausedRun>,
}

impl StoredTurn {
    /// Stores the response, which has ended, and what its turn has used. Both are on the disk when
    /// this returns.
    pub async fn commit(
        &self,
        response: &ResponseObject,
        now: u64,
        spent: Option<SpentRow>,
    ) -> Result<(), StoreError> {
        let store = match &self.responses.backing {
            ResponseBacking::Nowhere | ResponseBacking::Unusable(_) => {
                return Err(StoreError::Closed);
            }
            ResponseBacking::Recorded { .. } => return Ok(()),
            ResponseBacking::Disk(store) => store,
        };
        let record = self.record(response, now);
        let began = Instant::now();
        let stored = store.put_response(NewResponse { spent, ..record }).await;
        log::turn_stage("stored", began.elapsed(), &self.request_id);
        stored
    }

    /// What is stored of the response.
    pub fn record(&self, response: &ResponseObject, now: u64) -> NewResponse {
        // A request that ran could be read.
        let bytes = self.source.size();
        let own = block_in_place_if_large(bytes, || self.source.own_items(&response.id));
        let own = own.unwrap_or_default();
        let began = Instant::now();
        let tools = self.last_changes(&own, now);
        log::turn_stage("sources", began.elapsed(), &self.request_id);
        let prefixes = own.iter().map(|item| item.prefix).collect();
        let input = own.into_iter().map(NewItem::from);
        let has_failed = matches!(
            response.status,
            Some(ResponseStatus::Failed | ResponseStatus::Cancelled)
        );
        let origin = match &self.continues {
            None => StoredOrigin::Nothing,
            // A turn that failed is no part of the conversation, so that it can be sent again.
            Some(Continuation::Conversation(id)) if has_failed => {
                StoredOrigin::BesideConversation(id.clone())
            }
            Some(continues) => origin(continues),
        };
        NewResponse {
            id: response.id.clone(),
            owner: self.owner.to_string(),
            session: self.session.clone(),
            origin,
            input: input.collect(),
            prefixes,
            output: output_of(response),
            text: response_text(response),
            status: response.status.map_or("in_progress", ResponseStatus::name),
            created: response.created_at,
            now,
            spent: None,
            tools,
            paused: self.paused.clone(),
        }
    }

    /// What is not written yet of what tools have done, at the time `now`, in seconds since 1970.
    pub fn tool_changes(&self, now: u64) -> ToolChanges {
        self.with_times(self.tools.unwritten(), now)
    }

    /// The same when the turn ends, with the sources that its input names.
    fn last_changes(&self, own: &[OwnItem], now: u64) -> ToolChanges {
        let mut record = self.tools.clone();
        for source in input_sources(own) {
            record.add(&source.url.clone(), source);
        }
        self.with_times(record.unwritten(), now)
    }

    /// The changes with times since 1970.
    fn with_times(&self, mut changes: ToolChanges, now: u64) -> ToolChanges {
        let began = (now * 1000).saturating_sub(milliseconds(self.began.elapsed()));
        for (_, run) in &mut changes.runs {
            run.started_ms += began;
            run.ended_ms += began;
        }
        changes
    }
}

/// What is stored of a background response whose request could not be run.
pub fn unstarted_record(owner: &str, response: &ResponseObject, now: u64) -> NewResponse {
    let status = response.status.unwrap_or(ResponseStatus::Failed);
    let (id, created) = (&response.id, response.created_at);
    NewResponse {
        output: output_of(response),
        ..NewResponse::without_items(owner, id, created, response_text(response), status, now)
    }
}

fn output_of(response: &ResponseObject) -> Vec<NewItem> {
    let output = response.output.iter().map(|(id, json)| NewItem {
        id: id.to_owned(),
        json: String::from_utf8_lossy(json).into_owned(),
    });
    output.collect()
}

/// The JSON of a response without its items.
pub fn response_text(response: &ResponseObject) -> ResponseText {
    let pieces = response.pieces();
    let lines = |pieces: [Vec<u8>; 3]| {
        let lines = pieces.map(|piece| String::from_utf8(piece).unwrap_or_default());
        lines.join("\n")
    };
    ResponseText {
        head: String::from_utf8(pieces.head).unwrap_or_default(),
        tail: lines(pieces.own),
        parameters: lines(pieces.repeated),
    }
}
