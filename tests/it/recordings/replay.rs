//! A recorded body through the reader and the assembler.

use adapters::responses::request::TurnSource;
use registry::Quirks;

use crate::dialects::drive::{self, DrivenAnswer};

/// Who gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    Any,
    Codex,
    /// Wants the response alone.
    Unstreamed,
}

pub fn play<'b>(
    quirks: &Quirks,
    client: Client,
    reads: impl IntoIterator<Item = &'b [u8]>,
) -> DrivenAnswer {
    let source = TurnSource::new(r#"{"model":"m","stream":true,"input":"go"}"#.to_owned());
    let turn = source.turn().unwrap();
    let settings = drive::settings(&turn, client == Client::Codex, false);
    drive::read(settings, quirks, reads, client != Client::Unstreamed)
}
