//! The Responses wire: an upstream that speaks the protocol of our clients itself.

use registry::RelayQuirks;

use crate::encoded::Encoded;
use crate::event::Event;
use crate::fault::{Fault, Kind};
use crate::plan::Plan;
use crate::reader::DataKind;
use crate::turn::Turn;
use crate::wire::EncodeOptions;

/// The path of the endpoint below a provider's base URL.
pub(crate) const PATH: &str = "/responses";

/// Encodes the request. Fails if an item cannot be sent, which is the client's fault.
pub(crate) fn encode(
    _turn: &Turn<'_>,
    _plan: &Plan,
    _options: &EncodeOptions<'_>,
    _quirks: &RelayQuirks,
) -> Result<Encoded, Fault> {
    Err(Fault::new(
        Kind::Internal,
        "Requests to a Responses upstream cannot be encoded.",
    ))
}

/// Decodes one answer. Made for each upstream response; ends with [`Self::finish`] or
/// [`Self::fail`].
#[derive(Debug, Default)]
pub(crate) struct RelayDecoder {
    ended: bool,
}

impl RelayDecoder {
    /// A decoder for the answer of a model with these quirks.
    pub(crate) fn new(_quirks: &RelayQuirks) -> Self {
        Self::default()
    }

    /// Decodes the data of one SSE event, or a whole JSON response.
    pub(crate) fn decode<'a>(
        &mut self,
        _data: &'a str,
        _kind: DataKind,
        _emit: &mut impl FnMut(Event<'a>),
    ) {
    }

    /// Ends the answer with a fault, unless it has ended.
    pub(crate) fn fail<'a>(&mut self, fault: Fault, emit: &mut impl FnMut(Event<'a>)) {
        if !self.ended {
            self.ended = true;
            emit(Event::Failed(fault));
        }
    }

    /// Ends the answer where the body ends.
    pub(crate) fn finish<'a>(&mut self, emit: &mut impl FnMut(Event<'a>)) {
        self.fail(
            Fault::new(
                Kind::Cut,
                "The provider's answer ended before it was complete.",
            ),
            emit,
        );
    }

    /// Whether the answer has its last event.
    pub(crate) fn is_complete(&self) -> bool {
        self.ended
    }

    /// Whether nothing has been understood so far.
    pub(crate) fn has_decoded_nothing(&self) -> bool {
        !self.ended
    }
}
