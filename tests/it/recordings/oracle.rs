//! Reads the content of a complete answer in the simplest possible way. It uses no code of the
//! adapters, because their results are compared with it.

use registry::{ChatQuirks, ThinkTags};
use serde_json::Value;

use super::body::error;

/// The content of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExpectedAnswer {
    pub text: String,
    pub reasoning: String,
    pub refusal: String,
    pub calls: Vec<ExpectedCall>,
    /// The cited addresses in order, each once.
    pub citations: Vec<String>,
    pub usage: Option<ExpectedUsage>,
    pub end: AnswerEnd,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExpectedCall {
    pub id: String,
    pub name: String,
    pub arguments: String,
    index: Option<u64>,
}

/// Token counts as the Responses API defines them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpectedUsage {
    pub input: u64,
    pub cached: u64,
    pub output: u64,
    pub reasoning: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub enum AnswerEnd {
    Stop,
    Length,
    Filter,
    Error(Value),
    /// The answer ended without a finish reason.
    #[default]
    Cut,
}

/// The content of an answer, from its chunks or its single document. The quirks say whether the
/// text contains the reasoning and which tokens the counts leave out.
pub fn expected_answer(chunks: &[Value], quirks: &ChatQuirks) -> ExpectedAnswer {
    let mut answer = ExpectedAnswer::default();
    for chunk in chunks {
        if let Some(error) = error(chunk) {
            answer.end = AnswerEnd::Error(error.clone());
            break;
        }
        for choice in items(&chunk["choices"]) {
            if choice["index"].as_u64().unwrap_or(0) == 0 {
                answer.choice(choice);
            }
        }
        for usage in [
            &chunk["usage"],
            &chunk["choices"][0]["usage"],
            &chunk["x_groq"]["usage"],
        ] {
            answer.usage = usage_of(usage, quirks.usage_apart).or(answer.usage);
        }
        for list in ["search_results", "web_search", "citations"] {
            for page in items(&chunk[list]) {
                let url = page.as_str().or_else(|| page["url"].as_str());
                answer.cite(url.or_else(|| page["link"].as_str()));
            }
        }
    }
    if quirks.think_tags != ThinkTags::Off {
        answer.move_tagged_reasoning(quirks.think_tags == ThinkTags::Unopened);
    }
    answer
}

impl ExpectedAnswer {
    fn choice(&mut self, choice: &Value) {
        let is_whole = choice["message"].is_object();
        let delta = &choice[if is_whole { "message" } else { "delta" }];
        self.reasoning += &reasoning_of(delta);
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
                AnswerEnd::Length
            }
            "content_filter" | "sensitive" | "safety" => AnswerEnd::Filter,
            "error" | "insufficient_system_resource" | "network_error" => {
                AnswerEnd::Error(Value::Null)
            }
            _ => AnswerEnd::Stop,
        };
        // A later `stop` does not replace another finish reason.
        if end != AnswerEnd::Stop || self.end == AnswerEnd::Cut {
            self.end = end;
        }
    }

    fn cite(&mut self, url: Option<&str>) {
        let Some(url) = url else { return };
        if !self.citations.iter().any(|known| known == url) {
            self.citations.push(url.to_owned());
        }
    }

    /// Adds a piece of a call or a complete call.
    fn call(&mut self, piece: &Value, is_whole: bool) {
        let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (id, name) = (string(&piece["id"]), string(&piece["function"]["name"]));
        let index = piece["index"].as_u64();
        let arguments = match &piece["function"]["arguments"] {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            object => object.to_string(),
        };
        let continues = |call: &ExpectedCall| {
            let same_index = index.is_none() || call.index.is_none() || call.index == index;
            let same_id = id.is_empty() || call.id.is_empty() || call.id == id;
            // A piece with a name and no id begins another call if the call before it is
            // complete.
            let is_next = id.is_empty()
                && !name.is_empty()
                && !call.name.is_empty()
                && serde_json::from_str::<Value>(&call.arguments).is_ok();
            same_index && same_id && !is_next
        };
        let open = self.calls.iter_mut().rev().find(|call| continues(call));
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
            None => self.calls.push(ExpectedCall {
                id,
                name,
                arguments,
                index,
            }),
        }
    }

    /// Moves reasoning from the start of the text: between think tags, or before the closing tag.
    fn move_tagged_reasoning(&mut self, is_unopened: bool) {
        let text = self.text.trim_start();
        let inside = text.strip_prefix("<think>");
        let Some(inside) = inside.or_else(|| is_unopened.then_some(text)) else {
            return;
        };
        let Some((reasoning, text)) = inside
            .split_once("</think>")
            .or_else(|| (!is_unopened).then_some((inside, "")))
        else {
            return;
        };
        // White space around the tags is not part of the text.
        self.reasoning += reasoning.trim_start();
        self.text = text.trim_start().to_owned();
    }
}

/// The reasoning of a message or a delta. If it is sent in several forms, they are equal.
fn reasoning_of(delta: &Value) -> String {
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

/// The token counts, corrected so that they add up. More cached than prompt tokens means that the
/// prompt count excludes the cached ones. Reasoning was excluded from the completion count if it
/// is exactly the difference between the total and both counts (xAI). `apart`: the provider
/// leaves generated tokens out of the completion count without naming them.
fn usage_of(usage: &Value, apart: bool) -> Option<ExpectedUsage> {
    usage.as_object()?;
    let n = |path: &str| usage.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    let (prompt, completion) = (n("/prompt_tokens"), n("/completion_tokens"));
    let cached = n("/prompt_tokens_details/cached_tokens")
        .max(n("/cached_tokens"))
        .max(n("/prompt_cache_hit_tokens"))
        .max(n("/num_cached_tokens"));
    let reasoning = n("/completion_tokens_details/reasoning_tokens");
    let excluded = n("/total_tokens").saturating_sub(prompt + completion);
    let added = if excluded == reasoning || apart {
        excluded
    } else {
        0
    };
    Some(ExpectedUsage {
        input: prompt + if cached > prompt { cached } else { 0 },
        cached,
        output: completion + added,
        reasoning: if apart {
            reasoning.max(added)
        } else {
            reasoning
        },
    })
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
