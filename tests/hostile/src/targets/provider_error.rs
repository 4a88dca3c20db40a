//! `provider_error`: the body of a provider's error, and the values of its headers.

use std::time::SystemTime;

use adapters::provider_error::delay;
use adapters::responses::request::TurnSource;
use adapters::wire::{self, EncodeOptions, encode};
use kit::{drive, strict};
use registry::{Dialect, Model, RelayQuirks, WireQuirks};

const STATUSES: [u16; 8] = [200, 400, 401, 404, 413, 422, 429, 500];

pub(super) fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    // The first line stands for the value of any header.
    let header = text.lines().next();
    let wait = delay::from_headers(|_| header, SystemTime::UNIX_EPOCH);
    for quirks in [WireQuirks::default(), RelayQuirks::default().into()] {
        for status in STATUSES {
            let mut fault = wire::error(&quirks, status, wait, input);
            drive::explain_silence(&mut fault, false);
            assert!(fault.message.len() < 10_000, "{}", fault.message.len());
            let body = String::from_utf8(fault.body()).unwrap();
            strict::check_error(&body).unwrap();
            if let Some(patch) = fault.patch {
                check_patch(patch, quirks);
            }
        }
    }
}

/// Whatever was learned from the error, a request can still be sent.
fn check_patch(patch: adapters::quirk_patch::QuirkPatch, mut quirks: WireQuirks) {
    let mut model = Model::unlisted("m");
    wire::apply_patch(patch, &mut quirks, &mut model);
    let dialect = Dialect {
        quirks,
        ..Dialect::default()
    };
    let source = TurnSource::new(r#"{"model":"m","input":"hello"}"#.to_owned());
    let turn = source.turn().unwrap();
    let bounds = adapters::plan::Bounds::none();
    let planned = adapters::plan::plan(&turn, &bounds);
    encode(&turn, &planned, &EncodeOptions::new(&dialect, &model, "m")).unwrap();
}
