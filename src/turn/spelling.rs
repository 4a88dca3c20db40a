//! How a turn is said to one model: a function of what is here alone, so that it is
//! said once more for what becomes of a recorded request.

use std::collections::HashMap;

use adapters::chat::encode::{self, EncodeOptions};
use adapters::encoded::Encoded;
use adapters::fault::Fault;
use adapters::plan::{self, Bounds, Keeping, Memo, Outputs, Plan};
use adapters::turn::Turn;
use registry::{Dialect, Model, Wire};

/// All that decides about the request of a turn.
pub(crate) struct Spelling<'s> {
    /// The provider's.
    pub(crate) wire: Wire,
    /// Lessons included.
    pub(crate) dialect: &'s Dialect,
    /// Lessons included.
    pub(crate) model: &'s Model,
    /// The provider's name of it.
    pub(crate) upstream_model: &'s str,
    /// The route, named in full.
    pub(crate) origin: &'s str,
    pub(crate) outputs: Outputs,
    pub(crate) keeping: Keeping,
    /// What the provider wants back, by call id.
    pub(crate) known_baggage: &'s HashMap<String, String>,
}

impl Spelling<'_> {
    /// What the plan keeps to.
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds::of(self.model, self.outputs, self.keeping).spoken(self.dialect)
    }

    /// Plans the turn and writes its request.
    pub(crate) fn request(
        &self,
        turn: &Turn<'_>,
        memo: &dyn Memo,
    ) -> Result<(Plan, Encoded), Fault> {
        let plan = plan::plan_with(turn, &self.bounds(), memo);
        let encoded = match self.wire {
            Wire::Chat => {
                let options = EncodeOptions {
                    dialect: self.dialect,
                    model: self.model,
                    upstream_model: self.upstream_model,
                    origin: self.origin,
                    known_baggage: Some(self.known_baggage),
                };
                encode::encode(turn, &plan, &options)?
            }
        };
        Ok((plan, encoded))
    }
}
