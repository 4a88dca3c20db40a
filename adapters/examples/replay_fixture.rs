//! Replays a test case: prints the request and the events of a folder with `request.json` and
//! `upstream.sse`.
//!
//! ```text
//! cargo run --example replay_fixture -- ../fixtures/chat/text-input
//! ```

use std::error::Error;
use std::io::{Write as _, stdout};
use std::path::PathBuf;

use responses_translate::plan::{Bounds, plan};
use responses_translate::registry::ProviderSpec;
use responses_translate::responses::request::TurnSource;
use responses_translate::translation::AnswerTranslation;
use responses_translate::wire::{EncodeOptions, encode};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("name the folder of a case")?;
    let folder = PathBuf::from(folder);
    let source = TurnSource::new(std::fs::read_to_string(folder.join("request.json"))?);
    let turn = source.turn()?;
    // A provider that speaks plain Chat Completions.
    let provider = ProviderSpec::default().to_provider("example");
    let model = provider.unlisted_model(&turn.model);
    let options = EncodeOptions::new(provider.dialect_for(&model.id), &model, &model.id);
    let request = encode(&turn, &plan(&turn, &Bounds::none()), &options)?;
    let mut answer = AnswerTranslation::new(&turn, (&provider, &model.id), "resp_1", 1_790_000_000);
    let mut out = stdout().lock();
    out.write_all(&request.encoded.body)?;
    out.write_all(b"\n\n")?;
    // One byte at a time, as a network may split it.
    for byte in std::fs::read(folder.join("upstream.sse"))? {
        out.write_all(&answer.feed(&[byte]))?;
    }
    out.write_all(&answer.end())?;
    Ok(())
}
