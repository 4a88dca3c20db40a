//! The last requests of one session.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use adapters::event::Usage;
use adapters::plan::OutputMark;
use adapters::responses::prompt_cache::PromptCacheDiagnostics;
use registry::{PromptCache, Window};
use tokio::time::Instant;

use super::fingerprint::{ComparedPrompt, FingerprintContext, MeasuredRequest, RequestFingerprint};
use super::forecast::{BillForecast, InputForecast, ratio, scaled};
use super::report::{PrefixReason, PrefixReport};
use super::stored::{PART_BYTES, StoredPrompt};
use crate::store::MAX_PROMPTS_OF_SESSION;

/// The requests of a session that a later one can be compared with.
const MAX_REQUESTS: usize = MAX_PROMPTS_OF_SESSION;
/// The most histories of one session. A session can have several, because agents that share a
/// session take turns, each with a history of its own, and because a client goes back in one.
const MAX_HISTORIES: usize = 64;
/// Histories beyond this number are forgotten while all of a session have more than [`MAX_PARTS`].
const MIN_HISTORIES: usize = 4;
/// The hashes of all histories of one session.
const MAX_PARTS: usize = 1 << 16;
/// The bytes that a request takes besides the hashes of its history and its route.
const REQUEST_BASE: usize = 512;

/// The last requests of one session. Part of what is remembered of it.
#[derive(Clone, Debug, Default)]
pub(in crate::turn) struct RecentRequests {
    /// The latest request is the last.
    requests: VecDeque<AnsweredRequest>,
    /// The part of the reusable tokens that the provider read from its cache for each of the last
    /// two requests that had some.
    hit_rates: [Option<f64>; 2],
    /// The memory that the requests take.
    bytes: usize,
}

/// A request that is being answered, or was.
#[derive(Clone, Debug)]
struct AnsweredRequest {
    /// The newest request that begins with this one; at first the request itself. Requests of a
    /// growing history share it, so that each takes only a few bytes.
    history: Arc<RequestFingerprint>,
    /// The request itself, which need not live any more.
    own: Weak<RequestFingerprint>,
    context: Arc<FingerprintContext>,
    /// How many parts of the history it has.
    parts: usize,
    /// Its estimated tokens.
    tokens: u64,
    /// The id of the response that the client gets.
    response_id: Arc<str>,
    /// The response whose prompt it goes on from.
    continues: Option<Arc<str>>,
    sent: Instant,
    /// The input tokens that the provider counted, once it has.
    counted: Option<u64>,
    /// How many turns of the history in a row cost more than they would have with nothing
    /// shortened. Counted in the newest request of a history.
    lost_turns: u8,
}

impl AnsweredRequest {
    /// Whether no later request begins with this one.
    fn is_newest(&self) -> bool {
        self.is(&self.history)
    }

    fn is(&self, request: &Arc<RequestFingerprint>) -> bool {
        self.own.as_ptr() == Arc::as_ptr(request)
    }

    fn prompt(&self) -> ComparedPrompt<'_> {
        ComparedPrompt {
            context: &self.context,
            request: self.beginning_of(self.history.sent()),
        }
    }

    /// Memory use. The hashes of a history count with its newest request.
    fn bytes(&self) -> usize {
        let hashes = if self.is_newest() {
            self.history.parts() * PART_BYTES
        } else {
            0
        };
        REQUEST_BASE + self.context.route.len() + self.response_id.len() + hashes
    }

    /// This request in a form of its history.
    fn beginning_of<'f>(&self, history: MeasuredRequest<'f>) -> MeasuredRequest<'f> {
        history.beginning(self.parts, self.tokens)
    }

    /// The counted tokens for each estimated one.
    fn scale(&self) -> f64 {
        self.counted
            .map_or(1.0, |counted| ratio(counted, self.tokens).clamp(0.2, 5.0))
    }
}

impl RecentRequests {
    /// The full name of the route of the last request.
    pub(in crate::turn) fn last_route(&self) -> Option<&str> {
        let last = self.requests.back();
        last.map(|last| last.context.route.as_str())
    }

    /// Whether one of them was on a route; `None` if there are none.
    pub(in crate::turn) fn has_request_on(&self, route: &str) -> Option<bool> {
        let mut requests = self.requests.iter();
        let is_any = !self.requests.is_empty();
        is_any.then(|| requests.any(|request| request.context.route == route))
    }

    /// Compares a request with the one that shares the longest prefix with it.
    pub(in crate::turn) fn report(&self, request: &RequestFingerprint) -> PrefixReport {
        let last = self.requests.back();
        let asked = last.is_some_and(|last| last.context.asks_for_summary);
        let same_route = self
            .newest_of_route(request)
            .map(|earlier| &earlier.history);
        if let Some(best) = same_route.max_by_key(|other| request.shared_bytes(other)) {
            let best = best.prompt();
            let summarized = best.context.asks_for_summary || asked;
            return request.prompt().compare(best, summarized);
        }
        PrefixReport {
            request_bytes: request.encoded_size(),
            previous_bytes: last.map_or(0, |last| last.prompt().request.bytes()),
            shared_bytes: 0,
            reason: last.map_or(PrefixReason::First, |_| PrefixReason::ModelChanged),
            differs_at: None,
        }
    }

    /// Estimates what a provider with this rule will count for a request, and what it would count
    /// for it with nothing shortened, if the window holds that beside an answer.
    pub(in crate::turn) fn forecast(
        &self,
        request: &RequestFingerprint,
        cache: PromptCache,
        window: Window,
    ) -> BillForecast {
        let scale = self
            .newest_of_route(request)
            .last()
            .map_or(1.0, AnsweredRequest::scale);
        let input = |form: MeasuredRequest<'_>, earlier: &dyn Fn(&AnsweredRequest) -> u64| {
            let tokens = scaled(form.tokens, scale);
            let shared = self
                .newest_of_route(request)
                .map(|other| (earlier(other), other.sent))
                .max();
            let (shared, sent) = shared.unwrap_or((0, Instant::now()));
            InputForecast {
                tokens,
                reusable: cache.reusable(shared.min(tokens)),
                is_expired: sent.elapsed() > cache.lifetime,
            }
        };
        let sent = input(request.sent(), &|other| {
            let tokens = scaled(other.tokens, other.scale());
            shared_tokens(request.sent(), other.history.sent(), tokens)
        });
        let unshortened = request.unshortened().map(|form| {
            input(form, &|other| {
                let Some(earlier) = other.history.unshortened() else {
                    return 0;
                };
                let tokens = scaled(earlier.tokens, other.scale());
                shared_tokens(form, earlier, tokens)
            })
        });
        let rates = self.hit_rates.iter().flatten().copied();
        BillForecast {
            sent,
            unshortened: unshortened.filter(|input| input.tokens <= window.max_input()),
            hit_rate: rates.reduce(f64::max).unwrap_or(1.0),
        }
    }

    /// Compares the prompt of a request with that of the response with this id; `None` if that is
    /// not one of these requests.
    pub(in crate::turn) fn diagnose(
        &self,
        request: &RequestFingerprint,
        response_id: &str,
    ) -> Option<PromptCacheDiagnostics> {
        let mut later = self.requests.iter().rev();
        let mut summarized = false;
        let compared = later.find(|other| {
            summarized |= other.context.asks_for_summary;
            *other.response_id == *response_id
        })?;
        Some(diagnose(
            request,
            compared.prompt(),
            compared.scale(),
            summarized,
        ))
    }

    /// Remembers a request that is being answered. Those that it begins with are remembered as its
    /// beginnings.
    pub(in crate::turn) fn put(&mut self, request: &Arc<RequestFingerprint>, response_id: &str) {
        let newest = self.requests.iter().filter(|other| other.is_newest());
        let continued = newest.filter(|other| request.continues(&other.history));
        let (continued, ids): (Vec<_>, Vec<_>) = continued
            .map(|it| (Arc::clone(&it.history), Arc::clone(&it.response_id)))
            .unzip();
        let continues = ids.into_iter().next_back();
        let lost_turns = self.lost_turns(request);
        for other in &mut self.requests {
            if continued.iter().any(|it| Arc::ptr_eq(it, &other.history)) {
                other.history = Arc::clone(request);
            }
        }
        self.requests.push_back(AnsweredRequest {
            history: Arc::clone(request),
            own: Arc::downgrade(request),
            context: Arc::clone(request.context()),
            parts: request.sent().parts.len(),
            tokens: request.sent().tokens,
            response_id: response_id.into(),
            continues,
            sent: Instant::now(),
            counted: None,
            lost_turns,
        });
        self.forget_oldest();
        self.bytes = self.requests.iter().map(AnsweredRequest::bytes).sum();
    }

    /// How many turns in a row were lost in the history that a new request continues, from its end
    /// or from an earlier request.
    fn lost_turns(&self, request: &RequestFingerprint) -> u8 {
        let mut latest = self.of_route(request).rev();
        let same_history = latest.find(|other| {
            let begins = |form: Option<MeasuredRequest<'_>>,
                          earlier: Option<MeasuredRequest<'_>>| {
                let forms = form.zip(earlier);
                forms.is_some_and(|(form, earlier)| form.continues(other.beginning_of(earlier)))
            };
            let history = &other.history;
            begins(Some(request.sent()), Some(history.sent()))
                || begins(request.unshortened(), history.unshortened())
        });
        let newest = same_history.and_then(|known| {
            let mut requests = self.requests.iter();
            requests.find(|other| other.is(&known.history))
        });
        newest.map_or(0, |newest| newest.lost_turns)
    }

    fn forget_oldest(&mut self) {
        let mut more = self.requests.len().saturating_sub(MAX_REQUESTS);
        // The newest request of a history is kept for the next one, however old it is.
        while more > 0
            && self
                .requests
                .pop_front_if(|oldest| !oldest.is_newest())
                .is_some()
        {
            more -= 1;
        }
        if more > 0 {
            self.requests.retain(|request| {
                let is_kept = more == 0 || request.is_newest();
                more = more.saturating_sub(1);
                is_kept
            });
        }
        loop {
            let newest = self.requests.iter().filter(|request| request.is_newest());
            let (histories, parts) = newest.fold((0, 0), |(histories, parts), newest| {
                (histories + 1, parts + newest.history.parts())
            });
            let is_large = parts > MAX_PARTS && histories > MIN_HISTORIES;
            if histories <= MAX_HISTORIES && !is_large {
                return;
            }
            let mut newest = self.requests.iter().filter(|request| request.is_newest());
            let Some(oldest) = newest.next().map(|request| Arc::clone(&request.history)) else {
                return;
            };
            self.requests
                .retain(|request| !Arc::ptr_eq(&request.history, &oldest));
        }
    }

    /// Remembers what the provider counted for a request.
    pub(in crate::turn) fn count(
        &mut self,
        request: &Arc<RequestFingerprint>,
        forecast: &BillForecast,
        counted: Usage,
    ) {
        let mut requests = self.requests.iter_mut();
        if let Some(known) = requests.find(|known| known.is(request)) {
            known.counted = Some(counted.input).filter(|tokens| *tokens > 0);
        }
        if let Some(rate) = forecast.measured_hit_rate(counted)
            && !forecast.sent.is_expired
        {
            self.hit_rates.rotate_left(1);
            self.hit_rates[1] = Some(rate);
        }
    }

    /// Counts that the turn of a request cost more than it would have with nothing shortened, or
    /// did not. Returns how many turns of its history have in a row.
    pub(in crate::turn) fn count_lost(
        &mut self,
        request: &Arc<RequestFingerprint>,
        is_lost: bool,
    ) -> u8 {
        let known = self.requests.iter().find(|known| known.is(request));
        let Some(history) = known.map(|known| Arc::clone(&known.history)) else {
            return 0;
        };
        let mut requests = self.requests.iter_mut();
        let Some(newest) = requests.find(|other| other.is(&history)) else {
            return 0;
        };
        newest.lost_turns = if is_lost {
            newest.lost_turns.saturating_add(1)
        } else {
            0
        };
        newest.lost_turns
    }

    /// A request as it is stored, if it is remembered.
    pub(in crate::turn) fn stored(
        &self,
        request: &Arc<RequestFingerprint>,
    ) -> Option<StoredPrompt> {
        let known = self.requests.iter().find(|known| known.is(request))?;
        let (response, continues) = (&known.response_id, known.continues.as_ref());
        let (prompt, scale) = (known.prompt(), known.scale());
        Some(StoredPrompt::new(response, continues, prompt, scale))
    }

    /// The outputs of each history, the newest one first.
    pub(in crate::turn) fn outputs(&self) -> impl Iterator<Item = &[OutputMark]> {
        let newest = self.requests.iter().filter(|request| request.is_newest());
        newest.rev().map(|request| request.history.outputs())
    }

    /// Memory use.
    pub(in crate::turn) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The newest request of each history that goes where this one goes.
    fn newest_of_route(
        &self,
        request: &RequestFingerprint,
    ) -> impl Iterator<Item = &AnsweredRequest> {
        let requests = self.of_route(request);
        requests.filter(|other| other.is_newest())
    }

    /// The requests that went where this one goes.
    fn of_route(
        &self,
        request: &RequestFingerprint,
    ) -> impl DoubleEndedIterator<Item = &AnsweredRequest> {
        let requests = self.requests.iter();
        requests.filter(|other| other.context.route == request.route())
    }
}

/// Compares the prompt of a request with an earlier one, for which the provider counted `scale`
/// tokens for each estimated one. `summarized` is true if a summary was asked for since.
pub(super) fn diagnose(
    request: &RequestFingerprint,
    earlier: ComparedPrompt<'_>,
    scale: f64,
    summarized: bool,
) -> PromptCacheDiagnostics {
    let Some((reason, shared)) = request.prompt().miss(earlier, summarized) else {
        return PromptCacheDiagnostics::CacheHit;
    };
    let tokens = scaled(earlier.request.tokens, scale);
    let reusable = scaled(tokens, ratio(shared, earlier.request.bytes().max(1)));
    let all = scaled(request.sent().tokens, scale);
    PromptCacheDiagnostics::CacheMiss {
        reason,
        cache_missed_tokens: all.saturating_sub(reusable),
        comparison_reusable_tokens: reusable,
    }
}

/// How many of the `tokens` tokens of an earlier request this one begins with.
fn shared_tokens(request: MeasuredRequest<'_>, earlier: MeasuredRequest<'_>, tokens: u64) -> u64 {
    let shared = request.shared_bytes(earlier);
    scaled(tokens, ratio(shared, earlier.bytes().max(1)))
}
