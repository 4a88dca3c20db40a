//! The pages with their written truth, and how a text is held against it.

use std::{fs, path::Path, sync::LazyLock};

use regex::Regex;
use serde::Deserialize;

use crate::arms::{Content, length};

#[derive(Deserialize)]
pub struct Page {
    pub id: String,
    pub kind: String,
    #[serde(default)]
    pub held_out: bool,
    pub title: String,
    pub has: Vec<String>,
    pub lacks: Vec<String>,
    #[serde(skip)]
    pub html: String,
}

/// All pages whose file is there.
pub fn pages() -> Vec<Page> {
    #[derive(Deserialize)]
    struct List {
        page: Vec<Page>,
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = Vec::new();
    for name in ["fetched", "written"] {
        let list = fs::read_to_string(folder.join(name).with_extension("toml")).unwrap();
        for mut page in toml::from_str::<List>(&list).unwrap().page {
            let Ok(bytes) = fs::read(folder.join(name).join(&page.id).with_extension("html"))
            else {
                eprintln!("{} is not there: run fetch.py", page.id);
                continue;
            };
            page.html = decode(&bytes);
            pages.push(page);
        }
    }
    pages
}

/// UTF-8, or else Latin-1: no page of the list has another charset.
fn decode(bytes: &[u8]) -> String {
    match str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().copied().map(char::from).collect(),
    }
}

/// A text without what Markdown adds and without the differences between kinds of space.
pub fn plain(text: &str) -> String {
    static LINK: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r#"!?\[((?:[^\[\]]|\\.)*)\]\((?:<[^>]*>|(?:[^()\s]|\([^()\s]*\))*)(?:\s"[^"]*")?\)"#,
        )
        .unwrap()
    });
    let mut text = LINK.replace_all(text, "$1").into_owned();
    for (entity, char) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&#124;", "|"),
        ("&nbsp;", " "),
        ("&amp;", "&"),
    ] {
        text = text.replace(entity, char);
    }
    let mut plain = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\\' | '*' | '_' | '`' | '|' | '#' | '>' | '~' | '\u{200b}' | '\u{ad}' => {}
            char if char.is_whitespace() => {
                if !plain.ends_with(|last: char| last == ' ' || is_wide(last)) {
                    plain.push(' ');
                }
            }
            char => {
                if is_wide(char) && plain.ends_with(' ') {
                    plain.pop();
                }
                plain.push(char);
            }
        }
    }
    plain
}

/// Between such characters a line break is no space.
fn is_wide(char: char) -> bool {
    matches!(char, '\u{3000}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{ff00}'..='\u{ffef}')
}

/// Each part is between 0 and 1, and absent where the page has no such truth.
#[derive(Default)]
pub struct Score {
    pub recall: Option<f64>,
    pub precision: Option<f64>,
    pub title: Option<f64>,
    pub missing: Vec<String>,
    pub boilerplate: Vec<String>,
}

pub fn score(page: &Page, content: &Content) -> Score {
    let text = plain(&content.markdown);
    let (present, missing) = split(&page.has, |snippet| text.contains(&plain(snippet)));
    let (boilerplate, absent) = split(&page.lacks, |snippet| text.contains(&plain(snippet)));
    let share = |part: usize, all: usize| (all > 0).then(|| part as f64 / all as f64);
    let title = plain(&content.title);
    let wanted = plain(&page.title);
    Score {
        // A page without text is understood by whoever says that it has none.
        recall: share(present.len(), page.has.len())
            .or(Some(f64::from(length(&content.markdown) < 100))),
        precision: share(absent.len(), page.lacks.len()),
        title: (!wanted.is_empty()).then(|| {
            let right = title.contains(wanted.trim())
                && title.chars().count() <= wanted.chars().count() + 60;
            f64::from(right)
        }),
        missing,
        boilerplate,
    }
}

fn split(all: &[String], is_first: impl Fn(&String) -> bool) -> (Vec<String>, Vec<String>) {
    all.iter().cloned().partition(is_first)
}
