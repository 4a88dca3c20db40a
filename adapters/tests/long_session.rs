//! A long session of an agent fits into every window, and the bytes of its history change only in a
//! few epochs. `TURNS=300` plays a longer session.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::print_stdout,
    reason = "clippy does not see that helpers of an integration test are tests"
)]

use kit::session::{Agent, SessionScript, SessionShape};
use registry::{ChatQuirks, Dialect, Model, ReasoningReplay};
use responses_translate::baggage::Baggage;
use responses_translate::plan::{Bounds, OutputPolicy, Retention, plan};
use responses_translate::responses::request::TurnSource;
use responses_translate::wire::{EncodeOptions, encode};

/// A session on one window.
#[derive(Clone, Copy, Debug)]
struct Session {
    window: u64,
    /// The client compacts when the usage reaches this percentage of the window.
    compacts_at: u64,
    turns: usize,
    /// Bytes of the longest output.
    longest: usize,
    seed: u64,
}

#[derive(Debug, Default)]
struct Course {
    /// Bytes of all outputs.
    outputs: usize,
    compactions: usize,
    /// Turns in which old outputs became notices.
    epochs: usize,
    /// Turns whose request shares less than 97 % with the previous one, not counting compactions.
    breaks: usize,
    /// The largest estimate, in tokens.
    largest: u64,
    /// The most bytes of tool messages, as a share of the window.
    visible: f64,
    /// Tokens of all requests. Those of the prefix that a request shares with the previous one
    /// count a tenth.
    bill: f64,
    excerpts: usize,
}

impl Session {
    fn play(self, outputs: OutputPolicy) -> Course {
        let dialect = Dialect {
            quirks: ChatQuirks {
                reasoning_replay: ReasoningReplay::ReasoningContent,
                ..ChatQuirks::default()
            }
            .into(),
            ..Dialect::default()
        };
        let model = Model {
            window: Some(self.window),
            ..Model::unlisted("m")
        };
        let bounds = Bounds::for_model(&model, outputs, Retention::Disk).for_dialect(&dialect);
        let mut shape = SessionShape::for_window(bounds.window_bytes());
        shape.output.1 = self.longest;
        let mut agent = Agent::new(shape);
        let mut course = Course::default();
        let mut last: Option<(Vec<u8>, u32)> = None;
        for turn in SessionScript::new(self.seed, shape).take(self.turns) {
            let source = TurnSource::new(agent.request("m"));
            let asked = source.turn().unwrap();
            let plan = plan(&asked, &bounds);
            let encoded = encode(&asked, &plan, &EncodeOptions::new(&dialect, &model, "m"))
                .unwrap()
                .encoded;
            let used = encoded.estimated_tokens;
            let mut cached = 0;
            if let Some((before, epochs)) = &last {
                let same = common(before, &encoded.body);
                cached = same;
                let broke = same * 100 < before.len() * 97;
                course.breaks += usize::from(broke);
                course.epochs += usize::from(plan.epochs > *epochs);
                assert!(!broke || plan.epochs > *epochs, "turn {}", turn.number);
                assert!(plan.epochs >= *epochs);
            }
            course.largest = course.largest.max(used);
            course.bill += (encoded.body.len() as f64 - 0.9 * cached as f64) / 2.7;
            let visible: usize = plan
                .replacements
                .values()
                .map(|shown| shown.text.len())
                .sum();
            course.excerpts = course.excerpts.max(plan.replacements.len());
            course.visible = course
                .visible
                .max(visible as f64 / bounds.window_bytes() as f64);
            last = Some((encoded.body, plan.epochs));
            course.outputs += turn
                .calls
                .iter()
                .map(|call| call.output.text.len())
                .sum::<usize>();
            let answer = turn.answer(|thoughts| {
                let baggage = Baggage {
                    reasoning: thoughts.to_owned(),
                    ..Baggage::default()
                };
                baggage.seal()
            });
            let said: usize = answer.iter().map(String::len).sum();
            agent.continue_with(&turn, answer);
            if used + said as u64 * 10 / 27 >= self.window * self.compacts_at / 100 {
                agent.compact(
                    &"What was done, and what is left to do. ".repeat(shape.instructions / 160),
                );
                last = None;
            }
        }
        course.compactions = agent.compactions;
        course
    }

    /// The part of the window that an answer leaves to the input.
    fn input(self) -> u64 {
        let model = Model {
            window: Some(self.window),
            ..Model::unlisted("m")
        };
        self.window - model.window().output_allowance()
    }
}

fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The number of turns, and the bytes of the longest output. A test build plays the default in
/// seconds.
fn extent() -> (usize, usize) {
    let wanted = std::env::var("TURNS").ok();
    let turns = wanted.and_then(|turns| turns.parse().ok());
    turns.map_or((80, 60_000), |turns| (turns, 1_000_000))
}

// Many outputs of at most 40 KB, 850 KB in all.
#[test]
fn the_founding_case_fits() {
    let shape = SessionShape {
        output: (2_000, 40_000),
        cut_one_in: 3,
        ..SessionShape::LARGE
    };
    let mut agent = Agent::new(shape);
    let mut outputs = 0;
    for turn in SessionScript::new(1, shape) {
        let texts = turn.calls.iter().map(|call| call.output.text.len());
        outputs += texts.sum::<usize>();
        agent.continue_with(&turn, turn.answer(str::to_owned));
        if outputs > 850_000 {
            break;
        }
    }
    let model = Model {
        window: Some(262_144),
        ..Model::unlisted("m")
    };
    let dialect = Dialect::default();
    let source = TurnSource::new(agent.request("m"));
    let asked = source.turn().unwrap();
    let estimate = |outputs| {
        let bounds = Bounds::for_model(&model, outputs, Retention::Disk).for_dialect(&dialect);
        let plan = plan(&asked, &bounds);
        let encoded = encode(&asked, &plan, &EncodeOptions::new(&dialect, &model, "m"))
            .unwrap()
            .encoded;
        encoded.estimated_tokens
    };
    assert!(estimate(OutputPolicy::Whole) > 336_000);
    assert!(estimate(OutputPolicy::Adaptive) <= 262_144 - 20_000);
    assert!(estimate(OutputPolicy::Fixed) <= 262_144 - 20_000);
}

fn stays_inside(window: u64, compacts_at: u64) -> Course {
    let (turns, longest) = extent();
    let session = Session {
        window,
        compacts_at,
        turns,
        longest,
        seed: 7,
    };
    let course = session.play(OutputPolicy::Adaptive);
    println!("{session:?}\n{course:?}");
    assert!(course.largest <= session.input(), "{session:?}: {course:?}");
    course
}

#[test]
fn a_session_stays_inside_a_window_of_8k() {
    stays_inside(8_192, 70);
}

#[test]
fn a_session_stays_inside_a_window_of_32k() {
    stays_inside(32_768, 70);
}

#[test]
fn a_session_stays_inside_a_window_of_128k() {
    stays_inside(131_072, 80);
}

#[test]
fn a_session_stays_inside_a_window_of_256k() {
    stays_inside(262_144, 90);
}

#[test]
fn a_session_stays_inside_a_window_of_1m() {
    stays_inside(1_048_576, 90);
}
