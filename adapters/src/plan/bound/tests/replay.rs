//! The same history, the same decisions, however it goes on.

use proptest::collection::vec;
use proptest::prelude::*;
use registry::{Window, WindowSource};
use serde_json::{Value, json};

use crate::plan::bound::limits::NOTICE;
use crate::plan::{Bounds, Form, Keeping, Outputs, Plan, plan};
use crate::responses::request::TurnSource;

/// Calls that are made together, by the length of their outputs, and whether each was
/// read back; then perhaps a message of the user.
#[derive(Clone, Debug)]
struct Round {
    outputs: Vec<(usize, bool)>,
    said: Option<usize>,
}

fn round() -> impl Strategy<Value = Round> {
    let length = prop_oneof![4 => 0..3_000usize, 3 => 3_000..9_000usize, 1 => 9_000..20_000usize];
    let output = (length, proptest::bool::weighted(0.15));
    let said = proptest::option::weighted(0.2, 1..2_000usize);
    (vec(output, 0..6), said).prop_map(|(outputs, said)| Round { outputs, said })
}

impl Round {
    fn items(&self, number: usize) -> Vec<Value> {
        let id = |at: usize| format!("call_{number}_{at}");
        let mut items = vec![json!({"role": "assistant", "content": "I look."})];
        items.extend((0..self.outputs.len()).map(|at| {
            json!({"type": "function_call", "call_id": id(at), "name": "f", "arguments": "{}"})
        }));
        let outputs = self.outputs.iter().enumerate();
        items.extend(outputs.map(|(at, (length, is_read_back))| {
            let head = match is_read_back {
                true => "[artifact art_00000000000000000000000000000000 part]\n",
                false => "",
            };
            let text = head.to_owned() + &"some words\n".repeat(length / 11);
            json!({"type": "function_call_output", "call_id": id(at), "output": text})
        }));
        let said = self.said.or(self.outputs.is_empty().then_some(1));
        items.extend(said.map(|length| json!({"role": "user", "content": "x".repeat(length)})));
        items
    }
}

fn planned(items: &[Value], bounds: &Bounds) -> Plan {
    let source = TurnSource::new(json!({"model": "m", "input": items}).to_string());
    plan(&source.turn().unwrap(), bounds)
}

fn bounds(tokens: u64, outputs: Outputs) -> Bounds {
    Bounds {
        window: Window {
            tokens,
            source: WindowSource::Listed,
        },
        outputs,
        keeping: Keeping::Disk,
        ..Bounds::none()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    // S2-BV, S2-Bd, S2-Bb
    #[test]
    fn what_a_request_showed_stays_until_an_epoch(
        rounds in vec(round(), 1..12),
        tokens in prop_oneof![Just(8_192u64), Just(20_000), Just(40_000)],
        fixed in any::<bool>(),
    ) {
        let outputs = if fixed { Outputs::Fixed } else { Outputs::Adaptive };
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
                    let shared = now.shown.range(..length).map(|(at, shown)| (*at, shown.clone()));
                    prop_assert_eq!(&shared.collect::<std::collections::BTreeMap<_, _>>(), &before.shown);
                }
            }
            let whole = planned(&items, &Bounds { outputs: Outputs::Whole, ..bounds });
            prop_assert_eq!(&now.steps, &whole.steps);
            prop_assert_eq!(&now.sequence, &whole.sequence);
            let mut sum = 0;
            for (at, item) in items.iter().enumerate() {
                let Some(own) = item["output"].as_str() else { continue };
                let shown = now.shown.get(&at);
                // Lines about outputs that are long past count up to an eighth alone.
                let length = shown.map_or(own.len(), |shown| shown.text.len());
                sum += if length > NOTICE { length } else { 0 };
                if let Some(shown) = shown {
                    prop_assert!(shown.text.len() < own.len());
                    let excerpt = shown.form == Form::Excerpt;
                    prop_assert!(!excerpt || shown.text.chars().count() <= 5_000);
                    // What was just read back is not folded.
                    let now_read = at >= begin && own.starts_with("[artifact art_");
                    prop_assert!(!now_read || shown.form == Form::Page);
                }
            }
            prop_assert!(sum <= bounds.window_bytes() / 2, "{} of {}", sum, bounds.window_bytes());
            requests.push((items.len(), now));
        }
        let end = &requests.last().unwrap().1;
        for (length, then) in &requests {
            // The plan of then is that of now with the outputs that epochs reduced since.
            for (at, shown) in end.shown.range(..length) {
                let same = then.shown.get(at) == Some(shown);
                prop_assert!(same || shown.form == Form::Notice && end.epochs > then.epochs);
            }
        }
    }
}
