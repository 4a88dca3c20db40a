//! Writes `docs/requirements.md`: what the tests prove. A test whose doc comment, or in Python the
//! comment above it, begins with `Promise:` is on that page, with the rest of the paragraph.
//!
//! `BLESS=1 cargo test --test it requirements` writes the page, `just requirements` does the same.
use std::env;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::literals::root;

const PAGE: &str = "docs/requirements.md";

const HEAD: &str = "\
# Requirements and their proofs

What Respondent promises, and for each promise the test that proves it, or the most telling one of \
several. The page is made from the tests: `just requirements` writes it anew. All tests run with \
`cargo test --workspace`, except those in `tests/clients` and the check of `respondent-linear`, \
which `.ci/run` runs.

The *founding session* (or *founding case*) is a session with more than 850 KB of tool outputs, \
of at most 40 KB each; one of them is a search result of 924,828 tokens that Codex had \
truncated. An *epoch* is the moment at which the oldest outputs of a history are replaced by \
one-line notices, many at once, so that the history stays unchanged in between.
";

/// The headings, and the beginnings of the paths of the tests below them. The longest one counts.
const SUBJECTS: &[(&str, &[&str])] = &[
    (
        "Streams",
        &[
            "adapters/src/chat",
            "adapters/src/origin.rs",
            "adapters/src/relay",
            "adapters/src/sse",
            "adapters/tests/dialects.rs",
            "adapters/tests/hostile_answers.rs",
            "adapters/tests/stream_properties.rs",
            "src/turn/tests.rs",
            "tests/it/adapting.rs",
            "tests/it/edge/routes.rs",
            "tests/it/faults/breaks.rs",
            "tests/it/faults/leaving.rs",
            "tests/it/faults/silence.rs",
            "tests/it/rounds",
            "tests/it/turns",
        ],
    ),
    (
        "Failing providers",
        &[
            "adapters/src/experiments",
            "adapters/src/fault.rs",
            "adapters/src/provider_error",
            "src/upstream/keys.rs",
            "src/turn/session_changes.rs",
            "src/upstream/learned_quirks",
            "tests/it/faults",
            "tests/it/refusals",
        ],
    ),
    ("WebSockets", &["tests/it/websocket"]),
    (
        "Requests",
        &[
            "adapters/src/responses",
            "adapters/tests/golden.rs",
            "adapters/tests/hostile_bodies.rs",
            "tests/clients/openapi.py",
            "tests/clients/programs/open_responses_client.py",
            "tests/hostile",
            "tests/it/edge",
            "src/turn/image_texts",
            "tests/it/images.rs",
            "tests/it/openapi.rs",
            "tests/it/prompts.rs",
            "tests/it/requests.rs",
        ],
    ),
    (
        "Access and secrets",
        &[
            "src/config/address.rs",
            "src/config/load",
            "src/config/watch",
            "src/serve/guard.rs",
            "src/commands/mod.rs",
            "tests/it/edge/callers.rs",
            "tests/it/secrets",
            "tests/it/supply.rs",
            "tests/it/trust.rs",
        ],
    ),
    (
        "Several clients",
        &[
            "src/commands/usage.rs",
            "tests/it/stored/fair.rs",
            "tests/it/stored/owners.rs",
        ],
    ),
    (
        "MCP servers",
        &[
            "adapters/src/tools/mcp_definition.rs",
            "src/tools/mcp_servers",
            "tests/it/mcp_servers",
        ],
    ),
    (
        "Web search",
        &[
            "adapters/src/hidden_rounds.rs",
            "adapters/src/responses/assembler/citations.rs",
            "src/app/tests.rs",
            "src/responses/input_sources.rs",
            "src/store/hidden_rounds.rs",
            "src/store/web_references.rs",
            "src/store/tests/sources.rs",
            "src/net/blocking",
            "src/tools",
            "src/turn/stored_rounds.rs",
            "src/turn/tool_arguments.rs",
            "src/turn/tool_results.rs",
            "tests/clients/search.py",
            "tests/it/web_search",
            "tests/it/pdf.rs",
            "tests/it/search.rs",
            "tests/it/standalone_search.rs",
        ],
    ),
    (
        "Memory",
        &["tests/it/faults/memory.rs", "tests/it/stored/shares.rs"],
    ),
    (
        "Stored responses and conversations",
        &[
            "adapters/src/stored_history",
            "src/store",
            "tests/it/kept.rs",
            "tests/it/stored",
        ],
    ),
    (
        "Background responses",
        &[
            "adapters/src/coalescer.rs",
            "src/jobs",
            "src/store/tests/jobs.rs",
            "tests/it/mcp_servers/interrupted.rs",
            "tests/it/stored/background.rs",
            "tests/it/stored/webhooks.rs",
        ],
    ),
    (
        "Workflows",
        &["src/config/load/tests/workflows.rs", "tests/it/workflows"],
    ),
    (
        "Long outputs",
        &[
            "adapters/excerpts",
            "adapters/src/plan",
            "adapters/tests/bounded_outputs.rs",
            "src/artifacts/search",
        ],
    ),
    (
        "Artifacts",
        &["src/artifacts", "tests/it/artifacts", "tests/it/store"],
    ),
    (
        "Windows and compaction",
        &[
            "adapters/src/plan/fit_window",
            "adapters/src/shorten.rs",
            "tests/it/compaction",
        ],
    ),
    (
        "Costs",
        &[
            "adapters/src/token_count",
            "adapters/src/plan/bound_outputs/tests/savings.rs",
            "src/store/whole_sessions.rs",
            "src/store/prompts.rs",
            "tests/it/bills",
        ],
    ),
    (
        "Recorded turns and bundles",
        &[
            "src/diagnostics",
            "tests/it/bundles",
            "tests/it/captures",
            "tests/it/secrets/bundles.rs",
        ],
    ),
    (
        "Models and the doctor",
        &[
            "src/commands/doctor",
            "tests/it/discovery.rs",
            "tests/it/doctor",
        ],
    ),
    (
        "Codex",
        &[
            "src/app/models",
            "src/codex",
            "tests/it/agents.rs",
            "tests/it/codex_setup.rs",
            "tests/it/run.rs",
            "tests/it/two_shells.rs",
        ],
    ),
    (
        "The process and its commands",
        &[
            "src/commands",
            "src/app/status/text",
            "src/log",
            "src/store/usage.rs",
            "tests/clients/hostile.py",
            "tests/clients/soak.py",
            "tests/it/background.rs",
            "tests/it/config.rs",
            "tests/it/edge/stopping.rs",
            "tests/it/faults/stopping.rs",
            "tests/it/status.rs",
            "tests/it/terminal.rs",
        ],
    ),
    ("Documents and packages", &["tests/clients"]),
];

/// A promise and its proof.
struct Promise {
    text: String,
    /// The path of the file.
    file: String,
    test: String,
}

#[test]
fn the_page_has_every_promise_of_the_tests() {
    let mut promises = Vec::new();
    for folder in ["adapters", "registry", "src", "tests"] {
        collect(&root().join(folder), &mut promises);
    }
    assert!(promises.len() > 100, "{} promises", promises.len());
    let page = page(&promises);
    let path = root().join(PAGE);
    if env::var_os("BLESS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap() == page,
        "{PAGE} is not what the tests promise; `just requirements` writes it"
    );
}

fn page(promises: &[Promise]) -> String {
    let mut page = HEAD.to_owned();
    for (subject, _) in SUBJECTS {
        let _ = write!(page, "\n## {subject}\n\n| promise | test |\n|---|---|\n");
        for Promise { text, file, test } in promises {
            if subject_of(file) == *subject {
                let text = text.replace('|', "\\|");
                let _ = writeln!(page, "| {text} | `{file}: {test}` |");
            }
        }
    }
    page
}

fn subject_of(file: &str) -> &'static str {
    let beginnings = SUBJECTS.iter().flat_map(|(subject, beginnings)| {
        let fitting = beginnings
            .iter()
            .filter(|beginning| file.starts_with(**beginning));
        fitting.map(|beginning| (beginning.len(), *subject))
    });
    let Some((_, subject)) = beginnings.max() else {
        panic!("{file} has a promise and no subject; add its path to SUBJECTS");
    };
    subject
}

/// The promises in a folder, by path.
fn collect(folder: &Path, promises: &mut Vec<Promise>) {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(Result::unwrap).collect();
    entries.sort_by_key(fs::DirEntry::path);
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name());
        let is_foreign = ["node_modules", "target"]
            .iter()
            .any(|other| name == *other)
            || name.to_string_lossy().starts_with('.');
        let mark = match path.extension().and_then(OsStr::to_str) {
            Some("rs") => "///",
            Some("py") => "#",
            _ if path.is_dir() && !is_foreign => {
                collect(&path, promises);
                continue;
            }
            _ => continue,
        };
        let file = path.strip_prefix(root()).unwrap().display().to_string();
        read(&file, mark, &fs::read_to_string(&path).unwrap(), promises);
    }
}

fn read(file: &str, mark: &str, source: &str, promises: &mut Vec<Promise>) {
    let mut text = String::new();
    let mut is_over = true;
    for line in source.lines().map(str::trim) {
        let comment = line.strip_prefix(mark).map(str::trim);
        if let Some(first) = comment.and_then(|comment| comment.strip_prefix("Promise: ")) {
            assert!(text.is_empty(), "{file}: what proves it? {text}");
            first.clone_into(&mut text);
            is_over = false;
        } else if let Some(more) = comment.filter(|comment| !comment.is_empty() && !is_over) {
            text.push(' ');
            text.push_str(more);
        } else {
            is_over = true;
            let defined = defined(line).filter(|_| comment.is_none() && !text.is_empty());
            if let Some(test) = defined {
                promises.push(Promise {
                    text: std::mem::take(&mut text),
                    file: file.to_owned(),
                    test: test.to_owned(),
                });
            }
        }
    }
    assert!(text.is_empty(), "{file}: what proves it? {text}");
}

/// The name of the function or class that a line of Rust or Python defines.
fn defined(line: &str) -> Option<&str> {
    let mut words = line.split(' ');
    words.find(|word| ["fn", "def", "class"].contains(word))?;
    let name = words.next()?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
    Some(&name[..end.unwrap_or(name.len())])
}
