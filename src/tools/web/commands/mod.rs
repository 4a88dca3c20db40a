//! Runs the commands of a model that searches the web: `search_query`, `open`, `click` and `find`,
//! as Codex's tool `web.run` has them. Whatever fails is told to the model in the text that it
//! gets, which [`text`] makes.

#[cfg(test)]
mod tests;
mod text;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use serde::{Deserialize, Serialize};

use self::text::{CommandText, ListedResult, render_all};
use super::numbered_page::NumberedPage;
use super::page::{KeptPage, PAGE_LIFETIME, Page, PageError, PageKeeper};
use super::references::ReferencesCall;
use super::search::{AllowedDomains, SearchEngine, SearchKind, UserLocation, WebQuery};
use super::service::{LimitReached, MAX_SEARCHES, SearchRequest, SearchResult, WebTools};
use super::shown::one_line;
use crate::clock::{Clock as _, System};
use crate::net::blocking::{block_in_place_if_large, run_at_low_priority};

/// Commands about pages of one list; more are not run.
const MAX_PAGES: usize = 12;
/// Searches, and pages, on their way at once.
const AT_ONCE: usize = 4;

/// The commands of one call, as a model writes them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct WebCommands {
    /// Searches.
    pub search_query: Option<Vec<QueryCommand>>,
    /// Pages to show.
    pub open: Option<Vec<OpenCommand>>,
    /// Links to follow.
    pub click: Option<Vec<ClickCommand>>,
    /// Texts to find in pages.
    pub find: Option<Vec<FindCommand>>,
    /// `short`, `medium` or `long`: how many results a search has.
    pub response_length: Option<String>,
    /// Commands that there are elsewhere.
    #[serde(flatten)]
    pub others: BTreeMap<String, serde_json::Value>,
}

/// A search.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct QueryCommand {
    /// The words.
    pub q: String,
    /// Only results of the last days.
    pub recency: Option<u64>,
    /// Only results of these domains.
    pub domains: Option<Vec<String>>,
}

/// A page to show.
#[derive(Clone, Debug, Deserialize)]
pub struct OpenCommand {
    /// A reference id or a URL.
    pub ref_id: String,
    /// The first line to show.
    pub lineno: Option<u64>,
}

/// A link to follow.
#[derive(Clone, Debug, Deserialize)]
pub struct ClickCommand {
    /// The page with the link: a reference id or a URL.
    pub ref_id: String,
    /// The number of the link.
    pub id: u64,
}

/// A text to find in a page.
#[derive(Clone, Debug, Deserialize)]
pub struct FindCommand {
    /// A reference id or a URL.
    pub ref_id: String,
    /// The text.
    pub pattern: String,
}

/// What holds for all commands of a call. Set by the user, not by the model.
#[derive(Clone, Debug, Default)]
pub struct CommandSettings {
    /// Nothing is asked for over the network: only earlier searches and pages are used.
    pub cache_only: bool,
    /// Only pages of these domains and of those below them, if there are any.
    pub allowed_domains: Vec<String>,
    /// No pages of these domains and of those below them.
    pub blocked_domains: Vec<String>,
    /// Where the user is.
    pub location: Option<UserLocation>,
    /// The results of a search where the model asks for no number.
    pub results: usize,
    /// The most bytes of the text.
    pub max_bytes: usize,
}

impl CommandSettings {
    fn domains(&self) -> AllowedDomains {
        AllowedDomains::new(&self.allowed_domains, &self.blocked_domains)
    }
}

/// What the commands have led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutput {
    /// What the model reads.
    pub text: String,
    /// What the searches have found, in the order of the text; `None` without a search.
    pub results: Option<Vec<ReferencedResult>>,
    /// The limit of the day that has refused commands, if nothing was found or read.
    pub refused: Option<LimitReached>,
}

/// Why a command has led to nothing.
#[derive(Clone, Debug)]
struct Unanswered {
    /// What the model is told.
    sentence: String,
    limit: Option<LimitReached>,
}

impl From<String> for Unanswered {
    fn from(sentence: String) -> Self {
        Self {
            sentence,
            limit: None,
        }
    }
}

/// A result of a search, with its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "text_result")]
pub struct ReferencedResult {
    /// The id by which the model opens it.
    pub ref_id: String,
    /// Its address.
    pub url: String,
    /// Its title on one line.
    pub title: String,
    /// What the search engine shows of it, on one line.
    pub snippet: String,
}

/// Where pages come from: the web, and what the session has kept.
#[derive(Clone, Copy)]
struct PageSources<'s> {
    tools: &'s WebTools,
    keeper: &'s dyn PageKeeper,
}

/// Runs commands, and shares the room of the text between them. `keeper` has the pages of the
/// session.
pub async fn run_commands(
    tools: &WebTools,
    keeper: &dyn PageKeeper,
    call: &mut ReferencesCall<'_>,
    commands: &WebCommands,
    settings: &CommandSettings,
) -> CommandOutput {
    let queries = commands.search_query.as_deref().unwrap_or_default();
    let (queries, left_out) = queries.split_at(queries.len().min(MAX_SEARCHES));
    let wanted = page_commands(commands);
    let (wanted, more_left_out) = wanted.split_at(wanted.len().min(MAX_PAGES));
    let results = match commands.response_length.as_deref() {
        Some("long") => 10,
        Some("medium") => 8,
        _ => settings.results,
    };
    let (reports, pages) = tokio::join!(
        search_all(tools, queries, results, settings),
        read_all(PageSources { tools, keeper }, call, wanted, settings),
    );
    let mut texts = Vec::new();
    let mut found = Vec::new();
    let mut is_answered = false;
    let mut limit = None;
    let mut unanswered = |why: Unanswered| {
        limit = limit.take().or(why.limit);
        CommandText::sentence(why.sentence)
    };
    for (query, report) in queries.iter().zip(reports) {
        texts.push(match report {
            Ok((kind, results)) => {
                is_answered = true;
                let results = results.into_iter().map(|result| referenced(result, call));
                let results: Vec<ListedResult> = results.collect();
                found.extend(results.iter().map(|shown| shown.result.clone()));
                CommandText::results(&query.q, kind, results)
            }
            Err(why) => unanswered(why),
        });
    }
    for (command, page) in wanted.iter().zip(pages) {
        texts.push(match page {
            Ok((address, page)) => {
                is_answered = true;
                match command {
                    PageCommand::Find(find) => block_in_place_if_large(page.text().len(), || {
                        CommandText::find(&find.ref_id, &find.pattern, page)
                    }),
                    PageCommand::Open(open) => {
                        let id = call.add_view(&address);
                        CommandText::view(id, page, open.lineno.unwrap_or(1))
                    }
                    PageCommand::Click(_) => CommandText::view(call.add_view(&address), page, 1),
                }
            }
            Err(why) => unanswered(why),
        });
    }
    for (count, what) in [
        (
            left_out.len(),
            format!("searches: a call has at most {MAX_SEARCHES}"),
        ),
        (
            more_left_out.len(),
            format!("commands about pages: a call has at most {MAX_PAGES}"),
        ),
    ] {
        if count > 0 {
            texts.push(CommandText::sentence(format!(
                "Not run: {count} more {what}."
            )));
        }
    }
    let asked = |value: &&serde_json::Value| {
        !value.as_array().is_some_and(Vec::is_empty) && !value.is_null()
    };
    for (name, _) in commands.others.iter().filter(|(_, value)| asked(value)) {
        texts.push(CommandText::sentence(missing_command(name)));
    }
    if texts.is_empty() {
        let sentence = "No command was given. There are search_query, open, click and find.";
        texts.push(CommandText::sentence(sentence.to_owned()));
    }
    CommandOutput {
        text: render_all(&texts, settings.max_bytes),
        results: commands.search_query.is_some().then_some(found),
        refused: limit.filter(|_| !is_answered),
    }
}

/// A command about a page.
#[derive(Clone, Copy)]
enum PageCommand<'c> {
    Open(&'c OpenCommand),
    Click(&'c ClickCommand),
    Find(&'c FindCommand),
}

impl PageCommand<'_> {
    fn reference(&self) -> &str {
        match self {
            Self::Open(open) => &open.ref_id,
            Self::Click(click) => &click.ref_id,
            Self::Find(find) => &find.ref_id,
        }
    }
}

fn page_commands(commands: &WebCommands) -> Vec<PageCommand<'_>> {
    let open = commands.open.iter().flatten().map(PageCommand::Open);
    let click = commands.click.iter().flatten().map(PageCommand::Click);
    let find = commands.find.iter().flatten().map(PageCommand::Find);
    open.chain(click).chain(find).collect()
}

/// What a model is told of a command that this server does not have.
fn missing_command(name: &str) -> String {
    let instead = match name {
        "image_query" => "it finds no pictures; search_query finds pages about them",
        "screenshot" => "it makes no pictures of pages or PDF files; open shows the text of a page",
        "finance" | "weather" | "sports" => "search_query finds pages about it",
        "time" => "the current time is not told here",
        _ => "there are search_query, open, click and find",
    };
    let name: String = name.chars().take(40).collect();
    format!("The command {name} does not exist on this server: {instead}.")
}

/// What a search has found, or why it has found nothing.
type FoundResults = Result<(SearchKind, Vec<SearchResult>), Unanswered>;

/// Searches all at once, and returns what each has found.
async fn search_all(
    tools: &WebTools,
    queries: &[QueryCommand],
    results: usize,
    settings: &CommandSettings,
) -> Vec<FoundResults> {
    // Collected, because a stream that maps while it runs would borrow too much for this future to
    // be sent to another thread.
    let searches = queries.iter();
    let searches = searches.map(|query| search(tools, query, results, settings));
    let searches: Vec<_> = searches.collect();
    stream::iter(searches).buffered(AT_ONCE).collect().await
}

async fn search(
    tools: &WebTools,
    query: &QueryCommand,
    results: usize,
    settings: &CommandSettings,
) -> FoundResults {
    let words = one_line(&query.q);
    if words.is_empty() {
        let sentence = "The search has no words, so nothing was searched.";
        return Err(sentence.to_owned().into());
    }
    let domains = query.domains.clone().filter(|domains| !domains.is_empty());
    let request = SearchRequest {
        query: WebQuery {
            text: query.q.clone(),
            results,
            allowed_domains: domains.unwrap_or_else(|| settings.allowed_domains.clone()),
            location: settings.location.clone(),
            recency_days: query
                .recency
                .filter(|days| *days > 0)
                .map(|days| u32::try_from(days).unwrap_or(u32::MAX)),
            blocked_domains: settings.blocked_domains.clone(),
        },
        cache_only: settings.cache_only,
    };
    let report = tools.search(&request).await;
    if let Some(refused) = report.refused {
        return Err(Unanswered {
            sentence: refused.of_search(),
            limit: Some(refused),
        });
    }
    // The model may narrow the domains of the user, and not widen them.
    let domains = settings.domains();
    let is_result =
        |result: &&SearchResult| !result.is_synthetic && domains.allows(&result.hit.url);
    let results: Vec<SearchResult> = report.results.iter().filter(is_result).cloned().collect();
    if !results.is_empty() {
        let kind = report.engine.map_or(SearchKind::Raw, SearchEngine::kind);
        return Ok((kind, results));
    }
    let shown: String = words.chars().take(200).collect();
    if settings.cache_only {
        return Err(format!(
            "Nothing was found for \"{shown}\": the user allows no access to the web, and no \
             earlier search was for this."
        )
        .into());
    }
    let reasons = report.attempts.iter().filter_map(|attempt| {
        let name: &str = attempt.engine.into();
        let failure = attempt.found.as_ref().err()?;
        Some(format!("{name}: {failure}"))
    });
    let reasons: Vec<String> = reasons.collect();
    let reasons = match &reasons[..] {
        _ if report.results.iter().any(|result| !result.is_synthetic) => {
            "the user allows none of the domains of what was found".to_owned()
        }
        [] => "no search engine is configured or can be reached".to_owned(),
        reasons => reasons.join("; "),
    };
    let by_hand = report.results.iter().find(|result| result.is_synthetic);
    let by_hand = by_hand.map_or_else(String::new, |result| {
        format!(" The user can search at {} in a browser.", result.hit.url)
    });
    Err(format!("Nothing was found for \"{shown}\": {reasons}.{by_hand}").into())
}

/// A result with an id.
fn referenced(found: SearchResult, call: &mut ReferencesCall<'_>) -> ListedResult {
    ListedResult {
        has_low_relevance: found.has_low_relevance,
        published: found.hit.published.as_deref().map(one_line),
        result: ReferencedResult {
            ref_id: call.add_result(&found.hit.url),
            title: one_line(&found.hit.title),
            snippet: one_line(&found.hit.snippet),
            url: found.hit.url,
        },
    }
}

/// A page with the address that it was asked for, or why it was not read.
type ReadPage = Result<(String, Arc<NumberedPage>), Unanswered>;

/// Reads the pages of all commands, each address once, and those behind links after the pages that
/// the links are on.
async fn read_all(
    sources: PageSources<'_>,
    call: &ReferencesCall<'_>,
    commands: &[PageCommand<'_>],
    settings: &CommandSettings,
) -> Vec<ReadPage> {
    let not_opened = |error: &dyn Display| format!("Not opened: {error}.");
    let asked = commands.iter().map(|command| {
        let address = call.address(command.reference());
        address.map_err(|error| not_opened(&error).into())
    });
    let asked: Vec<Result<String, Unanswered>> = asked.collect();
    let first = read_each(sources, call, &asked, settings).await;
    let clicks = commands.iter().zip(&first).filter_map(|(command, page)| {
        let PageCommand::Click(click) = command else {
            return None;
        };
        Some(link_target(click, page))
    });
    let clicks: Vec<Result<String, Unanswered>> = clicks.collect();
    let mut behind = read_each(sources, call, &clicks, settings)
        .await
        .into_iter();
    let pages = commands
        .iter()
        .zip(first)
        .map(|(command, page)| match command {
            PageCommand::Click(_) => behind.next().unwrap_or(page),
            PageCommand::Open(_) | PageCommand::Find(_) => page,
        });
    pages.collect()
}

/// The address of a link on a page.
fn link_target(click: &ClickCommand, page: &ReadPage) -> Result<String, Unanswered> {
    let (_, page) = page.as_ref().map_err(Clone::clone)?;
    let number = usize::try_from(click.id).unwrap_or(usize::MAX);
    page.link(number).map(str::to_owned).ok_or_else(|| {
        format!(
            "Not opened: there is no link {number} on {}, which has {}.",
            page.url,
            page.links()
        )
        .into()
    })
}

/// The pages at these addresses. What the session has read within [`PAGE_LIFETIME`] is not read
/// again.
async fn read_each(
    sources: PageSources<'_>,
    call: &ReferencesCall<'_>,
    addresses: &[Result<String, Unanswered>],
    settings: &CommandSettings,
) -> Vec<ReadPage> {
    let distinct: HashSet<&String> = addresses.iter().flatten().collect();
    let reads = distinct
        .into_iter()
        .map(|address| async move { (address, read(sources, call, address, settings).await) });
    let reads: Vec<_> = reads.collect();
    let pages: HashMap<&String, Result<Arc<NumberedPage>, Unanswered>> = stream::iter(reads)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let of = |address: &String| {
        let page = pages.get(address).cloned();
        let page = page.unwrap_or_else(|| Err(format!("{address} was not read.").into()))?;
        Ok((address.clone(), page))
    };
    let each = addresses
        .iter()
        .map(|address| of(address.as_ref().map_err(Clone::clone)?));
    each.collect()
}

async fn read(
    sources: PageSources<'_>,
    call: &ReferencesCall<'_>,
    address: &str,
    settings: &CommandSettings,
) -> Result<Arc<NumberedPage>, Unanswered> {
    let domains = settings.domains();
    check_domain(address, &domains)?;
    let in_memory = call.page(address);
    let in_memory = in_memory.filter(|page| domains.allows(&page.url));
    let kept = call.kept(address).filter(|_| in_memory.is_none());
    let age = in_memory.as_ref().map(|page| page.age());
    let age = age.or_else(|| Some(kept.as_ref()?.age(System.unix())));
    let earlier = async || match (&in_memory, &kept) {
        (None, Some(kept)) => kept_page(sources, call, address, kept, &domains).await,
        (page, _) => page.clone(),
    };
    if settings.cache_only {
        return earlier().await.ok_or_else(|| {
            let why = "the user allows no access to the web, and the page was not read before";
            format!("{address} was not opened: {why}.").into()
        });
    }
    let Some(age) = age else {
        return read_new(sources, call, address, &domains, false).await;
    };
    if age < PAGE_LIFETIME
        && let Some(page) = earlier().await
    {
        return Ok(page);
    }
    // An old page is better than none.
    match read_new(sources, call, address, &domains, true).await {
        Err(failed) => earlier().await.ok_or(failed),
        read => read,
    }
}

/// A page as the session has kept it.
async fn kept_page(
    sources: PageSources<'_>,
    call: &ReferencesCall<'_>,
    address: &str,
    kept: &KeptPage,
    domains: &AllowedDomains,
) -> Option<Arc<NumberedPage>> {
    if !domains.allows(&kept.url) {
        return None;
    }
    let page = sources.keeper.read(kept).await?;
    let age = kept.age(System.unix());
    let numbered = Arc::new(number(page).await.ok()?.read_ago(age));
    call.keep_page(address, &numbered);
    Some(numbered)
}

/// Reads a page, which the session keeps. It is a renewal if there is an old copy.
async fn read_new(
    sources: PageSources<'_>,
    call: &ReferencesCall<'_>,
    address: &str,
    domains: &AllowedDomains,
    is_renewal: bool,
) -> Result<Arc<NumberedPage>, Unanswered> {
    let page = if is_renewal {
        sources.tools.renew(address).await
    } else {
        sources.tools.open(address).await
    };
    let page = page.map_err(|error| {
        let sentence = format!("{address} could not be read: {error}.");
        let limit = if let PageError::Limit(limit) = error {
            Some(limit)
        } else {
            None
        };
        Unanswered { sentence, limit }
    })?;
    // It may have redirected elsewhere.
    check_domain(&page.url, domains)?;
    // What is kept is a copy, which counts until it is written.
    let twice = 2 * page.markdown.len();
    let has_room = page.memory.as_ref().is_none_or(|it| it.grow(twice).is_ok());
    if has_room && let Some(kept) = sources.keeper.keep(&page).await {
        call.add_kept(address, kept);
    }
    let numbered = number(page).await;
    let numbered = numbered.map_err(|why| format!("{address} could not be read: {why}."))?;
    let numbered = Arc::new(numbered.read_ago(Duration::ZERO));
    call.keep_page(address, &numbered);
    Ok(numbered)
}

/// Numbers the lines and links of a page. An error says why that cannot be.
async fn number(page: Arc<Page>) -> Result<NumberedPage, String> {
    let numbered = run_at_low_priority(move || NumberedPage::new(&page));
    let numbered = numbered.await.ok_or("its links cannot be numbered")?;
    numbered.map_err(|_| PageError::NoMemory.to_string())
}

/// Whether the user allows the domain of an address.
fn check_domain(address: &str, domains: &AllowedDomains) -> Result<(), String> {
    if !domains.allows(address) {
        return Err(format!(
            "{address} was not opened: the user does not allow its domain."
        ));
    }
    Ok(())
}
