//! Collects what people read into one file, so that it can be read as one text: the help of every
//! command, the messages about failing providers, and every sentence in the code of the program.
//! Nothing is listed by hand, so nothing can be missing.
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::CommandFactory;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use respondent::commands::cli::Cli;

use crate::faults::provider_messages;
use crate::literals::{root, rust_files};
use crate::proxy::Setup;

/// Attributes whose texts nobody reads at run time. Doc comments are shown by the help, if at all.
const SILENT_ATTRIBUTES: [&str; 7] = [
    "doc", "expect", "allow", "cfg", "schemars", "serde", "strum",
];

/// Files and folders whose texts are compared with what others wrote.
const COMPARED: [&str; 6] = [
    "provider_error/kind.rs",
    "provider_error/overflow.rs",
    "provider_error/patches/",
    "chat/refusals.rs",
    "relay/refusals.rs",
    "excerpts/src/classify/",
];

/// The characters of a line of code, by rustfmt's default.
const MAX_COMMENT_CHARS: usize = 100;

#[kit::test]
async fn all_texts_for_people_are_in_one_file() {
    let mut text = String::new();
    let folder = tempfile::tempdir().unwrap();
    for command in commands() {
        let name = command.join(" ");
        for flag in ["--help", "-h"] {
            let help = help(folder.path(), &command, flag).await;
            let _ = writeln!(text, "# respondent {name} {flag}\n\n{help}");
        }
    }
    for (name, page) in manual_pages(folder.path()).await {
        let _ = writeln!(text, "# {name}\n\n{page}");
    }
    let _ = writeln!(text, "# Failing providers\n");
    for message in provider_messages() {
        let _ = writeln!(text, "{message}\n");
    }
    let mut files = 0;
    for file in rust_files(&[
        "src",
        "adapters/src",
        "adapters/excerpts/src",
        "registry/src",
    ]) {
        let name = file.strip_prefix(root()).unwrap().display().to_string();
        let sentences = sentences(&file);
        let is_compared = COMPARED.iter().any(|part| name.contains(part));
        if !is_test(&name) && !is_compared && !sentences.is_empty() {
            files += 1;
            let _ = writeln!(text, "# {name}\n");
            for sentence in sentences {
                let _ = writeln!(text, "{sentence}\n");
            }
        }
    }
    assert!(files > 50, "{files} files have texts");
    for part in [
        "Usage: respondent",
        "# respondent bundle create -h",
        "# respondent-artifacts-gc.1",
        "does not accept the key from",
        "is in use by another program",
    ] {
        assert!(text.contains(part), "{part}");
    }
    assert!(!text.contains("for every model"), "no such promise");
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("texts.txt");
    fs::write(&path, text).unwrap();
}

/// Every command and subcommand, each as the words behind the program.
fn commands() -> Vec<Vec<String>> {
    fn add(words: &[String], command: &clap::Command, found: &mut Vec<Vec<String>>) {
        found.push(words.to_vec());
        for inner in command.get_subcommands() {
            add(
                &[words, &[inner.get_name().to_owned()]].concat(),
                inner,
                found,
            );
        }
    }
    let mut found = Vec::new();
    add(&[], &Cli::command(), &mut found);
    assert!(found.len() > 10, "{found:?}");
    found
}

/// The manual pages, as (file name, source).
async fn manual_pages(folder: &Path) -> Vec<(String, String)> {
    let (code, _, err) = Setup::new().arg("man").arg("pages").run(folder).await;
    assert_eq!(code, 0, "{err}");
    let files = fs::read_dir(folder.join("pages")).unwrap();
    let page = |file: fs::DirEntry| {
        let name = file.file_name().into_string().unwrap();
        (name, fs::read_to_string(file.path()).unwrap())
    };
    let mut pages: Vec<_> = files.map(|file| page(file.unwrap())).collect();
    pages.sort();
    assert!(pages.len() > 10);
    pages
}

async fn help(folder: &Path, command: &[String], flag: &str) -> String {
    let setup = command
        .iter()
        .fold(Setup::new(), |setup, name| setup.arg(name));
    let (code, out, err) = setup.arg(flag).run(folder).await;
    assert_eq!(code, 0, "{command:?}: {err}");
    out
}

fn is_test(name: &str) -> bool {
    name.ends_with("tests.rs") || name.contains("/tests/")
}

/// The string literals of a file that read like a sentence or a part of one, without its tests.
fn sentences(file: &Path) -> BTreeSet<String> {
    let code = fs::read_to_string(file).unwrap();
    let tokens = TokenStream::from_str(&code).unwrap();
    let mut found = BTreeSet::new();
    collect(tokens, &mut found);
    found
}

fn collect(tokens: TokenStream, found: &mut BTreeSet<String>) {
    let mut is_of_test = false;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                let is_bang = |token: &TokenTree| token.to_string() == "!";
                tokens.next_if(is_bang);
                if let Some(TokenTree::Group(attribute)) = tokens.peek()
                    && attribute.delimiter() == Delimiter::Bracket
                {
                    let words = attribute.stream().to_string();
                    is_of_test |= words.replace(' ', "") == "cfg(test)";
                    let name = words.split([' ', '(', '=']).next().unwrap_or_default();
                    if SILENT_ATTRIBUTES.contains(&name) {
                        tokens.next();
                    }
                }
            }
            TokenTree::Group(group) => {
                let is_body = group.delimiter() == Delimiter::Brace;
                if !(is_body && is_of_test) {
                    collect(group.stream(), found);
                }
                is_of_test &= !is_body;
            }
            TokenTree::Literal(literal) => {
                if let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string())
                    && is_sentence(&text.value())
                {
                    found.insert(text.value());
                }
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => is_of_test = false,
            TokenTree::Punct(_) | TokenTree::Ident(_) => {}
        }
    }
}

/// The program prints an error with its sources behind it, so a message must not contain a source.
#[test]
fn no_error_text_holds_its_source_twice() {
    let mut faults = Vec::new();
    let mut messages = 0;
    for file in rust_files(&[
        "src",
        "adapters/src",
        "adapters/excerpts/src",
        "registry/src",
    ]) {
        let code = fs::read_to_string(&file).unwrap();
        for (message, fields) in error_messages(&syn::parse_file(&code).unwrap()) {
            messages += 1;
            let shown = |name: &str| {
                let part = format!("{{{name}");
                message
                    .match_indices(&part)
                    .any(|(at, _)| message[at + part.len()..].starts_with(['}', ':']))
            };
            if sources(&fields).iter().any(|name| shown(name)) {
                faults.push(format!("{}: {message}", file.display()));
            }
        }
    }
    assert!(messages > 50, "{messages}");
    assert_eq!(faults, [""; 0]);
}

/// rustfmt does not wrap comments. The rows of a table and lines that only have a link may be
/// longer.
#[test]
fn no_comment_line_is_longer_than_the_lines_of_the_code() {
    let mut faults = Vec::new();
    let mut comments = 0;
    for file in rust_files(&["src", "adapters", "registry", "tests"]) {
        let code = fs::read_to_string(&file).unwrap();
        for (index, line) in code.lines().enumerate() {
            let Some(comment) = line.trim_start().strip_prefix("//") else {
                continue;
            };
            comments += 1;
            let text = comment.trim_start_matches(['/', '!']).trim_start();
            let may_be_long = text.starts_with('|') || !text.contains(' ');
            if !may_be_long && line.chars().count() > MAX_COMMENT_CHARS {
                faults.push(format!("{}:{}", file.display(), index + 1));
            }
        }
    }
    assert!(comments > 1000, "{comments}");
    let message = format!("comments beyond {MAX_COMMENT_CHARS} characters, to be wrapped by hand");
    assert_eq!(faults, [""; 0], "{message}");
}

/// The messages of the errors that a file defines, each with the fields of its error.
fn error_messages(file: &syn::File) -> Vec<(String, syn::Fields)> {
    let mut found = Vec::new();
    let mut add = |attributes: &[syn::Attribute], fields: &syn::Fields| {
        for attribute in attributes
            .iter()
            .filter(|attribute| attribute.path().is_ident("error"))
        {
            let tokens = attribute.parse_args::<TokenStream>().unwrap();
            let first = tokens.into_iter().next().unwrap().to_string();
            if let Ok(message) = syn::parse_str::<syn::LitStr>(&first) {
                found.push((message.value(), fields.clone()));
            }
        }
    };
    for item in &file.items {
        match item {
            syn::Item::Enum(item) => {
                for variant in &item.variants {
                    add(&variant.attrs, &variant.fields);
                }
            }
            syn::Item::Struct(item) => add(&item.attrs, &item.fields),
            _ => {}
        }
    }
    found
}

/// The names of the fields that are sources.
fn sources(fields: &syn::Fields) -> Vec<String> {
    let fields = fields.iter().enumerate();
    let sources = fields.filter(|(_, field)| {
        let marked = |name| {
            field
                .attrs
                .iter()
                .any(|attribute| attribute.path().is_ident(name))
        };
        let named = field.ident.as_ref().is_some_and(|name| name == "source");
        named || marked("source") || marked("from")
    });
    sources
        .map(|(index, field)| {
            let name = field.ident.as_ref().map(ToString::to_string);
            name.unwrap_or_else(|| index.to_string())
        })
        .collect()
}

/// Whether a text has three words, and none that is code.
fn is_sentence(text: &str) -> bool {
    let words = text.split_whitespace();
    let plain = words.filter(|word| {
        word.chars()
            .all(|c| c.is_alphabetic() || ",.;:'".contains(c))
    });
    plain.count() >= 3
}
