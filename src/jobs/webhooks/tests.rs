//! Deliveries with a clock of the test and a receiver on loopback.

use std::sync::atomic::{AtomicU64, Ordering};

use adapters::responses::response_object::ResponseStatus;
use kit::player::{Player, PlayerScript, RecordedRequest, ScriptedAnswer};
use tempfile::TempDir;

use super::*;
use crate::clock::System;
use crate::secrets::Secret;
use crate::store::{DataDir, EventBatch, NewJob, NewResponse, ResponseText};

#[derive(Default)]
struct TestTime(AtomicU64);

impl Clock for TestTime {
    fn unix(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Pauses that are neither shortened nor lengthened.
struct UsualPauses;

impl Random for UsualPauses {
    fn bits(&self) -> u128 {
        20
    }
}

struct TestWebhook {
    /// When the responses end, in seconds since 1970: the store has the time of the system.
    start: u64,
    webhooks: Webhooks,
    receiver: Player,
    time: Arc<TestTime>,
    metrics: Arc<Metrics>,
    _folder: TempDir,
}

/// What a look at the deliveries led to.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Tried(usize),
    WaitsFor(u64),
    Nothing,
}

impl TestWebhook {
    /// A webhook whose receiver answers with these statuses and headers.
    async fn new(answers: &[(u16, &[(&str, &str)])]) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let answer = |(status, headers): &(u16, &[(&str, &str)])| ScriptedAnswer {
            status: *status,
            headers: headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            body: Some(String::new()),
            ..ScriptedAnswer::default()
        };
        let script = PlayerScript {
            answers: answers.iter().map(answer).collect(),
            ..PlayerScript::default()
        };
        let receiver = Player::start(script).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&DataDir::new(folder.path()), 0).unwrap();
        let start = System.unix();
        let time = Arc::new(TestTime(AtomicU64::new(start)));
        let metrics = Arc::new(Metrics::new());
        let mut config = Config::default();
        config.webhooks.push(Webhook {
            name: "hook".to_owned(),
            url: Secret::new(&format!("{}/hook", receiver.base_url())).unwrap(),
            events: None,
            secrets: vec![Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLw==").unwrap()],
        });
        let webhooks = Webhooks::new(
            Arc::new(ArcSwap::from_pointee(config)),
            Arc::new(store),
            Arc::clone(&metrics),
            Arc::clone(&time) as _,
            Arc::new(UsualPauses),
        );
        Self {
            start,
            webhooks,
            receiver,
            time,
            metrics,
            _folder: folder,
        }
    }

    /// Stores a background response that goes on.
    async fn begun(&self, id: &str) {
        let store = &self.webhooks.0.store;
        let job = NewJob {
            id: id.to_owned(),
            owner: "local".to_owned(),
            text: text(),
            created: self.start,
            request: String::new(),
            headers: "{}".to_owned(),
            events: EventBatch::default(),
            now_ms: self.start * 1_000,
        };
        store.create_job(job).await.unwrap();
    }

    /// Stores a background response that has ended, with its deliveries.
    async fn ended(&self, id: &str) {
        self.begun(id).await;
        let store = &self.webhooks.0.store;
        let response = NewResponse::without_items(
            "local",
            id,
            self.start,
            text(),
            ResponseStatus::Failed,
            self.start,
        );
        super::super::log::store_end(
            store,
            &self.webhooks,
            &Arc::new(response),
            EventBatch::default(),
            false,
        )
        .await
        .unwrap();
        // A second may have begun meanwhile.
        let due = self.webhooks.0.store.next_deliveries("hook", BATCH).await;
        for delivery in due.unwrap().iter().filter(|it| it.response_id == id) {
            let postponed = store.postpone_delivery("hook", delivery, 0, self.start);
            postponed.await.unwrap();
        }
    }

    fn wait(&self, seconds: u64) {
        self.time.0.fetch_add(seconds, Ordering::Relaxed);
    }

    async fn step(&self) -> Step {
        let config = self.webhooks.0.config.load_full();
        let webhook = &config.webhooks[0];
        match self.webhooks.due(&config, webhook).await.unwrap() {
            Due::Now(deliveries) => {
                let count = deliveries.len();
                self.webhooks.deliver(&config, webhook, deliveries).await;
                Step::Tried(count)
            }
            Due::In(time) => Step::WaitsFor(time.as_secs()),
            Due::Never => Step::Nothing,
        }
    }

    /// The number of attempts with this result, as the metrics have it.
    fn counted(&self, result: &str) -> usize {
        let series =
            format!("respondent_webhook_attempts_total{{webhook=\"hook\",result=\"{result}\"}} ");
        let text = self.metrics.render();
        let line = text.lines().find_map(|line| line.strip_prefix(&series));
        line.map_or(0, |count| count.parse().unwrap())
    }
}

fn text() -> ResponseText {
    ResponseText {
        head: "{\"output\":[".to_owned(),
        tail: "]".to_owned(),
        parameters: "}".to_owned(),
    }
}

fn header<'a>(request: &'a RecordedRequest, name: &str) -> &'a str {
    let line = request.head.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split(": ").nth(1)).unwrap()
}

#[tokio::test]
async fn a_delivery_is_tried_again_under_the_same_id_until_it_is_taken() {
    let test = TestWebhook::new(&[
        (500, &[]),
        (429, &[("retry-after", "600")]),
        (302, &[("location", "/v1/elsewhere")]),
        (204, &[]),
    ])
    .await;
    assert_eq!(test.step().await, Step::Nothing);
    test.ended("resp_1").await;
    for pause in [5, 600, 80] {
        assert_eq!(test.step().await, Step::Tried(1));
        assert_eq!(test.step().await, Step::WaitsFor(pause));
        test.wait(pause - 1);
        assert_eq!(test.step().await, Step::WaitsFor(1));
        test.wait(1);
    }
    assert_eq!(test.step().await, Step::Tried(1));
    assert_eq!(test.step().await, Step::Nothing);
    let requests = test.receiver.requests();
    assert_eq!(requests.len(), 4, "a redirect was followed");
    let mut signatures = HashSet::new();
    for request in &requests {
        assert_eq!(header(request, "webhook-id"), "evt_1");
        assert_eq!(request.body, requests[0].body);
        assert!(signatures.insert(header(request, "webhook-signature").to_owned()));
    }
    let last = test.start + 5 + 600 + 80;
    assert_eq!(header(&requests[3], "webhook-timestamp"), last.to_string());
    assert_eq!((test.counted("retried"), test.counted("delivered")), (3, 1));
}

/// Promise: A webhook that is gone gets nothing until the configuration is read again; what waits
/// is limited and goes with its response.
#[tokio::test]
async fn a_webhook_that_is_gone_gets_nothing_until_the_configuration_is_read_again() {
    let test = TestWebhook::new(&[(410, &[]), (204, &[]), (204, &[])]).await;
    test.ended("resp_1").await;
    assert_eq!(test.step().await, Step::Tried(1));
    test.ended("resp_2").await;
    test.wait(3_600);
    assert_eq!(test.step().await, Step::Nothing);
    assert_eq!(test.receiver.requests().len(), 1);
    let live = &test.webhooks.0.config;
    live.store(Arc::new(Config::clone(&live.load())));
    assert_eq!(test.step().await, Step::Tried(2));
    assert_eq!(test.counted("delivered"), 2);
    assert_eq!(test.step().await, Step::Nothing);
}

#[tokio::test]
async fn a_delivery_is_given_up_after_ten_attempts() {
    let failing: [(u16, &[(&str, &str)]); 12] = [(503, &[]); 12];
    let test = TestWebhook::new(&failing).await;
    test.ended("resp_1").await;
    let mut tried = 0;
    loop {
        match test.step().await {
            Step::Tried(count) => tried += count,
            Step::WaitsFor(seconds) => test.wait(seconds),
            Step::Nothing => break,
        }
    }
    assert_eq!((tried, test.receiver.requests().len()), (10, 10));
    assert_eq!((test.counted("retried"), test.counted("failed")), (9, 1));
}

#[tokio::test]
async fn a_delivery_that_is_too_old_or_whose_response_was_deleted_is_not_sent() {
    let test = TestWebhook::new(&[]).await;
    test.ended("resp_1").await;
    let store = &test.webhooks.0.store;
    assert!(store.delete_response("local", "resp_1").await.unwrap());
    assert_eq!(test.step().await, Step::Nothing);
    test.ended("resp_2").await;
    test.wait(73 * 3_600);
    assert_eq!(test.step().await, Step::Tried(1));
    assert_eq!(test.step().await, Step::Nothing);
    assert_eq!(test.counted("failed"), 1);
    assert!(test.receiver.requests().is_empty());
}

#[tokio::test]
async fn a_webhook_takes_the_events_that_it_asks_for() {
    let test = TestWebhook::new(&[]).await;
    let live = &test.webhooks.0.config;
    let mut config = Config::clone(&live.load());
    let is_told = |status: ResponseStatus| {
        let ended =
            NewResponse::without_items("me", "resp_0", 0, ResponseText::default(), status, 0);
        !test.webhooks.news_of_end(&ended, 0).deliveries.is_empty()
    };
    assert!(is_told(ResponseStatus::Cancelled));
    config.webhooks[0].events = Some(vec![WebhookEvent::Completed, WebhookEvent::Failed]);
    live.store(Arc::new(config));
    assert!(is_told(ResponseStatus::Failed));
    for status in [ResponseStatus::Cancelled, ResponseStatus::Incomplete] {
        assert!(!is_told(status), "{status:?}");
    }
    test.ended("resp_1").await;
    assert_eq!(test.step().await, Step::Tried(1));
}
