//! Attacks on the HTTP edge, through its real listener and over raw sockets.
mod bodies;
mod callers;
mod framing;
mod memory;
mod routes;
mod server;
mod slow;
mod stopping;

pub use server::read_to_close;
