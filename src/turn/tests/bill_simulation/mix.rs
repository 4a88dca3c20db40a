//! The sessions of the simulation, drawn at random from what is known of real ones. What is drawn
//! follows from the facts beside it, not from what the simulation shows.
//!
//! | what | how it is drawn | why |
//! |---|---|---|
//! | kind | of ten sessions, one short run, one sub-agent, one of eleven agents that take turns, seven of a coding agent | the first two are the shapes of the reports in which another saver cost more (headroom, issues 2438 and 327) |
//! | turns of a coding agent | log-uniform, 10 to 300 | most sessions are short, and the long ones cost most |
//! | outputs of a coding agent | log-normal, median 2,000 bytes, spread 2.9, one or two a turn | as in `tests/clients/session.py`; of 60 outputs that Codex was recorded with, the median is 104 bytes and 5 % are at its limit |
//! | limit of one output | half 40,213 bytes, half 1,000,000 | Codex cuts at 10,000 tokens, which was recorded as 40,213 characters, and leaves beginning and end; others do not cut |
//! | prompt of a coding agent | 39 KB of instructions and tools | the first turn of Codex |
//! | short run | 3 to 12 turns, 70 KB of instructions and tools, outputs with a median of 1,500 bytes, at most 12,000 | a headless run of Claude Code in which nothing is worth shortening |
//! | sub-agent | 8 to 16 turns, 45 KB of instructions and tools, outputs with a median of 2,000 bytes, at most 40,213 | eleven to fourteen agents with 1.3 million cached and 0.22 million written tokens in all |
//! | eleven agents | 3 to 8 turns each, in one session, else like a sub-agent | the same report |
//! | kinds of outputs | a third are files that `cat` and `sed -n` print, the rest all kinds in turn | agents read files more than anything else |
//! | compaction | in one of four coding sessions, once | the user asks for it |
//! | change of model | in one of eight coding sessions, once in the middle | the user asks for it |
//! | window | 128k, 200k, 262k or 1M tokens | |
//! | model | any in the provider files with this window, 5 % more or less, and a price; for the two reports one with a price for cache writes, if there is one | |
//! | bytes of a token | uniform, 2.5 to 4.5, hidden from the program | tokenizers differ |
//! | pauses | 5 to 65 s; in one session of four, one pause in eight is twice as long as the provider caches | somebody reads, or goes to lunch |
//! | end | ten turns after nothing shortened no longer fits, at the latest | later turns have nothing to be compared with |

use std::sync::Arc;

use kit::session::{
    CallItemForm, SeededRandom, SessionCall, SessionShape, SessionTurn, ToolOutput, ToolOutputKind,
};
use registry::{Dialect, Provider, ResolvedBy, Route, builtin};
use serde_json::json;
use toml::Table;

/// What a session is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionKind {
    ShortRun,
    SubAgent,
    ElevenAgents,
    CodingAgent,
}

/// A session of the mix.
#[derive(Clone, Debug)]
pub(super) struct MixedSession {
    pub(super) kind: SessionKind,
    pub(super) route: Route,
    pub(super) turns: usize,
    /// Bytes of the instructions, and about as many of the tools.
    pub(super) instructions: usize,
    median: f64,
    spread: f64,
    max_output: usize,
    pub(super) bytes_per_token: f64,
    /// The turn before which the history is replaced by a summary.
    pub(super) compacted_at: Option<usize>,
    /// The turn from which on another model answers.
    pub(super) changed: Option<(usize, Route)>,
    has_long_pauses: bool,
    pub(super) random: SeededRandom,
    outputs: usize,
}

const WINDOWS: [u64; 4] = [128_000, 200_000, 262_144, 1_000_000];

/// The agents of a session that has several.
pub(super) const AGENTS: usize = 11;

/// The output limit of Codex.
const CODEX_LIMIT: usize = 40_213;

/// The models of the provider files that have a price.
pub(super) fn priced_models() -> Vec<Route> {
    let mut routes = Vec::new();
    for id in builtin::ids() {
        let Ok(spec) = registry::build(id, Table::new()) else {
            continue;
        };
        let provider = Arc::new(spec.to_provider(id));
        let models = provider.models.iter();
        let priced = models.filter(|model| model.price.as_ref().is_some_and(|it| it.input > 0.0));
        routes.extend(priced.map(|model| Route {
            provider: Arc::clone(&provider),
            model: Arc::clone(model),
            dialect: Arc::new(Dialect::default()),
            upstream_model: model.id.clone(),
            resolved_by: ResolvedBy::Prefixed,
        }));
    }
    routes
}

fn route(models: &[Route], writes: bool, random: &mut SeededRandom) -> Route {
    let window = WINDOWS[random.below(WINDOWS.len())];
    let fits = |route: &&Route| {
        let tokens = route.model.window().tokens;
        tokens.abs_diff(window) * 20 <= window
    };
    let of_window: Vec<&Route> = models.iter().filter(fits).collect();
    let with_writes = of_window.iter().copied().filter(|route| {
        let price = route.model.price.as_ref();
        price.is_some_and(|price| price.cache_write.is_some())
    });
    let with_writes: Vec<&Route> = with_writes.collect();
    let among = if writes && !with_writes.is_empty() {
        with_writes
    } else {
        of_window
    };
    among[random.below(among.len())].clone()
}

/// A number from 0 to 1.
fn fraction(random: &mut SeededRandom) -> f64 {
    random.below(1 << 24) as f64 / f64::from(1 << 24)
}

/// A number from the standard normal distribution, by the method of Box and Muller.
fn normal(random: &mut SeededRandom) -> f64 {
    let (one, other) = (1.0 - fraction(random), fraction(random));
    (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
}

impl MixedSession {
    pub(super) fn new(number: u64, seed: u64, models: &[Route]) -> Self {
        let mut random = SeededRandom::new(number * 7_919 + seed);
        let kind = match number % 10 {
            0 => SessionKind::ShortRun,
            1 => SessionKind::SubAgent,
            2 => SessionKind::ElevenAgents,
            _ => SessionKind::CodingAgent,
        };
        let random = &mut random;
        let is_coding = kind == SessionKind::CodingAgent;
        let route = route(models, !is_coding, random);
        let (turns, instructions) = match kind {
            SessionKind::ShortRun => (random.within((3, 12)), 35_000),
            SessionKind::SubAgent => (random.within((8, 16)), 22_500),
            SessionKind::ElevenAgents => (AGENTS * random.within((3, 8)), 22_500),
            SessionKind::CodingAgent => {
                let turns = 10.0 * 30.0_f64.powf(fraction(random));
                (turns.round() as usize, 19_500)
            }
        };
        let (median, spread, max_output) = match kind {
            SessionKind::ShortRun => (1_500.0, 1.0, 12_000),
            SessionKind::SubAgent | SessionKind::ElevenAgents => (2_000.0, 1.2, CODEX_LIMIT),
            SessionKind::CodingAgent => {
                let is_cut = random.below(2) == 0;
                (2_000.0, 2.9, if is_cut { CODEX_LIMIT } else { 1_000_000 })
            }
        };
        let compacted_at = (is_coding && random.below(4) == 0).then(|| random.within((2, turns)));
        let is_changed = is_coding && random.below(8) == 0;
        let changed = is_changed.then(|| (turns / 2, self::route(models, false, random)));
        Self {
            kind,
            compacted_at,
            changed,
            route,
            turns,
            instructions,
            median,
            spread,
            max_output,
            bytes_per_token: 2.5 + 2.0 * fraction(random),
            has_long_pauses: random.below(4) == 0,
            random: random.clone(),
            outputs: 0,
        }
    }

    /// The sizes that the client's instructions and tools are made with.
    pub(super) fn shape(&self) -> SessionShape {
        SessionShape {
            instructions: self.instructions,
            said: (0, 0),
            output: (0, 0),
            cut_one_in: 0,
        }
    }

    /// The seconds before the next turn.
    pub(super) fn pause(&mut self) -> u64 {
        let is_long = self.has_long_pauses && self.random.below(8) == 0;
        let Provider { prompt_cache, .. } = &*self.route.provider;
        if is_long {
            2 * prompt_cache.lifetime.as_secs()
        } else {
            5 + self.random.below(61) as u64
        }
    }

    /// The answer of the next turn and what follows it.
    pub(super) fn turn(&mut self, number: usize) -> SessionTurn {
        let calls = match number % 9 {
            8 => 0,
            3 => 2,
            _ => 1,
        };
        let calls: Vec<SessionCall> = (0..calls).map(|place| self.call(number, place)).collect();
        SessionTurn {
            number,
            reasoning: self.words((200, 2_000)),
            text: self.words((50, 400)),
            user: calls.is_empty().then(|| self.words((50, 500))),
            calls,
        }
    }

    fn call(&mut self, number: usize, place: usize) -> SessionCall {
        let size = self.median * (self.spread * normal(&mut self.random)).exp();
        let is_read = self.outputs.is_multiple_of(3);
        let kind = if is_read {
            ToolOutputKind::Code
        } else {
            ToolOutputKind::ALL[self.outputs % ToolOutputKind::ALL.len()]
        };
        self.outputs += 1;
        let command = match self.outputs % 2 {
            _ if !is_read => self.words((20, 300)),
            0 => format!("sed -n '1,900p' src/part_{number}.rs"),
            _ => format!("cat src/part_{number}.rs"),
        };
        let output = if self.max_output == CODEX_LIMIT && size > CODEX_LIMIT as f64 {
            ToolOutput::truncated_by_codex(&mut self.random, kind)
        } else {
            let size = (size as usize).clamp(20, self.max_output);
            ToolOutput::new(&mut self.random, kind, size)
        };
        SessionCall {
            id: format!("call_{number}_{place}"),
            form: CallItemForm::Function,
            name: "exec_command",
            arguments: json!({"cmd": command}).to_string(),
            output,
        }
    }

    fn words(&mut self, bytes: (usize, usize)) -> String {
        const WORDS: [&str; 8] = [
            "the ", "parser ", "loses ", "one ", "byte ", "when ", "input ", "ends ",
        ];
        let bytes = self.random.within(bytes);
        let mut text = String::new();
        while text.len() < bytes {
            text += WORDS[self.random.below(WORDS.len())];
        }
        text
    }
}
