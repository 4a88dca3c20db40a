//! Keeps `docs/requirements.md` consistent with the tests.
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = "docs/requirements.md";

/// A row of the page: `| id | promise | proofs |`.
struct Row {
    id: String,
    /// (file, text that the file must contain)
    proofs: Vec<(String, String)>,
}

#[test]
fn every_proof_in_the_requirements_exists() {
    let rows = rows();
    assert!(rows.len() > 20, "the page has too few rows");
    let mut seen = BTreeSet::new();
    for row in &rows {
        assert!(seen.insert(&row.id), "{} has two rows", row.id);
        assert!(!row.proofs.is_empty(), "{} has no proof", row.id);
        for (file, text) in &row.proofs {
            let content = fs::read_to_string(root().join(file))
                .unwrap_or_else(|error| panic!("{}: {file}: {error}", row.id));
            // Long names are split over two lines in the code, so white space is ignored.
            assert!(
                without_white_space(&content).contains(&without_white_space(text)),
                "{}: {file} has no `{text}`",
                row.id
            );
        }
    }
}

#[test]
fn every_requirement_that_a_test_names_has_a_row() {
    let known: BTreeSet<String> = rows().into_iter().map(|row| row.id).collect();
    let mut missing = BTreeSet::new();
    for path in ["adapters", "registry", "src", "tests"].map(|folder| root().join(folder)) {
        visit_sources(&path, &mut |file| {
            let text = fs::read_to_string(file).unwrap();
            let comments_and_strings = text
                .lines()
                .filter(|line| line.contains("//") || line.contains('"'));
            for id in comments_and_strings
                .flat_map(ids)
                .filter(|id| !known.contains(*id))
            {
                missing.insert(format!("{id} in {}", file.display()));
            }
        });
    }
    assert!(missing.is_empty(), "{PAGE} lacks {missing:#?}");
}

fn rows() -> Vec<Row> {
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    page.lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
            let id = cells.next().filter(|cell| is_id(cell))?;
            let proofs = cells.next_back().and(cells.next_back())?;
            // The texts between pairs of backticks.
            let quoted = proofs.split('`').skip(1).step_by(2);
            let proof = |quoted: &str| {
                let (file, text) = quoted
                    .split_once(": ")
                    .unwrap_or_else(|| panic!("{id}: `{quoted}` is not `file: name`"));
                (file.to_owned(), text.to_owned())
            };
            Some(Row {
                id: id.to_owned(),
                proofs: quoted.map(proof).collect(),
            })
        })
        .collect()
}

/// The ids among the words of a line.
fn ids(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '.' | '_')))
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| is_id(word))
}

/// Whether a word is an id: `R6` and `S31` are about reliability and security, `S3-1.1a` is a
/// requirement of the product.
fn is_id(word: &str) -> bool {
    let Some(number) = word.strip_prefix(['R', 'S']) else {
        return false;
    };
    let (number, part) = number.split_once('-').unwrap_or((number, "1"));
    (1..=2).contains(&number.len())
        && number.bytes().all(|b| b.is_ascii_digit())
        && (part.len() == 2 || part.bytes().any(|b| b.is_ascii_digit()))
}

/// Calls `visit` with every Rust and Python file below `folder`, except for dependencies and build
/// output.
fn visit_sources(folder: &Path, visit: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let is_excluded = ["node_modules", "target"].iter().any(|skip| name == *skip)
            || name.to_string_lossy().starts_with('.');
        if is_excluded {
            continue;
        }
        if path.is_dir() {
            visit_sources(&path, visit);
        } else if [Some(OsStr::new("rs")), Some(OsStr::new("py"))].contains(&path.extension()) {
            visit(&path);
        }
    }
}

fn without_white_space(text: &str) -> String {
    text.split_whitespace().collect()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
