//! The top level of a request body. Parameters stay raw JSON, so that the error for a
//! value of the wrong type can name the parameter.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::parameters::refuse_chat_parameter;
use crate::fault::Fault;
use crate::stop_flag::StopFlag;
use crate::text::Text;
use crate::turn::{Item, ItemFields};

/// The most items of a request. The longest sessions have a few thousand: a window of a million
/// tokens holds no more than fifty thousand calls and results of the shortest form.
pub(super) const MAX_ITEMS: usize = 100_000;

/// The parameters that are left out without a note, because they mean nothing to a provider.
const IGNORED: [&str; 2] = ["client_metadata", "stream_options"];

/// At most this many unknown parameters are listed in the notes of the turn.
const MAX_NAMED_UNKNOWN: usize = 8;

/// Declares [`RequestBody`] with a field for each known parameter. A derived
/// `Deserialize` could not report the unknown ones.
macro_rules! body {
    ($($name:ident),* $(,)?) => {
        /// The parameters of a request. `null` counts as absent.
        #[derive(Default)]
        pub(super) struct RequestBody<'a> {
            pub(super) input: Option<RequestInput<'a>>,
            $(pub(super) $name: Option<&'a RawValue>,)*
            /// Whether `input` has more than [`MAX_ITEMS`] items; no more than these are read.
            pub(super) has_too_many_items: bool,
            /// The names of unknown parameters, each cut to 64 characters.
            pub(super) unknown: Vec<String>,
            /// The values of unknown and ignored parameters.
            unread: Vec<&'a RawValue>,
            /// The fault of the first parameter that only Chat Completions has.
            pub(super) chat_parameter: Option<Fault>,
        }

        impl<'a> RequestBody<'a> {
            /// The names of all parameters except `input`.
            #[cfg(test)]
            pub(super) const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// The values of all parameters except `input`.
            pub(super) fn parameters(&self) -> impl Iterator<Item = &'a RawValue> {
                let unread = self.unread.iter().copied();
                [$(self.$name),*].into_iter().flatten().chain(unread)
            }

            fn take<A: MapAccess<'a>>(
                &mut self,
                key: &str,
                map: &mut A,
                source: &BodyVisitor<'a, '_>,
            ) -> Result<(), A::Error> {
                match key {
                    "input" => {
                        let seed = InputSeed {
                            document: source.document,
                            stop: source.stop,
                            has_too_many_items: &mut self.has_too_many_items,
                        };
                        let input = map.next_value_seed(seed)?;
                        set_once(&mut self.input, "input", input)
                    }
                    $(stringify!($name) => set_once(&mut self.$name, stringify!($name), map.next_value()?),)*
                    other => {
                        let value = map.next_value::<Option<&'a RawValue>>()?;
                        let refusal = value.and_then(|value| refuse_chat_parameter(other, value));
                        if refusal.is_some() {
                            self.chat_parameter = self.chat_parameter.take().or(refusal);
                        } else if self.unknown.len() < MAX_NAMED_UNKNOWN && !IGNORED.contains(&other) {
                            self.unknown.push(other.chars().take(64).collect());
                        }
                        self.unread.extend(value);
                        Ok(())
                    }
                }
            }
        }
    };
}

body! {
    model,
    instructions,
    previous_response_id,
    conversation,
    background,
    store,
    stream,
    temperature,
    top_p,
    presence_penalty,
    frequency_penalty,
    top_logprobs,
    max_output_tokens,
    max_tool_calls,
    tools,
    tool_choice,
    parallel_tool_calls,
    text,
    reasoning,
    include,
    truncation,
    metadata,
    prompt,
    prompt_cache_key,
    prompt_cache_options,
    service_tier,
    safety_identifier,
    user,
    context_management,
    moderation,
}

fn set_once<T, E: de::Error>(
    field: &mut Option<T>,
    name: &'static str,
    value: Option<T>,
) -> Result<(), E> {
    if field.is_some() {
        return Err(E::duplicate_field(name));
    }
    *field = value;
    Ok(())
}

impl<'a> RequestBody<'a> {
    /// Parses a request body. The error that follows a raised `stop` says nothing about the body.
    pub(super) fn parse(document: &'a str, stop: &StopFlag) -> Result<Self, serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_str(document);
        let body = deserializer.deserialize_map(BodyVisitor { document, stop })?;
        deserializer.end()?;
        Ok(body)
    }
}

/// Reads a list of items, as it was stored.
pub(crate) fn read_items<'a>(list: &'a str) -> Result<Vec<Item<'a>>, serde_json::Error> {
    let fields: Vec<ItemFields<'a>> = serde_json::from_str(list)?;
    Ok(fields
        .into_iter()
        .map(|fields| Item::new(fields, list))
        .collect())
}

/// Reads the parameters from this document.
struct BodyVisitor<'a, 's> {
    document: &'a str,
    stop: &'s StopFlag,
}

impl<'de> Visitor<'de> for BodyVisitor<'de, '_> {
    type Value = RequestBody<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object with the parameters of a response")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut body = RequestBody::default();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            body.take(&key, &mut map, &self)?;
        }
        Ok(body)
    }
}

/// The parameter `input`: a string or a list of items.
pub(super) enum RequestInput<'a> {
    Text(Text<'a>),
    Items(Vec<Item<'a>>),
}

/// Reads `input` from this document; `None` for null.
struct InputSeed<'a, 'f> {
    document: &'a str,
    stop: &'f StopFlag,
    has_too_many_items: &'f mut bool,
}

impl<'de> DeserializeSeed<'de> for InputSeed<'de, '_> {
    type Value = Option<RequestInput<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        // The JSON parser knows the type from the first character, so that a long history is
        // read in one pass.
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for InputSeed<'de, '_> {
    type Value = Option<RequestInput<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of items for 'input'")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(RequestInput::Text(text.into())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while items.len() < MAX_ITEMS {
            if self.stop.is_raised() {
                return Err(de::Error::custom("the work was stopped"));
            }
            let Some(fields) = list.next_element::<ItemFields<'de>>()? else {
                return Ok(Some(RequestInput::Items(items)));
            };
            items.push(Item::new(fields, self.document));
        }
        while list.next_element::<IgnoredAny>()?.is_some() {
            *self.has_too_many_items = true;
        }
        Ok(Some(RequestInput::Items(items)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use kit::request_docs::{self, DocumentedPart};
    use serde_json::{Value, json};

    use registry::RelayToolKind;

    use super::*;
    use crate::responses::request::TurnSource;
    use crate::stop_flag::StopReason;
    use crate::tools::ProxyTool;

    #[test]
    fn reading_the_items_of_a_body_can_be_stopped() {
        let stop = StopFlag::new();
        let error_at = |stop: &StopFlag| {
            let body = r#"{"input":[{"type":"message"},{"type":"message"},no JSON"#;
            RequestBody::parse(body, stop)
                .err()
                .map(|error| error.column())
        };
        let whole = error_at(&stop);
        stop.raise(StopReason::ClientLeft);
        assert!(error_at(&stop) < whole);
    }

    #[test]
    fn every_parameter_that_is_read_is_documented_and_no_other() {
        let parts = request_docs::parameters();
        let listed: BTreeSet<&str> = parts.iter().flat_map(DocumentedPart::names).collect();
        let mut read: BTreeSet<&str> = RequestBody::NAMES.iter().copied().collect();
        read.insert("input");
        read.extend(IGNORED);
        let refused = parts.iter().filter(|part| part.fate == "refused");
        read.extend(refused.flat_map(DocumentedPart::names));
        assert_eq!(listed, read);
    }

    /// The codes of the notes of a request with this parameter.
    fn notes(parameter: &str, value: &Value) -> Vec<String> {
        let body = json!({"model": "m", "input": "x", parameter: value});
        // A server that can search and connects to MCP servers.
        let search = ProxyTool {
            name: "search".to_owned(),
            description: String::new(),
            parameters: "{}".to_owned(),
            in_place_of: Some(RelayToolKind::WebSearch),
            ..ProxyTool::default()
        };
        let source = TurnSource::new(body.to_string()).with_proxy_tools(vec![search]);
        let source = source.with_mcp_listing(Arc::default());
        let turn = source.turn().unwrap();
        turn.notes.iter().map(|note| note.code.to_owned()).collect()
    }

    #[test]
    fn a_parameter_is_left_out_as_documented() {
        for part in request_docs::parameters() {
            for name in part.names().filter(|_| part.fate == "ignored") {
                assert!(notes(name, &json!({"a": 1})).is_empty(), "{name}");
            }
            for name in part.names().filter(|_| part.fate == "refused") {
                let body = json!({"model": "m", "input": "x", name: [{"a": 1}]});
                let fault = TurnSource::new(body.to_string()).turn().unwrap_err();
                assert_eq!(fault.param.as_deref(), Some(name));
                assert_eq!(fault.code(), Some("unsupported_parameter"));
            }
        }
        assert_eq!(notes("moderation", &json!({})), ["parameter_ignored"]);
        assert_eq!(notes("new", &json!(1)), ["parameter_unknown"]);
    }

    #[test]
    fn a_tool_is_left_out_as_documented() {
        for part in request_docs::tools() {
            for kind in part.names() {
                let member = json!([{"type": "function", "name": "f"}]);
                let tool =
                    json!({"type": kind, "name": "n", "tools": member, "execution": "client"});
                let expected: &[&str] = match part.fate.as_str() {
                    "noted" => &["tool_dropped"],
                    _ => &[],
                };
                assert_eq!(notes("tools", &json!([tool])), expected, "{kind}");
            }
        }
    }
}
