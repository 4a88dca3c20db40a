//! The wires: the protocols that providers speak. This is the only place that chooses between them:
//! every turn is encoded, and every answer and error read, through here.
//!
//! A new wire is a folder beside this file, a variant of [`registry::Wire`] and
//! [`registry::WireQuirks`], and an arm of each `match` here.

use std::borrow::Cow;

use std::time::Duration;

use registry::{EnumSet, Model, RelayToolKind, Wire, WireQuirks};
use strum::VariantArray;

use crate::chat::decode::ChatDecoder;
pub use crate::chat::reasoning_fields::ReasoningField;
use crate::effort::EffortLevels;
pub use crate::encode_options::EncodeOptions;
use crate::encoded::{self, Encoded};
use crate::event::{DataKind, Event, ReasoningStateForm, ReasoningStateMember};
use crate::fault::{Fault, Kind, Retry};
use crate::plan::Plan;
use crate::provider_error;
use crate::quirk_patch::{ChatPatch, Parameter, QuirkPatch};
use crate::refusal::Suggestions;
use crate::refusal::change::Change;
use crate::relay::RelayDecoder;
use crate::turn::Turn;
use crate::{chat, relay};

/// A request to a provider, as its wire has it: a `POST` with a JSON body. Made by [`encode`]
/// for each attempt of a turn.
#[derive(Debug)]
pub struct WireRequest {
    /// The path below the provider's base URL, beginning with a slash.
    pub path: Cow<'static, str>,
    /// The headers that the protocol requires, besides those of every request and the key.
    pub headers: &'static [(&'static str, &'static str)],
    /// The body, and where its parts are.
    pub encoded: Encoded,
}

/// The path of the endpoint below the base URL. A base URL that ends with it is a mistake.
pub fn endpoint(wire: Wire) -> &'static str {
    match wire {
        Wire::Chat => chat::PATH,
        Wire::Responses => relay::PATH,
    }
}

/// The JSON members in which providers put reasoning state.
pub fn reasoning_state_members() -> impl Iterator<Item = ReasoningStateMember> {
    let members = Wire::VARIANTS.iter().map(|wire| match wire {
        Wire::Chat => chat::reasoning_state::MEMBERS.as_slice(),
        // Its `encrypted_content` is part of the Responses API.
        Wire::Responses => &[],
    });
    members.flatten().copied()
}

/// Encodes the request of a turn. Fails if an item cannot be sent, or the request would be too
/// large, which is the client's fault, and if the work on the turn was stopped.
pub fn encode(
    turn: &Turn<'_>,
    plan: &Plan,
    options: &EncodeOptions<'_>,
) -> Result<WireRequest, Fault> {
    // A plan whose making was stopped is incomplete.
    turn.stop.check()?;
    let request = match &options.dialect.quirks {
        WireQuirks::Chat(quirks) => WireRequest {
            path: chat::PATH.into(),
            headers: &[],
            encoded: chat::encode::encode(turn, plan, options, quirks)?,
        },
        WireQuirks::Responses(quirks) => WireRequest {
            path: relay::PATH.into(),
            headers: &[],
            encoded: relay::encode(turn, plan, options, quirks)?,
        },
    };
    encoded::check_size(request.encoded.body.len(), "input")?;
    Ok(request)
}

/// The fault of an HTTP error reply, with the quirk patch that it suggests. `wait` is the pause
/// that its headers ask for, see [`provider_error::delay::from_headers`].
pub fn error(quirks: &WireQuirks, status: u16, wait: Option<Duration>, body: &[u8]) -> Fault {
    let rules = match quirks {
        WireQuirks::Chat(_) => chat::refusals::find_patch,
        WireQuirks::Responses(_) => relay::refusals::find_patch,
    };
    provider_error::from_reply(rules, status, wait, body)
}

/// The kinds of tools of this turn that an upstream takes as the client declares them, or runs
/// itself.
pub fn relayed_tools(
    quirks: &WireQuirks,
    turn: &Turn<'_>,
    model: &Model,
) -> EnumSet<RelayToolKind> {
    match quirks {
        WireQuirks::Chat(quirks) => chat::provider_search::relayed_tools(turn, model, quirks),
        WireQuirks::Responses(quirks) => relay::relayed_tools(turn, quirks),
    }
}

/// Whether an upstream runs hosted tools of this kind, whatever a request asks for.
pub fn runs_hosted(quirks: &WireQuirks, kind: RelayToolKind) -> bool {
    match quirks {
        WireQuirks::Chat(_) => false,
        WireQuirks::Responses(quirks) => kind.is_hosted() && quirks.tools.contains(kind),
    }
}

/// Applies a quirk patch to what is known of a model. A patch of another wire than the quirks
/// changes nothing.
pub fn apply_patch(patch: QuirkPatch, quirks: &mut WireQuirks, model: &mut Model) {
    match (patch, quirks) {
        (QuirkPatch::Model(patch), _) => patch.apply(model),
        (QuirkPatch::Shared(patch), WireQuirks::Chat(quirks)) => {
            chat::patch::apply_shared(patch, quirks);
        }
        (QuirkPatch::Shared(patch), WireQuirks::Responses(quirks)) => {
            relay::patch::apply_shared(patch, quirks);
        }
        (QuirkPatch::Chat(patch), WireQuirks::Chat(quirks)) => patch.apply(quirks),
        (QuirkPatch::Relay(patch), WireQuirks::Responses(quirks)) => patch.apply(quirks),
        (QuirkPatch::Chat(_), WireQuirks::Responses(_))
        | (QuirkPatch::Relay(_), WireQuirks::Chat(_)) => {}
    }
}

/// The member of a request that has its history.
pub(crate) fn history_member(quirks: &WireQuirks) -> &'static str {
    match quirks {
        WireQuirks::Chat(_) => chat::candidates::HISTORY,
        WireQuirks::Responses(_) => relay::candidates::HISTORY,
    }
}

/// The changes of a request that one of the names of a clue suggests, those that lose least first.
pub(crate) fn suggested_changes(
    name: &str,
    asked: Suggestions<'_>,
    quirks: &WireQuirks,
) -> Vec<Change> {
    match quirks {
        WireQuirks::Chat(quirks) => chat::candidates::suggested(name, asked, quirks),
        WireQuirks::Responses(quirks) => relay::candidates::suggested(name, asked, quirks),
    }
}

/// The quirk that says whether a parameter is sent; `None` for one that the wire does not have.
pub fn parameter_quirk(parameter: Parameter, quirks: &mut WireQuirks) -> Option<&mut bool> {
    match quirks {
        WireQuirks::Chat(quirks) => chat::patch::parameter_quirk(parameter, quirks),
        WireQuirks::Responses(quirks) => relay::patch::parameter_quirk(parameter, quirks),
    }
}

/// The fields that may steer the reasoning of a provider, the most frequent first; none if it is
/// known how that is done.
pub fn reasoning_fields(quirks: &WireQuirks) -> &'static [ReasoningField] {
    match quirks {
        WireQuirks::Chat(quirks) => chat::reasoning_fields::candidates(quirks),
        WireQuirks::Responses(_) => &[],
    }
}

/// Sets how reasoning is requested of a provider that takes this field, or has listed its effort
/// levels in a refusal. Returns the levels of the model; `None` if nothing is known of either.
pub fn adopt_reasoning_field(
    quirks: &mut WireQuirks,
    field: Option<&ReasoningField>,
    listed: Option<EffortLevels>,
) -> Option<Vec<String>> {
    match quirks {
        WireQuirks::Chat(quirks) => chat::reasoning_fields::adopt(quirks, field, listed),
        WireQuirks::Responses(_) => None,
    }
}

/// Sets the quirks that an answer shows. `body` is its whole body.
pub fn observe_answer(quirks: &mut WireQuirks, body: &str) {
    match quirks {
        WireQuirks::Chat(quirks) => chat::observe::observe(quirks, body),
        // Items go back as they came, whatever is in them.
        WireQuirks::Responses(_) => {}
    }
}

/// Adds a piece of reasoning state to what is kept of the same form, which is empty before the
/// first piece. What is kept is what the wire reads when it comes back.
pub(crate) fn join_state(form: ReasoningStateForm, kept: &mut String, piece: Cow<'_, str>) {
    let is_of = |wire: &&Wire| state_forms(**wire).contains(&form);
    match Wire::VARIANTS.iter().find(is_of) {
        Some(Wire::Chat) => chat::reasoning_state::join(form, kept, piece),
        Some(Wire::Responses) | None => *kept = piece.into_owned(),
    }
}

/// The forms of reasoning state that a wire has. Sealed baggage does not name its wire, so no two
/// wires have the same form.
fn state_forms(wire: Wire) -> &'static [ReasoningStateForm] {
    match wire {
        Wire::Chat => &chat::reasoning_state::FORMS,
        // Its items carry their state themselves.
        Wire::Responses => &[],
    }
}

/// Decodes the data of an answer into [`Event`]s. [`crate::reader::UpstreamReader`] makes one for
/// each upstream response, and splits its body into data.
#[derive(Debug)]
pub(crate) enum Decoder {
    /// Chunks of Chat Completions.
    Chat(Box<ChatDecoder>),
    /// Events of Responses.
    Responses(RelayDecoder),
}

impl Decoder {
    /// A decoder for the answer of a model with this wire and these quirks.
    pub(crate) fn new(quirks: &WireQuirks) -> Self {
        match quirks {
            WireQuirks::Chat(quirks) => Self::Chat(Box::new(ChatDecoder::new(quirks))),
            WireQuirks::Responses(_) => Self::Responses(RelayDecoder::default()),
        }
    }

    /// Decodes the data of one SSE event with its name, or a whole JSON answer.
    pub(crate) fn decode<'a>(
        &mut self,
        data: &'a str,
        event: Option<&str>,
        kind: DataKind,
        emit: &mut impl FnMut(Event<'a>),
    ) {
        match self {
            Self::Chat(decoder) => decoder.decode(data, kind, emit),
            Self::Responses(decoder) => decoder.decode(data, event, kind, emit),
        }
    }

    /// A quirk patch about which this answer shows something, and whether it applies to the model.
    pub(crate) fn observed_patch(&self) -> Option<(QuirkPatch, bool)> {
        match self {
            Self::Chat(decoder) => {
                let begins_inside = decoder.begins_inside_thinking()?;
                Some((QuirkPatch::Chat(ChatPatch::ThinkingUnopened), begins_inside))
            }
            Self::Responses(_) => None,
        }
    }

    /// Ends the answer with the fault if the text is nothing but an error. Does nothing with any
    /// other text.
    pub(crate) fn fail_with_error<'a>(&mut self, text: &str, emit: &mut impl FnMut(Event<'a>)) {
        let rules = match self {
            Self::Chat(_) => chat::refusals::find_patch,
            Self::Responses(_) => relay::refusals::find_patch,
        };
        if text.starts_with('{')
            && let Some(fault) = provider_error::from_failed_answer(rules, text)
        {
            self.fail(fault, emit);
        }
    }

    /// Ends the answer with the fault of a text that an HTTP server sent in its place.
    pub(crate) fn fail_with_text<'a>(&mut self, text: &str, emit: &mut impl FnMut(Event<'a>)) {
        let rules = match self {
            Self::Chat(_) => chat::refusals::find_patch,
            Self::Responses(_) => relay::refusals::find_patch,
        };
        let mut fault = provider_error::from_reply(rules, 200, None, text.as_bytes());
        // A web page that reports no known error comes from another service: the address is wrong.
        if text.starts_with('<') && fault.kind == Kind::Unavailable {
            fault.kind = Kind::BadReply;
            fault.retry = Retry::Never;
        }
        self.fail(fault, emit);
    }

    /// Ends the answer with a fault, unless it has ended.
    pub(crate) fn fail<'a>(&mut self, fault: Fault, emit: &mut impl FnMut(Event<'a>)) {
        match self {
            Self::Chat(decoder) => decoder.fail(fault, emit),
            Self::Responses(decoder) => decoder.fail(fault, emit),
        }
    }

    /// Ends the answer where the body ends: emits what is still held, then the finish or the
    /// failure.
    pub(crate) fn finish<'a>(&mut self, emit: &mut impl FnMut(Event<'a>)) {
        match self {
            Self::Chat(decoder) => decoder.finish(emit),
            Self::Responses(decoder) => decoder.finish(emit),
        }
    }

    /// Whether the answer has its finish reason. Token counts may still follow.
    pub(crate) fn is_complete(&self) -> bool {
        match self {
            Self::Chat(decoder) => decoder.is_complete(),
            Self::Responses(decoder) => decoder.is_complete(),
        }
    }

    /// Whether the answer has its token counts behind its finish reason.
    pub(crate) fn has_counts(&self) -> bool {
        match self {
            Self::Chat(decoder) => decoder.has_counts(),
            Self::Responses(decoder) => decoder.is_complete(),
        }
    }

    /// Whether nothing has been understood so far.
    pub(crate) fn has_decoded_nothing(&self) -> bool {
        match self {
            Self::Chat(decoder) => decoder.has_decoded_nothing(),
            Self::Responses(decoder) => decoder.has_decoded_nothing(),
        }
    }
}

#[cfg(test)]
mod tests {
    use registry::RelayQuirks;

    use super::*;
    use crate::baggage;
    use crate::quirk_patch::{Parameter, SharedPatch};

    #[test]
    fn a_patch_of_another_wire_changes_nothing() {
        let mut model = Model::unlisted("m");
        let relay = WireQuirks::from(RelayQuirks::default());
        let mut quirks = relay;
        apply_patch(ChatPatch::MergeUser.into(), &mut quirks, &mut model);
        assert_eq!(quirks, relay);
        assert_eq!(model, Model::unlisted("m"));
    }

    #[test]
    fn each_form_of_reasoning_state_has_a_letter_of_its_own() {
        let forms = Wire::VARIANTS.iter().flat_map(|wire| state_forms(*wire));
        let mut letters: Vec<char> = forms.map(|form| form.letter()).collect();
        assert!(letters.iter().all(char::is_ascii_lowercase));
        letters.extend([baggage::REASONING, baggage::ORIGIN]);
        letters.sort_unstable();
        let count = letters.len();
        letters.dedup();
        assert_eq!(letters.len(), count, "{letters:?}");
    }

    #[test]
    fn a_refusal_leads_to_a_patch_of_its_wire() {
        let of = |quirks: WireQuirks, message: &str| {
            let body = format!(r#"{{"error":{{"message":"{message}"}}}}"#);
            error(&quirks, 400, None, body.as_bytes()).patch
        };
        let wires = || [WireQuirks::default(), RelayQuirks::default().into()];
        let patches = wires().map(|quirks| of(quirks, "roles must alternate"));
        assert_eq!(patches, [Some(ChatPatch::MergeUser.into()), None]);
        // Only this wire asks for summaries.
        let message = "Unsupported parameter: 'reasoning.summary' is not supported.";
        let summaries = SharedPatch::OmitParameter(Parameter::ReasoningSummary);
        let patches = wires().map(|quirks| of(quirks, message));
        assert_eq!(patches, [None, Some(summaries.into())]);
        let [of_chat, of_relay] = wires().map(|quirks| of(quirks, "images are not supported"));
        assert!(of_chat.is_some());
        assert_eq!(of_chat, of_relay);
    }
}
