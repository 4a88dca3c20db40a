//! The tables of `docs/requests.md` that say what becomes of each part of a request, as data for
//! the tests that hold the code against them.

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/requests.md");

/// A row of such a table.
#[derive(Clone, Debug)]
pub struct DocumentedPart {
    /// The first cell, Markdown. The names of the API are code.
    what: String,
    /// The first word of the second cell, such as `mapped` or `ignored`.
    pub fate: String,
}

impl DocumentedPart {
    /// The names of the API that the row is about, each without its members and values: `text` for
    /// `text.format`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let code = self.what.split('`').skip(1).step_by(2);
        code.map(|code| code.split(['.', ':']).next().unwrap_or(code))
    }
}

/// The parameters of a request.
pub fn parameters() -> Vec<DocumentedPart> {
    table("parameter")
}

/// The types of tools.
pub fn tools() -> Vec<DocumentedPart> {
    table("tool")
}

/// The rows of the table whose head begins with this cell.
///
/// # Panics
/// If the page has no such table.
#[expect(clippy::expect_used, reason = "tests fail without the table")]
fn table(first_cell: &str) -> Vec<DocumentedPart> {
    let docs = std::fs::read_to_string(DOCS).expect("docs/requests.md");
    let head = format!("\n| {first_cell} | |\n|---|---|\n");
    let (_, after) = docs.split_once(&head).expect("a table of docs/requests.md");
    let rows = after.lines().map_while(|line| line.strip_prefix("| "));
    rows.map(|row| {
        let (what, fate) = row.split_once(" | ").expect("a row with two cells");
        let fate = fate.split([' ', ';', ':']).next().unwrap_or(fate);
        DocumentedPart {
            what: what.to_owned(),
            fate: fate.to_owned(),
        }
    })
    .collect()
}
