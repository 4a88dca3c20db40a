//! Asks a provider for its models, in the way that its configuration names.
//!
//! [`keeper`] does so again and again while the server runs, never on the way of a turn.

pub mod keeper;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use adapters::failed_request;
use adapters::fault::Fault;
use adapters::model_list::{self, ListedModels, NextPage, OllamaModel, ServedContext};
use adapters::provider_error::delay;
use http::Method;
use http::header::{ACCEPT, LINK};
use registry::{Discovery, ModelSet};
use tokio::time::{Instant, timeout_at};

use super::decoded_body::DecodedBody;
use super::keys::set_query;
use super::{Upstream, transport};

/// The longest list that is read, in bytes, with all its pages.
const MAX_BODY: usize = 8 << 20;
/// At most this many further pages of a list are read.
const MAX_PAGES: usize = 50;
/// At most this many models are asked about one by one.
const MAX_DETAILS: usize = 200;

/// Why the models of a provider are not known. The message names the provider and the request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DiscoveryError {
    message: String,
    /// The status of the answer; `None` if there was none.
    pub status: Option<u16>,
    /// After which time to ask again, if the answer says so.
    pub retry_after: Option<Duration>,
}

impl From<Fault> for DiscoveryError {
    fn from(fault: Fault) -> Self {
        Self {
            message: fault.message,
            status: None,
            retry_after: None,
        }
    }
}

/// What a server told of each of its models, by name and version. It is asked for each once.
pub type ModelDetails = HashMap<String, OllamaModel>;

/// How long a provider may usually take to list its models.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Asks a provider for its models, for at most `patience`. `upstream` may be the fault for which it
/// cannot be asked. What is known of them one by one is
/// taken from `details`, which then has what is known of those that were listed.
pub async fn discover(
    upstream: Result<Arc<Upstream>, Fault>,
    patience: Duration,
    details: &mut ModelDetails,
) -> Result<ModelSet, DiscoveryError> {
    let upstream = upstream?;
    let asking = Asking {
        upstream: &upstream,
        patience,
        deadline: Instant::now() + patience,
    };
    let list = match upstream.provider().discovery {
        Discovery::Off => ListedModels::default(),
        Discovery::Models => asking.models().await?,
        Discovery::Ollama => asking.ollama(details).await?,
        Discovery::LmStudio => match asking.get(Place::Server("/api/v0/models")).await {
            Ok(body) => asking.list(&body, Place::Server("/api/v0/models"))?,
            // An older server, or another one behind the same address.
            Err(error) if error.status.is_some() => asking.models().await?,
            Err(error) => return Err(error),
        },
        Discovery::LlamaCpp => asking.llama_cpp().await?,
        Discovery::Sglang => asking.sglang().await?,
    };
    let provider = upstream.provider();
    let models = list.models.into_iter().filter_map(|mut model| {
        provider.fill_from_family(&mut model);
        // A user who lists a provider's models in the configuration knows which of them answer
        // prompts.
        let is_usable = provider.models.is_empty() || model_list::may_answer_prompts(&model.id);
        is_usable.then_some(model)
    });
    let mut set = ModelSet::new(models);
    set.left_out = list.others;
    Ok(set)
}

/// An address of a provider.
#[derive(Clone, Copy)]
enum Place {
    /// A path below its base URL.
    Api(&'static str),
    /// A path of its server, beside the `/v1` of its base URL.
    Server(&'static str),
}

/// An answer to a request, which has a status of success.
struct DiscoveryReply {
    body: Vec<u8>,
    /// Where the next page is, if a header says so.
    linked: Option<NextPage>,
}

/// The requests of one discovery.
struct Asking<'a> {
    upstream: &'a Upstream,
    patience: Duration,
    deadline: Instant,
}

impl Asking<'_> {
    /// `GET {base_url}/models`, and its further pages. What was read counts even if one of these
    /// cannot be read.
    async fn models(&self) -> Result<ListedModels, DiscoveryError> {
        let place = Place::Api("/models");
        let next = |reply: DiscoveryReply| {
            let linked = reply.linked;
            linked.or_else(|| model_list::next_page(&reply.body))
        };
        let first = self.send(Method::GET, place, None, &[]).await?;
        let mut list = self.list(&first.body, place)?;
        let mut size = first.body.len();
        let mut page = next(first);
        let mut turned = Vec::new();
        while let Some(wanted) = page.take()
            && !turned.contains(&wanted)
            && turned.len() < MAX_PAGES
            && list.models.len() < model_list::MAX_MODELS
        {
            turned.push(wanted);
            let Ok(reply) = self.send(Method::GET, place, None, &turned).await else {
                break;
            };
            let Some(more) = model_list::listed_models(&reply.body) else {
                break;
            };
            size += reply.body.len();
            if size > MAX_BODY {
                break;
            }
            list.models.extend(more.models);
            list.others += more.others;
            page = next(reply);
        }
        list.models.truncate(model_list::MAX_MODELS);
        Ok(list)
    }

    fn list(&self, body: &[u8], place: Place) -> Result<ListedModels, DiscoveryError> {
        model_list::listed_models(body).ok_or_else(|| self.no_list(place))
    }

    fn no_list(&self, place: Place) -> DiscoveryError {
        let address = self.address(&Method::GET, place);
        self.error(
            &format!("{address} answered with something else"),
            Some(200),
        )
    }

    async fn llama_cpp(&self) -> Result<ListedModels, DiscoveryError> {
        let mut list = self.models().await?;
        // A server that has several models tells of one of them only.
        if let [model] = list.models.as_mut_slice()
            && let Ok(body) = self.get(Place::Server("/props")).await
        {
            let (given, images) = model_list::props(&body);
            ServedContext { given, limit: None }.apply(model);
            model.images = images.unwrap_or(model.images);
        }
        Ok(list)
    }

    async fn sglang(&self) -> Result<ListedModels, DiscoveryError> {
        let mut list = self.models().await?;
        if list.models.iter().any(|model| model.window.is_none())
            && let Ok(body) = self.get(Place::Server("/get_server_info")).await
        {
            let window = model_list::server_info(&body);
            for model in &mut list.models {
                model.window = model.window.or(window);
            }
        }
        Ok(list)
    }

    async fn ollama(&self, details: &mut ModelDetails) -> Result<ListedModels, DiscoveryError> {
        let place = Place::Server("/api/tags");
        let body = match self.get(place).await {
            Ok(body) => body,
            // Another server behind the same address.
            Err(error) if error.status.is_some() => return self.models().await,
            Err(error) => return Err(error),
        };
        let tags = model_list::ollama_tags(&body).ok_or_else(|| self.no_list(place))?;
        let loaded = self.get(Place::Server("/api/ps")).await.unwrap_or_default();
        let loaded: HashMap<String, u64> =
            model_list::loaded_contexts(&loaded).into_iter().collect();
        let mut known = std::mem::take(details);
        let mut answers = true;
        let mut models = Vec::new();
        for (index, tag) in tags.iter().enumerate() {
            let key = format!("{}@{}", tag.name, tag.digest);
            let told = match known.remove(&key) {
                Some(told) => Some(told),
                None if answers && index < MAX_DETAILS => {
                    let told = self.show(&tag.name).await;
                    answers = told.is_some();
                    told
                }
                None => None,
            };
            let model = match told {
                Some(told) => {
                    details.insert(key, told);
                    told
                }
                None => OllamaModel {
                    completes: true,
                    ..OllamaModel::default()
                },
            };
            models.extend(model.to_model(&tag.name, loaded.get(&tag.name).copied()));
        }
        let others = tags.len() - models.len();
        Ok(ListedModels { models, others })
    }

    /// What Ollama tells of a model; `None` if it does not answer. A model that was deleted in the
    /// meantime has nothing to tell.
    async fn show(&self, name: &str) -> Option<OllamaModel> {
        let body = serde_json::json!({ "model": name }).to_string();
        let place = Place::Server("/api/show");
        match self.send(Method::POST, place, Some(body), &[]).await {
            Ok(reply) => Some(model_list::ollama_model(&reply.body)),
            Err(error) => error.status.map(|_| model_list::ollama_model(b"{}")),
        }
    }

    async fn get(&self, place: Place) -> Result<Vec<u8>, DiscoveryError> {
        let reply = self.send(Method::GET, place, None, &[]).await?;
        Ok(reply.body)
    }

    /// Sends a request and reads the whole answer, which has a status of success. `pages` are those
    /// of the list through which the one that is wanted was found, and this one.
    async fn send(
        &self,
        method: Method,
        place: Place,
        body: Option<String>,
        pages: &[NextPage],
    ) -> Result<DiscoveryReply, DiscoveryError> {
        let upstream = self.upstream;
        let address = self.address(&method, place);
        let mut headers = upstream.headers(&[]);
        headers.insert(ACCEPT, http::HeaderValue::from_static("application/json"));
        let mut url = match place {
            Place::Api(path) => upstream.url(path),
            Place::Server(path) => upstream.server_url(path),
        };
        for page in pages {
            turn_to(&mut url, page);
        }
        if let Some(key) = upstream.keys().choose(0) {
            upstream.add_key(key, &mut url, &mut headers);
        }
        let request = upstream.client.request(method, url).headers(headers);
        let request = request.body(body.unwrap_or_default());
        let answer = timeout_at(self.deadline, async {
            let response = request
                .send()
                .await
                .map_err(|error| self.unanswered(&address, &error))?;
            let is_success = response.status().is_success();
            let status = response.status().as_u16();
            let header = |name: &str| response.headers().get(name)?.to_str().ok();
            let linked = header(LINK.as_str()).and_then(model_list::linked_page);
            let retry_after = delay::from_headers(header, SystemTime::now());
            let mut response = DecodedBody::new(response);
            let mut body = Vec::new();
            while let Some(chunk) = response.next_chunk().await.map_err(|fault| {
                let words = fault.message.trim_end_matches('.');
                self.error(
                    &format!("{address} answered {status}. {words}"),
                    Some(status),
                )
            })? {
                if body.len() + chunk.len() > MAX_BODY {
                    let problem = format!("{address} answered with more than 8 MiB");
                    return Err(self.error(&problem, Some(status)));
                }
                body.extend_from_slice(&chunk);
            }
            if is_success {
                return Ok(DiscoveryReply { body, linked });
            }
            Err(DiscoveryError {
                retry_after,
                ..self.error(&format!("{address} answered {status}"), Some(status))
            })
        });
        answer.await.unwrap_or_else(|_| {
            let seconds = self.patience.as_secs();
            let problem = format!("{address} was not answered within {seconds} s");
            Err(self.error(&problem, None))
        })
    }

    /// The method and the address of a request, without its query, which may hold secrets.
    fn address(&self, method: &Method, place: Place) -> String {
        let provider = self.upstream.provider();
        match place {
            Place::Api(path) => failed_request::address(method.as_str(), &provider.base_url, path),
            Place::Server(path) => {
                let server = server_address(&provider.base_url);
                failed_request::address(method.as_str(), server, path)
            }
        }
    }

    fn error(&self, problem: &str, status: Option<u16>) -> DiscoveryError {
        let id = &self.upstream.provider().id;
        let remedy = match status {
            Some(401 | 403) => " Check its key.",
            Some(404) => " Check its base_url, or list its models in the configuration.",
            _ => "",
        };
        DiscoveryError {
            message: format!("The provider '{id}' does not list its models: {problem}.{remedy}"),
            status,
            retry_after: None,
        }
    }

    fn unanswered(&self, address: &str, error: &reqwest::Error) -> DiscoveryError {
        DiscoveryError {
            message: transport::fault(self.upstream, address, error).message,
            status: None,
            retry_after: None,
        }
    }
}

/// Makes the address of a page of a list that of the one after it. A key goes nowhere else: of a
/// link to another host only the query counts.
fn turn_to(url: &mut reqwest::Url, page: &NextPage) {
    match page {
        NextPage::Parameters(pairs) => set_query(url, pairs),
        NextPage::Link(link) => {
            let Ok(target) = url.join(link) else {
                return;
            };
            if target.host() == url.host() {
                url.set_path(target.path());
            }
            let pairs: Vec<_> = target.query_pairs().collect();
            set_query(url, &pairs);
        }
    }
}

/// The address of a server without the `/v1` of its API.
pub(super) fn server_address(base_url: &str) -> &str {
    let base_url = base_url.trim_end_matches('/');
    base_url.strip_suffix("/v1").unwrap_or(base_url)
}
