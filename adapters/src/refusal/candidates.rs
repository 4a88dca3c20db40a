//! The changes that a clue suggests, as far as every wire has them, those that lose least first.

use std::borrow::Cow;

use registry::{EnumSet, SystemRole, ToolChoiceMode};

use super::change::Change;
use super::clue::{Clue, ClueStrength};
use super::contents;
use super::sent::RefusedRequest;
use super::words::RefusalText;
use crate::effort::EffortLevels;
use crate::quirk_patch::{ModelPatch, Parameter, QuirkPatch, SharedPatch};

/// Smaller numbers are no limit of an answer.
const MIN_MAX_OUTPUT: u64 = 256;

/// What the changes for a clue depend on.
#[derive(Clone, Copy)]
pub(crate) struct Suggestions<'r> {
    pub(crate) text: &'r RefusalText<'r>,
    pub(crate) sent: &'r RefusedRequest<'r>,
    pub(crate) clue: &'r Clue,
}

/// The changes for one of the names of a clue.
pub(crate) fn shared(name: &str, asked: Suggestions<'_>) -> Vec<Change> {
    let sent = asked.sent;
    let patches: Vec<QuirkPatch> = match name {
        "paralleltoolcalls" | "paralleltoolcall" => omit(Parameter::ParallelToolCalls),
        "topp" => omit(Parameter::TopP),
        "temperature" => {
            let sampling = ModelPatch::NoSampling.into();
            omit(Parameter::Temperature)
                .into_iter()
                .chain([sampling])
                .collect()
        }
        "presencepenalty" | "frequencypenalty" | "penalty" => omit(Parameter::Penalties),
        "logprobs" | "toplogprobs" => omit(Parameter::Logprobs),
        "promptcachekey" | "promptcaching" => omit(Parameter::PromptCacheKey),
        "servicetier" => omit(Parameter::ServiceTier),
        "verbosity" | "textverbosity" => omit(Parameter::Verbosity),
        "strict" => omit(Parameter::Strict),
        "stream" | "streaming" | "streamed" => omit(Parameter::Stream),
        "toolchoice" => tool_choice(sent),
        "required" | "none" | "specified"
            if sent.text("tool_choice", "type").as_deref() == Some(name) =>
        {
            tool_choice(sent)
        }
        "reasoningeffort" | "effort" | "reasoning" => efforts(asked),
        level if is_sent_effort(level, asked) => efforts(asked),
        "role" | "roles" => roles(asked, None),
        "developer" | "system" => roles(asked, Some(name)),
        "assistant" | "prefill" | "lastmessage" | "lastrole" => ends_with_user(sent),
        _ => return contents::suggested(name, asked),
    };
    patches.into_iter().map(Change::from).collect()
}

fn omit(parameter: Parameter) -> Vec<QuirkPatch> {
    vec![SharedPatch::OmitParameter(parameter).into()]
}

/// Without the value that was sent, then without any.
fn tool_choice(sent: &RefusedRequest<'_>) -> Vec<QuirkPatch> {
    let all = EnumSet::all();
    let mode = match sent.text("tool_choice", "type").as_deref() {
        Some("none") => ToolChoiceMode::None,
        Some("required" | "any") => ToolChoiceMode::Required,
        Some(_) => ToolChoiceMode::Named,
        None => return Vec::new(),
    };
    let sets = [EnumSet::empty().with(mode), all];
    sets.into_iter()
        .map(|set| SharedPatch::WithoutToolChoice(set).into())
        .collect()
}

fn sent_effort<'a>(sent: &RefusedRequest<'a>) -> Option<Cow<'a, str>> {
    let effort = sent.text("reasoning_effort", "");
    effort.or_else(|| sent.text("reasoning", "effort"))
}

fn is_sent_effort(word: &str, asked: Suggestions<'_>) -> bool {
    let is_named = asked.clue.strength < ClueStrength::Word;
    is_named && sent_effort(asked.sent).is_some_and(|effort| effort == word)
}

/// The levels that the refusal lists, but for the one that was sent; then no level.
fn efforts(asked: Suggestions<'_>) -> Vec<QuirkPatch> {
    let Some(effort) = sent_effort(asked.sent) else {
        return Vec::new();
    };
    let levels =
        EffortLevels::from_names(&["none", "minimal", "low", "medium", "high", "xhigh", "max"]);
    let named = levels.into_iter().flat_map(EffortLevels::names);
    let named: Vec<&str> = named
        .filter(|level| **level != *effort && asked.text.has_word(level))
        .collect();
    let levels = EffortLevels::from_names(&named).map(|levels| ModelPatch::Efforts(levels).into());
    levels
        .into_iter()
        .chain([SharedPatch::NoEffort.into()])
        .collect()
}

/// The other roles for instructions, in place of the one that was sent. `named` is the one that the
/// refusal names: servers call both system messages.
fn roles(asked: Suggestions<'_>, named: Option<&str>) -> Vec<QuirkPatch> {
    let Suggestions { sent, clue, .. } = asked;
    let is_sent = |role: &&str| match clue.item {
        Some(place) => sent.role(place) == *role,
        None => sent.has_role(role),
    };
    let known = named.into_iter().chain(["developer", "system"]);
    let refused = known.into_iter().find(is_sent);
    refused.map(other_roles).unwrap_or_default()
}

/// What takes the place of a role that is refused.
fn other_roles(refused: &str) -> Vec<QuirkPatch> {
    let roles = match refused {
        "developer" => [SystemRole::System, SystemRole::User],
        _ => [SystemRole::User, SystemRole::Developer],
    };
    roles
        .map(|role| SharedPatch::SystemRole(role).into())
        .to_vec()
}

fn ends_with_user(sent: &RefusedRequest<'_>) -> Vec<QuirkPatch> {
    let last = sent.items.len().checked_sub(1);
    let is_answer = last.is_some_and(|last| sent.role(last) == "assistant");
    is_answer
        .then(|| SharedPatch::EndWithUser.into())
        .into_iter()
        .collect()
}

/// The largest number in the refusal that is lower than a limit which was sent.
pub(crate) fn lower_number(asked: Suggestions<'_>, limit: Option<u64>) -> Option<ModelPatch> {
    let limit = limit?;
    let lower = asked
        .text
        .numbers()
        .filter(|number| (MIN_MAX_OUTPUT..limit).contains(number));
    let largest = lower.max().and_then(|number| u32::try_from(number).ok());
    largest.map(ModelPatch::MaxOutput)
}
