//! What is known about the types of output items. An item of any other type is passed on
//! too.

use crate::event::NativeText;
use crate::members::Members;

/// The type of a native item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::responses::assembler) enum ItemType {
    /// `message`
    Message,
    /// `reasoning`
    Reasoning,
    /// `compaction`
    Compaction,
    /// An item that streams one text outside of parts.
    Body(&'static BodyType),
    /// An item that comes whole; with its type name.
    Whole(String),
}

/// A type whose items stream one text.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::responses::assembler) struct BodyType {
    pub(in crate::responses::assembler) name: &'static str,
    /// The field that holds the text.
    pub(in crate::responses::assembler) field: &'static str,
    pub(in crate::responses::assembler) delta: &'static str,
    pub(in crate::responses::assembler) done: &'static str,
    id_prefix: &'static str,
    /// Whether the client runs it.
    is_call: bool,
    /// The text for one that stayed empty.
    pub(in crate::responses::assembler) empty: &'static str,
}

pub(in crate::responses::assembler) const FUNCTION_CALL: BodyType = BodyType {
    name: "function_call",
    field: "arguments",
    delta: "response.function_call_arguments.delta",
    done: "response.function_call_arguments.done",
    id_prefix: "fc_",
    is_call: true,
    empty: "{}",
};

pub(in crate::responses::assembler) const CUSTOM_CALL: BodyType = BodyType {
    name: "custom_tool_call",
    field: "input",
    delta: "response.custom_tool_call_input.delta",
    done: "response.custom_tool_call_input.done",
    id_prefix: "ctc_",
    is_call: true,
    empty: "",
};

const MCP_CALL: BodyType = BodyType {
    name: "mcp_call",
    field: "arguments",
    delta: "response.mcp_call_arguments.delta",
    done: "response.mcp_call_arguments.done",
    id_prefix: "mcp_",
    is_call: false,
    empty: "{}",
};

/// Types that come whole: name, prefix of their ids, whether the client runs them.
const WHOLE: [(&str, &str, bool); 8] = [
    ("web_search_call", "ws_", false),
    ("file_search_call", "fs_", false),
    ("code_interpreter_call", "ci_", false),
    ("image_generation_call", "ig_", false),
    ("tool_search_call", "", true),
    ("local_shell_call", "", true),
    ("shell_call", "", true),
    ("apply_patch_call", "", true),
];

impl ItemType {
    pub(in crate::responses::assembler) fn of(name: &str) -> Self {
        match name {
            "message" => Self::Message,
            "reasoning" => Self::Reasoning,
            "compaction" => Self::Compaction,
            "function_call" => Self::Body(&FUNCTION_CALL),
            "custom_tool_call" => Self::Body(&CUSTOM_CALL),
            "mcp_call" => Self::Body(&MCP_CALL),
            other => Self::Whole(other.to_owned()),
        }
    }

    pub(super) fn is_function_call(&self) -> bool {
        *self == Self::Body(&FUNCTION_CALL)
    }

    pub(super) fn is_custom_call(&self) -> bool {
        *self == Self::Body(&CUSTOM_CALL)
    }

    /// Whether it names the tool of the client that it calls.
    pub(super) fn has_name(&self) -> bool {
        matches!(self, Self::Body(body) if body.is_call)
    }

    /// Whether the client runs it and answers with an output.
    pub(in crate::responses::assembler) fn is_call(&self) -> bool {
        match self {
            Self::Body(body) => body.is_call,
            Self::Whole(name) => WHOLE
                .iter()
                .any(|(known, _, is_call)| known == name && *is_call),
            Self::Message | Self::Reasoning | Self::Compaction => false,
        }
    }

    /// Whether the client has to answer this item of the type. A search for tools that the
    /// upstream runs itself has `null` for a call id.
    pub(super) fn is_answered_by_client(&self, item: &Members<'_>) -> bool {
        let is_run_there = matches!(self, Self::Whole(name) if name == "tool_search_call")
            && item.text("execution").is_some_and(|by| by == "server")
            && item.get("call_id").is_some_and(|id| id.get() == "null");
        self.is_call() && !is_run_there
    }

    /// Whether it is the output of a tool that ran at the upstream. Such an item names its call.
    pub(super) fn is_output(&self) -> bool {
        matches!(self, Self::Whole(name) if name.ends_with("_output"))
    }

    /// The beginning of its ids; empty if any word may be.
    pub(super) fn id_prefix(&self) -> &'static str {
        match self {
            Self::Message => "msg_",
            Self::Reasoning => "rs_",
            Self::Compaction => "cmp_",
            Self::Body(body) => body.id_prefix,
            Self::Whole(name) => {
                let known = WHOLE.iter().find(|(known, _, _)| known == name);
                known.map_or("", |(_, prefix, _)| *prefix)
            }
        }
    }

    /// The word before the underscore of an id that is made here.
    pub(super) fn minted_prefix(&self) -> &'static str {
        match self.id_prefix().trim_end_matches('_') {
            "" => "item",
            word => word,
        }
    }

    /// Whether the API defines a `status` for it that must be present.
    pub(super) fn has_status(&self) -> bool {
        match self {
            Self::Message | Self::Body(_) => true,
            Self::Reasoning | Self::Compaction => false,
            Self::Whole(name) => WHOLE.iter().any(|(known, _, _)| known == name),
        }
    }

    /// Whether this event of a tool, such as `response.web_search_call.searching`, is one of its
    /// items: the event names the type, or a part of it as in `code_interpreter_call_code`.
    pub(super) fn has_progress(&self, event: &str) -> bool {
        let name = match self {
            Self::Body(body) => body.name,
            Self::Whole(name) => name,
            Self::Compaction => "compaction",
            Self::Message | Self::Reasoning => return false,
        };
        let event = event.strip_prefix("response.").unwrap_or_default();
        let rest = event.strip_prefix(name).unwrap_or_default();
        !name.is_empty() && rest.starts_with(['.', '_'])
    }

    /// Whether its items have texts of this kind.
    pub(super) fn has_text(&self, text: NativeText) -> bool {
        match text {
            NativeText::Output | NativeText::Refusal => *self == Self::Message,
            NativeText::Reasoning | NativeText::Summary => *self == Self::Reasoning,
            NativeText::Body => matches!(self, Self::Body(_)),
        }
    }
}
