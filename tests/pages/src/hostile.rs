//! How long each extractor takes on pages that mean harm. Each run is a process of its own, since a
//! full stack ends the process.

use std::{
    env,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{arms::ARMS, guard};

const PATIENCE: Duration = Duration::from_secs(40);

type Input = (&'static str, fn() -> String);

const INPUTS: &[Input] = &[
    ("5,000 nested divs", || {
        "<div>".repeat(5_000) + "<p>deep</p>"
    }),
    ("250 nested divs, 200 KB", || {
        "<div>".repeat(250) + &"<p>Some words, a comma, and an end.</p>".repeat(5_200)
    }),
    ("2 MB of flat paragraphs", || {
        "<p>Some words, a comma, and an end.</p>".repeat(52_000)
    }),
    ("2 MB of flat links", || {
        "<li><a href=/x>a link</a></li>".repeat(67_000)
    }),
    ("200,000 unclosed spans", || "<span>word ".repeat(200_000)),
    ("200,000 unclosed paragraphs", || {
        "<p>word, word ".repeat(200_000)
    }),
    ("1 MB of NUL bytes in text", || {
        "<p>a\0b, c\0</p>".repeat(80_000)
    }),
    ("a million attributes", || {
        let mut html = String::from("<div ");
        (0..200_000).for_each(|number| html.push_str(&format!("a{number}=1 ")));
        html + "><p>text</p>" + &"<i a b c d>x</i>".repeat(200_000)
    }),
];

/// Runs one extractor on one input: what the processes do that `table` starts.
pub fn run(arm: &str, input: &str, is_guarded: bool) {
    let (_, arm) = ARMS.iter().find(|(name, _)| *name == arm).unwrap();
    let (_, input) = INPUTS.iter().find(|(name, _)| *name == input).unwrap();
    let html = input();
    let (result, seconds) = guard::run(*arm, &html, is_guarded);
    let text = match result {
        Ok(content) => format!("{} KB out", content.markdown.len() / 1000),
        Err(error) => error,
    };
    println!("{seconds:.2} s, {text}");
}

pub fn table(arms: &[&str]) {
    println!("| input | {} |", arms.join(" | "));
    println!("|---|{}", "---|".repeat(arms.len()));
    for (input, _) in INPUTS {
        let cells: Vec<String> = arms
            .iter()
            .flat_map(|arm| {
                let guarded = timed(arm, input, "guarded");
                if guarded.contains("too deep") {
                    vec![format!(
                        "{guarded}; without the guard {}",
                        timed(arm, input, "open")
                    )]
                } else {
                    vec![guarded]
                }
            })
            .collect();
        println!("| {input} | {} |", cells.join(" | "));
    }
}

fn timed(arm: &str, input: &str, guard: &str) -> String {
    let start = Instant::now();
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["hostile-run", arm, input, guard])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            return "over 40 s".to_owned();
        }
        thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if said.is_empty() {
        format!("died ({})", output.status)
    } else {
        said
    }
}
