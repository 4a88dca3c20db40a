//! The requests of the loader, as whole HTTP messages.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::{history, scan::ClientApi, script::Script, socket};

/// The address of a server and the API that it serves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    pub(crate) addr: SocketAddr,
    pub(crate) wire: ClientApi,
}

impl Target {
    /// A streamed request that plays `script`. Its body is padded to `size` bytes.
    pub(crate) fn stream_request(self, script: Script, size: usize) -> Vec<u8> {
        let model = script.to_string();
        let empty = self.turn(&model, true, "").to_string().len();
        let text = "a ".repeat(size.saturating_sub(empty).div_ceil(2).max(1));
        self.post(&self.turn(&model, true, &text))
    }

    /// A streamed request for a response that plays `script`, with these members besides.
    pub(crate) fn response_request(self, script: Script, more: &Value) -> Vec<u8> {
        let mut body = self.turn(&script.to_string(), true, "a ");
        if let (Some(body), Some(more)) = (body.as_object_mut(), more.as_object()) {
            body.remove("store");
            body.extend(more.clone());
        }
        self.post(&body)
    }

    /// The message of a WebSocket that asks for what [`Self::stream_request`] asks for, without
    /// padding.
    pub(crate) fn stream_message(self, script: Script) -> Vec<u8> {
        let mut body = self.turn(&script.to_string(), true, "a ");
        if let Some(body) = body.as_object_mut() {
            body.remove("stream");
            body.insert("type".to_owned(), "response.create".into());
        }
        socket::masked(body.to_string().as_bytes())
    }

    /// A small request that is not streamed.
    pub(crate) fn small_request(self) -> Vec<u8> {
        self.post(&self.turn("bench", false, "Say something short."))
    }

    /// A streamed request with a long agent history of about `size` bytes. Its response has one
    /// event.
    pub(crate) fn history_request(self, size: usize) -> Vec<u8> {
        let model = self.model(&Script::flood(1).to_string());
        self.post(&match self.wire {
            ClientApi::Chat => history::chat(&model, size),
            ClientApi::Responses => history::responses(&model, size),
        })
    }

    /// A streamed request with one tool output of `size` bytes. Its response has one event.
    pub(crate) fn output_request(self, size: usize) -> Vec<u8> {
        self.request_after_output(Script::flood(1), &history::output(size))
    }

    /// A streamed request that plays `script` and ends with this tool output.
    pub(crate) fn request_after_output(self, script: Script, output: &str) -> Vec<u8> {
        let model = self.model(&script.to_string());
        self.post(&match self.wire {
            ClientApi::Chat => history::chat_output(&model, output),
            ClientApi::Responses => history::responses_output(&model, output),
        })
    }

    /// A GET of the health path.
    pub(crate) fn health_request(self) -> Vec<u8> {
        self.get("/healthz")
    }

    /// A GET of a path.
    pub(crate) fn get(self, path: &str) -> Vec<u8> {
        let addr = self.addr;
        format!("GET {path} HTTP/1.1\r\nhost: {addr}\r\nauthorization: Bearer bench\r\n\r\n")
            .into_bytes()
    }

    fn model(self, model: &str) -> String {
        match self.wire {
            ClientApi::Chat => model.to_owned(),
            ClientApi::Responses => format!("bench/{model}"),
        }
    }

    fn turn(self, model: &str, stream: bool, text: &str) -> Value {
        let model = self.model(model);
        match self.wire {
            ClientApi::Chat => json!({
                "model": model, "stream": stream,
                "messages": [{"role": "user", "content": text}]
            }),
            ClientApi::Responses => json!({
                "model": model, "stream": stream, "store": false,
                "input": [{"type": "message", "role": "user",
                           "content": [{"type": "input_text", "text": text}]}]
            }),
        }
    }

    /// A POST of this body.
    pub(crate) fn post(self, body: &Value) -> Vec<u8> {
        let (addr, body) = (self.addr, body.to_string());
        let (path, len) = match self.wire {
            ClientApi::Chat => ("/v1/chat/completions", body.len()),
            ClientApi::Responses => ("/v1/responses", body.len()),
        };
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {addr}\r\ncontent-type: application/json\r\n\
             authorization: Bearer bench\r\ncontent-length: {len}\r\n\r\n"
        );
        (head + &body).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 2_000_000;

    fn body(request: &[u8]) -> &str {
        let request = std::str::from_utf8(request).unwrap();
        request.split_once("\r\n\r\n").unwrap().1
    }

    #[test]
    fn both_histories_have_the_requested_size() {
        for wire in [ClientApi::Chat, ClientApi::Responses] {
            let target = Target {
                addr: ([127, 0, 0, 1], 1).into(),
                wire,
            };
            let request = target.history_request(SIZE);
            let len = body(&request).len();
            assert!(len.abs_diff(SIZE) < SIZE / 100, "{wire:?}: {len}");
        }
    }

    #[test]
    fn a_stream_request_is_padded_to_its_size() {
        for wire in [ClientApi::Chat, ClientApi::Responses] {
            let target = Target {
                addr: ([127, 0, 0, 1], 1).into(),
                wire,
            };
            let request = target.stream_request(Script::flood(1), 1024);
            assert!(body(&request).len().abs_diff(1024) < 3, "{wire:?}");
        }
    }
}
