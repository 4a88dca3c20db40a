//! Tool calls in any dialect: as fragments of a stream, or whole.

use super::dialect::{Arguments, Dialect, Ids, Index, Names};
use super::script::{Args, Call};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;

/// The calls of a reply.
#[derive(Debug, Default)]
pub(super) struct Calls {
    count: u64,
    /// Calls that are gathered.
    whole: Vec<(u64, Call)>,
    /// Fragments that wait to be sent in turns.
    lanes: Vec<VecDeque<Value>>,
}

impl Calls {
    /// The position of a call, which is said now.
    pub(super) fn next(&mut self, call: &Call) -> u64 {
        let index = call.index.unwrap_or(self.count);
        self.count = self.count.max(index.saturating_add(1));
        index
    }

    /// Keeps a call back until its neighbours are known.
    pub(super) fn keep(&mut self, call: &Call, dialect: &Dialect) {
        let index = self.next(call);
        self.lanes.push(fragments(call, index, dialect).into());
    }

    /// The fragments of all calls that were kept back, in turns.
    pub(super) fn woven(&mut self) -> Vec<Value> {
        let mut woven = Vec::new();
        while !self.lanes.is_empty() {
            woven.extend(self.lanes.iter_mut().filter_map(VecDeque::pop_front));
            self.lanes.retain(|lane| !lane.is_empty());
        }
        woven
    }

    /// Gathers a call.
    pub(super) fn add(&mut self, call: &Call) {
        let index = self.next(call);
        self.whole.push((index, call.clone()));
    }

    /// Gathers a bare fragment.
    pub(super) fn append(&mut self, args: &Args) {
        let mut calls = self.whole.iter_mut();
        if let Some((_, call)) = calls.find(|(index, _)| *index == args.index) {
            call.arguments.push_str(&args.text);
        }
    }

    /// The gathered calls as a message has them.
    pub(super) fn whole(&mut self, dialect: &Dialect) -> Vec<Value> {
        self.whole.sort_by_key(|(index, _)| *index);
        let whole = |(_, call): &(u64, Call)| {
            let arguments = match dialect.arguments {
                Arguments::Object => object(&call.arguments),
                Arguments::Pieces | Arguments::PiecesAtOnce | Arguments::Whole => {
                    call.arguments.as_str().into()
                }
            };
            let function = json!({"name": call.name, "arguments": arguments});
            let id = match dialect.ids {
                Ids::Missing => None,
                Ids::Empty => Some(""),
                Ids::First | Ids::EmptyLater | Ids::Late | Ids::Repeated => call.id.as_deref(),
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

    /// Bytes of the arguments that were gathered.
    pub(super) fn argument_bytes(&self) -> usize {
        let bytes = self.whole.iter().map(|(_, call)| call.arguments.len());
        bytes.sum()
    }

    /// The finish reason of the reply so far.
    pub(super) fn reason(&self) -> &'static str {
        if self.count > 0 { "tool_calls" } else { "stop" }
    }
}

/// The fragments of a call: its head, then its arguments.
pub(super) fn fragments(call: &Call, index: u64, dialect: &Dialect) -> Vec<Value> {
    let mut parts: Vec<Value> = match dialect.arguments {
        Arguments::Whole => vec![call.arguments.as_str().into()],
        Arguments::Object => vec![object(&call.arguments)],
        Arguments::Pieces | Arguments::PiecesAtOnce => {
            let pieces = pieces(&call.arguments, call.pieces);
            pieces.into_iter().map(Value::from).collect()
        }
    };
    if dialect.arguments == Arguments::Pieces || parts.is_empty() {
        parts.insert(0, "".into());
    }
    let second = parts.len().min(2) - 1;
    let parts = parts.into_iter().enumerate();
    let fragments = parts.map(|(at, arguments)| {
        let mut fragment = numbered(index, dialect);
        let given = call.id.as_deref();
        let id = match dialect.ids {
            Ids::Missing => None,
            Ids::Empty => (at == 0).then_some(""),
            Ids::First => given.filter(|_| at == 0),
            Ids::EmptyLater if at > 0 => Some(""),
            Ids::Late => given.filter(|_| at == second),
            Ids::EmptyLater | Ids::Repeated => given,
        };
        if let Some(id) = id {
            fragment.insert("id".to_owned(), id.into());
        }
        if at == 0 || id.is_some() {
            fragment.insert("type".to_owned(), "function".into());
        }
        let name = match dialect.names {
            Names::First => (at == 0).then_some(call.name.as_str()),
            Names::Late => (at == second).then_some(call.name.as_str()),
            Names::EmptyLater if at > 0 => Some(""),
            Names::Repeated | Names::EmptyLater => Some(call.name.as_str()),
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

/// One bare fragment of arguments.
pub(super) fn bare(args: &Args, dialect: &Dialect) -> Value {
    let mut fragment = numbered(args.index, dialect);
    fragment.insert("function".to_owned(), json!({"arguments": args.text}));
    Value::Object(fragment)
}

fn numbered(index: u64, dialect: &Dialect) -> Map<String, Value> {
    let index = match dialect.index {
        Index::Counted => Some(index),
        Index::FromOne => Some(index.saturating_add(1)),
        Index::Zero => Some(0),
        Index::Missing => None,
    };
    Map::from_iter(index.map(|index| ("index".to_owned(), index.into())))
}

/// The object of this text; the text itself if it is none.
fn object(text: &str) -> Value {
    let object: Option<Map<String, Value>> = serde_json::from_str(text).ok();
    object.map_or_else(|| text.into(), Value::Object)
}

/// Cuts a text into about `count` pieces of equal length, none of them empty.
fn pieces(text: &str, count: usize) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let size = letters.len().div_ceil(count.max(1)).max(1);
    letters
        .chunks(size)
        .map(|piece| piece.iter().collect())
        .collect()
}
