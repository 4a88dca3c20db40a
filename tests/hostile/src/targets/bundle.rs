//! `bundle`: a bundle file of somebody else.
//!
//! An input is either the bytes of a file, or its entries in a plain form that a fuzzer can
//! change: each begins with a line `=== NAME`, and is packed as the program packs it.

use std::path::Path;

use respondent::diagnostics::bundle::{Bundle, Scope, compare, diff, show};
use respondent::diagnostics::redact::{Keep, Scrubber};
use respondent::secrets::Redactor;
use tar::{Builder, EntryType, Header};

/// Begins the line above an entry.
const ENTRY: &str = "=== ";

pub(super) fn run(input: &[u8]) {
    read(input);
    if let Some(file) = pack(input) {
        read(&file);
    }
}

/// Reads a file; what was read can be shown, compared, redacted, and written and read again.
fn read(file: &[u8]) {
    let bundle = match Bundle::from_bytes(file) {
        Ok(bundle) => bundle,
        Err(error) => {
            let shown = error.to_string();
            assert!(!shown.is_empty() && !shown.contains('\u{1b}'), "{shown:?}");
            return;
        }
    };
    assert!(!show(&bundle.turns, Path::new("a.tar.zst")).is_empty());
    let _ = diff(&bundle.turns, &bundle.turns);
    let scrubber = Scrubber::new(Redactor::default(), Keep::default());
    for turn in &bundle.turns {
        let same = compare(turn, turn, Scope::Diff);
        assert!(same.is_empty(), "a turn differs from itself");
        let _ = scrubber.turn(turn);
    }
    // Equal bundles become equal bytes.
    if let Ok(bytes) = bundle.to_bytes() {
        let again = Bundle::from_bytes(&bytes).expect("a written bundle can be read");
        assert!(again == bundle, "a bundle changed when it was written");
    }
}

/// The file that an input in the plain form describes; `None` if it is not in that form.
fn pack(input: &[u8]) -> Option<Vec<u8>> {
    let text = str::from_utf8(input).ok()?;
    let entries: Vec<(&str, &str)> = text
        .strip_prefix(ENTRY)?
        .split(&format!("\n{ENTRY}"))
        .map(|entry| entry.split_once('\n').unwrap_or((entry, "")))
        .collect();
    // A name that a tar cannot hold is none that a fuzzer has to find.
    let can_be_named = |name: &str| Header::new_ustar().set_path(name).is_ok();
    let can_be_packed = entries.iter().all(|(name, _)| can_be_named(name));
    can_be_packed.then(|| pack_entries(&entries))
}

/// The bundle file with these entries: pairs of name and content.
pub(crate) fn pack_entries(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    for (name, content) in entries {
        let mut header = Header::new_ustar();
        header.set_path(name).unwrap();
        header.set_entry_type(EntryType::Regular);
        header.set_size(content.len() as u64);
        header.set_mode(0o600);
        header.set_cksum();
        tar.append(&header, content.as_bytes()).unwrap();
    }
    zstd::encode_all(tar.into_inner().unwrap().as_slice(), 1).unwrap()
}
