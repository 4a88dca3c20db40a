//! Tools that run in the proxy.
//!
//! [`web`] searches the web and reads its pages, and needs nothing of the rest of the program;
//! [`setup`] makes its tools of a configuration, [`live`] keeps those of a server, and
//! [`stored_references`] what sessions were shown.
//! [`web_search`] lets models use them in turns.

pub mod live;
pub mod setup;
pub mod stored_references;
pub mod web;
pub mod web_search;
