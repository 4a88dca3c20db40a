//! Plans a turn and encodes its upstream request. Pure: the result depends only on the turn and the
//! fields of [`Spelling`].

use std::collections::HashMap;

use adapters::fault::Fault;
use adapters::plan::{self, Bounds, OutputPolicy, Plan, PlanCache, Retention};
use adapters::turn::Turn;
use adapters::wire::{self, EncodeOptions, WireRequest};
use registry::{Dialect, Model};

/// Everything besides the turn that determines its upstream request.
pub(super) struct Spelling<'s> {
    /// With the learned quirk patches applied.
    pub(super) dialect: &'s Dialect,
    /// With the learned quirk patches applied.
    pub(super) model: &'s Model,
    /// The provider's name of the model.
    pub(super) upstream_model: &'s str,
    /// The full name of the route.
    pub(super) origin: &'s str,
    pub(super) outputs: OutputPolicy,
    pub(super) retention: Retention,
    /// The cached reasoning state that the provider wants back, by call id.
    pub(super) known_baggage: &'s HashMap<String, String>,
}

impl Spelling<'_> {
    pub(super) fn bounds(&self) -> Bounds {
        Bounds::for_model(self.model, self.outputs, self.retention).for_dialect(self.dialect)
    }

    /// Plans the turn and encodes its request.
    pub(super) fn request(
        &self,
        turn: &Turn<'_>,
        cache: &dyn PlanCache,
    ) -> Result<(Plan, WireRequest), Fault> {
        let plan = plan::plan_with_cache(turn, &self.bounds(), cache);
        let options = EncodeOptions {
            dialect: self.dialect,
            model: self.model,
            upstream_model: self.upstream_model,
            origin: self.origin,
            known_baggage: Some(self.known_baggage),
        };
        let request = wire::encode(turn, &plan, &options)?;
        Ok((plan, request))
    }
}
