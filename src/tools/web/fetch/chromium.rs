//! Asks a Chromium on this machine for a page that scripts fill: one process with a new profile for
//! each page, which has no way to the network but [`GuardedProxy`].

use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use thiserror::Error;
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use url::Url;

use super::browser_profile::BrowserProfile;
use super::guarded_proxy::GuardedProxy;
use super::{FetchLimits, FetchedPage};
use crate::net::memory::{MemoryKind, MemoryShare, ProcessMemory, SharedMemory};
use crate::tools::web::child::{ChildError, ChildLimits, output_of};
use crate::tools::web::dialler::WebDialler;

/// How many browsers run at once.
const BROWSERS: usize = 2;
/// Starts the browser, which is the first argument, with limits that its processes have too: no
/// core files, and 2 GiB for each to write to. They map much more.
const LIMITED: &str = "ulimit -c 0; ulimit -d 2097152; exec \"$0\" \"$@\"";
/// What is in the page that Chromium shows in place of one that it cannot load.
const ERROR_PAGE: &str = "id=\"main-frame-error\"";

/// What it never does: load what it was not asked for, open a file, keep or send anything of its
/// own, look up a name, or go past the proxy, also to loopback and with WebRTC. The clock of
/// scripts runs ahead while nothing is loaded, for ten seconds at most.
const ARGUMENTS: &[&str] = &[
    "--headless",
    "--dump-dom",
    "--incognito",
    "--virtual-time-budget=10000",
    "--timeout=15000",
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--dns-prefetch-disable",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-plugins",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pings",
    "--mute-audio",
    "--deny-permission-prompts",
    "--blink-settings=imagesEnabled=false",
    "--js-flags=--max-old-space-size=512",
    "--renderer-process-limit=2",
    "--password-store=basic",
    "--use-mock-keychain",
];

/// Why Chromium has no page.
#[derive(Debug, Error)]
pub enum ChromiumError {
    /// The program has not done what it should.
    #[error(transparent)]
    Browser(Box<dyn std::error::Error + Send + Sync>),
    /// It shows a page that says that there is none.
    #[error("the browser could not load the page")]
    NoPage,
}

/// A Chromium on this machine. One for the server, or for a command.
pub struct Chromium {
    program: PathBuf,
    dialler: WebDialler,
    memory: ProcessMemory,
    limits: ChildLimits,
    browsers: Semaphore,
    /// Whether the profiles of programs that were killed have been deleted.
    swept: Arc<Once>,
}

impl Chromium {
    /// Pages within these limits, which the program gets from where the dialler may go. It needs
    /// twice the time of other pages.
    pub fn new(
        program: PathBuf,
        dialler: WebDialler,
        memory: ProcessMemory,
        limits: FetchLimits,
    ) -> Self {
        Self {
            program,
            dialler,
            memory,
            limits: ChildLimits {
                time: limits.total * 2,
                bytes: limits.bytes,
            },
            browsers: Semaphore::new(BROWSERS),
            swept: Arc::new(Once::new()),
        }
    }

    /// The page as it is after its scripts have run. Dropping the future ends the browser and
    /// deletes its profile.
    pub async fn content(&self, url: &Url) -> Result<FetchedPage, ChromiumError> {
        let _browser = self.browsers.acquire().await;
        let swept = Arc::clone(&self.swept);
        let profile = spawn_blocking(move || {
            swept.call_once(BrowserProfile::delete_abandoned);
            BrowserProfile::new()
        });
        let profile = profile.await.map_err(failed)?.map_err(failed)?;
        let proxy = GuardedProxy::bind(self.dialler.clone()).await;
        let proxy = proxy.map_err(failed)?;
        let command = self.command(&profile.path, &proxy, url);
        let mut share = self.memory.share(MemoryKind::Requests);
        let body = self.run(command, &proxy, &mut share).await;
        let body = body.map_err(failed)?;
        share.set(body.capacity());
        let error_page = ERROR_PAGE.as_bytes();
        if memchr::memmem::find(&body, error_page).is_some() {
            return Err(ChromiumError::NoPage);
        }
        Ok(FetchedPage {
            url: url.clone(),
            content_type: "text/html; charset=utf-8".to_owned(),
            body,
            memory: SharedMemory::new(share),
        })
    }

    async fn run(
        &self,
        command: Command,
        proxy: &GuardedProxy,
        share: &mut MemoryShare,
    ) -> Result<Vec<u8>, ChildError> {
        tokio::select! {
            output = output_of(command, &[], self.limits, share) => output,
            () = proxy.serve() => Err(ChildError::Failed),
        }
    }

    fn command(&self, profile: &Path, proxy: &GuardedProxy, url: &Url) -> Command {
        let mut command = Command::new("/bin/sh");
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", profile)
            .env("TMPDIR", profile)
            .current_dir(profile)
            .args(["-c", LIMITED])
            .arg(&self.program)
            .args(ARGUMENTS)
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("--proxy-server=http://{}", proxy.address()))
            .arg(url.as_str());
        command
    }
}

fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ChromiumError {
    ChromiumError::Browser(error.into())
}
