//! Replays a recorded body through the adapter that reads answers.

use adapters::responses::request::TurnSource;
use kit::drive::{self, DrivenAnswer};
use registry::WireQuirks;

/// The client that receives the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayClient {
    Any,
    Codex,
    /// A client that does not stream.
    Unstreamed,
}

/// Replays a body that arrives in these reads.
pub fn replay<'b>(
    quirks: &WireQuirks,
    client: ReplayClient,
    reads: impl IntoIterator<Item = &'b [u8]>,
) -> DrivenAnswer {
    let source = TurnSource::new(r#"{"model":"m","stream":true,"input":"go"}"#.to_owned());
    let turn = source.turn().unwrap();
    let settings = drive::settings(&turn, client == ReplayClient::Codex, false);
    drive::read(settings, quirks, reads, client != ReplayClient::Unstreamed)
}
