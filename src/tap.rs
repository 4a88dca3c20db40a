//! What passes through a turn, for whoever records it. Nothing here waits.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use adapters::event::Usage;
use adapters::fault::Fault;
use adapters::notes::Notes;
use adapters::responses::assembler::Terms;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use registry::Route;

use crate::metrics::Outcome;
use crate::turn::Given;
use crate::upstream::{KeyIndex, Upstream};

/// Sees one turn, from the client's request to the end of the answer. It is
/// dropped when the turn is over, whatever way it ended.
pub trait Tap: Send + Sync {
    /// Something passed.
    fn saw(&self, seen: Seen<'_>);

    /// After how long, and with which fault, the attempt ends before its answer
    /// has a head. A live turn asks the network; the replay of one knows what no
    /// loopback can show, such as a name that does not resolve.
    fn unreached(&self) -> Option<(Duration, Fault)> {
        None
    }

    /// The bytes of the next piece of the upstream's answer, where the pieces are
    /// to be cut as they were before.
    fn next_piece(&self) -> Option<usize> {
        None
    }
}

/// What passed.
pub enum Seen<'a> {
    /// The client's request, its body decoded.
    ClientRequest {
        /// Method, path, headers.
        head: &'a Parts,
        /// The body; sharing it is free.
        body: &'a Arc<String>,
    },
    /// Where the turn goes, and where else it could.
    Routes {
        /// The model name of the request.
        asked: &'a str,
        /// None where the name led nowhere.
        routes: &'a [Route],
        /// Then names that are near.
        near: &'a [String],
    },
    /// What was known before the turn.
    Given(Given),
    /// What is known to belong to calls of the request: call id and blobs.
    Baggage(&'a HashMap<String, String>),
    /// An attempt begins: a request to a provider.
    UpstreamRequest {
        /// The provider, its address and its headers.
        upstream: &'a Arc<Upstream>,
        /// Lessons included.
        route: &'a Route,
        /// What the answer's writer knows of the provider.
        terms: &'a Terms,
        /// The JSON body; sharing it is free.
        body: &'a Bytes,
    },
    /// The key that the request carries.
    Key(KeyIndex),
    /// The head of the upstream's answer.
    UpstreamHead {
        /// Its status.
        status: StatusCode,
        /// Its headers.
        headers: &'a HeaderMap,
    },
    /// A piece of the upstream's answer, cut as the transport cut it.
    UpstreamAnswer(&'a [u8]),
    /// The upstream's answer ended by itself.
    UpstreamEnd,
    /// The attempt is over, with this fault if it failed.
    AttemptEnd(Option<&'a Fault>),
    /// The turn had to end because the program is about to.
    Ending,
    /// The head of our answer.
    ClientHead {
        /// Its status.
        status: StatusCode,
        /// Its headers.
        headers: &'a HeaderMap,
    },
    /// A piece of our answer: whole events, or the whole body.
    ClientAnswer(&'a [u8]),
    /// How the turn ended.
    Ended {
        /// In a word.
        outcome: Outcome,
        /// What was changed on the way.
        notes: &'a Notes,
        /// Tokens, if there are counts.
        usage: Option<Usage>,
        /// Why it failed.
        fault: Option<&'a Fault>,
    },
}
