//! What becomes of each part of a request. The parser asks here which parameters it leaves out
//! without a word, and the tables of `docs/requests.md` are made of it.

use strum::IntoStaticStr;

/// What becomes of a part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Fate {
    /// The provider has a counterpart.
    Mapped,
    /// It is built from what the provider has.
    Emulated,
    /// The response repeats it, and it has no other effect.
    Echoed,
    /// It is left out, and the notes of the turn say so.
    Noted,
    /// The request is answered with 400.
    Refused,
    /// It is left out without a note.
    Ignored,
}

/// A row of a table.
#[derive(Clone, Copy, Debug)]
pub struct FateRow {
    /// What it is about, as Markdown. The names of the API are code.
    pub what: &'static str,
    /// The fate, or the first one of several.
    pub fate: Fate,
    /// How the sentence goes on that begins with the fate, as Markdown.
    pub more: &'static str,
}

impl FateRow {
    const fn new(what: &'static str, fate: Fate, more: &'static str) -> Self {
        Self { what, fate, more }
    }

    /// The names of the API that the row is about, each without its members and values: `text` for
    /// `text.format`.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let code = self.what.split('`').skip(1).step_by(2);
        code.map(|code| code.split(['.', ':']).next().unwrap_or(code))
    }
}

/// Whether a parameter that the parser does not read is left out without a note.
pub(super) fn is_ignored(parameter: &str) -> bool {
    let mut ignored = PARAMETERS.iter().filter(|row| row.fate == Fate::Ignored);
    ignored.any(|row| row.names().any(|name| name == parameter))
}

/// A table as Markdown, with one row for each of these.
pub fn markdown_table(first_cell: &str, rows: &[FateRow]) -> String {
    let row = |row: &FateRow| {
        let fate: &str = row.fate.into();
        format!("| {} | {fate}{} |\n", row.what, row.more)
    };
    let rows: String = rows.iter().map(row).collect();
    format!("| {first_cell} | |\n|---|---|\n{rows}")
}

/// The parameters of a request.
pub const PARAMETERS: &[FateRow] = &[
    FateRow::new(
        "`model`, `input`, `instructions`, `stream`",
        Fate::Mapped,
        "",
    ),
    FateRow::new(
        "`temperature`, `top_p`, `presence_penalty`, `frequency_penalty`",
        Fate::Mapped,
        "; noted for models without sampling",
    ),
    FateRow::new(
        "`max_output_tokens`",
        Fate::Mapped,
        "; lowered, with a note, to the limit of the model and to what is left of a known window; if the request has none, providers with a small default are asked for more",
    ),
    FateRow::new(
        "`top_logprobs`, `include: message.output_text.logprobs`",
        Fate::Mapped,
        "",
    ),
    FateRow::new(
        "`text.format`",
        Fate::Mapped,
        " to the strongest `response_format` that the provider supports; the rest is emulated by an instruction",
    ),
    FateRow::new(
        "`text.verbosity`, `service_tier`",
        Fate::Mapped,
        " if the provider accepts it, else noted",
    ),
    FateRow::new(
        "`prompt_cache_key`",
        Fate::Mapped,
        " if the provider accepts it, else echoed",
    ),
    FateRow::new(
        "`prompt_cache_options`",
        Fate::Emulated,
        ": `comparison_response_id` is answered with `prompt_cache_diagnostics`; the rest is noted",
    ),
    FateRow::new(
        "`reasoning.effort`",
        Fate::Mapped,
        " to the nearest level of the model (the higher one if two are equally near), in the provider's form (`reasoning_effort`, `thinking`, `enable_thinking`, `reasoning` …); noted if the provider or the model accepts none",
    ),
    FateRow::new(
        "`reasoning.summary`",
        Fate::Echoed,
        "; whatever reasoning the provider shows is sent as the summary",
    ),
    FateRow::new(
        "`parallel_tool_calls`",
        Fate::Mapped,
        " if the provider accepts it, else noted",
    ),
    FateRow::new(
        "`tools`",
        Fate::Mapped,
        " as the table of [tools](#tools) says",
    ),
    FateRow::new(
        "`tool_choice`",
        Fate::Mapped,
        "; for `allowed_tools` only those tools are sent; a value that the provider refuses becomes `auto`, with a note; the form of Chat Completions is read too",
    ),
    FateRow::new(
        "`include: reasoning.encrypted_content`",
        Fate::Emulated,
        ": the provider's reasoning in a sealed blob; also sent without being asked for if the provider requires its reasoning back",
    ),
    FateRow::new(
        "`context_management`",
        Fate::Emulated,
        ": beyond the threshold the answer ends with a compaction item, which covers the history and the answer; it begins with one if the history does not fit the window",
    ),
    FateRow::new(
        "`truncation`",
        Fate::Emulated,
        ": with `auto` the oldest blocks of a history that does not fit are left out; with `disabled` the overflow is an error",
    ),
    FateRow::new(
        "`include`, with other values; `moderation`",
        Fate::Noted,
        "",
    ),
    FateRow::new("`metadata`", Fate::Echoed, " after its limits are checked"),
    FateRow::new(
        "`max_tool_calls`, `safety_identifier`, `user`",
        Fate::Echoed,
        "",
    ),
    FateRow::new(
        "`store`",
        Fate::Emulated,
        ": unless it is false, the response is [stored](responses.md) before its last event is sent. Where it cannot be stored, the response says `\"store\": false`",
    ),
    FateRow::new(
        "`previous_response_id`, `conversation`",
        Fate::Emulated,
        ": the stored history comes before the input. For an id that is unknown the error codes are `previous_response_not_found` and `conversation_not_found`",
    ),
    FateRow::new(
        "`background: true`",
        Fate::Emulated,
        ": the response is [queued](responses.md#background), and runs whether or not anybody waits",
    ),
    FateRow::new(
        "`prompt`",
        Fate::Emulated,
        " by a [template](#prompt-templates) of this server; refused if it has none",
    ),
    FateRow::new(
        "`client_metadata`, `stream_options`",
        Fate::Ignored,
        ": they mean nothing to a provider",
    ),
    FateRow::new(
        "`messages`, `response_format`, `max_tokens`, `max_completion_tokens`, `functions`, `function_call`, `reasoning_effort`, `verbosity`, `logprobs`, `stop`, `n`",
        Fate::Refused,
        ": Chat Completions has them; the message names what the Responses API has in their place; `n: 1`, `logprobs: false` and an empty `stop` change nothing and are noted",
    ),
    FateRow::new("any other", Fate::Noted, ""),
];

/// The types of tools.
pub const TOOLS: &[FateRow] = &[
    FateRow::new(
        "`function`",
        Fate::Mapped,
        "; `strict` is sent to providers that support it; a schema is rewritten, with a note, for providers that accept a subset, and the keyword `encrypted` is left out",
    ),
    FateRow::new(
        "`namespace`",
        Fate::Emulated,
        ": flat names of at most 64 characters, restored in the calls",
    ),
    FateRow::new(
        "`custom`",
        Fate::Emulated,
        ": a function with one text argument; the grammar goes into the description and is not enforced",
    ),
    FateRow::new(
        "`apply_patch` as custom tool",
        Fate::Emulated,
        " in the same way; a malformed patch is repaired, with a note, if only one repair is possible. A patch without `*** End Patch` gets one only if the JSON around it shows that it is whole",
    ),
    FateRow::new(
        "`local_shell`, `shell`, `apply_patch`",
        Fate::Emulated,
        " as functions; calls and outputs keep their item types",
    ),
    FateRow::new(
        "`tool_search` run by the client",
        Fate::Emulated,
        " as a function; the tools it finds are offered from the next turn on",
    ),
    FateRow::new(
        "`tool_search` run by the server",
        Fate::Emulated,
        ": the model is offered all tools, and before the first call of a deferred one come the items of the search that finds it; like any function that is deferred or was found, it is called in its namespace, or in one of its own name",
    ),
    FateRow::new(
        "`web_search`, `file_search`, `code_interpreter`, `image_generation`, `computer`, `mcp`, any other",
        Fate::Noted,
        "; the model is told that it is not available, and the `tools` of the response do not list it; refused when `tool_choice` forces it",
    ),
];

/// The items of the input.
pub const ITEMS: &[FateRow] = &[
    FateRow::new(
        "messages, calls and outputs of the tools above",
        Fate::Mapped,
        "; arguments that are not a JSON object are wrapped in one, with a note",
    ),
    FateRow::new(
        "system and developer messages",
        Fate::Mapped,
        " to the role that the provider has; if it accepts only one such message, at the start, the first ones are joined and a later one becomes a user message that says so",
    ),
    FateRow::new(
        "calls without a result",
        Fate::Emulated,
        ": a result is added that says that the call was interrupted",
    ),
    FateRow::new(
        "results without a call, second results",
        Fate::Emulated,
        ": they become a user message that names the call; a request that continues a response is refused if it has the result of a call that neither of them has",
    ),
    FateRow::new(
        "results out of place, call ids that are missing, too long or used twice, calls without a name",
        Fate::Mapped,
        ", with a note: each call is followed by its results, under an id of its own; messages between them go before the call",
    ),
    FateRow::new(
        "empty messages of the user",
        Fate::Emulated,
        ": left out beside another message of the user, with a note; else a line says that the message is empty, as where there are instructions alone. A request is refused if no part of its input can be sent",
    ),
    FateRow::new(
        "outputs that are a list of content parts in a string",
        Fate::Mapped,
        " as the list; a list of anything else is text",
    ),
    FateRow::new(
        "images in messages",
        Fate::Mapped,
        ", as data or URL; for a model that accepts none, replaced by a line that says so, with a note",
    ),
    FateRow::new(
        "images in outputs",
        Fate::Emulated,
        ": they follow in a user message after the outputs, with a note; for a model that accepts none, a line in the output says so",
    ),
    FateRow::new(
        "`input_file` with `file_data`",
        Fate::Mapped,
        " if the provider accepts files, else replaced by a line that says so, with a note; a file that is text (`text/*`, JSON, XML, YAML, source code) is sent as text, and so is an SVG image",
    ),
    FateRow::new(
        "`input_audio`",
        Fate::Mapped,
        "; for a model that takes no audio, replaced by a line that says so, with a note",
    ),
    FateRow::new(
        "other parts",
        Fate::Emulated,
        ": their text is sent, else a line that says what was left out, with a note; refused in the last message, which can still be changed",
    ),
    FateRow::new(
        "`file_id`, `file_url`, images by `file_id`",
        Fate::Refused,
        ": there is no Files API, and nothing is fetched",
    ),
    FateRow::new(
        "`agent_message`, `function_call_output` in a `namespace` without a call",
        Fate::Mapped,
        " for a provider that takes them and namespaces, else to a user message with the text",
    ),
    FateRow::new(
        "`reasoning`",
        Fate::Mapped,
        " to the form in which the provider requires it back (`reasoning_content`, `reasoning`, `reasoning_details`, `<think>` tags, thinking parts, thought signatures), else left out; if a client sends back only its calls, the reasoning is taken from memory (16 MiB); reasoning that was lost is replaced by the provider's documented placeholder",
    ),
    FateRow::new(
        "`additional_tools`, `configuration_update`",
        Fate::Emulated,
        ": tools and settings of the request",
    ),
    FateRow::new(
        "`tool_search_call`, `tool_search_output` with `execution: \"server\"`",
        Fate::Emulated,
        ": the tools that were found are offered, and not searched for again",
    ),
    FateRow::new(
        "`mcp_call`",
        Fate::Emulated,
        ": a call of a function with its output or error; an upstream of the Responses API gets its own items back as they are",
    ),
    FateRow::new(
        "`web_search_call`, `file_search_call`, `code_interpreter_call`, `image_generation_call` and other items of hosted tools",
        Fate::Emulated,
        " by a message that tells what the tool did and found",
    ),
    FateRow::new(
        "`compaction`",
        Fate::Emulated,
        ": one made by Respondent becomes a user message with the summary; any other is noted and replaced by a line that says that it cannot be read",
    ),
    FateRow::new("`mcp_list_tools`, unknown items", Fate::Noted, ""),
    FateRow::new(
        "`item_reference`",
        Fate::Emulated,
        ": it is resolved from what is stored; without a store from the answers since the start of the server (64 MiB at most, and not with `store: false`); an unknown one is refused, one that refers to reasoning is left out",
    ),
    FateRow::new(
        "`compaction_trigger`",
        Fate::Emulated,
        " as the last item; refused elsewhere",
    ),
    FateRow::new(
        "long outputs",
        Fate::Emulated,
        " by excerpts and notices, see [Long sessions](long-sessions.md)",
    ),
];

#[cfg(test)]
mod tests;
