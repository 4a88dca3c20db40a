//! Requests of which OpenAI's count of the input tokens is known: the estimate of
//! `POST /v1/responses/input_tokens` does not mislead.
//!
//! `TOKEN_COUNTS_DIR` names the folder with `requests.jsonl`; the default is
//! `../shared/data/token-counts` next to the workspace. Each line has `input_tokens` and `request`.

use std::fs;
use std::path::{Path, PathBuf};

use kit::player::PlayerWire;
use serde_json::Value;

use crate::faults::player;
use crate::proxy::Proxy;

/// The size classes, by the most tokens of each.
const CLASSES: [f64; 5] = [20.0, 50.0, 100.0, 300.0, f64::INFINITY];

/// The requests, if they are there.
pub fn requests() -> Result<String, String> {
    let given = std::env::var_os("TOKEN_COUNTS_DIR").map(PathBuf::from);
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/token-counts");
    let file = given.unwrap_or_else(default).join("requests.jsonl");
    let absent = || "no counted requests found; set TOKEN_COUNTS_DIR to their folder".to_owned();
    fs::read_to_string(file).map_err(|_| absent())
}

pub async fn check(requests: &str) {
    let player = player(PlayerWire::Chat).await;
    let proxy = Proxy::start(&player).await;
    let mut ratios: [Vec<f64>; 5] = Default::default();
    for line in requests.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let counted = row["input_tokens"].as_f64().unwrap();
        let mut body = row["request"].clone();
        body["model"] = "m".into();
        let reply = proxy
            .post_to("/v1/responses/input_tokens", &body, &[])
            .await;
        assert_eq!(reply.status, 200, "{line}: {}", reply.body);
        let answer: Value = serde_json::from_str(&reply.body).unwrap();
        let estimate = answer["input_tokens"].as_f64().unwrap();
        let class = CLASSES.iter().position(|most| counted <= *most).unwrap();
        ratios[class].push(estimate / counted);
    }
    for (most, mut ratios) in CLASSES.into_iter().zip(ratios) {
        ratios.sort_by(f64::total_cmp);
        let median = ratios[ratios.len() / 2];
        let mut errors: Vec<f64> = ratios.iter().map(|ratio| (ratio - 1.0).abs()).collect();
        errors.sort_by(f64::total_cmp);
        let error = errors[errors.len() / 2];
        assert!((0.75..=1.25).contains(&median), "up to {most}: {median}");
        assert!(error <= 0.25, "up to {most}: {error}");
    }
}
