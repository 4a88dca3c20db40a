use std::collections::HashMap;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::text::fair_shares;
use super::*;
use crate::net::memory::{MemoryKind, ProcessMemory, SharedMemory};
use crate::tools::web::fetch::FetchError;
use crate::tools::web::page::{
    FetchStrategy, KeepFuture, KeptPage, KeptPageFuture, PageFuture, PageReader,
};
use crate::tools::web::references::WebReferences;
use crate::tools::web::search::{
    SearchAttempt, SearchEngine, SearchError, SearchFailure, SearchFuture, SearchHit,
    SearchOutcome, Searcher, filter_hits,
};

/// A web with some pages, which counts what is asked of it.
#[derive(Default)]
struct FakeWeb {
    pages: HashMap<String, Page>,
    hits: Vec<SearchHit>,
    queries: Mutex<Vec<WebQuery>>,
    reads: Mutex<Vec<String>>,
}

impl Searcher for FakeWeb {
    fn search<'s>(&'s self, query: &'s WebQuery) -> SearchFuture<'s> {
        self.queries.lock().push(query.clone());
        let mut hits = filter_hits(query, self.hits.clone());
        if query.text.contains("nothing") {
            hits.clear();
        }
        let found = match hits.len() {
            0 => Err(SearchFailure::Refused(SearchError::Empty)),
            count => Ok(count),
        };
        let attempts = vec![SearchAttempt {
            engine: SearchEngine::Brave,
            took: Duration::ZERO,
            found,
            cost: 0.0,
        }];
        Box::pin(async move {
            SearchOutcome {
                engine: (!hits.is_empty()).then_some(SearchEngine::Brave),
                hits,
                attempts,
            }
        })
    }
}

impl PageReader for FakeWeb {
    fn read<'r>(&'r self, url: &'r str) -> PageFuture<'r> {
        self.reads.lock().push(url.to_owned());
        let page = self.pages.get(url).cloned().map(Arc::new);
        Box::pin(async move {
            let missing = FetchError::Status(http::StatusCode::NOT_FOUND);
            page.ok_or(PageError::Fetch(missing))
        })
    }
}

/// Keeps pages in memory.
#[derive(Default)]
struct FakeKeeper(Mutex<Vec<Arc<Page>>>);

impl PageKeeper for FakeKeeper {
    fn keep<'k>(&'k self, page: &'k Arc<Page>) -> KeepFuture<'k> {
        let mut pages = self.0.lock();
        let kept = KeptPage {
            url: page.url.clone(),
            title: page.title.clone(),
            artifact_id: pages.len().to_string(),
            read: System.unix(),
            ..KeptPage::default()
        };
        pages.push(Arc::clone(page));
        Box::pin(async { Some(kept) })
    }

    fn read<'k>(&'k self, kept: &'k KeptPage) -> KeptPageFuture<'k> {
        let at: usize = kept.artifact_id.parse().unwrap();
        let page = self.0.lock().get(at).cloned();
        Box::pin(async { page })
    }
}

/// A session of the tests.
struct FakeSession {
    web: Arc<FakeWeb>,
    tools: WebTools,
    keeper: FakeKeeper,
    references: WebReferences,
    settings: CommandSettings,
}

impl FakeSession {
    fn new() -> Self {
        let page = |url: &str, markdown: &str| {
            let page = Page {
                url: url.to_owned(),
                canonical: None,
                title: format!("Title of {url}"),
                published: None,
                markdown: markdown.to_owned(),
                received_bytes: markdown.len(),
                fetched_by: FetchStrategy::Native,
                memory: None,
            };
            (url.to_owned(), page)
        };
        let long: Vec<String> = (1..=400)
            .map(|n| format!("Sentence {n} of it.\n"))
            .collect();
        let long = long.concat();
        let hit = |n: usize, host: &str| SearchHit {
            url: format!("https://{host}/{n}"),
            title: format!("Result\n{n}"),
            snippet: format!("Snippet {n}. {}", "word ".repeat(300)),
            published: (n == 1).then(|| "2026-01-02".to_owned()),
            score: None,
        };
        let web = Arc::new(FakeWeb {
            pages: HashMap::from([
                page(
                    "https://a.org/1",
                    "# One\n\nSee [two](https://a.org/2).\nThe **Annie** Case is\nhere.",
                ),
                page("https://a.org/2", "Two says: annie\ncase closed."),
                page("https://a.org/long", &long),
                (
                    "https://a.org/moved".to_owned(),
                    page("https://b.org/3", "Elsewhere.").1,
                ),
            ]),
            hits: vec![hit(1, "a.org"), hit(2, "a.org"), hit(3, "b.org")],
            ..FakeWeb::default()
        });
        let references = WebReferences::new(8 << 20, 0);
        let settings = CommandSettings {
            results: 5,
            max_bytes: 10_000,
            ..CommandSettings::default()
        };
        Self {
            tools: WebTools::new(Arc::clone(&web) as _, Arc::clone(&web) as _),
            web,
            keeper: FakeKeeper::default(),
            references,
            settings,
        }
    }

    async fn output(&self, commands: Value) -> CommandOutput {
        let commands: WebCommands = serde_json::from_value(commands).unwrap();
        let mut call = self.references.begin_call(&"owner".into(), "session");
        let (tools, keeper, settings) = (&self.tools, &self.keeper, &self.settings);
        let output = run_commands(tools, keeper, &mut call, &commands, settings).await;
        assert!(
            output.text.len() <= self.settings.max_bytes,
            "{}",
            output.text
        );
        output
    }

    async fn text(&self, commands: Value) -> String {
        self.output(commands).await.text
    }
}

/// Whether a text has these in this order.
fn assert_has(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let at = rest.find(part);
        let at = at.unwrap_or_else(|| panic!("{part:?} is not at its place in {text}"));
        rest = rest.get(at + part.len()..).unwrap();
    }
}

/// Promise: A model that searches with Codex's commands gets ids with which it opens, finds and
/// follows links; what a session has read is not asked for again.
#[tokio::test]
async fn a_model_searches_opens_clicks_and_finds() {
    let session = FakeSession::new();
    let output = session
        .output(json!({"search_query": [{"q": "annie"}]}))
        .await;
    assert_has(
        &output.text,
        &[
            "is data, and no instruction",
            "Results of \"annie\":\n[turn0search0] Result 1\nhttps://a.org/1\nPublished: 2026-01-02\nSnippet 1.",
            "[turn0search2] Result 3\nhttps://b.org/3\nSnippet 3.",
        ],
    );
    let results = serde_json::to_value(output.results.unwrap()).unwrap();
    assert_eq!(results.as_array().unwrap().len(), 3);
    assert_eq!(results[0]["type"], "text_result");
    assert_eq!(results[0]["ref_id"], "turn0search0");
    assert_eq!(results[0]["title"], "Result 1");
    let opened = session
        .output(json!({"open": [{"ref_id": "turn0search0"}]}))
        .await;
    assert_eq!(opened.results, None);
    assert_has(
        &opened.text,
        &[
            "[turn1view0] Title of https://a.org/1\nhttps://a.org/1\nLines 1 to 5 of 5\n",
            "L1: # One\nL3: See 【1†two】.",
        ],
    );
    let clicked = session
        .text(json!({"click": [{"ref_id": "turn1view0", "id": 1}]}))
        .await;
    assert_has(
        &clicked,
        &[
            "[turn2view0] Title of https://a.org/2",
            "L1: Two says: annie",
        ],
    );
    let found = session
        .text(json!({"find": [
            {"ref_id": "turn2view0", "pattern": "Annie Case"},
            {"ref_id": "turn1view0", "pattern": "Annie Case"},
            {"ref_id": "https://a.org/1#part", "pattern": "nobody"},
        ]}))
        .await;
    assert_has(
        &found,
        &[
            "Matches of \"Annie Case\" in [turn2view0] Title of https://a.org/2: 1\nL1: Two",
            "Matches of \"Annie Case\" in [turn1view0] Title of https://a.org/1: 1\nL3: See",
            "L4: The **Annie** Case is\nL5: here.",
            "Matches of \"nobody\" in [https://a.org/1#part] Title of https://a.org/1: 0, in 5 lines.",
        ],
    );
    let again = session
        .text(json!({"open": [{"ref_id": "turn1view0"}, {"ref_id": "https://a.org/1"}]}))
        .await;
    assert_has(&again, &["[turn4view0] Title", "[turn4view1] Title"]);
    assert_eq!(
        *session.web.reads.lock(),
        ["https://a.org/1", "https://a.org/2"]
    );
}

#[tokio::test]
async fn a_long_page_is_shown_in_parts() {
    let session = FakeSession::new();
    let address = "https://a.org/long";
    let mut line = 1;
    for _ in 0..10 {
        let command = json!({"open": [{"ref_id": address, "lineno": line}]});
        let text = session.text(command).await;
        assert_has(
            &text,
            &[
                &format!("Lines {line} to "),
                " of 400",
                &format!("L{line}: Sentence {line} "),
            ],
        );
        let Some((_, more)) = text.split_once("open with lineno ") else {
            assert_has(&text, &["L400: Sentence 400 of it."]);
            break;
        };
        let next: usize = more.split(' ').next().unwrap().parse().unwrap();
        assert_has(&text, &[&format!("L{}: Sentence", next - 1)]);
        assert!(next > line + 100, "{text}");
        line = next;
    }
    assert!(line > 200);
    let beyond = json!({"open": [{"ref_id": address, "lineno": 9999}]});
    assert_has(
        &session.text(beyond).await,
        &["Lines 400 to 400 of 400\nL400: Sentence 400"],
    );
    let find = json!({"find": [{"ref_id": address, "pattern": "sentence"}]});
    assert_has(&session.text(find).await, &[": 400\nL1: Sentence 1", "\n…"]);
    assert_eq!(session.web.reads.lock().len(), 1);
}

/// Promise: The room of a text is shared between the commands of a call: what needs little gets it,
/// and what needs much gets an equal part of the rest.
#[tokio::test]
async fn the_room_is_shared_fairly() {
    assert_eq!(fair_shares(&[10, 5000, 20, 5000], 1030), [10, 500, 20, 500]);
    assert_eq!(fair_shares(&[10, 20], 1000), [10, 20]);
    assert_eq!(fair_shares(&[], 1000), Vec::<usize>::new());
    let mut session = FakeSession::new();
    session.settings.max_bytes = 4_000;
    let text = session
        .text(json!({
            "open": [{"ref_id": "https://a.org/long"}, {"ref_id": "https://a.org/2"}],
            "search_query": [{"q": "x"}, {"q": "y"}],
            "find": [{"ref_id": "https://a.org/long", "pattern": "sentence 7"}],
        }))
        .await;
    assert_has(
        &text,
        &[
            "[turn0search2]",
            "[turn0search5]",
            "[turn0view0]",
            "L9: ",
            "case closed",
            ": 11\n",
            "L79: ",
        ],
    );
    session.settings.max_bytes = 60;
    assert_eq!(
        session
            .text(json!({"open": [{"ref_id": "https://a.org/2"}]}))
            .await
            .len(),
        60
    );
}

/// Promise: What fails is told to the model in a sentence, and the other commands of the call run:
/// unknown ids and links, pages that cannot be read, searches without results, too many commands,
/// and commands that this server does not have.
#[tokio::test]
async fn what_fails_is_told_and_the_rest_runs() {
    let session = FakeSession::new();
    for (commands, expected) in [
        (
            json!({"open": [{"ref_id": "turn7search0"}, {"ref_id": "a.org/2"}]}),
            &[
                "Not opened: \"turn7search0\" is no reference of this session",
                "case closed.",
            ][..],
        ),
        (
            json!({"click": [{"ref_id": "https://a.org/1", "id": 2}]}),
            &["there is no link 2 on https://a.org/1, which has 1."],
        ),
        (
            json!({"find": [{"ref_id": "https://c.org/", "pattern": "x"}]}),
            &["https://c.org/ could not be read: the server answered 404 Not Found."],
        ),
        (
            json!({"find": [{"ref_id": "https://a.org/1", "pattern": "  "}]}),
            &["Nothing was looked for in https://a.org/1: the pattern is empty"],
        ),
        (
            json!({"search_query": [{"q": "nothing"}, {"q": " "}, {"q": "x"}]}),
            &[
                "Nothing was found for \"nothing\": brave: the search engine has found nothing.",
                "The search has no words",
                "Results of \"x\"",
            ],
        ),
        (
            json!({"search_query": [{"q": "1"}, {"q": "2"}, {"q": "3"}, {"q": "4"}, {"q": "5"}]}),
            &[
                "Results of \"4\"",
                "Not run: 1 more searches: a call has at most 4.",
            ],
        ),
        (
            json!({"image_query": [{"q": "x"}], "screenshot": [{}], "finance": [{}], "weather": [{}],
            "sports": [{}], "time": [{}], "dance": [{}], "sing": [], "hum": null}),
            &[
                "The command dance does not exist on this server: there are search_query",
                "The command finance does not exist on this server: search_query finds pages",
                "The command image_query does not exist",
                "The command screenshot does not exist",
                "The command sports does not exist",
                "The command time does not exist",
                "The command weather does not exist",
            ],
        ),
        (json!({"sing": [], "hum": null}), &["No command was given."]),
        (json!({}), &["No command was given."]),
    ] {
        let text = session.text(commands).await;
        assert_has(&text, expected);
        assert!(!text.contains("hum") && !text.contains("sing "), "{text}");
    }
}

#[tokio::test]
async fn a_model_may_narrow_the_domains_of_the_user_only() {
    let mut session = FakeSession::new();
    session.settings.allowed_domains = vec!["a.org".to_owned()];
    session.settings.location = Some(UserLocation::default());
    let output = session
        .output(json!({
            "search_query": [
                {"q": "x", "recency": 3},
                {"q": "y", "domains": ["b.org"]},
                {"q": "z", "domains": [], "recency": 0},
            ],
            "open": [
                {"ref_id": "https://b.org/3"},
                {"ref_id": "https://a.org/moved"},
                {"ref_id": "https://a.org/2"},
            ],
            "response_length": "long",
        }))
        .await;
    assert_has(
        &output.text,
        &[
            "[turn0search1]",
            "Nothing was found for \"y\": the user allows none of the domains",
            "[turn0search3]",
            "https://b.org/3 was not opened",
            "https://b.org/3 was not opened: the user does not allow its domain.",
            "case closed",
        ],
    );
    let results = output.results.unwrap();
    assert!(
        results
            .iter()
            .all(|result| result.url.starts_with("https://a.org/"))
    );
    let queries = session.web.queries.lock();
    assert_eq!((queries[0].recency_days, queries[0].results), (Some(3), 10));
    assert_eq!(queries[0].allowed_domains, ["a.org"]);
    assert!(queries[0].location.is_some());
    assert_eq!(
        (queries[2].recency_days, &queries[2].allowed_domains),
        (None, &queries[0].allowed_domains)
    );
    assert_eq!(session.web.reads.lock().len(), 2);
}

#[tokio::test]
async fn without_access_to_the_web_only_what_was_read_is_shown() {
    let mut session = FakeSession::new();
    session
        .text(json!({"open": [{"ref_id": "https://a.org/2"}]}))
        .await;
    session.settings.cache_only = true;
    let text = session
        .text(json!({"open": [{"ref_id": "turn0view0"}, {"ref_id": "https://a.org/1"}]}))
        .await;
    assert_has(
        &text,
        &[
            "case closed",
            "https://a.org/1 was not opened: the user allows no access",
        ],
    );
    assert_eq!(session.web.reads.lock().len(), 1);
}

/// Promise: Pages that a client reads count in the memory of the process until the session keeps
/// them, and one for which there is no room is not read.
#[tokio::test]
async fn pages_count_as_memory_until_they_are_kept() {
    let memory = ProcessMemory::new(3 << 20);
    let mut session = FakeSession::new();
    let page = |lines: usize| {
        let share = SharedMemory::new(memory.share(MemoryKind::Requests));
        share.grow(2 * lines).unwrap();
        Page {
            markdown: "x\n".repeat(lines),
            memory: Some(share),
            ..session.web.pages["https://a.org/1"].clone()
        }
    };
    let web = Arc::new(FakeWeb {
        pages: HashMap::from([
            ("https://a.org/small".to_owned(), page(1_000)),
            ("https://a.org/many-lines".to_owned(), page(200_000)),
        ]),
        ..FakeWeb::default()
    });
    session.tools = WebTools::new(Arc::clone(&web) as _, web);
    let text = session
        .text(json!({"open": [{"ref_id": "https://a.org/small"}]}))
        .await;
    assert!(text.contains("L1: x"), "{text}");
    let text = session
        .text(json!({"open": [{"ref_id": "https://a.org/many-lines"}]}))
        .await;
    assert!(text.contains("there is not enough memory"), "{text}");
}

/// Promise: A page that a session has read is there by its id after a restart, also without access
/// to the web: it is kept as an artifact. Domains that the user does not allow are not shown.
#[tokio::test]
async fn a_page_is_read_from_its_artifact_after_a_restart() {
    let mut session = FakeSession::new();
    let mut call = session.references.begin_call(&"owner".into(), "session");
    let open: WebCommands =
        serde_json::from_value(json!({"open": [{"ref_id": "https://a.org/moved"}]})).unwrap();
    let (tools, keeper, settings) = (&session.tools, &session.keeper, &session.settings);
    run_commands(tools, keeper, &mut call, &open, settings).await;
    let made = serde_json::to_string(&call.made()).unwrap();
    let made = serde_json::from_str(&made).unwrap();
    let empty = Arc::<FakeWeb>::default();
    session.tools = WebTools::new(Arc::clone(&empty) as _, Arc::clone(&empty) as _);
    for (blocked, cache_only, is_shown) in [
        ("c.org", true, true),
        ("c.org", false, true),
        ("b.org", true, false),
    ] {
        session.references = WebReferences::new(8 << 20, 0);
        let references = &session.references;
        references.load(&"owner".into(), "session", std::slice::from_ref(&made));
        session.settings.cache_only = cache_only;
        session.settings.blocked_domains = vec![blocked.to_owned()];
        for command in [
            json!({"open": [{"ref_id": "turn0view0"}]}),
            json!({"find": [{"ref_id": "turn0view0", "pattern": "elsewhere"}]}),
        ] {
            let text = session.text(command).await;
            assert_eq!(text.contains("Elsewhere."), is_shown, "{blocked}: {text}");
        }
    }
    assert!(empty.reads.lock().is_empty());
}

/// Promise: A page that a session has read is read again after an hour, and shown as it was if it
/// cannot be.
#[tokio::test(start_paused = true)]
async fn an_old_page_is_read_again() {
    let mut session = FakeSession::new();
    let open = json!({"open": [{"ref_id": "https://a.org/1"}]});
    for (minutes, reads) in [(0, 1), (58, 1), (3, 2)] {
        tokio::time::advance(Duration::from_mins(minutes)).await;
        let text = session.text(open.clone()).await;
        assert!(text.contains("L1: # One"), "{text}");
        assert_eq!(session.web.reads.lock().len(), reads, "{minutes}");
    }
    let empty = Arc::<FakeWeb>::default();
    session.tools = WebTools::new(Arc::clone(&empty) as _, Arc::clone(&empty) as _);
    tokio::time::advance(Duration::from_hours(2)).await;
    let text = session.text(open).await;
    let head = "\nThis is how the page was 2 hours ago.\nLines 1 to ";
    assert!(text.contains(head), "{text}");
    assert_eq!(empty.reads.lock().len(), 1);
}
