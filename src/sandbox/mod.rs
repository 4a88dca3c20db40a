//! A Chat Completions upstream on loopback that plays what it is told.
//!
//! - `script`: what to play, as data (JSON or Rust)
//! - `player`: the listener and its connections
//! - `play`: one reply on its way
//! - `http`: requests read from and replies written to a socket by hand, because a played fault
//!   (a reset, a lying length, a missing terminator) is what a server library prevents
//! - `chat`, `call`: steps as stream chunks, or composed into one completion
//! - `dialect`: in which of the ways that providers have
//! - `refuse`: what strict providers refuse, and in which words
//! - `scene`: the offline model, a pure function from a chat request to an answer

mod call;
mod chat;
pub mod dialect;
pub mod http;
mod play;
pub mod player;
pub mod refuse;
pub mod scene;
pub mod script;

pub use dialect::Dialect;
pub use player::{Player, Recorded};
pub use refuse::{Refusal, Rule};
pub use script::{Answer, Call, Cut, Script, Step, When};

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context;

/// Plays the script in a file until the process is killed; the first line on stdout says where.
///
/// # Errors
/// The file cannot be read, is no script, or the address cannot be bound.
pub async fn run(script: &Path, listen: SocketAddr) -> anyhow::Result<()> {
    let name = script.display();
    let text = std::fs::read(script).with_context(|| format!("{name}"))?;
    let script: Script =
        serde_json::from_slice(&text).with_context(|| format!("{name} is not a script"))?;
    let player = Player::start_on(listen, script)
        .await
        .with_context(|| format!("cannot listen on {listen}"))?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "sandbox listening on {}", player.base_url())?;
    out.flush()?;
    drop(out);
    std::future::pending().await
}
