//! The hosted tool `web_search`, run by the proxy on models that cannot search.
//!
//! | module | contents |
//! |---|---|
//! | `web` | a small web of the test: pages and what searches find |
//! | `items` | what the client sees: items, events, sources, citations |
//! | `server` | a whole server: restarts, the background, metrics |
//! | `prompt` | what the model is offered and reads, in this turn and the next |
mod items;
mod prompt;
mod server;
mod web;
