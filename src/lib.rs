//! The service: everything that does I/O around the pure [`adapters`].
//!
//! The modules form layers. A module imports modules of its own layer and of the layers above
//! it in this table, never of those below; a test checks this.
//!
//! | module | what it does |
//! |---|---|
//! | [`clock`] | the wall clock and randomness |
//! | [`log`] | the log of the process |
//! | [`net`] | the budget of memory, fair shares of owners, content codings, long computations |
//! | [`secrets`] | holds keys and tokens, and finds secrets in text |
//! | [`config`] | reads and checks the configuration |
//! | | |
//! | [`store`] | the SQLite database |
//! | | |
//! | [`responses`] | stored responses and conversations |
//! | [`artifacts`] | keeps shortened tool outputs whole, to be read back |
//! | [`upstream`] | sends requests to the providers: keys, health, concurrency |
//! | [`metrics`] | the metrics of the process |
//! | | |
//! | [`turn`] | the engine: from a client's request to the end of its answer |
//! | | |
//! | [`jobs`] | background responses and webhooks |
//! | [`mcp`] | the tools with which a model reads artifacts |
//! | [`tools`] | searches the web, reads its pages, and reads artifacts in turns |
//! | | |
//! | [`diagnostics`] | records, redacts, exports and replays turns |
//! | | |
//! | [`serve`] | the HTTP edge: connections, guard, routing, request bodies |
//! | | |
//! | [`app`] | the handlers of all routes |
//! | | |
//! | [`control`] | the HTTP client with which commands reach the running server |
//! | [`codex`] | the setup of the Codex CLI |
//! | [`commands`] | the command line and what each command does |
//! | [`sandbox`] | the offline model for users without a provider |

pub mod app;
pub mod artifacts;
pub mod clock;
pub mod codex;
pub mod commands;
pub mod config;
pub mod control;
pub mod diagnostics;
pub mod jobs;
pub mod log;
pub mod mcp;
pub mod metrics;
pub mod net;
pub mod responses;
pub mod sandbox;
pub mod secrets;
pub mod serve;
pub mod store;
pub mod tools;
pub mod turn;
pub mod upstream;
