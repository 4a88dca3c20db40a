//! What nothing shortened would be billed.

use std::sync::Arc;

use adapters::plan::{Bounds, OutputPolicy, Retention, plan_with_cache};
use adapters::responses::request::TurnSource;
use adapters::wire::{EncodeOptions, encode};
use registry::{Dialect, Model, PromptCache};

use super::super::{FingerprintContext, Originals, RecentRequests, RequestFingerprint};
use crate::turn::output_cache::OutputCache;

/// The window has 131,072 tokens, of which 20,000 are for the answer.
#[test]
fn nothing_shortened_needs_room_for_an_answer() {
    let model = Model::unlisted("m");
    for (tokens, fits) in [(100_000, true), (115_000, false), (140_000, false)] {
        let text = "one line\\n".repeat(tokens * 27 / 100);
        let body = format!(
            r#"{{"model":"m","input":[{{"type":"function_call","call_id":"c","name":"f","arguments":"{{}}"}},{{"type":"function_call_output","call_id":"c","output":"{text}"}}]}}"#
        );
        let source = TurnSource::new(body);
        let turn = source.turn().unwrap();
        let dialect = Dialect::default();
        let options = EncodeOptions::new(&dialect, &model, &model.id);
        let bounds = Bounds::for_model(&model, OutputPolicy::Adaptive, Retention::Disk);
        let plan = plan_with_cache(&turn, &bounds, &OutputCache::default());
        let encoded = encode(&turn, &plan, &options).unwrap().encoded;
        let originals = Originals::new(&turn, &plan, model.bytes_per_token());
        let context = FingerprintContext::default();
        let request = Arc::new(RequestFingerprint::new(&encoded, context, &originals));
        let recent = RecentRequests::default();
        let forecast = recent.forecast(&request, PromptCache::default(), model.window());
        assert_eq!(forecast.fits_unshortened(), fits, "{tokens}");
    }
}
