//! Serper, which asks Google. It publishes no reference of its API.
//!
//! Request: api-evangelist/serper, json-schema/serper-search-request.json: `num` is at most 100,
//! `gl` a country, and `tbs` takes periods. Results: examples/serper-web-search-example.json there;
//! `date`: tryAGI/Serper, src/libs/Serper/Generated/Serper.Models.OrganicResult.g.cs. There is no
//! score. Refusals, as measured without a key: errors/serper-problem-types.yml of the first,
//! `{"message":"…","statusCode":403}`. Key:
//! <https://docs.langchain.com/oss/python/integrations/providers/google_serper>.

use http::HeaderName;
use jiff::civil::Date;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Map;

use super::answer::{FirstElements, SearchReply, found, hit, loose};
use super::engine::EngineFacts;
use super::recency::Recency;
use super::request::{count, country};
use super::words::{WordLimit, words_with_sites};
use super::{EngineSettings, SearchError, SearchHit, SearchKind, WebQuery, WebRequest};

pub(super) const FACTS: EngineFacts = EngineFacts {
    kind: SearchKind::Raw,
    key_variables: &["SERPER_API_KEY"],
    base_url: Some("https://google.serper.dev"),
    request,
    read,
};

const MAX_RESULTS: usize = 100;

const KEY: HeaderName = HeaderName::from_static("x-api-key");

fn request(
    query: &WebQuery,
    settings: &EngineSettings,
    _today: Date,
) -> Result<WebRequest, SearchError> {
    let mut body = Map::new();
    let words = words_with_sites(query, &WordLimit::USUAL);
    body.insert("q".into(), words.into());
    if let Some(count) = count(query, MAX_RESULTS) {
        body.insert("num".into(), count.into());
    }
    if let Some(country) = country(query) {
        body.insert("gl".into(), country.to_ascii_lowercase().into());
    }
    if let Some(recency) = query.recency_days.and_then(Recency::of) {
        body.insert("tbs".into(), format!("qdr:{}", recency.letter()).into());
    }
    let url = settings.endpoint(&["search"]);
    WebRequest::post(url, body).with_key(KEY, settings.key()?)
}

fn read(reply: &SearchReply<'_>) -> Result<Vec<SearchHit>, SearchError> {
    let answer: SerperAnswer = reply.json()?;
    let Some(organic) = answer.organic else {
        // An answer repeats the search.
        return Err(match answer.parameters {
            Some(IgnoredAny) => SearchError::Empty,
            None => SearchError::BadReply,
        });
    };
    let results = organic.elements.into_iter().filter_map(|result| {
        let hit = hit(&result.link, &result.title, &result.snippet)?;
        Some(hit.published(&result.date))
    });
    found(organic.listed, results.collect())
}

#[derive(Deserialize)]
struct SerperAnswer {
    #[serde(rename = "searchParameters")]
    parameters: Option<IgnoredAny>,
    organic: Option<FirstElements<SerperResult>>,
}

#[derive(Deserialize)]
struct SerperResult {
    #[serde(default, deserialize_with = "loose")]
    link: String,
    #[serde(default, deserialize_with = "loose")]
    title: String,
    #[serde(default, deserialize_with = "loose")]
    snippet: String,
    #[serde(default, deserialize_with = "loose")]
    date: String,
}
