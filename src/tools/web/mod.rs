//! Searches the web and reads its pages. Needs nothing of the service but its clock, its network
//! helpers and its secrets.
//!
//! | file | what it does |
//! |---|---|
//! | [`address`] | which addresses of the network may be reached |
//! | [`dialler`] | opens connections |
//! | [`client`] | sends HTTP requests |
//! | `body_stream` | an answer that is read as it arrives |
//! | [`fetch`] | gets pages |
//! | [`extract`] | finds the main content of a page |
//! | [`page`] | pages that were read |
//! | [`excerpt`] | what a model reads of a long page |
//! | [`find`] | finds a text in a page |
//! | [`reader`] | reads pages from the network |
//! | [`numbered_page`] | numbers the lines and links of a page |
//! | [`references`] | the short ids of what a session has found and read |
//! | [`commands`] | runs what a model asks for: searches, pages, links, texts in pages |
//! | [`search`] | asks search engines |
//! | `pdf` | reads PDF files |
//! | `process_group`, `child` | runs programs, within limits |
//! | [`service`] | what turns, endpoints and commands use |
//! | `cache` | searches that were made a while ago, and those that run |
//! | [`shown`] | what models and people read of both |

pub mod address;
pub(in crate::tools) mod body_stream;
mod cache;
#[cfg(any(feature = "pdf", feature = "chromium"))]
mod child;
pub mod client;
pub mod commands;
pub mod dialler;
pub mod excerpt;
pub mod extract;
pub mod fetch;
pub mod find;
pub mod numbered_page;
pub mod page;
#[cfg(feature = "pdf")]
pub mod pdf;
pub(in crate::tools) mod process_group;
pub mod reader;
pub mod references;
pub mod search;
pub mod service;
pub mod shown;
#[cfg(test)]
mod tests;
