//! The rules of servers for robots, which are kept where the operator wants it (RFC 9309).

use std::sync::Arc;
use std::time::Duration;

use hashlink::LruCache;
use parking_lot::Mutex;
use texting_robots::Robot;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;
use url::Url;

use super::native::NativeFetcher;
use super::{FetchError, FetchLimits, Fetcher};
use crate::net::blocking::run_at_low_priority;
use crate::net::memory::CountedValue;
use crate::tools::web::client::WebClient;
use crate::tools::web::page::PageError;

/// The name by which servers have rules for this program.
const ROBOT: &str = "respondent";
/// The largest file of rules: robots need not read more.
const MAX_BYTES: usize = 500 << 10;
/// The most rules with an end, each of which is compiled.
const MAX_ANCHORED: usize = 1_000;
/// How long rules are kept, and of how many servers.
const LIFETIME: Duration = Duration::from_hours(1);
const MAX_SERVERS: usize = 128;
/// What the rules take for each byte of their file.
const RULE_COPIES: usize = 8;

/// The rules of the servers that were asked.
pub struct RobotRules {
    fetcher: NativeFetcher,
    known: Mutex<LruCache<String, Arc<KnownRules>>>,
}

/// The rules of a server, and when they were asked for. Whoever asks for them holds the lock, so
/// that others of the same server wait for the answer.
type KnownRules = AsyncMutex<Option<(Instant, ServerRules)>>;

#[derive(Clone)]
enum ServerRules {
    /// The server has none.
    None,
    /// What the file says.
    File(Arc<CountedValue<Robot>>),
}

impl RobotRules {
    /// No server was asked yet.
    pub fn new(client: WebClient) -> Self {
        let limits = FetchLimits {
            bytes: MAX_BYTES,
            ..FetchLimits::default()
        };
        Self {
            fetcher: NativeFetcher::new(client, limits),
            known: Mutex::new(LruCache::new(MAX_SERVERS)),
        }
    }

    /// Fails if the server of a page does not allow it. A server that cannot say what it allows
    /// allows nothing.
    pub async fn check(&self, url: &Url) -> Result<(), PageError> {
        let mut file = url.clone();
        file.set_path("/robots.txt");
        file.set_query(None);
        let key = file.to_string();
        let entry = {
            let mut known = self.known.lock();
            Arc::clone(known.entry(key).or_insert_with(Arc::default))
        };
        let mut entry = entry.lock().await;
        let fresh = entry.take().filter(|(read, _)| read.elapsed() < LIFETIME);
        let (read, rules) = match fresh {
            Some(known) => known,
            None => (Instant::now(), self.fetch(&file).await?),
        };
        *entry = Some((read, rules.clone()));
        drop(entry);
        match rules {
            ServerRules::File(robot) if !robot.allowed(url.as_str()) => Err(PageError::Robots),
            ServerRules::File(_) | ServerRules::None => Ok(()),
        }
    }

    async fn fetch(&self, file: &Url) -> Result<ServerRules, PageError> {
        let fetched = match self.fetcher.fetch(file).await {
            Ok(fetched) => fetched,
            Err(FetchError::Status(status)) if status.is_client_error() => {
                return Ok(ServerRules::None);
            }
            Err(FetchError::Status(_) | FetchError::TooManyRedirects(_)) => {
                return Err(PageError::Robots);
            }
            Err(error @ (FetchError::BadUrl(_) | FetchError::NoAnswer(_))) => {
                return Err(error.into());
            }
        };
        let anchored = memchr::memchr_iter(b'$', &fetched.body).count();
        if anchored > MAX_ANCHORED {
            return Err(PageError::Robots);
        }
        let size = fetched.body.len() * RULE_COPIES;
        let memory = fetched.memory;
        memory.grow(size).map_err(|_| PageError::NoMemory)?;
        let robot = run_at_low_priority(move || Robot::new(ROBOT, &fetched.body).ok());
        let robot = robot.await.flatten().ok_or(PageError::Robots)?;
        Ok(ServerRules::File(Arc::new(CountedValue::new(
            robot, memory,
        ))))
    }
}
