//! Tools that run in the proxy.
//!
//! [`web`] searches the web and reads its pages, and needs nothing of the rest of the program;
//! [`setup`] makes its tools of a configuration, [`live`] keeps those of a server,
//! [`stored_references`] what sessions were shown, and [`page_artifacts`] the pages that they have
//! read.
//! [`web_search`] lets models use them in turns, [`artifact_tools`] lets them read artifacts there,
//! [`mcp_servers`] calls the tools of MCP servers, [`tool_search`] finds tools that the client
//! defers, and [`combined`] makes one of all.

pub mod artifact_tools;
pub mod combined;
pub mod live;
pub mod mcp_servers;
pub mod page_artifacts;
pub mod setup;
pub mod stored_references;
pub mod tool_search;
pub mod web;
pub mod web_search;
pub mod workflow_agent;
