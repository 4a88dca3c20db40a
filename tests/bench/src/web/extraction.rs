//! The rate at which the content of pages is found, in this process.

use std::{
    fmt::Write as _,
    hint::black_box,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, ensure};
use respondent::tools::web::extract::{self, PageShape};

use super::verdict;
use crate::{measure::to_f64, print_line};

/// The least rate that is aimed at, in MB/s.
const MIN_RATE: f64 = 5.0;

/// Measures pages of several sizes and prints a table.
pub(super) fn measure() -> anyhow::Result<()> {
    print_line("\n| a page of | MB/s | longer than one of 1 MB, for its size |");
    print_line("|---|---|---|");
    let mut rates = Vec::new();
    for kilobytes in [100, 1_000, 5_000, 10_000] {
        let html = page(kilobytes * 1_000);
        let times = (0..7).map(|_| extraction_time(&html));
        let mut times = times.collect::<anyhow::Result<Vec<_>>>()?;
        times.sort_unstable();
        let time = times.get(times.len() / 2).context("no time")?;
        rates.push((
            kilobytes,
            to_f64(html.len() as u64) / 1e6 / time.as_secs_f64(),
        ));
    }
    let of_1_mb = rates
        .iter()
        .find(|(size, _)| *size == 1_000)
        .map_or(f64::NAN, |(_, rate)| *rate);
    for (kilobytes, rate) in &rates {
        print_line(&format!(
            "| {kilobytes} KB | {rate:.1} | {:.2} |",
            of_1_mb / rate
        ));
    }
    let slowest = rates
        .iter()
        .map(|(_, rate)| *rate)
        .fold(f64::INFINITY, f64::min);
    print_line(&format!(
        "\nAim: at least {MIN_RATE} MB/s on one core: {}",
        verdict(slowest >= MIN_RATE)
    ));
    Ok(())
}

fn extraction_time(html: &str) -> anyhow::Result<Duration> {
    let url = "https://docs.example/".parse()?;
    let start = Instant::now();
    let shape = PageShape::of(html).map_err(|error| anyhow!("{error}"))?;
    let content = extract::extract(html, shape, &url).map_err(|error| anyhow!("{error}"))?;
    ensure!(content.markdown.len() > html.len() / 10, "content is lost");
    black_box(content);
    Ok(start.elapsed())
}

/// A page of about this many bytes, as documentation has them: navigation, headings, paragraphs,
/// lists, tables and code.
pub(super) fn page(size: usize) -> String {
    let mut html =
        String::from("<!doctype html><html><head><title>A long page</title></head><body><nav><ul>");
    for link in 0..30 {
        let _ = write!(
            html,
            "<li><a href=\"/chapter-{link}\">Chapter {link}</a></li>"
        );
    }
    html.push_str("</ul></nav><main><article><h1>A long page</h1>");
    for section in 0.. {
        let _ = write!(
            html,
            "<h2 id=\"s{section}\">Section {section}</h2>\
             <p>Water of {section} degrees is poured over the leaves, which <em>open slowly</em> \
             and give the <a href=\"/taste/{section}\">taste</a> that people expect of them. Whoever \
             waits longer than {section} minutes gets a bitter cup, and nobody drinks that.</p>\
             <p>{PARAGRAPH}</p><p>{PARAGRAPH}</p>\
             <ul><li>Leaves: {section} g</li><li>Water: 200 ml</li></ul>\
             <table><tr><th>Kind</th><th>Minutes</th></tr><tr><td>Green {section}</td><td>2</td></tr>\
             </table><pre><code>let cup = brew(leaves, {section});\n</code></pre>"
        );
        if html.len() >= size {
            break;
        }
    }
    html.push_str("</article></main><footer><p>About this site</p></footer></body></html>");
    html
}

const PARAGRAPH: &str = "Tea came over the sea in chests of wood, and was dear for two hundred years. \
    Those who had it kept it under lock, and those who had none drank what grew in the garden. It \
    is told that one ship alone brought as much as a town could drink in a year, and that half of \
    it was sold before the ship had been made fast.";
