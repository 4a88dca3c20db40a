//! The decisions about a history stay the same, whatever follows it.

use proptest::collection::vec;
use proptest::prelude::*;
use registry::{Window, WindowSource};
use serde_json::{Value, json};

use crate::plan::bound_outputs::limits::NOTICE_BYTES;
use crate::plan::{Bounds, OutputPolicy, Plan, ReplacementKind, Retention, plan};
use crate::responses::request::TurnSource;

/// The outputs of one answer's calls: their lengths, and whether each was read back. A user
/// message of some length may follow.
#[derive(Clone, Debug)]
struct Round {
    outputs: Vec<(usize, bool)>,
    user: Option<usize>,
}

fn round() -> impl Strategy<Value = Round> {
    let length = prop_oneof![4 => 0..3_000usize, 3 => 3_000..9_000usize, 1 => 9_000..20_000usize];
    let output = (length, proptest::bool::weighted(0.15));
    let user = proptest::option::weighted(0.2, 1..2_000usize);
    (vec(output, 0..6), user).prop_map(|(outputs, user)| Round { outputs, user })
}

impl Round {
    fn items(&self, number: usize) -> Vec<Value> {
        let id = |at: usize| format!("call_{number}_{at}");
        let mut items = vec![json!({"role": "assistant", "content": "I look."})];
        let outputs = self.outputs.iter().enumerate();
        items.extend(outputs.clone().map(|(at, (_, is_read_back))| {
            let name = if *is_read_back {
                "mcp__r__artifact_read"
            } else {
                "f"
            };
            json!({"type": "function_call", "call_id": id(at), "name": name, "arguments": "{}"})
        }));
        items.extend(outputs.map(|(at, (length, is_read_back))| {
            let heading = match is_read_back {
                true => "[artifact art_00000000000000000000000000000000 part]\n",
                false => "",
            };
            let text = heading.to_owned() + &"some words\n".repeat(length / 11);
            json!({"type": "function_call_output", "call_id": id(at), "output": text})
        }));
        let user = self.user.or(self.outputs.is_empty().then_some(1));
        items.extend(user.map(|length| json!({"role": "user", "content": "x".repeat(length)})));
        items
    }
}

fn planned(items: &[Value], bounds: &Bounds) -> Plan {
    let source = TurnSource::new(json!({"model": "m", "input": items}).to_string());
    plan(&source.turn().unwrap(), bounds)
}

fn bounds(tokens: u64, outputs: OutputPolicy) -> Bounds {
    Bounds {
        window: Window {
            tokens,
            source: WindowSource::Listed,
        },
        outputs,
        retention: Retention::Disk,
        ..Bounds::none()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn what_a_request_sent_stays_until_an_epoch(
        rounds in vec(round(), 1..12),
        tokens in prop_oneof![Just(8_192u64), Just(20_000), Just(40_000)],
        fixed in any::<bool>(),
    ) {
        let outputs = if fixed { OutputPolicy::Fixed } else { OutputPolicy::Adaptive };
        let bounds = bounds(tokens, outputs);
        let mut items = vec![json!({"role": "user", "content": "go"})];
        let mut requests: Vec<(usize, Plan)> = Vec::new();
        for (number, round) in rounds.iter().enumerate() {
            let begin = items.len();
            items.extend(round.items(number));
            let now = planned(&items, &bounds);
            if let Some((length, before)) = requests.last() {
                prop_assert!(now.epochs >= before.epochs);
                if now.epochs == before.epochs {
                    let shared = now.replacements.range(..length).map(|(at, shown)| (*at, shown.clone()));
                    prop_assert_eq!(&shared.collect::<std::collections::BTreeMap<_, _>>(), &before.replacements);
                }
            }
            let whole = planned(&items, &Bounds { outputs: OutputPolicy::Whole, ..bounds.clone() });
            prop_assert_eq!(&now.actions, &whole.actions);
            prop_assert_eq!(&now.sequence, &whole.sequence);
            let mut sum = 0;
            for (at, item) in items.iter().enumerate() {
                let Some(own) = item["output"].as_str() else { continue };
                let shown = now.replacements.get(&at);
                // Notices count only up to an eighth of the window, so they are left out here.
                let length = shown.map_or(own.len(), |shown| shown.text.len());
                sum += if length > NOTICE_BYTES { length } else { 0 };
                if let Some(shown) = shown {
                    prop_assert!(shown.text.len() < own.len());
                    let excerpt = shown.kind == ReplacementKind::Excerpt;
                    prop_assert!(!excerpt || shown.text.chars().count() <= 5_000);
                    // A new read-back is not shortened, only paged.
                    let now_read = at >= begin && own.starts_with("[artifact art_");
                    prop_assert!(!now_read || shown.kind == ReplacementKind::Page);
                }
            }
            prop_assert!(sum <= bounds.window_bytes() / 2, "{} of {}", sum, bounds.window_bytes());
            requests.push((items.len(), now));
        }
        let end = &requests.last().unwrap().1;
        for (length, then) in &requests {
            // The last plan differs from the earlier one only by notices of later epochs.
            for (at, shown) in end.replacements.range(..length) {
                let same = then.replacements.get(at) == Some(shown);
                prop_assert!(same || shown.kind == ReplacementKind::Notice && end.epochs > then.epochs);
            }
        }
    }
}
