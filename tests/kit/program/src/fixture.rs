//! Writes a captured turn as a golden case: a folder that the tests of the adapters check.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use adapters::responses::request::TurnSource;
use http::{HeaderMap, HeaderName, HeaderValue};
use kit::golden::{self, CaseSettings, GoldenCase, UpstreamRefusal, UpstreamReply};
use registry::{ResolvedBy, Route};
use respondent::diagnostics::bundle::{BundleAttempt, BundleResponseHead, BundleTurn};
use respondent::turn::Caller;
use respondent::upstream::{LearnedQuirks, PatchesOf};
use serde_json::Value;
use toml::Table;

mod settings;
#[cfg(test)]
mod tests;

/// The folder that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrittenFixture {
    /// The names of the files.
    pub(crate) files: Vec<&'static str>,
    /// The attempt that the case shows, counted from 1; `None` if the turn was refused before the
    /// first attempt.
    pub(crate) attempt: Option<usize>,
    /// Whether this version sends the provider the same bytes as the captured turn.
    pub(crate) same_request: bool,
}

/// Why no folder was written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FixtureError {
    /// The path exists and is not an empty folder.
    #[error("{} already exists and is not an empty folder", .0.display())]
    Occupied(PathBuf),
    /// The path could not be read or written.
    #[error("{}: {}", .0.display(), .1)]
    Io(PathBuf, io::Error),
    /// The turn has no attempt of this number.
    #[error("there is no attempt {asked}: the turn has {count}")]
    NoAttempt {
        /// The number that was asked for.
        asked: usize,
        /// The number of attempts.
        count: usize,
    },
    /// A part of the turn that the case needs was too large to be captured.
    #[error("the {0} was too large to be kept whole")]
    Omitted(String),
    /// The request is not UTF-8.
    #[error("the request is not UTF-8")]
    NotText,
    /// The model name did not resolve to a provider.
    #[error("the model '{0}' led to no provider: there is nothing to translate to")]
    NoRoute(String),
    /// The dialect of the model cannot be written as settings of a case.
    #[error("how {0} was spoken to cannot be said in a file")]
    NotExpressible(String),
}

/// Writes the turn as a case of `fixtures/chat`, see [`kit::golden`], into a
/// folder that does not exist or is empty. The case shows the attempt of this
/// number, counted from 1, or else the last one that was answered, with the
/// quirks that had been learned before it. Either all files are written or none.
pub(crate) fn to_fixture(
    turn: &BundleTurn,
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
fn choose_attempt(turn: &BundleTurn, asked: Option<usize>) -> Result<Option<usize>, FixtureError> {
    let count = turn.attempts.len();
    match asked {
        Some(number) if (1..=count).contains(&number) => Ok(Some(number)),
        Some(asked) => Err(FixtureError::NoAttempt { asked, count }),
        None => {
            let answered = turn.attempts.iter().rposition(|one| one.head.is_some());
            Ok(answered
                .map(|index| index + 1)
                .or_else(|| (count > 0).then_some(count)))
        }
    }
}

/// Fails if a part that the case needs was not captured.
fn check_whole(turn: &BundleTurn, number: Option<usize>) -> Result<(), FixtureError> {
    let answer = number.map(|number| format!("attempt {number} answer"));
    let needed = |what: &str| what == "request" || Some(what) == answer.as_deref();
    match turn.omitted.iter().find(|part| needed(&part.what)) {
        Some(part) => Err(FixtureError::Omitted(part.what.clone())),
        None => Ok(()),
    }
}

/// The case with every setting that could matter.
fn build_case(
    turn: &BundleTurn,
    number: Option<usize>,
    shown: Option<&BundleAttempt>,
) -> Result<GoldenCase<Table>, FixtureError> {
    let request = resolve_request(turn)?;
    let asked = TurnSource::new(request.clone())
        .turn()
        .map(|turn| turn.model.into_owned());
    let (mut settings, provider, origin) = match route(turn, number, shown) {
        Some(route) => {
            let name = route.full_name();
            let (settings, provider) =
                settings::find(&route.provider.id, &route.model, &route.dialect)
                    .ok_or_else(|| FixtureError::NotExpressible(name.clone()))?;
            let model =
                (asked.as_ref() != Ok(&route.upstream_model)).then(|| route.upstream_model.clone());
            (CaseSettings { model, ..settings }, provider, Some(name))
        }
        // A malformed request is refused before a provider is chosen.
        None if asked.is_err() => {
            let settings = CaseSettings::default();
            let spec = registry::build(&settings.provider, Table::new())
                .map_err(|_| FixtureError::NotExpressible(settings.provider.clone()))?;
            (settings, spec.to_provider("case"), None)
        }
        None => return Err(FixtureError::NoRoute(turn.settings.asked.clone())),
    };
    settings.codex = is_codex(turn);
    settings.origin = origin;
    settings
        .proxy_tools
        .clone_from(&turn.state_before.proxy_tools);
    let baggage = turn.state_before.baggage.clone().into_iter().collect();
    Ok(GoldenCase {
        request,
        settings,
        provider,
        baggage,
        upstream: shown.and_then(|attempt| upstream_reply(turn, attempt)),
    })
}

/// The case without the settings that change no result.
fn minimize(mut case: GoldenCase<Table>) -> GoldenCase<Table> {
    let removals: [fn(&mut GoldenCase<Table>); 4] = [
        |case| case.settings.model = None,
        |case| case.settings.origin = None,
        |case| case.baggage.clear(),
        |case| case.settings.proxy_tools.clear(),
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
    let settings = toml::to_string(&case.settings)
        .map_err(|_| FixtureError::NotExpressible(case.settings.provider.clone()))?;
    let mut files = vec![(golden::REQUEST, with_line_end(&case.request))];
    if !settings.is_empty() {
        files.push((golden::SETTINGS, settings.into_bytes()));
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

/// The client's request, with item references replaced by their items.
fn resolve_request(turn: &BundleTurn) -> Result<String, FixtureError> {
    let text = std::str::from_utf8(&turn.request.body).map_err(|_| FixtureError::NotText)?;
    let with_items = || {
        let mut body: Value = serde_json::from_str(text).ok()?;
        for item in body.get_mut("input")?.as_array_mut()? {
            let field = |key: &str| item.get(key).and_then(Value::as_str);
            if let Some(json) = field("id").and_then(|id| turn.state_before.items.get(id))
                && field("type") == Some("item_reference")
            {
                *item = serde_json::from_str(json).ok()?;
            }
        }
        Some(format!("{body:#}"))
    };
    let resolved = (!turn.state_before.items.is_empty())
        .then(with_items)
        .flatten();
    Ok(resolved.unwrap_or_else(|| text.to_owned()))
}

/// The attempt's route, or the first one, with the quirks that had been learned before it.
fn route(turn: &BundleTurn, number: Option<usize>, shown: Option<&BundleAttempt>) -> Option<Route> {
    let recorded = match shown {
        Some(attempt) => turn
            .settings
            .routes
            .iter()
            .find(|route| route.full_name() == attempt.route)?,
        None if turn.settings.unresolved => return None,
        None => turn.settings.routes.first()?,
    };
    let registry = turn.settings.to_registry();
    let provider = registry.provider(&recorded.provider)?;
    let mut route = Route {
        provider: Arc::clone(provider),
        model: Arc::clone(provider.model(&recorded.model.id)?),
        dialect: Arc::new(recorded.dialect.clone()),
        upstream_model: recorded.upstream_model.clone(),
        resolved_by: ResolvedBy::Exact,
    };
    let learned = LearnedQuirks::default();
    let of = PatchesOf::owner("local");
    for known in &turn.state_before.model_patches {
        if (&known.provider, &known.model) == (&recorded.provider, &recorded.upstream_model) {
            for patch in &known.patches {
                learned.learn(&route, of, *patch, "");
            }
        }
    }
    let before = turn.attempts.iter().take(number.unwrap_or_default());
    for (tried, next) in before.clone().zip(before.skip(1)) {
        // The engine sends a route another body only after it learned a patch of its quirks.
        let was_adapted = tried.route == next.route && tried.body != next.body;
        if let Some(patch) = tried.fault.as_ref().and_then(|fault| fault.patch)
            && was_adapted
            && tried.route == recorded.full_name()
        {
            learned.learn(&route, of, patch, "");
        }
    }
    learned.apply(&mut route, of);
    Arc::make_mut(&mut route.model)
        .id
        .clone_from(&recorded.upstream_model);
    Some(route)
}

fn is_codex(turn: &BundleTurn) -> bool {
    let headers: HeaderMap = turn
        .request
        .headers
        .iter()
        .filter_map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            Some((name, HeaderValue::from_str(value).ok()?))
        })
        .collect();
    Caller::from_headers(&headers).codex
}

fn upstream_reply(turn: &BundleTurn, attempt: &BundleAttempt) -> Option<UpstreamReply> {
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

/// The headers that ask for a pause. A case does not run at the time of the turn, so a pause
/// that ends at a date is written as its length.
fn retry_headers(turn: &BundleTurn, head: &BundleResponseHead) -> Vec<(String, String)> {
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
    let arrived = Duration::from_millis(turn.began_ms) + Duration::from_micros(head.at_us);
    let arrived = SystemTime::UNIX_EPOCH.checked_add(arrived);
    match refusal.retry_delay(arrived.unwrap_or_else(golden::now)) {
        None => Vec::new(),
        wait if wait == refusal.retry_delay(golden::now()) => refusal.headers,
        Some(wait) => vec![("retry-after-ms".to_owned(), wait.as_millis().to_string())],
    }
}

fn with_line_end(text: &str) -> Vec<u8> {
    format!("{}\n", text.trim_end_matches('\n')).into_bytes()
}
