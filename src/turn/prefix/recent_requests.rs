//! The last requests of one session.

use std::collections::VecDeque;
use std::sync::Arc;

use adapters::event::Usage;
use adapters::plan::OutputMark;
use adapters::responses::prompt_cache::PromptCacheDiagnostics;
use registry::{PromptCache, Window};
use tokio::time::Instant;

use super::fingerprint::{MeasuredRequest, RequestFingerprint};
use super::forecast::{BillForecast, InputForecast, ratio, scaled};
use super::report::{PrefixReason, PrefixReport};

/// The most requests of one session. A session can have several, because agents that share a
/// session take turns, each with a history of its own.
const MAX_REQUESTS: usize = 4;
/// The bytes of one hash of a fingerprint.
const PART_BYTES: usize = 16;
/// The bytes that a request takes besides its hashes and its route.
const REQUEST_BASE: usize = 256;

/// The last requests of one session. Part of what is remembered of it.
#[derive(Clone, Debug, Default)]
pub(in crate::turn) struct RecentRequests {
    /// The latest request is the last.
    requests: VecDeque<AnsweredRequest>,
    /// The part of the reusable tokens that the provider read from its cache for each of the last
    /// two requests that had some.
    hit_rates: [Option<f64>; 2],
}

/// A request that is being answered, or was.
#[derive(Clone, Debug)]
struct AnsweredRequest {
    fingerprint: Arc<RequestFingerprint>,
    /// The id of the response that the client gets.
    response_id: String,
    sent: Instant,
    /// The input tokens that the provider counted, once it has.
    counted: Option<u64>,
}

impl AnsweredRequest {
    /// The counted tokens for each estimated one.
    fn scale(&self) -> f64 {
        let estimated = self.fingerprint.sent().tokens;
        self.counted
            .map_or(1.0, |counted| ratio(counted, estimated).clamp(0.2, 5.0))
    }
}

impl RecentRequests {
    /// Compares a request with the one that shares the longest prefix with it.
    pub(in crate::turn) fn report(&self, request: &RequestFingerprint) -> PrefixReport {
        let last = self.requests.back().map(|last| &last.fingerprint);
        let same_route = self.of_route(request).map(|earlier| &earlier.fingerprint);
        if let Some(best) = same_route.max_by_key(|other| request.shared_bytes(other)) {
            let summarized =
                best.asks_for_summary() || last.is_some_and(|last| last.asks_for_summary());
            return request.compare(best, summarized);
        }
        PrefixReport {
            request_bytes: request.encoded_size(),
            previous_bytes: last.map_or(0, |last| last.encoded_size()),
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
            .of_route(request)
            .last()
            .map_or(1.0, AnsweredRequest::scale);
        let input = |form: MeasuredRequest<'_>, earlier: &dyn Fn(&AnsweredRequest) -> u64| {
            let tokens = scaled(form.tokens, scale);
            let shared = self
                .of_route(request)
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
            let tokens = scaled(other.fingerprint.sent().tokens, other.scale());
            shared_tokens(request.sent(), other.fingerprint.sent(), tokens)
        });
        let unshortened = request.unshortened().map(|form| {
            input(form, &|other| {
                let Some(earlier) = other.fingerprint.unshortened() else {
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
            summarized |= other.fingerprint.asks_for_summary();
            other.response_id == response_id
        })?;
        let earlier = &compared.fingerprint;
        let Some((reason, shared)) = request.miss(earlier, summarized) else {
            return Some(PromptCacheDiagnostics::CacheHit);
        };
        let tokens = scaled(earlier.sent().tokens, compared.scale());
        let reusable = scaled(tokens, ratio(shared, earlier.encoded_size().max(1)));
        let all = scaled(request.sent().tokens, compared.scale());
        Some(PromptCacheDiagnostics::CacheMiss {
            reason,
            cache_missed_tokens: all.saturating_sub(reusable),
            comparison_reusable_tokens: reusable,
        })
    }

    /// Remembers a request that is being answered, and drops those that it begins with.
    pub(in crate::turn) fn put(&mut self, request: &Arc<RequestFingerprint>, response_id: &str) {
        self.requests.retain(|other| {
            let other = &other.fingerprint;
            other.route() != request.route() || request.shared_bytes(other) < other.encoded_size()
        });
        self.requests.push_back(AnsweredRequest {
            fingerprint: Arc::clone(request),
            response_id: response_id.to_owned(),
            sent: Instant::now(),
            counted: None,
        });
        if self.requests.len() > MAX_REQUESTS {
            self.requests.pop_front();
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
        let known = requests.find(|known| Arc::ptr_eq(&known.fingerprint, request));
        if let Some(known) = known {
            known.counted = Some(counted.input).filter(|tokens| *tokens > 0);
        }
        if let Some(rate) = forecast.measured_hit_rate(counted)
            && !forecast.sent.is_expired
        {
            self.hit_rates.rotate_left(1);
            self.hit_rates[1] = Some(rate);
        }
    }

    /// The last output of each request that has some, the newest request first.
    pub(in crate::turn) fn newest_outputs(&self) -> impl Iterator<Item = OutputMark> {
        let requests = self.requests.iter().rev();
        requests.filter_map(|request| request.fingerprint.newest_output())
    }

    /// Memory use.
    pub(in crate::turn) fn bytes(&self) -> usize {
        let requests = self.requests.iter().map(|request| &request.fingerprint);
        requests
            .map(|request| REQUEST_BASE + request.route().len() + request.parts() * PART_BYTES)
            .sum()
    }

    /// The requests that went where this one goes.
    fn of_route(&self, request: &RequestFingerprint) -> impl Iterator<Item = &AnsweredRequest> {
        self.requests
            .iter()
            .filter(|other| other.fingerprint.route() == request.route())
    }
}

/// The tokens of an earlier request, of which there are so many, that this one begins with.
fn shared_tokens(request: MeasuredRequest<'_>, earlier: MeasuredRequest<'_>, tokens: u64) -> u64 {
    let shared = request.shared_bytes(earlier);
    scaled(tokens, ratio(shared, earlier.bytes().max(1)))
}
