//! What an encoder has to know besides the turn and its plan.

use std::collections::HashMap;

use registry::{Dialect, Model};

use crate::refusal::change::LeftOut;

/// Everything that an encoder has to know besides the turn and its plan.
#[derive(Clone, Copy, Debug)]
pub struct EncodeOptions<'a> {
    /// The wire with the quirks of the provider or model, and its fixed fields.
    pub dialect: &'a Dialect,
    /// The model's window, limits and abilities.
    pub model: &'a Model,
    /// The model's name in the request.
    pub upstream_model: &'a str,
    /// Provider and model of the route, as in
    /// [`crate::baggage::Baggage::origin`]. Opaque reasoning data is sent back
    /// only to the origin that made it.
    pub origin: &'a str,
    /// Sealed baggage ([`crate::baggage::Baggage::seal`]) by call id, for clients
    /// that do not send reasoning items back. Several blobs of one call are
    /// separated by spaces.
    pub known_baggage: Option<&'a HashMap<String, String>>,
    /// The contents that the session leaves out.
    pub left_out: Option<&'a LeftOut>,
}

impl<'a> EncodeOptions<'a> {
    /// Options with an empty origin and without known baggage.
    pub fn new(dialect: &'a Dialect, model: &'a Model, upstream_model: &'a str) -> Self {
        Self {
            dialect,
            model,
            upstream_model,
            origin: "",
            known_baggage: None,
            left_out: None,
        }
    }
}
