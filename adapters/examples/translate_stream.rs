//! Prints the Responses events of a provider's answer from standard input:
//!
//! ```text
//! cargo run --example translate_stream -- deepseek deepseek-v4-pro < upstream.sse
//! ```

use std::error::Error;
use std::io::{Read as _, Write as _, stdin, stdout};

use responses_translate::registry;
use responses_translate::responses::request::TurnSource;
use responses_translate::translation::AnswerTranslation;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let id = arguments.next().unwrap_or_else(|| "deepseek".to_owned());
    let model = arguments.next().unwrap_or_else(|| "m".to_owned());
    let provider = registry::build(&id, toml::Table::new())?.to_provider(&id);
    let source = TurnSource::new(r#"{"model": "m", "input": "Hello", "stream": true}"#.to_owned());
    let turn = source.turn()?;
    let mut answer = AnswerTranslation::new(&turn, (&provider, &model), "resp_1", 1_790_000_000);
    let mut chunk = [0; 4096];
    loop {
        let length = stdin().read(&mut chunk)?;
        let (read, _) = chunk.split_at(length);
        if read.is_empty() {
            break;
        }
        stdout().write_all(&answer.feed(read))?;
    }
    stdout().write_all(&answer.end())?;
    Ok(())
}
