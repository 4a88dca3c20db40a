//! Compares extractors of the main content of web pages. Prints Markdown tables.
//!
//! respondent-pages known|held-out      the scores, over the pages that may be looked at or not
//! respondent-pages misses ARM          what one extractor loses and keeps, on the known pages
//! respondent-pages show ARM PAGE       what one extractor makes of a page
//! respondent-pages hostile             the time that pages take which mean harm

mod arms;
mod guard;
mod hostile;
mod truth;

use std::{env, panic};

use arms::{ARMS, Arm, length};
use truth::{Page, Score};

const KINDS: &[&str] = &[
    "article", "docs", "forum", "listing", "code", "table", "cjk",
];

/// What one extractor made of one page.
struct Run<'p> {
    page: &'p Page,
    score: Score,
    seconds: f64,
    has_failed: bool,
    fences: Option<bool>,
    rows: Option<bool>,
}

fn main() {
    panic::set_hook(Box::new(|_| {}));
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["known"] => scores(false),
        ["held-out"] => scores(true),
        ["misses", arm] => misses(arm),
        ["show", arm, id] => show(arm, id),
        ["hostile"] => {
            hostile::table(&["dom_smoothie", "trafilatura", "rs-trafilatura", "landmarks"]);
        }
        ["hostile-run", arm, input, guard] => hostile::run(arm, input, guard == "guarded"),
        _ => eprintln!("known, held-out, misses ARM, show ARM PAGE or hostile"),
    }
}

fn arm(name: &str) -> Arm {
    ARMS.iter()
        .find(|(known, _)| *known == name)
        .map(|(_, arm)| *arm)
        .unwrap()
}

fn run<'p>(arm: Arm, page: &'p Page) -> Run<'p> {
    let (result, seconds) = guard::run(arm, &page.html, true);
    let is_ok = result.is_ok();
    let content = result.unwrap_or(arms::Content {
        title: String::new(),
        markdown: String::new(),
    });
    let text = &content.markdown;
    let is_in_page = |tag: &str| page.html.contains(tag);
    Run {
        page,
        score: truth::score(page, &content),
        seconds,
        // A page without text has to fail.
        has_failed: (!is_ok || length(text) < 100) && !page.has.is_empty(),
        fences: (page.kind == "code" && is_in_page("<pre")).then(|| text.contains("```")),
        rows: (page.kind == "table").then(|| text.lines().any(|line| line.starts_with("| "))),
    }
}

fn mean(values: impl Iterator<Item = Option<f64>>) -> f64 {
    let values: Vec<f64> = values.flatten().collect();
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn f1(runs: &[&Run<'_>]) -> (f64, f64, f64) {
    let recall = mean(runs.iter().map(|run| run.score.recall));
    let precision = mean(runs.iter().map(|run| run.score.precision));
    (
        recall,
        precision,
        2.0 * recall * precision / (recall + precision).max(f64::EPSILON),
    )
}

fn scores(held_out: bool) {
    let pages: Vec<Page> = truth::pages()
        .into_iter()
        .filter(|page| page.held_out == held_out)
        .collect();
    let runs: Vec<(&str, Vec<Run<'_>>)> = ARMS
        .iter()
        .map(|(name, arm)| {
            // The first page also pays for tables that are made once.
            run(*arm, &pages[0]);
            (*name, pages.iter().map(|page| run(*arm, page)).collect())
        })
        .collect();

    println!("{} pages. F1 by kind:\n", pages.len());
    println!("| extractor | {} | all |", KINDS.join(" | "));
    println!("|---|{}---|", "---|".repeat(KINDS.len()));
    for (name, runs) in &runs {
        let of = |kind: &str| {
            let runs: Vec<&Run<'_>> = runs.iter().filter(|run| run.page.kind == kind).collect();
            format!("{:.2}", f1(&runs).2)
        };
        let kinds: Vec<String> = KINDS.iter().map(|kind| of(kind)).collect();
        let all: Vec<&Run<'_>> = runs.iter().collect();
        println!("| {name} | {} | {:.2} |", kinds.join(" | "), f1(&all).2);
    }

    println!(
        "\n| kind | extractor | recall | precision | F1 | title | ms/MB | failures | code fenced | tables kept |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for kind in KINDS.iter().copied().chain(["all"]) {
        for (name, runs) in &runs {
            let runs: Vec<&Run<'_>> = runs
                .iter()
                .filter(|run| kind == "all" || run.page.kind == kind)
                .collect();
            let (recall, precision, f1) = f1(&runs);
            let title = mean(runs.iter().map(|run| run.score.title));
            let megabytes = runs.iter().map(|run| run.page.html.len()).sum::<usize>() as f64 / 1e6;
            let time = runs.iter().map(|run| run.seconds).sum::<f64>() * 1000.0 / megabytes;
            let failures = runs.iter().filter(|run| run.has_failed).count();
            println!(
                "| {kind} | {name} | {recall:.2} | {precision:.2} | {f1:.2} | {title:.2} | {time:.0} | {failures} | {} | {} |",
                counted(runs.iter().filter_map(|run| run.fences)),
                counted(runs.iter().filter_map(|run| run.rows)),
            );
        }
    }
}

fn counted(answers: impl Iterator<Item = bool>) -> String {
    let answers: Vec<bool> = answers.collect();
    format!(
        "{}/{}",
        answers.iter().filter(|yes| **yes).count(),
        answers.len()
    )
}

fn misses(name: &str) {
    for page in truth::pages().iter().filter(|page| !page.held_out) {
        let score = run(arm(name), page).score;
        for snippet in score.missing {
            println!("{} {} misses: {snippet}", page.kind, page.id);
        }
        for snippet in score.boilerplate {
            println!("{} {} keeps: {snippet}", page.kind, page.id);
        }
    }
}

fn show(name: &str, id: &str) {
    let pages = truth::pages();
    let page = pages.iter().find(|page| page.id == id).unwrap();
    match guard::run(arm(name), &page.html, true).0 {
        Ok(content) => println!("title: {}\n\n{}", content.title, content.markdown),
        Err(error) => println!("error: {error}"),
    }
}
