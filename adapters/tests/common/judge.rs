//! The strict checker for both kinds of clients.

use kit::strict::{self, CheckedStream};

/// Checks a stream with the rules for Codex or for other clients. Codex treats every done item as
/// complete, so it must not get an incomplete one when an answer breaks off.
pub fn stream(body: &str, codex: bool) -> CheckedStream {
    if !codex {
        return strict::check_or_panic(body);
    }
    let stream = strict::check_for_codex_or_panic(body);
    if stream.terminal == "response.failed" {
        for item in stream.response["output"].as_array().unwrap() {
            // Reasoning has no status.
            let status = item["status"].as_str().unwrap_or("completed");
            assert_eq!(status, "completed", "{item}");
        }
    }
    stream
}
