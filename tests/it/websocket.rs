//! The Responses API over WebSockets. The client is written by hand, because it has to send what
//! no library does.

pub mod client;
mod continuing;
mod ending;
mod framing;
mod hostile;
mod lanes;
mod turns;
