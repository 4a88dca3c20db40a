//! Searches without a network: the searcher is a list of answers.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::*;
use crate::tools::web::page::PageFuture;
use crate::tools::web::search::UserLocation;
use crate::tools::web::search::{SearchError, SearchFailure, SearchFuture, SearchOutcome};
use crate::tools::web::shown::{SearchContext, render_results, render_searches};

/// Answers each search with what it holds, after it was let go if it waits.
#[derive(Default)]
struct Answers {
    outcome: Mutex<SearchOutcome>,
    asked: AtomicUsize,
    ended: AtomicUsize,
    waits: bool,
    is_paused: bool,
    go: Notify,
}

/// Counts a search as ended when its future is dropped.
struct Ended<'s>(&'s AtomicUsize);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Searcher for Answers {
    fn search<'s>(&'s self, _: &'s WebQuery) -> SearchFuture<'s> {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let _ended = Ended(&self.ended);
            if self.waits {
                self.go.notified().await;
            }
            self.outcome.lock().clone()
        })
    }

    fn is_paused(&self) -> bool {
        self.is_paused
    }
}

struct NoPages;

impl PageReader for NoPages {
    fn read<'r>(&'r self, _: &'r str) -> PageFuture<'r> {
        Box::pin(async { Err(PageError::Robots) })
    }
}

fn hit(url: &str, score: Option<f32>) -> SearchHit {
    SearchHit {
        url: url.to_owned(),
        title: "A\n\npage".to_owned(),
        snippet: "It says\nsomething.".to_owned(),
        published: Some("2026-11-01".to_owned()),
        score,
    }
}

fn found(hits: Vec<SearchHit>) -> SearchOutcome {
    SearchOutcome {
        engine: Some(SearchEngine::Brave),
        attempts: vec![attempt(SearchEngine::Brave, Ok(hits.len()))],
        hits,
    }
}

fn attempt(engine: SearchEngine, found: Result<usize, SearchFailure>) -> SearchAttempt {
    SearchAttempt {
        engine,
        took: Duration::from_millis(3),
        found,
        cost: 0.0,
    }
}

fn tools(outcome: SearchOutcome) -> (Arc<Answers>, WebTools) {
    let answers = Arc::new(Answers {
        outcome: Mutex::new(outcome),
        ..Answers::default()
    });
    let tools = WebTools::new(answers.clone(), Arc::new(NoPages));
    (answers, tools.with_cache(Duration::from_mins(15), 1 << 20))
}

fn request(text: &str) -> SearchRequest {
    SearchRequest {
        query: WebQuery {
            text: text.to_owned(),
            ..WebQuery::default()
        },
        cache_only: false,
    }
}

fn asked(answers: &Answers) -> usize {
    answers.asked.load(Ordering::Relaxed)
}

/// Promise: The same search is asked once in fifteen minutes; one with other words, filters or
/// another number of results is another search.
#[tokio::test(start_paused = true)]
async fn the_same_search_is_answered_from_the_cache_for_a_time() {
    let (answers, tools) = tools(found(vec![hit("https://a.example/", None)]));
    let first = tools.search(&request("x")).await;
    assert_eq!((first.is_cached, first.attempts.len()), (false, 1));
    tokio::time::advance(Duration::from_secs(899)).await;
    let again = tools.search(&request("x")).await;
    assert_eq!((again.is_cached, again.attempts.len()), (true, 0));
    assert_eq!((again.results, again.engine), (first.results, first.engine));
    assert_eq!(asked(&answers), 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(!tools.search(&request("x")).await.is_cached);
    assert_eq!(asked(&answers), 2);
    let same = request("x").query;
    let text = || "a.example".to_owned();
    for other in [
        WebQuery {
            text: "y".to_owned(),
            ..same.clone()
        },
        WebQuery {
            results: 3,
            ..same.clone()
        },
        WebQuery {
            allowed_domains: vec![text()],
            ..same.clone()
        },
        WebQuery {
            blocked_domains: vec![text()],
            ..same.clone()
        },
        WebQuery {
            location: Some(UserLocation::default()),
            ..same.clone()
        },
        WebQuery {
            recency_days: Some(1),
            ..same.clone()
        },
    ] {
        let before = asked(&answers);
        let query = other.clone();
        let report = tools
            .search(&SearchRequest {
                query,
                cache_only: false,
            })
            .await;
        assert!(!report.is_cached, "{other:?}");
        assert_eq!(asked(&answers), before + 1, "{other:?}");
    }
}

#[tokio::test]
async fn the_cache_takes_no_more_than_its_bytes_and_forgets_what_was_not_read() {
    let (answers, tools) = tools(found(vec![SearchHit {
        snippet: "s".repeat(10_000),
        ..hit("https://a.example/", None)
    }]));
    let tools = tools.with_cache(Duration::from_mins(15), 100_000);
    for at in 0..50 {
        tools.search(&request(&at.to_string())).await;
        assert!(tools.search(&request("0")).await.is_cached, "{at}");
        assert!(tools.cached_bytes() <= 100_000, "{}", tools.cached_bytes());
    }
    assert!(tools.cached_bytes() > 80_000, "{}", tools.cached_bytes());
    let before = asked(&answers);
    tools.search(&request("1")).await;
    assert_eq!(asked(&answers), before + 1);
}

/// Promise: Where only cached results may be used, no request leaves, and the text says so.
#[tokio::test]
async fn a_search_of_the_cache_asks_nobody() {
    let (answers, tools) = tools(found(vec![hit("https://a.example/", None)]));
    let cache_only = SearchRequest {
        cache_only: true,
        ..request("x")
    };
    let nothing = tools.search(&cache_only).await;
    assert!(nothing.results.is_empty() && nothing.attempts.is_empty());
    assert!(render_results(&nothing, SearchContext::Low).contains("nothing was asked"));
    assert_eq!(asked(&answers), 0);
    tools.search(&request("x")).await;
    assert_eq!(tools.search(&cache_only).await.results.len(), 1);
    assert_eq!(asked(&answers), 1);
}

#[tokio::test]
async fn searches_that_are_the_same_and_run_at_once_are_asked_once() {
    let answers = Arc::new(Answers {
        outcome: Mutex::new(found(vec![hit("https://a.example/", None)])),
        waits: true,
        ..Answers::default()
    });
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    let tools = WebTools::new(answers.clone(), Arc::new(NoPages));
    let tools = tools.observed(Arc::new(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    }));
    let one = request("x");
    let (mut first, mut second) = (Box::pin(tools.search(&one)), Box::pin(tools.search(&one)));
    assert!(first.as_mut().now_or_never().is_none());
    assert!(second.as_mut().now_or_never().is_none());
    // The one that began is given up, and the other goes on with its request.
    drop(first);
    answers.go.notify_one();
    assert_eq!(second.await.results.len(), 1);
    assert_eq!((asked(&answers), seen.load(Ordering::Relaxed)), (1, 1));
    // What nobody waits for ends, and is not what the next one gets.
    let mut dropped = Box::pin(tools.search(&one));
    assert!(dropped.as_mut().now_or_never().is_none());
    drop(dropped);
    assert_eq!(answers.ended.load(Ordering::Relaxed), 2);
    answers.go.notify_one();
    tools.search(&one).await;
    assert_eq!(asked(&answers), 3);
}

/// A budget of `most` searches and pages, with what was used of it.
fn budget(most: usize) -> (Arc<Mutex<Vec<WebUse>>>, WebBudget) {
    let used = Arc::new(Mutex::new(Vec::new()));
    let counted = Arc::clone(&used);
    let budget = move |one| {
        let mut used = counted.lock();
        if used.len() >= most {
            return Err(LimitReached {
                message: "no more".to_owned(),
                wait: Duration::from_secs(1),
            });
        }
        used.push(one);
        Ok(())
    };
    (used, Arc::new(budget))
}

#[tokio::test]
async fn a_search_counts_and_costs_once_for_whoever_has_begun_it() {
    let mut outcome = found(vec![hit("https://a.example/", None)]);
    outcome.attempts[0].cost = 0.25;
    let answers = Arc::new(Answers {
        outcome: Mutex::new(outcome),
        waits: true,
        ..Answers::default()
    });
    let tools = WebTools::new(answers.clone(), Arc::new(NoPages));
    let tools = tools.with_cache(Duration::from_mins(15), 1 << 20);
    let ((of_one, one), (of_other, other)) = (budget(9), budget(0));
    let (one, other) = (tools.clone().within(one), tools.within(other));
    let request = request("x");
    let mut begun = Box::pin(one.search(&request));
    assert!(begun.as_mut().now_or_never().is_none());
    let mut joined = Box::pin(other.search(&request));
    assert!(joined.as_mut().now_or_never().is_none());
    answers.go.notify_one();
    let (begun, joined) = (begun.await, joined.await);
    assert_eq!((begun.results.len(), joined.results.len()), (1, 1));
    assert_eq!((begun.cost(), joined.cost()), (0.25, 0.0));
    let cached = other.search(&request).await;
    assert_eq!((cached.refused.is_some(), cached.cost()), (false, 0.0));
    assert_eq!(*of_one.lock(), [WebUse::Search, WebUse::Cost(0.25)]);
    assert!(of_other.lock().is_empty());
    assert_eq!(asked(&answers), 1);
}

#[tokio::test]
async fn nothing_is_asked_beyond_the_budget() {
    let (answers, tools) = tools(found(vec![hit("https://a.example/", None)]));
    let tools = tools.within(budget(0).1);
    let report = tools.search(&request("x")).await;
    assert_eq!(report.refused.unwrap().message, "no more");
    assert_eq!((report.results.len(), asked(&answers)), (0, 0));
    let refused = tools.open("https://a.example/").await.unwrap_err();
    assert!(matches!(refused, PageError::Limit(_)), "{refused}");
    // No page is asked for where there is no address of one.
    let refused = tools.open("file:///etc/passwd").await.unwrap_err();
    assert!(!matches!(refused, PageError::Limit(_)), "{refused}");
}

/// Promise: A search that is sent to no search engine, because all of them have failed, does not
/// count.
#[tokio::test]
async fn a_search_that_is_sent_nowhere_does_not_count() {
    for is_paused in [false, true] {
        let answers = Arc::new(Answers {
            is_paused,
            ..Answers::default()
        });
        let searcher = Arc::clone(&answers) as Arc<dyn Searcher>;
        let tools = WebTools::new(searcher, Arc::new(NoPages)).within(budget(0).1);
        let report = tools.search(&request("x")).await;
        assert_eq!(report.refused.is_none(), is_paused);
    }
}

/// Promise: A result that a search engine gives less than half of its points is marked, and stays.
#[tokio::test]
async fn results_that_fit_badly_are_marked_and_stay() {
    let (_, tools) = tools(found(vec![
        hit("https://a.example/", Some(0.49)),
        hit("https://b.example/", Some(0.5)),
        hit("https://c.example/", None),
    ]));
    let report = tools.search(&request("x")).await;
    let marked: Vec<bool> = report
        .results
        .iter()
        .map(|it| it.has_low_relevance)
        .collect();
    assert_eq!(marked, [true, false, false]);
    let text = render_results(&report, SearchContext::Medium);
    assert_eq!(
        text,
        "Found by brave.\n\
         \n1. A page (low relevance)\nhttps://a.example/\nPublished: 2026-11-01\nIt says something.\n\
         \n2. A page\nhttps://b.example/\nPublished: 2026-11-01\nIt says something.\n\
         \n3. A page\nhttps://c.example/\nPublished: 2026-11-01\nIt says something.\n"
    );
    let again = tools.search(&request("x")).await;
    let cached = text.replace("Found by brave.", "Found by brave a while ago.");
    assert_eq!(render_results(&again, SearchContext::Medium), cached);
}

/// Promise: An address of more than 2,000 bytes is no result, and a title of more than 500
/// characters is cut at a character.
#[tokio::test]
async fn addresses_and_titles_are_bounded() {
    let address = |bytes: usize| format!("https://a.example/{}", "a".repeat(bytes - 18));
    let mut long = hit(&address(2_000), None);
    long.title = "日".repeat(501);
    let (_, tools) = tools(found(vec![hit(&address(2_001), None), long]));
    let report = tools.search(&request("x")).await;
    let [only] = report.results.as_slice() else {
        panic!("{report:?}")
    };
    assert_eq!(only.hit.url.len(), 2_000);
    assert_eq!(only.hit.title, "日".repeat(500));
}

/// Promise: If no search engine has an answer, the only result is the address of a search page,
/// with the true reason, and marked so that it is never cited; it is not kept.
#[tokio::test]
async fn a_search_that_nobody_answers_has_one_synthetic_result() {
    let failed = |failure: SearchFailure| SearchOutcome {
        attempts: vec![
            attempt(SearchEngine::Tavily, Err(SearchError::Challenge.into())),
            attempt(SearchEngine::Brave, Err(failure)),
        ],
        ..SearchOutcome::default()
    };
    let none = "No search engine is configured.";
    let silent = "No search engine that is configured could be reached or has answered.";
    let empty = "The search engines that answered have found nothing.";
    for (outcome, why) in [
        (SearchOutcome::default(), none),
        (
            failed(SearchFailure::Paused(Duration::from_secs(9))),
            silent,
        ),
        (failed(SearchError::Empty.into()), empty),
        (failed(SearchFailure::OtherDomains), empty),
    ] {
        let attempts = outcome.attempts.len();
        let (answers, tools) = tools(outcome);
        let report = tools.search(&request("größe & 日本")).await;
        assert_eq!((report.engine, report.attempts.len()), (None, attempts));
        let [only] = report.results.as_slice() else {
            panic!("{report:?}")
        };
        assert!(only.is_synthetic);
        assert_eq!(
            only.hit.url,
            "https://duckduckgo.com/?q=gr%C3%B6%C3%9Fe+%26+%E6%97%A5%E6%9C%AC"
        );
        let text = render_results(&report, SearchContext::Low);
        assert!(text.starts_with("There are no search results.\n"), "{text}");
        assert!(
            text.contains(why) && text.contains("never cite it"),
            "{text}"
        );
        let lines = text.lines().filter(|line| line.starts_with("tavily: "));
        assert_eq!(lines.count(), usize::from(attempts > 0), "{text}");
        assert_eq!(tools.cached_bytes(), 0);
        tools.search(&request("größe & 日本")).await;
        assert_eq!(asked(&answers), 2);
    }
    let (_, tools) = tools(SearchOutcome::default());
    let report = tools.search(&request(&"\u{10ffff}".repeat(9_999))).await;
    assert!(report.results[0].hit.url.len() <= 2_000);
}

#[tokio::test]
async fn a_text_has_no_more_characters_than_its_size_allows() {
    for (context, results, chars) in [
        (SearchContext::Low, 3, 4_000),
        (SearchContext::Medium, 5, 8_000),
        (SearchContext::High, 10, 16_000),
    ] {
        assert_eq!((context.results(), context.chars()), (results, chars));
        let hits = (0..20).map(|at| SearchHit {
            title: "日".repeat(500),
            snippet: "本".repeat(3_000),
            ..hit(&format!("https://{at}.example/"), None)
        });
        let report = |count: usize| SearchReport {
            engine: Some(SearchEngine::OpenRouter),
            results: hits
                .clone()
                .take(count)
                .map(|hit| SearchResult {
                    hit,
                    ..SearchResult::default()
                })
                .collect(),
            ..SearchReport::default()
        };
        let text = render_results(&report(results), context);
        let found = text.chars().count();
        assert!(found <= chars && found > chars - 200, "{found}");
        assert!(text.contains(&format!("{results}. 日")), "{text}");
        assert!(text.contains("do not quote it"), "{text}");
        // More than fit are left out, and the text says so.
        let text = render_results(&report(20), context);
        assert!(text.chars().count() <= chars);
        let is_whole = text.contains("\n20. ");
        assert_eq!(text.contains(" more are not shown."), !is_whole, "{text}");
    }
}

/// Promise: Several searches of one call run at once. Their results are in the order of the
/// queries, each page once, and are together no more and no longer than those of one search.
#[tokio::test]
async fn searches_of_one_call_share_its_results_and_its_room() {
    let hits = (0..9).map(|at| SearchHit {
        snippet: "long ".repeat(2_000),
        ..hit(&format!("https://{at}.example/#{at}"), None)
    });
    let answers = Arc::new(Answers {
        outcome: Mutex::new(found(hits.collect())),
        waits: true,
        ..Answers::default()
    });
    let tools = WebTools::new(answers.clone(), Arc::new(NoPages));
    let queries = ["x", "y", "z"].map(str::to_owned);
    let requests = queries.clone().map(|query| request(&query));
    let mut search = Box::pin(tools.search_all(&requests, 5));
    assert!((&mut search).now_or_never().is_none());
    assert_eq!(asked(&answers), 3);
    answers.go.notify_waiters();
    let reports = search.await;
    let urls = reports.iter().map(|report| {
        let urls = report
            .results
            .iter()
            .map(|result| result.hit.url.get(8..9).unwrap());
        urls.collect::<String>()
    });
    let urls: Vec<String> = urls.collect();
    assert_eq!(urls, ["03", "14", "2"]);
    for left_out in [0, 7] {
        let context = SearchContext::Low;
        let (text, places) = render_searches(&queries, &reports, left_out, context);
        let chars = text.chars().count();
        assert!(chars <= 4_000 && chars > 3_500, "{chars}");
        let heads: Vec<&str> = text
            .lines()
            .filter(|line| line.contains("Search"))
            .collect();
        assert_eq!(heads, ["Search for: x", "Search for: y", "Search for: z"]);
        assert_eq!(text.contains("limit: 7 more searches.\n"), left_out == 7);
        for (report, places) in reports.iter().zip(&places) {
            assert_eq!(report.results.len(), places.len());
            for (result, place) in report.results.iter().zip(places) {
                let shown = text.get(place.clone()).unwrap();
                assert!(shown.contains(&result.hit.url), "{text}");
            }
        }
    }
    let (one, _) = render_searches(&queries[..1], &reports[..1], 0, SearchContext::Low);
    assert_eq!(one, render_results(&reports[0], SearchContext::Low));
}
