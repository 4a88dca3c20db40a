//! `respondent search` and `respondent open`: what a model sees of the web, from the running server
//! or, if none runs, with the configuration of this shell.

use anyhow::Context;
use bytes::Bytes;
use http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::cli::{EXIT_DIFFERENT, EXIT_OK};
use super::progress::Progress;
use super::{ok_body, parse_answer, print_error, print_json, print_text};
use crate::app::web::{ScrapeAnswer, ScrapeBody, SearchAnswer, SearchBody};
use crate::app::web::{scrape_answer, search_answer};
use crate::config::Config;
use crate::config::search::SearchMode;
use crate::control::{ControlClient, ControlError};
use crate::net::memory::ProcessMemory;
use crate::tools::setup;
use crate::tools::web::service::WebTools;

/// Searches, and prints what was found. The exit code says whether something was.
pub async fn search(config: &Config, body: SearchBody, json: bool) -> anyhow::Result<u8> {
    if body.query.trim().is_empty() {
        anyhow::bail!("there is nothing to search for: give some words");
    }
    let progress = Progress::begin("Searching the web");
    let answer: SearchAnswer = match ask_server(config, "/v1/search", &body).await? {
        Some(answer) => answer,
        None => search_answer(&own_tools(config)?, body).await?,
    };
    drop(progress);
    if json {
        print_json(&answer)?;
    } else {
        print_text(&answer.text)?;
    }
    let has_found = answer.results.iter().any(|result| !result.synthetic);
    Ok(if has_found { EXIT_OK } else { EXIT_DIFFERENT })
}

/// Reads a page, and prints it. The exit code says whether it was read.
pub async fn open(config: &Config, body: ScrapeBody, json: bool) -> anyhow::Result<u8> {
    let progress = Progress::begin("Reading the page");
    let answer: ScrapeAnswer = match ask_server(config, "/v1/scrape", &body).await? {
        Some(answer) => answer,
        None => scrape_answer(&own_tools(config)?, &body).await?,
    };
    drop(progress);
    let markdown = answer.page.as_ref().and_then(|page| page.markdown.as_ref());
    match markdown {
        _ if json => print_json(&answer)?,
        Some(markdown) => print_text(markdown)?,
        None => print_text(&answer.text)?,
    }
    let is_read = answer.page.is_some();
    Ok(if is_read { EXIT_OK } else { EXIT_DIFFERENT })
}

/// The answer of the running server; `None` if none runs, which the user is told.
async fn ask_server<T: DeserializeOwned>(
    config: &Config,
    path: &str,
    body: &impl Serialize,
) -> anyhow::Result<Option<T>> {
    let control = ControlClient::new(config);
    let body = Bytes::from(serde_json::to_vec(body)?);
    match control.send(&Method::POST, path, body).await {
        Ok(answer) => Ok(Some(parse_answer(&ok_body(answer)?)?)),
        Err(ControlError::NotRunning(address)) => {
            print_error(&format!(
                "No server runs on {address}; the configuration and the keys of this shell are used.\n"
            ));
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn own_tools(config: &Config) -> anyhow::Result<WebTools> {
    if config.search.mode == SearchMode::Off {
        anyhow::bail!("the web is neither searched nor read: mode = \"off\" in [search]");
    }
    let memory = ProcessMemory::new(config.memory_limit());
    setup::web_tools(&config.search, &memory).context("the web cannot be reached")
}
