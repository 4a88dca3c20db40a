//! Refusals of an upstream that speaks Responses, and the quirk patches that they lead to.

use crate::provider_error::error::ProviderError;
use crate::provider_error::patches::parameters::ParameterName;
use crate::provider_error::patches::{self, limits, parameters, schema};
use crate::quirk_patch::{Parameter, QuirkPatch, SharedPatch};

/// The patch for a refusal that is not a context overflow; `lower` is its text in lower case.
/// The first rule that matches counts.
pub(crate) fn find_patch(error: &ProviderError, lower: &str) -> Option<QuirkPatch> {
    agent_messages(error, lower)
        .or_else(|| patches::reasoning(lower))
        .or_else(|| limits::max_output(lower).map(Into::into))
        .or_else(|| limits::fixed_temperature(lower).map(Into::into))
        .or_else(|| schema::refused_schema(error, lower).map(Into::into))
        .or_else(|| patches::images(lower))
        .or_else(|| patches::audio(lower))
        .or_else(|| limits::max_tools(lower).map(Into::into))
        .or_else(|| patches::prefill(lower))
        .or_else(|| patches::roles(error, lower))
        .or_else(|| parameters::efforts(error, lower).map(Into::into))
        .or_else(|| parameters::tool_choice(error, lower).map(Into::into))
        .or_else(|| parameters::unknown_parameter(error, lower, NAMES))
        .or_else(|| parameters::unknown_setting(lower).map(Into::into))
}

/// Messages of Codex's agents. The part with the text may be named, and so may the `call_id` that
/// all results have but those which tell the model something.
///
/// - a server that does not know them: `Invalid value: 'agent_message'.` at `input[5].type`;
///   `Missing required parameter: 'input[6].call_id'.`
fn agent_messages(error: &ProviderError, lower: &str) -> Option<QuirkPatch> {
    let names_part = error
        .param
        .as_deref()
        .is_some_and(|param| param.contains(".content["));
    let is_one = lower.contains("agent_message")
        || lower.contains("missing required parameter") && lower.contains("].call_id")
        || lower.contains("encrypted") && names_part;
    is_one.then_some(SharedPatch::NoAgentMessages.into())
}

/// The names of parameters that only this wire has.
///
/// - OpenAI, to models that do not reason: `Unsupported parameter: 'reasoning.effort' is not
///   supported with this model.` (litellm#38842)
/// - to a model without summaries: `Unsupported parameter: 'reasoning.summary' is not supported
///   with the 'gpt-5.3-codex-spark' model.` (codex#31846)
/// - `include` is the `param` with which OpenAI refuses encrypted reasoning (hermes-agent#24234)
const NAMES: &[ParameterName] = &[
    ParameterName::word("include", NO_INCLUDE),
    ParameterName::new("reasoning.effort", NO_EFFORT),
    ParameterName::optional("reasoning.summary", Parameter::ReasoningSummary),
];

const NO_INCLUDE: QuirkPatch = QuirkPatch::Shared(SharedPatch::OmitParameter(Parameter::Include));
const NO_EFFORT: QuirkPatch = QuirkPatch::Shared(SharedPatch::NoEffort);
