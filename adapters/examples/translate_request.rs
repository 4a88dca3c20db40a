//! Prints what a provider is sent for a Responses request from standard input:
//!
//! ```text
//! cargo run --example translate_request -- deepseek deepseek-v4-pro < request.json
//! ```

use std::error::Error;
use std::io::{Write as _, stderr, stdin, stdout};

use responses_translate::plan::{Bounds, plan};
use responses_translate::registry;
use responses_translate::responses::request::TurnSource;
use responses_translate::wire::{EncodeOptions, encode};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let id = arguments.next().unwrap_or_else(|| "deepseek".to_owned());
    let provider = registry::build(&id, toml::Table::new())?.to_provider(&id);
    let model = match arguments.next() {
        Some(name) => match provider.model(&name) {
            Some(model) => model.as_ref().clone(),
            None => provider.unlisted_model(&name),
        },
        None => match provider.models.first() {
            Some(model) => model.as_ref().clone(),
            None => return Err(format!("{id} lists no models: name one").into()),
        },
    };
    let source = TurnSource::new(std::io::read_to_string(stdin())?);
    let turn = source.turn()?;
    let dialect = provider.dialect_for(&model.id);
    let options = EncodeOptions::new(dialect, &model, &model.id);
    let request = encode(&turn, &plan(&turn, &Bounds::none()), &options)?;
    writeln!(stderr(), "POST {}{}", provider.base_url, request.path)?;
    for note in request.encoded.notes.iter() {
        writeln!(stderr(), "note: {}: {}", note.code, note.detail)?;
    }
    stdout().write_all(&request.encoded.body)?;
    Ok(())
}
