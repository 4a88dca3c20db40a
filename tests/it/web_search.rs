//! The hosted tool `web_search`, run by the proxy on models that cannot search.
//!
//! | module | contents |
//! |---|---|
//! | `web` | a small web of the test: pages and what searches find |
//! | `items` | what the client sees: items, events, sources, citations |
//! | `earlier` | what earlier answers of a conversation have found and read |
//! | `pages` | pages that turns read from a server |
//! | `provider` | providers that search themselves |
//! | `limits` | searches and pages a day |
//! | `server` | a whole server: restarts, the background, metrics |
//! | `sources` | what is stored of searches and pages, and how it is read |
//! | `prompt` | what the model is offered and reads, in this turn and the next |
mod earlier;
mod items;
mod limits;
mod pages;
mod prompt;
mod provider;
pub mod server;
mod sources;
pub mod web;
