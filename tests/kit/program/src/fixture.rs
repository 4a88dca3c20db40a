//! A captured turn as a folder of fixtures: what the translator is tested with.
//! Ours are made this way, too.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use adapters::responses::request::Source;
use http::{HeaderMap, HeaderName, HeaderValue};
use kit::golden::{self, CaseSettings, GoldenCase, UpstreamRefusal, UpstreamReply};
use registry::{Found, Route};
use respondent::diagnostics::bundle::{Attempt, Head, Turn};
use respondent::turn::Caller;
use respondent::upstream::Lessons;
use serde_json::Value;
use toml::Table;

mod settings;
#[cfg(test)]
mod tests;

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrittenFixture {
    /// The names of the files.
    pub(crate) files: Vec<&'static str>,
    /// The attempt that the case shows, counted from 1; `None`: the turn was
    /// refused before the first.
    pub(crate) attempt: Option<usize>,
    /// Whether this version sends the provider the same bytes as the captured
    /// turn did.
    pub(crate) same_request: bool,
}

/// Why there is no folder.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FixtureError {
    /// Something is in its place.
    #[error("{} is there already and not an empty folder", .0.display())]
    Occupied(PathBuf),
    /// It could not be read or written.
    #[error("{}: {}", .0.display(), .1)]
    Io(PathBuf, io::Error),
    /// There is no such attempt.
    #[error("there is no attempt {asked}: the turn has {count}")]
    NoAttempt {
        /// The number that was asked for.
        asked: usize,
        /// How many there are.
        count: usize,
    },
    /// Something that the case needs was too large to be kept.
    #[error("the {0} was too large to be kept whole")]
    Omitted(String),
    /// The request's bytes are no text.
    #[error("the request is not UTF-8")]
    NotText,
    /// The model name led nowhere.
    #[error("the model '{0}' led to no provider: there is nothing to translate to")]
    NoRoute(String),
    /// A case cannot say how the model was spoken to.
    #[error("how {0} was spoken to cannot be said in a file")]
    Unspeakable(String),
}

/// Writes the turn as a case of `fixtures/chat`, see [`kit::golden`], into a
/// folder that does not exist or is empty. The case shows the attempt of this
/// number, counted from 1, or else the last one that was answered, in the words
/// of the lessons that were known to it. Nothing is written unless all of it can
/// be.
pub(crate) fn to_fixture(
    turn: &Turn,
    attempt: Option<usize>,
    folder: &Path,
) -> Result<WrittenFixture, FixtureError> {
    check_free(folder)?;
    let number = choose_attempt(turn, attempt)?;
    check_whole(turn, number)?;
    let shown = number.and_then(|number| turn.attempts.get(number.checked_sub(1)?));
    let case = minimize(build_case(turn, number, shown)?);
    let same_request = match (case.encode(), shown) {
        (Ok(encoded), Some(attempt)) => encoded.body == attempt.body,
        (Ok(_), None) | (Err(_), Some(_)) => false,
        (Err(_), None) => true,
    };
    let files = files(case)?;
    let io = |path: &Path| {
        let path = path.to_owned();
        move |error| FixtureError::Io(path, error)
    };
    fs::create_dir_all(folder).map_err(io(folder))?;
    for (name, bytes) in &files {
        let path = folder.join(name);
        let write = fs::File::create_new(&path).and_then(|mut file| file.write_all(bytes));
        write.map_err(io(&path))?;
    }
    Ok(WrittenFixture {
        files: files.into_iter().map(|(name, _)| name).collect(),
        attempt: number,
        same_request,
    })
}

fn check_free(folder: &Path) -> Result<(), FixtureError> {
    let occupied = || FixtureError::Occupied(folder.to_owned());
    match fs::read_dir(folder).map(|mut entries| entries.next()) {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err(occupied()),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            io::ErrorKind::NotADirectory => Err(occupied()),
            _ => Err(FixtureError::Io(folder.to_owned(), error)),
        },
    }
}

/// The number of the attempt that the case shows.
fn choose_attempt(turn: &Turn, asked: Option<usize>) -> Result<Option<usize>, FixtureError> {
    let count = turn.attempts.len();
    match asked {
        Some(number) if (1..=count).contains(&number) => Ok(Some(number)),
        Some(asked) => Err(FixtureError::NoAttempt { asked, count }),
        None => {
            let answered = turn.attempts.iter().rposition(|one| one.head.is_some());
            Ok(answered
                .map(|place| place + 1)
                .or_else(|| (count > 0).then_some(count)))
        }
    }
}

/// Whether all is there that the case needs.
fn check_whole(turn: &Turn, number: Option<usize>) -> Result<(), FixtureError> {
    let answer = number.map(|number| format!("attempt {number} answer"));
    let needed = |what: &str| what == "request" || Some(what) == answer.as_deref();
    match turn.omitted.iter().find(|lost| needed(&lost.what)) {
        Some(lost) => Err(FixtureError::Omitted(lost.what.clone())),
        None => Ok(()),
    }
}

/// The case with all that could matter.
fn build_case(
    turn: &Turn,
    number: Option<usize>,
    shown: Option<&Attempt>,
) -> Result<GoldenCase<Table>, FixtureError> {
    let request = resolve_request(turn)?;
    let asked = Source::new(request.clone())
        .turn()
        .map(|turn| turn.model.into_owned());
    let (mut choices, provider, origin) = match route(turn, number, shown) {
        Some(route) => {
            let name = route.full_name();
            let (choices, provider) =
                settings::find_settings(&route.provider.id, &route.model, &route.dialect)
                    .ok_or_else(|| FixtureError::Unspeakable(name.clone()))?;
            let model =
                (asked.as_ref() != Ok(&route.upstream_model)).then(|| route.upstream_model.clone());
            (CaseSettings { model, ..choices }, provider, Some(name))
        }
        // A request that makes no sense is refused whoever would get it.
        None if asked.is_err() => {
            let choices = CaseSettings::default();
            let spec = registry::build(&choices.provider, Table::new())
                .map_err(|_| FixtureError::Unspeakable(choices.provider.clone()))?;
            (choices, spec.provider("case"), None)
        }
        None => return Err(FixtureError::NoRoute(turn.settings.asked.clone())),
    };
    choices.codex = is_codex(turn);
    choices.origin = origin;
    let baggage = turn.given.baggage.clone().into_iter().collect();
    Ok(GoldenCase {
        request,
        settings: choices,
        provider,
        baggage,
        upstream: shown.and_then(|attempt| upstream_reply(turn, attempt)),
    })
}

/// The case without what makes no difference.
fn minimize(mut case: GoldenCase<Table>) -> GoldenCase<Table> {
    let removals: [fn(&mut GoldenCase<Table>); 3] = [
        |case| case.settings.model = None,
        |case| case.settings.origin = None,
        |case| case.baggage.clear(),
    ];
    for remove in removals {
        let mut less = case.clone();
        remove(&mut less);
        if less.expected() == case.expected() {
            case = less;
        }
    }
    case
}

fn files(case: GoldenCase<Table>) -> Result<Vec<(&'static str, Vec<u8>)>, FixtureError> {
    let expected = case.expected();
    let choices = toml::to_string(&case.settings)
        .map_err(|_| FixtureError::Unspeakable(case.settings.provider.clone()))?;
    let mut files = vec![(golden::REQUEST, with_line_end(&case.request))];
    if !choices.is_empty() {
        files.push((golden::SETTINGS, choices.into_bytes()));
    }
    if !case.baggage.is_empty() {
        let sorted: BTreeMap<_, _> = case.baggage.into_iter().collect();
        let json = format!("{:#}", serde_json::json!(sorted));
        files.push((golden::BAGGAGE, with_line_end(&json)));
    }
    match case.upstream {
        None => {}
        Some(UpstreamReply::Answer(bytes)) => files.push((golden::ANSWER, bytes)),
        Some(UpstreamReply::Refusal(refusal)) => files.push((golden::REFUSAL, refusal.to_bytes())),
    }
    let expected = expected.into_iter();
    files.extend(expected.filter_map(|(name, text)| Some((name, text?.into_bytes()))));
    Ok(files)
}

/// The client's request, with the items that it only refers to.
fn resolve_request(turn: &Turn) -> Result<String, FixtureError> {
    let text = std::str::from_utf8(&turn.request.body).map_err(|_| FixtureError::NotText)?;
    let whole = || {
        let mut body: Value = serde_json::from_str(text).ok()?;
        for item in body.get_mut("input")?.as_array_mut()? {
            let word = |key: &str| item.get(key).and_then(Value::as_str);
            if let Some(json) = word("id").and_then(|id| turn.given.items.get(id))
                && word("type") == Some("item_reference")
            {
                *item = serde_json::from_str(json).ok()?;
            }
        }
        Some(format!("{body:#}"))
    };
    let resolved = (!turn.given.items.is_empty()).then(whole).flatten();
    Ok(resolved.unwrap_or_else(|| text.to_owned()))
}

/// The attempt's route, or the first one, in the words of the lessons that were
/// known to it.
fn route(turn: &Turn, number: Option<usize>, shown: Option<&Attempt>) -> Option<Route> {
    let kept = match shown {
        Some(attempt) => turn
            .settings
            .routes
            .iter()
            .find(|route| route.full_name() == attempt.route)?,
        None if turn.settings.unresolved => return None,
        None => turn.settings.routes.first()?,
    };
    let registry = turn.settings.registry();
    let mut route = Route {
        provider: Arc::clone(registry.provider(&kept.provider)?),
        model: Arc::new(kept.model.clone()),
        dialect: Arc::new(kept.dialect.clone()),
        upstream_model: kept.upstream_model.clone(),
        found: Found::Exact,
    };
    let lessons = Lessons::default();
    for lesson in &turn.given.lessons {
        if (&lesson.provider, &lesson.model) == (&kept.provider, &kept.upstream_model) {
            for mend in &lesson.mends {
                lessons.learn(&route, *mend);
            }
        }
    }
    let before = turn.attempts.iter().take(number.unwrap_or_default());
    for (tried, next) in before.clone().zip(before.skip(1)) {
        // The engine sends other words where it learned something alone.
        let learned = tried.route == next.route && tried.body != next.body;
        if let Some(mend) = tried.fault.as_ref().and_then(|fault| fault.mend)
            && learned
            && tried.route == kept.full_name()
        {
            lessons.learn(&route, mend);
        }
    }
    lessons.apply(&mut route);
    Arc::make_mut(&mut route.model)
        .id
        .clone_from(&kept.upstream_model);
    Some(route)
}

fn is_codex(turn: &Turn) -> bool {
    let headers: HeaderMap = turn
        .request
        .headers
        .iter()
        .filter_map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            Some((name, HeaderValue::from_str(value).ok()?))
        })
        .collect();
    Caller::of(&headers).codex
}

fn upstream_reply(turn: &Turn, attempt: &Attempt) -> Option<UpstreamReply> {
    let head = attempt.head.as_ref()?;
    Some(match head.status {
        200..=299 => UpstreamReply::Answer(attempt.answer.clone()),
        status => UpstreamReply::Refusal(UpstreamRefusal {
            status,
            headers: retry_headers(turn, head),
            body: attempt.answer.clone(),
        }),
    })
}

/// The headers that ask for a pause. A case has another date than the turn had:
/// a pause that ends at a date is written as its length.
fn retry_headers(turn: &Turn, head: &Head) -> Vec<(String, String)> {
    let asks = |(name, value): &&(String, String)| {
        (name.starts_with("retry-after") || name.starts_with("x-ratelimit-"))
            && HeaderName::from_bytes(name.as_bytes()).is_ok()
            && HeaderValue::from_str(value).is_ok()
    };
    let headers = head.headers.iter().filter(asks);
    let refusal = UpstreamRefusal {
        status: head.status,
        headers: headers.cloned().collect(),
        body: Vec::new(),
    };
    let came = Duration::from_millis(turn.began_ms) + Duration::from_micros(head.at_us);
    let came = SystemTime::UNIX_EPOCH.checked_add(came);
    match refusal.retry_delay(came.unwrap_or_else(golden::now)) {
        None => Vec::new(),
        wait if wait == refusal.retry_delay(golden::now()) => refusal.headers,
        Some(wait) => vec![("retry-after-ms".to_owned(), wait.as_millis().to_string())],
    }
}

fn with_line_end(text: &str) -> Vec<u8> {
    format!("{}\n", text.trim_end_matches('\n')).into_bytes()
}
