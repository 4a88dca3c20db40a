//! Renders tool calls in any dialect: as fragments of a stream, or whole.

use super::dialect::{
    ArgumentsForm, CallIdPlacement, CallIndexing, CallNamePlacement, ChatDialect,
};
use super::script::{ArgumentFragment, ScriptedCall};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;

/// The calls of one reply.
#[derive(Debug, Default)]
pub(super) struct CallRenderer {
    count: u64,
    /// Calls of a completion, with their indexes.
    whole: Vec<(u64, ScriptedCall)>,
    /// Fragments of calls that are to be interleaved, call by call.
    deferred: Vec<VecDeque<Value>>,
}

impl CallRenderer {
    /// The index of the next call.
    pub(super) fn next(&mut self, call: &ScriptedCall) -> u64 {
        let index = call.index.unwrap_or(self.count);
        self.count = self.count.max(index.saturating_add(1));
        index
    }

    /// Holds a call back until the calls behind it are known.
    pub(super) fn defer(&mut self, call: &ScriptedCall, dialect: &ChatDialect) {
        let index = self.next(call);
        self.deferred.push(fragments(call, index, dialect).into());
    }

    /// The fragments of all calls that were held back, interleaved: one of each call in turn.
    pub(super) fn take_deferred(&mut self) -> Vec<Value> {
        let mut interleaved = Vec::new();
        while !self.deferred.is_empty() {
            interleaved.extend(self.deferred.iter_mut().filter_map(VecDeque::pop_front));
            self.deferred.retain(|lane| !lane.is_empty());
        }
        interleaved
    }

    /// Adds a call to the completion.
    pub(super) fn add(&mut self, call: &ScriptedCall) {
        let index = self.next(call);
        self.whole.push((index, call.clone()));
    }

    /// Appends a fragment to the arguments of a call of the completion.
    pub(super) fn append(&mut self, args: &ArgumentFragment) {
        let mut calls = self.whole.iter_mut();
        if let Some((_, call)) = calls.find(|(index, _)| *index == args.index) {
            call.arguments.push_str(&args.text);
        }
    }

    /// The `tool_calls` of the completion's message.
    pub(super) fn whole(&mut self, dialect: &ChatDialect) -> Vec<Value> {
        self.whole.sort_by_key(|(index, _)| *index);
        let whole = |(_, call): &(u64, ScriptedCall)| {
            let arguments = match dialect.arguments {
                ArgumentsForm::Object => object_or_text(&call.arguments),
                ArgumentsForm::Pieces | ArgumentsForm::PiecesAtOnce | ArgumentsForm::Whole => {
                    call.arguments.as_str().into()
                }
            };
            let function = json!({"name": call.name, "arguments": arguments});
            let id = match dialect.ids {
                CallIdPlacement::Missing => None,
                CallIdPlacement::Empty => Some(""),
                CallIdPlacement::First
                | CallIdPlacement::EmptyLater
                | CallIdPlacement::Late
                | CallIdPlacement::Repeated => call.id.as_deref(),
            };
            let mut whole = Map::new();
            if let Some(id) = id {
                whole.insert("id".to_owned(), id.into());
            }
            whole.insert("type".to_owned(), "function".into());
            whole.insert("function".to_owned(), function);
            if let Some(extra) = &call.extra_content {
                whole.insert("extra_content".to_owned(), extra.clone());
            }
            Value::Object(whole)
        };
        self.whole.iter().map(whole).collect()
    }

    /// Bytes of the arguments of the completion's calls.
    pub(super) fn argument_bytes(&self) -> usize {
        let bytes = self.whole.iter().map(|(_, call)| call.arguments.len());
        bytes.sum()
    }

    /// The finish reason that the calls so far lead to.
    pub(super) fn finish_reason(&self) -> &'static str {
        if self.count > 0 { "tool_calls" } else { "stop" }
    }
}

/// The fragments of a call: the first with its name, all with pieces of its arguments.
pub(super) fn fragments(call: &ScriptedCall, index: u64, dialect: &ChatDialect) -> Vec<Value> {
    let mut parts: Vec<Value> = match dialect.arguments {
        ArgumentsForm::Whole => vec![call.arguments.as_str().into()],
        ArgumentsForm::Object => vec![object_or_text(&call.arguments)],
        ArgumentsForm::Pieces | ArgumentsForm::PiecesAtOnce => {
            let pieces = split(&call.arguments, call.pieces);
            pieces.into_iter().map(Value::from).collect()
        }
    };
    if dialect.arguments == ArgumentsForm::Pieces || parts.is_empty() {
        parts.insert(0, "".into());
    }
    let second = parts.len().min(2) - 1;
    let parts = parts.into_iter().enumerate();
    let fragments = parts.map(|(at, arguments)| {
        let mut fragment = with_index(index, dialect);
        let given = call.id.as_deref();
        let id = match dialect.ids {
            CallIdPlacement::Missing => None,
            CallIdPlacement::Empty => (at == 0).then_some(""),
            CallIdPlacement::First => given.filter(|_| at == 0),
            CallIdPlacement::EmptyLater if at > 0 => Some(""),
            CallIdPlacement::Late => given.filter(|_| at == second),
            CallIdPlacement::EmptyLater | CallIdPlacement::Repeated => given,
        };
        if let Some(id) = id {
            fragment.insert("id".to_owned(), id.into());
        }
        if at == 0 || id.is_some() {
            fragment.insert("type".to_owned(), "function".into());
        }
        let name = match dialect.names {
            CallNamePlacement::First => (at == 0).then_some(call.name.as_str()),
            CallNamePlacement::Late => (at == second).then_some(call.name.as_str()),
            CallNamePlacement::EmptyLater if at > 0 => Some(""),
            CallNamePlacement::Repeated | CallNamePlacement::EmptyLater => Some(call.name.as_str()),
        };
        let mut function = Map::new();
        if let Some(name) = name {
            function.insert("name".to_owned(), name.into());
        }
        function.insert("arguments".to_owned(), arguments);
        fragment.insert("function".to_owned(), function.into());
        if let Some(extra) = call.extra_content.as_ref().filter(|_| at == 0) {
            fragment.insert("extra_content".to_owned(), extra.clone());
        }
        Value::Object(fragment)
    });
    fragments.collect()
}

/// A fragment of arguments without id and name.
pub(super) fn bare_fragment(args: &ArgumentFragment, dialect: &ChatDialect) -> Value {
    let mut fragment = with_index(args.index, dialect);
    fragment.insert("function".to_owned(), json!({"arguments": args.text}));
    Value::Object(fragment)
}

fn with_index(index: u64, dialect: &ChatDialect) -> Map<String, Value> {
    let index = match dialect.index {
        CallIndexing::Counted => Some(index),
        CallIndexing::FromOne => Some(index.saturating_add(1)),
        CallIndexing::Zero => Some(0),
        CallIndexing::Missing => None,
    };
    Map::from_iter(index.map(|index| ("index".to_owned(), index.into())))
}

/// The JSON object in the text; the text itself if it is none.
fn object_or_text(text: &str) -> Value {
    let object: Option<Map<String, Value>> = serde_json::from_str(text).ok();
    object.map_or_else(|| text.into(), Value::Object)
}

/// Splits a text into about `count` pieces of equal length, none of them empty.
fn split(text: &str, count: usize) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let size = letters.len().div_ceil(count.max(1)).max(1);
    letters
        .chunks(size)
        .map(|piece| piece.iter().collect())
        .collect()
}
