//! Tells the webhooks of the configuration that background responses have ended, and that people
//! are asked to approve calls.
//!
//! | module | contents |
//! |---|---|
//! | `approvals` | the calls that a response asks a person to approve |
//! | `message` | an event and its signature, as Standard Webhooks says |
//! | `attempt` | sends one message |
//! | `pauses` | how long a delivery waits after an attempt that failed |
//!
//! The end of a response is stored together with its deliveries, so that none is lost. A delivery
//! is deleted when its webhook has taken it, so a webhook gets each event at least once.

mod approvals;
mod attempt;
mod message;
mod pauses;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use adapters::responses::response_object::ResponseStatus;
use arc_swap::ArcSwap;
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::{Id, JoinSet};
use tokio::time::sleep;

use crate::clock::{Clock, Random};
use crate::config::{Config, Webhook, WebhookEvent};
use crate::log::SafeText;
use crate::metrics::{Metrics, WebhookResult};
use crate::store::{NewDelivery, NewResponse, Store, StoreError, WaitingDelivery};

use approvals::ApprovalRequest;
use attempt::{AttemptClients, FailedAttempt};
use message::WebhookMessage;

/// How many deliveries of a webhook are read at once.
const BATCH: usize = 16;
/// How many requests a webhook gets at the same time.
const CONCURRENT: usize = 4;
/// How long the loop sleeps at most. The clock of the machine may be set meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_mins(1);
/// The pause after the store could not be read or written.
const STORE_PAUSE: Duration = Duration::from_secs(5);

/// The deliveries to webhooks. Cloned by all that end responses.
#[derive(Clone)]
pub(super) struct Webhooks(Arc<SharedWebhooks>);

struct SharedWebhooks {
    config: Arc<ArcSwap<Config>>,
    store: Arc<Store>,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    clients: AttemptClients,
    /// By name of the webhook; those without an entry work.
    states: Mutex<HashMap<String, WebhookState>>,
    /// There is something new to deliver, or another configuration.
    wake: Notify,
}

/// What is known of a webhook that has failed.
#[derive(Default)]
struct WebhookState {
    /// Its last attempt has failed.
    is_failing: bool,
    /// The configuration under which it said that it is gone. It gets nothing until the next one.
    gone: Option<Arc<Config>>,
}

/// What webhooks are told at one moment. Made before it is stored; reported once it is.
pub(super) struct WebhookNews {
    pub(super) deliveries: Vec<NewDelivery>,
    /// The id of the response.
    response: String,
    /// The calls that a person is asked to approve, if no webhook is told of them.
    untold: Vec<ApprovalRequest>,
}

impl Webhooks {
    pub(super) fn new(
        config: Arc<ArcSwap<Config>>,
        store: Arc<Store>,
        metrics: Arc<Metrics>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Self {
        Self(Arc::new(SharedWebhooks {
            config,
            store,
            metrics,
            clock,
            random,
            clients: AttemptClients::default(),
            states: Mutex::default(),
            wake: Notify::new(),
        }))
    }

    /// What webhooks are told of the end of a response: that, and the calls that it asks a person
    /// to approve. `now` is in seconds since 1970.
    pub(super) fn news_of_end(&self, response: &NewResponse, now: u64) -> WebhookNews {
        let requests = if response.status == ResponseStatus::Completed.name() {
            let items = response.output.iter();
            ApprovalRequest::of_items(items.map(|item| item.json.as_str()))
        } else {
            Vec::new()
        };
        let mut news = self.news_of_approvals(&response.id, requests, now);
        if let Some(event) = WebhookEvent::of_status(response.status) {
            let message = WebhookMessage::of_end(&response.id, event, now);
            news.deliveries.extend(self.deliveries(event, &message));
        }
        news
    }

    fn news_of_approvals(
        &self,
        response: &str,
        requests: Vec<ApprovalRequest>,
        now: u64,
    ) -> WebhookNews {
        let event = WebhookEvent::ApprovalRequested;
        let message = WebhookMessage::of_approvals(response, &requests, now);
        let deliveries = message.map(|message| self.deliveries(event, &message));
        let deliveries = deliveries.unwrap_or_default();
        WebhookNews {
            response: response.to_owned(),
            untold: if deliveries.is_empty() {
                requests
            } else {
                Vec::new()
            },
            deliveries,
        }
    }

    /// A message to each webhook that takes this event.
    fn deliveries(&self, event: WebhookEvent, message: &WebhookMessage) -> Vec<NewDelivery> {
        let config = self.0.config.load();
        let takers = config.webhooks.iter().filter(|it| it.takes(event));
        let deliveries = takers.map(|webhook| NewDelivery {
            webhook: webhook.name.clone(),
            event: message.id.clone(),
            body: message.body.clone(),
        });
        deliveries.collect()
    }

    /// Notes that news were stored, except for these webhooks, for which too many deliveries wait.
    pub(super) fn stored(&self, news: &WebhookNews, refused: &[String]) {
        let response = &news.response;
        for webhook in refused {
            self.0.metrics.webhook(webhook, WebhookResult::Failed);
            tracing::warn!(
                "WEBHOOK_FAILED: webhook `{webhook}` is not told of {response}, because too many deliveries to it wait"
            );
        }
        if !news.untold.is_empty() {
            let calls: Vec<String> = news.untold.iter().map(ApprovalRequest::tool).collect();
            tracing::info!(
                "{response} asks a person to approve calls, and no webhook is told: {}",
                SafeText::new(&calls.join(", "))
            );
        }
        self.wake();
    }

    /// Looks for deliveries at once, because there are new ones or the configuration has changed.
    pub(super) fn wake(&self) {
        self.0.wake.notify_one();
    }

    /// Delivers what is due, as long as the process runs. A webhook that is slow delays no other.
    pub(super) async fn run(self) {
        let mut batches: JoinSet<()> = JoinSet::new();
        let mut busy: HashMap<Id, String> = HashMap::new();
        loop {
            let config = self.0.config.load_full();
            let mut pause = LONGEST_SLEEP;
            let served: HashSet<&String> = busy.values().collect();
            let idle: Vec<&Webhook> = config
                .webhooks
                .iter()
                .filter(|it| !served.contains(&it.name))
                .collect();
            for webhook in idle {
                match self.due(&config, webhook).await {
                    Ok(Due::Now(deliveries)) => {
                        let (this, config) = (self.clone(), Arc::clone(&config));
                        let name = webhook.name.clone();
                        let webhook = webhook.clone();
                        let batch = batches.spawn(async move {
                            this.deliver(&config, &webhook, deliveries).await;
                        });
                        busy.insert(batch.id(), name);
                    }
                    Ok(Due::In(time)) => pause = pause.min(time),
                    Ok(Due::Never) => {}
                    Err(error) => {
                        tracing::debug!("deliveries to webhooks cannot be read now: {error}");
                        pause = pause.min(STORE_PAUSE);
                    }
                }
            }
            tokio::select! {
                Some(ended) = batches.join_next_with_id() => {
                    let id = ended.map_or_else(|panicked| panicked.id(), |(id, ())| id);
                    busy.remove(&id);
                }
                () = self.0.wake.notified() => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// The deliveries of a webhook that are due now, or when the next one is.
    async fn due(&self, config: &Arc<Config>, webhook: &Webhook) -> Result<Due, StoreError> {
        let shared = &self.0;
        let waiting = shared.store.count_deliveries(&webhook.name).await?;
        shared
            .metrics
            .set_waiting_deliveries(&webhook.name, waiting);
        if waiting == 0 || self.is_gone(config, webhook) {
            return Ok(Due::Never);
        }
        let mut next = shared.store.next_deliveries(&webhook.name, BATCH).await?;
        let now = shared.clock.unix();
        let Some(first) = next.first().map(|delivery| delivery.due) else {
            return Ok(Due::Never);
        };
        next.retain(|delivery| delivery.due <= now);
        Ok(if next.is_empty() {
            Due::In(Duration::from_secs(first.saturating_sub(now)))
        } else {
            Due::Now(next)
        })
    }

    fn is_gone(&self, config: &Arc<Config>, webhook: &Webhook) -> bool {
        let states = self.0.states.lock();
        let gone = states.get(&webhook.name).and_then(|it| it.gone.as_ref());
        gone.is_some_and(|under| Arc::ptr_eq(under, config))
    }

    /// Tries these deliveries once each.
    async fn deliver(
        &self,
        config: &Arc<Config>,
        webhook: &Webhook,
        deliveries: Vec<WaitingDelivery>,
    ) {
        let all = futures_util::stream::iter(deliveries);
        all.for_each_concurrent(CONCURRENT, |delivery| async move {
            if self.is_gone(config, webhook) {
                return;
            }
            if let Err(error) = self.deliver_one(config, webhook, &delivery).await {
                tracing::debug!("a delivery cannot be noted now: {error}");
                // It is still due: a store that fails must not cause a storm of requests.
                sleep(STORE_PAUSE).await;
            }
        })
        .await;
    }

    async fn deliver_one(
        &self,
        config: &Arc<Config>,
        webhook: &Webhook,
        delivery: &WaitingDelivery,
    ) -> Result<(), StoreError> {
        let (shared, name) = (&self.0, &webhook.name);
        let now = shared.clock.unix();
        if now.saturating_sub(delivery.created) > pauses::LIFETIME.as_secs() {
            let why = "it is too old".to_owned();
            return self.give_up(webhook, delivery, &why).await;
        }
        let sent = attempt::send(&shared.clients, webhook, delivery, now).await;
        let failed = match sent {
            Ok(()) => {
                shared.store.end_delivery(name, delivery).await?;
                shared.metrics.webhook(name, WebhookResult::Delivered);
                let before = shared.states.lock().remove(name);
                if before.is_some_and(|state| state.is_failing) {
                    tracing::info!("webhook `{name}` works again");
                }
                return Ok(());
            }
            Err(failed) => failed,
        };
        let attempts = delivery.attempts.saturating_add(1);
        let pause = pauses::after(attempts, failed.retry_after, shared.random.bits());
        self.note_failure(config, webhook, &failed, pause);
        let Some(pause) = pause else {
            return self.give_up(webhook, delivery, &failed.why).await;
        };
        shared.metrics.webhook(name, WebhookResult::Retried);
        let due = shared.clock.unix().saturating_add(pause.as_secs());
        shared
            .store
            .postpone_delivery(name, delivery, attempts, due)
            .await
    }

    /// Reports a webhook that begins to fail, once.
    fn note_failure(
        &self,
        config: &Arc<Config>,
        webhook: &Webhook,
        failed: &FailedAttempt,
        pause: Option<Duration>,
    ) {
        let (name, host) = (&webhook.name, webhook.host());
        let (host, why) = (SafeText::new(&host), SafeText::new(&failed.why));
        let mut states = self.0.states.lock();
        let state = states.entry(name.clone()).or_default();
        if failed.is_gone && state.gone.is_none() {
            tracing::warn!(
                "WEBHOOK_FAILED: webhook `{name}` on {host} says that it is gone (410), so it gets nothing until the configuration is read again"
            );
        } else if !state.is_failing
            && let Some(pause) = pause
        {
            tracing::warn!(
                "WEBHOOK_FAILED: webhook `{name}` on {host}: {why}; it is tried again in {} s, and further failures are not reported until it works or an event is given up",
                pause.as_secs()
            );
        }
        state.is_failing = true;
        if failed.is_gone {
            state.gone = Some(Arc::clone(config));
        }
    }

    async fn give_up(
        &self,
        webhook: &Webhook,
        delivery: &WaitingDelivery,
        why: &str,
    ) -> Result<(), StoreError> {
        let name = &webhook.name;
        self.0.store.end_delivery(name, delivery).await?;
        self.0.metrics.webhook(name, WebhookResult::Failed);
        let (id, why) = (SafeText::new(&delivery.response_id), SafeText::new(why));
        tracing::warn!("WEBHOOK_FAILED: webhook `{name}` was not told of {id}: {why}");
        Ok(())
    }
}

/// When the deliveries of a webhook are due.
enum Due {
    Now(Vec<WaitingDelivery>),
    In(Duration),
    /// None waits, or the webhook gets none.
    Never,
}
