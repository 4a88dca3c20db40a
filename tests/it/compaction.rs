//! Compaction of a history into a summary, by every method and for every behaviour of the
//! provider, and the session that continues afterwards.
//!
//! | module | contents |
//! |---|---|
//! | `session` | a client's session and its compaction by each method |
//! | `cache` | the request for a summary reuses the provider's prompt cache |
//! | `failures` | providers that write no summary |
//! | `founding` | a session that is larger than the window when it is compacted |
//! | `small_windows` | windows that are smaller than what the client keeps |
//! | `threshold` | compaction inside a turn |
mod cache;
mod failures;
mod founding;
mod session;
mod small_windows;
mod threshold;
