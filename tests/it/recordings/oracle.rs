//! What an answer says, read in the plainest way from the whole of it. Nothing
//! of the adapters is used: this is what they are judged by.

use registry::{Quirks, ThinkTags};
use serde_json::Value;

use super::body::error;

/// What an answer says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    pub text: String,
    pub reasoning: String,
    pub refusal: String,
    pub calls: Vec<Call>,
    /// The addresses that are cited, in order, each once.
    pub citations: Vec<String>,
    pub usage: Option<Usage>,
    pub end: End,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call {
    pub id: String,
    pub name: String,
    pub arguments: String,
    index: Option<u64>,
}

/// Tokens in the terms of the Responses API.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    pub input: u64,
    pub cached: u64,
    pub output: u64,
    pub reasoning: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub enum End {
    Stop,
    Length,
    Filter,
    Error(Value),
    /// Nobody said that it was the end.
    #[default]
    Cut,
}

/// What the chunks of an answer say, or its one document. The quirks tell
/// whether thinking stands in the text, and what the counts leave out.
pub fn said(chunks: &[Value], quirks: &Quirks) -> Said {
    let mut said = Said::default();
    for chunk in chunks {
        if let Some(error) = error(chunk) {
            said.end = End::Error(error.clone());
            break;
        }
        for choice in items(&chunk["choices"]) {
            if choice["index"].as_u64().unwrap_or(0) == 0 {
                said.choice(choice);
            }
        }
        for usage in [
            &chunk["usage"],
            &chunk["choices"][0]["usage"],
            &chunk["x_groq"]["usage"],
        ] {
            said.usage = usage_of(usage, quirks.usage_apart).or(said.usage);
        }
        for list in ["search_results", "web_search", "citations"] {
            for page in items(&chunk[list]) {
                let url = page.as_str().or_else(|| page["url"].as_str());
                said.cite(url.or_else(|| page["link"].as_str()));
            }
        }
    }
    if quirks.think_tags != ThinkTags::Off {
        said.untag(quirks.think_tags == ThinkTags::Unopened);
    }
    said
}

impl Said {
    fn choice(&mut self, choice: &Value) {
        let is_whole = choice["message"].is_object();
        let delta = &choice[if is_whole { "message" } else { "delta" }];
        self.reasoning += &thinking(delta);
        match &delta["content"] {
            Value::String(text) => self.text += text,
            Value::Array(parts) => {
                for part in parts.iter().filter(|part| part["type"] == "text") {
                    self.text += part["text"].as_str().unwrap_or_default();
                }
            }
            _ => {}
        }
        self.refusal += delta["refusal"].as_str().unwrap_or_default();
        for note in items(&delta["annotations"]) {
            let url = note["url_citation"]["url"].as_str();
            self.cite(url.or_else(|| note["url"].as_str()));
        }
        for call in items(&delta["tool_calls"]) {
            self.call(call, is_whole);
        }
        let reason = choice["finish_reason"].as_str().unwrap_or_default();
        let end = match reason.to_lowercase().as_str() {
            "" => return,
            "length" | "max_tokens" | "model_length" | "model_context_window_exceeded" => {
                End::Length
            }
            "content_filter" | "sensitive" | "safety" => End::Filter,
            "error" | "insufficient_system_resource" | "network_error" => End::Error(Value::Null),
            _ => End::Stop,
        };
        // A later stop does not undo a cut.
        if end != End::Stop || self.end == End::Cut {
            self.end = end;
        }
    }

    fn cite(&mut self, url: Option<&str>) {
        let Some(url) = url else { return };
        if !self.citations.iter().any(|known| known == url) {
            self.citations.push(url.to_owned());
        }
    }

    /// A piece of a call, or a whole one.
    fn call(&mut self, piece: &Value, is_whole: bool) {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (id, name) = (word(&piece["id"]), word(&piece["function"]["name"]));
        let index = piece["index"].as_u64();
        let arguments = match &piece["function"]["arguments"] {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            object => object.to_string(),
        };
        let goes_on = |call: &Call| {
            let same_place = index.is_none() || call.index.is_none() || call.index == index;
            let same_id = id.is_empty() || call.id.is_empty() || call.id == id;
            // With a name and no id it is a call of its own once the one before
            // it is whole.
            let is_next = id.is_empty()
                && !name.is_empty()
                && !call.name.is_empty()
                && serde_json::from_str::<Value>(&call.arguments).is_ok();
            same_place && same_id && !is_next
        };
        let open = self.calls.iter_mut().rev().find(|call| goes_on(call));
        match open.filter(|_| !is_whole) {
            Some(call) => {
                if call.id.is_empty() {
                    call.id = id;
                }
                if call.name.is_empty() {
                    call.name = name;
                }
                call.arguments += &arguments;
            }
            None => self.calls.push(Call {
                id,
                name,
                arguments,
                index,
            }),
        }
    }

    /// Thinking at the start of the text, between tags or before the closing one.
    fn untag(&mut self, is_unopened: bool) {
        let text = self.text.trim_start();
        let inside = text.strip_prefix("<think>");
        let Some(inside) = inside.or_else(|| is_unopened.then_some(text)) else {
            return;
        };
        let Some((thought, text)) = inside
            .split_once("</think>")
            .or_else(|| (!is_unopened).then_some((inside, "")))
        else {
            return;
        };
        // White space around the tags belongs to them.
        self.reasoning += thought.trim_start();
        self.text = text.trim_start().to_owned();
    }
}

/// The thinking of a message or of a piece of one. Where it comes in several
/// forms, they are the same.
fn thinking(delta: &Value) -> String {
    for name in ["reasoning_content", "reasoning"] {
        if let Some(text) = delta[name].as_str().filter(|text| !text.is_empty()) {
            return text.to_owned();
        }
    }
    let details: String = items(&delta["reasoning_details"])
        .filter_map(|detail| {
            detail["text"]
                .as_str()
                .or_else(|| detail["summary"].as_str())
        })
        .collect();
    if !details.is_empty() {
        return details;
    }
    items(&delta["content"])
        .filter(|part| part["type"] == "thinking")
        .flat_map(|part| match &part["thinking"] {
            Value::String(text) => vec![text.as_str()],
            parts => items(parts)
                .filter_map(|part| part["text"].as_str())
                .collect(),
        })
        .collect()
}

/// The counts must add up: more cached than sent means that it was counted
/// beside, and so was reasoning that is exactly what the total has beyond both
/// (xAI). `apart`: the provider leaves out what it generated and did not name.
fn usage_of(usage: &Value, apart: bool) -> Option<Usage> {
    usage.as_object()?;
    let n = |path: &str| usage.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    let (prompt, completion) = (n("/prompt_tokens"), n("/completion_tokens"));
    let cached = n("/prompt_tokens_details/cached_tokens")
        .max(n("/cached_tokens"))
        .max(n("/prompt_cache_hit_tokens"))
        .max(n("/num_cached_tokens"));
    let reasoning = n("/completion_tokens_details/reasoning_tokens");
    let beside = n("/total_tokens").saturating_sub(prompt + completion);
    let named = if beside == reasoning || apart {
        beside
    } else {
        0
    };
    Some(Usage {
        input: prompt + if cached > prompt { cached } else { 0 },
        cached,
        output: completion + named,
        reasoning: if apart {
            reasoning.max(named)
        } else {
            reasoning
        },
    })
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
