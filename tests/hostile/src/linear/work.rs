//! What is done with an input: the same functions that the program calls for it.

use std::hint::black_box;
use std::path::Path;
use std::sync::LazyLock;
use std::time::SystemTime;

use adapters::compact::{extract, is_usable_summary, strip_wrapping};
use adapters::compaction_blob::CompactionBlob;
use adapters::plan::{Bounds, OutputPolicy, Retention, plan};
use adapters::provider_error::delay;
use adapters::purpose::{Purpose, SummaryMode};
use adapters::responses::request::TurnSource;
use adapters::sse::SseDecoder;
use adapters::wire::{EncodeOptions, encode, error};
use kit::drive;
use registry::{ChatQuirks, Dialect, Model, RelayQuirks, WireQuirks};
use respondent::artifacts::search::{SearchQuery, search};
use respondent::diagnostics::bundle::{
    Bundle, BundleAttempt, BundleTurn, Scope, compare, diff, show,
};
use respondent::diagnostics::redact::{Keep, Scrubber};
use respondent::log::{SafeText, escape_lines};
use respondent::secrets::{Redactor, Secret};
use respondent::tools::web::excerpt::{EXCERPT_CHARS, excerpt};
use respondent::tools::web::extract::{self, PageShape};
use respondent::tools::web::fetch::page_url;
use respondent::tools::web::find::find_in_page;

use crate::targets::{dialects, load_file, tools_request};

/// The key that the redactor knows.
const KEY: &str = "canary-0123456789abcdef";

static REDACTOR: LazyLock<Redactor> =
    LazyLock::new(|| Redactor::new(&Secret::new(KEY).into_iter().collect::<Vec<_>>()));

/// The dialects that differ most: the two wires, and one that rewrites schemas.
static DIALECTS: LazyLock<Vec<Dialect>> =
    LazyLock::new(|| dialects().into_iter().take(3).collect());

static TOOLS: LazyLock<TurnSource> = LazyLock::new(tools_request);

fn text(input: &[u8]) -> &str {
    str::from_utf8(input).unwrap()
}

/// A window that fits little, so that all is looked at and most is cut.
fn model() -> Model {
    Model {
        window: Some(4_000),
        ..Model::unlisted("m")
    }
}

/// Plans and encodes a request body on each wire.
pub(super) fn answer(input: &[u8]) {
    let source = TurnSource::new(text(input).to_owned());
    encode_all(&source, &DIALECTS);
}

/// Plans and encodes a request body for Chat Completions.
pub(super) fn answer_chat(input: &[u8]) {
    let source = TurnSource::new(text(input).to_owned());
    encode_all(&source, DIALECTS.get(..1).unwrap_or_default());
}

fn encode_all(source: &TurnSource, dialects: &[Dialect]) {
    let Ok(turn) = source.turn() else {
        return;
    };
    let model = model();
    for dialect in dialects {
        let bounds = Bounds::for_model(&model, OutputPolicy::Adaptive, Retention::Disk);
        let planned = plan(&turn, &bounds.for_dialect(dialect));
        let options = EncodeOptions::new(dialect, &model, "m");
        let _ = black_box(encode(&turn, &planned, &options));
    }
}

/// Makes the request for a summary of a request body, and the summary that needs no model.
pub(super) fn summary(input: &[u8]) {
    let source = TurnSource::new(text(input).to_owned());
    let cut = source.with_purpose(Purpose::summary(SummaryMode::FitWindow));
    encode_all(&cut, DIALECTS.get(..1).unwrap_or_default());
    let Ok(turn) = source.turn() else {
        return;
    };
    black_box(extract(&turn, &plan(&turn, &Bounds::none()), 4_000));
}

/// Judges the summary of a model, and opens one that the client kept.
pub(super) fn judge_summary(input: &[u8]) {
    let text = text(input);
    black_box(is_usable_summary(text));
    black_box(strip_wrapping(text));
    black_box(CompactionBlob::open(text));
}

/// Reads an answer on the Chat Completions wire, in reads of 1 KiB.
pub(super) fn read_chat(input: &[u8]) {
    read(input, ChatQuirks::default().into());
}

/// Reads an answer on the Responses wire, in reads of 1 KiB.
pub(super) fn read_relay(input: &[u8]) {
    read(input, RelayQuirks::default().into());
}

fn read(input: &[u8], quirks: WireQuirks) {
    let turn = TOOLS.turn().unwrap();
    let settings = drive::settings(&turn, false, true);
    black_box(drive::read(settings, &quirks, input.chunks(1 << 10), true).body);
}

/// Splits a body into server-sent events, in reads of 16 bytes.
pub(super) fn sse(input: &[u8]) {
    let mut decoder = SseDecoder::default();
    for chunk in input.chunks(16) {
        let _ = decoder.feed(chunk, &mut |event| {
            black_box(event);
        });
    }
    let _ = decoder.finish(&mut |event| {
        black_box(event);
    });
}

/// Reads an error of a provider.
pub(super) fn provider_error(input: &[u8]) {
    for quirks in [WireQuirks::default(), RelayQuirks::default().into()] {
        for status in [400, 429] {
            black_box(error(&quirks, status, None, input));
        }
    }
    black_box(delay::from_headers(
        |_| Some(text(input)),
        SystemTime::UNIX_EPOCH,
    ));
}

/// Redacts a text, and shows it in a log record and on a terminal.
pub(super) fn redact(input: &[u8]) {
    black_box(REDACTOR.redact(text(input)));
    black_box(SafeText::new(text(input)).to_string());
    black_box(escape_lines(text(input)));
}

/// Redacts a recorded body.
pub(super) fn scrub(input: &[u8]) {
    let scrubber = Scrubber::new(REDACTOR.clone(), Keep::default());
    let mut body = input.to_vec();
    scrubber.body(&mut body, &mut Vec::new());
    black_box(body);
}

/// Searches an artifact for a text and by an expression.
pub(super) fn search_artifact(input: &[u8]) {
    for (pattern, regex) in [("needle", false), (r"(a|漢)+\s*needle|<[^>]*>x", true)] {
        let mut query = SearchQuery::new(pattern, regex, true).unwrap();
        query.context = 2;
        black_box(search(text(input), &query, &|| false));
    }
}

/// Reads a web page, makes an excerpt of it and searches it.
pub(super) fn read_page(input: &[u8]) {
    let html = extract::decode(input, "text/html");
    let url = page_url("https://example.com/").unwrap();
    let shape = PageShape::of(&html).unwrap();
    let content = extract::extract(&html, shape, &url).unwrap();
    black_box(excerpt(
        &content.markdown,
        "needle and words",
        0,
        EXCERPT_CHARS,
    ));
    black_box(find_in_page(&content.markdown, "needle and words"));
}

/// Compares two turns whose bodies differ in a few bytes, and shows them.
pub(super) fn compare_turns(input: &[u8]) {
    let left = turn_with_body(input.to_vec());
    let mut changed = input.to_vec();
    changed.truncate(input.len() - input.len() / 8);
    let mut body = b"{\"added\":1}\n".to_vec();
    body.append(&mut changed);
    let right = turn_with_body(body);
    black_box(compare(&left, &right, Scope::Replay));
    black_box(diff(
        std::slice::from_ref(&left),
        std::slice::from_ref(&right),
    ));
    black_box(show(std::slice::from_ref(&left), Path::new("a.tar.zst")));
}

/// Unpacks a bundle.
pub(super) fn unpack(input: &[u8]) {
    let _ = black_box(Bundle::from_bytes(input));
}

/// A turn with these bytes in place of all its bodies.
pub(super) fn turn_with_body(body: Vec<u8>) -> BundleTurn {
    let mut turn = BundleTurn {
        plan: body.clone(),
        attempts: vec![BundleAttempt {
            body: body.clone(),
            answer: body.clone(),
            ..BundleAttempt::default()
        }],
        ..BundleTurn::default()
    };
    turn.request.body.clone_from(&body);
    turn.answer.body = body;
    turn
}

/// Loads a configuration file.
pub(super) fn configure(input: &[u8]) {
    let _ = black_box(load_file(text(input)));
}
