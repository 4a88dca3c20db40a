//! The structure of the code: the rooms of `src` and those of `adapters` import one another in one
//! direction, and no two types of the workspace share a name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Item};

use crate::literals::{root, rust_files};

/// The rooms of `src` from the lowest layer to the highest. A room may import rooms of lower layers
/// and of its own, but rooms of one layer must not form a circle.
const LAYERS: [&[&str]; 9] = [
    &["clock", "log", "net", "secrets", "config"],
    &["store"],
    &["artifacts", "responses", "upstream", "metrics"],
    &["turn"],
    &["jobs", "mcp", "tools"],
    &["diagnostics"],
    &["serve"],
    &["app"],
    &["control", "codex", "commands", "sandbox"],
];

/// The rooms of `adapters` that count as one, because they read one another.
const ONE_ROOM: [&[&str]; 2] = [
    &["json", "members"],
    &[
        "turn",
        "tools",
        "content",
        "media",
        "result_text",
        "text_files",
    ],
];

#[test]
fn rooms_import_lower_layers_only() {
    let imports = imports_of("src");
    let mut faults = Vec::new();
    for (room, imported) in &imports {
        if layer_of(room).is_none() {
            faults.push(format!("{room} has no layer"));
        }
        for (other, file) in imported {
            if layer_of(other) > layer_of(room) {
                faults.push(format!("{file} uses {other}"));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert_no_circle(&imports);
}

/// Another project can take the web tools.
#[test]
fn web_tools_need_little_of_the_program() {
    let mut imported = BTreeSet::new();
    for file in code_files(&["src/tools/web"]) {
        let modules = module_path(file.strip_prefix(root().join("src")).unwrap());
        imported.extend(imported_rooms(&file, modules.len()));
    }
    let expected = ["clock", "net", "secrets", "tools"].map(str::to_owned);
    assert_eq!(imported, BTreeSet::from(expected));
}

#[test]
fn rooms_of_adapters_form_no_circle() {
    let name = |room: &str| {
        let group = ONE_ROOM.iter().find(|rooms| rooms.contains(&room));
        group.map_or(room, |rooms| rooms[0]).to_owned()
    };
    let mut imports = RoomImports::new();
    for (room, imported) in imports_of("adapters/src") {
        let room = name(&room);
        for (other, file) in imported {
            let other = name(&other);
            if other != room {
                imports.entry(room.clone()).or_default().insert(other, file);
            }
        }
    }
    assert_no_circle(&imports);
}

/// The rooms that each room imports, with a file that does it.
type RoomImports = BTreeMap<String, BTreeMap<String, String>>;

/// The imports of the rooms of a folder. `lib.rs` and `main.rs` put the rooms together and are no
/// rooms.
fn imports_of(folder: &str) -> RoomImports {
    let mut imports = RoomImports::new();
    for file in code_files(&[folder]) {
        let modules = module_path(file.strip_prefix(root().join(folder)).unwrap());
        if let Some(room) = modules.first() {
            let shown = file.strip_prefix(root()).unwrap().display().to_string();
            let imported = imported_rooms(&file, modules.len()).into_iter();
            let others = imported.filter(|other| other != room);
            let others = others.map(|other| (other, shown.clone()));
            imports.entry(room.clone()).or_default().extend(others);
        }
    }
    assert!(imports.len() > 10, "{imports:?}");
    imports
}

fn assert_no_circle(imports: &RoomImports) {
    for room in imports.keys() {
        let reached = reachable(imports, room);
        assert!(
            !reached.contains(room),
            "{room} imports itself: {imports:?}"
        );
    }
}

#[test]
fn no_two_types_share_a_name() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in code_files(&[
        "src",
        "adapters/src",
        "adapters/excerpts/src",
        "registry/src",
        "tests/kit/src",
    ]) {
        let shown = file.strip_prefix(root()).unwrap().display().to_string();
        for name in type_names(&parsed(&file)) {
            places.entry(name).or_default().push(shown.clone());
        }
    }
    assert!(places.len() > 400, "{} types found", places.len());
    places.retain(|_, files| files.len() > 1);
    assert!(places.is_empty(), "{places:#?}");
}

/// The types that are small whatever is stored. Whoever adds one knows a bound for each of its
/// texts.
const SMALL: [&str; 16] = [
    "(String , String)",
    "(UsageKey , UsageSum)",
    "ArtifactEntry",
    "ArtifactText",
    "FoundPrompt",
    "JobEntry",
    "LearnedRow",
    "Option < T >",
    "SpentRow",
    "StoredConversation",
    "StoredRatio",
    "Vec < T >",
    "WaitingDelivery",
    "WholeSession",
    "bool",
    "u64",
];

/// What else the methods of the store return outside of counted values: errors, and what a change
/// has done.
const NO_TEXTS: [&str; 17] = [
    "ExpiryStep",
    "Fn",
    "ImportCounts",
    "OpenError",
    "Path",
    "PendingWrite",
    "Result",
    "Self",
    "Send",
    "StoreError",
    "SweepStep",
    "Sync",
    "TransferError",
    "i64",
    "impl",
    "use",
    "usize",
];

/// Nobody gets a text of the database without its share of the memory: a method of the store that
/// reads returns a counted value, or a type that is small. Only the files that are named here give
/// a share up, or read without a budget.
#[test]
fn stored_texts_have_their_share() {
    let mut small = Vec::new();
    let mut returned = BTreeSet::new();
    for file in code_files(&["src/store"]) {
        for item in parsed(&file) {
            let Item::Impl(item) = item else { continue };
            let of = item.self_ty.to_token_stream().to_string();
            if let Some((of_trait, _)) = &item.trait_ {
                small.extend(of_trait.is_ident("Small").then_some(of));
                continue;
            }
            for method in item.items.iter().filter(|_| of == "Store") {
                let syn::ImplItem::Fn(method) = method else {
                    continue;
                };
                let is_private = matches!(method.vis, syn::Visibility::Inherited);
                // Ids of jobs and sessions, and names of webhooks.
                let has_names = [
                    "unfinished_jobs",
                    "finish_job",
                    "add_deliveries",
                    "sessions_with_hidden_rounds",
                ];
                if !is_private && has_names.iter().all(|name| method.sig.ident != name) {
                    returned.extend(uncounted(method.sig.output.to_token_stream()));
                }
            }
        }
    }
    small.sort();
    assert_eq!(small, SMALL);
    let names = small
        .iter()
        .flat_map(|it| it.split(|c: char| !c.is_alphanumeric()));
    let names: BTreeSet<&str> = names.filter(|name| *name != "String").collect();
    returned.retain(|name| !names.contains(&**name));
    assert_eq!(Vec::from_iter(returned), NO_TEXTS);
    let calls = [
        (
            "without_budget (",
            vec!["inspection.rs", "reading.rs", "transfer.rs"],
        ),
        ("CountedValue :: elsewhere (", vec!["memory.rs"]),
        (", _) = self . run_reader (", vec!["mod.rs"]),
    ];
    let mut found = calls.each_ref().map(|(call, _)| (*call, Vec::new()));
    for file in code_files(&["src"]) {
        let name = file.file_name().unwrap().to_str().unwrap();
        for item in parsed(&file) {
            let text = item.to_token_stream().to_string();
            for (call, files) in &mut found {
                if text.contains(*call) && files.last().is_none_or(|last| last != name) {
                    files.push(name.to_owned());
                }
            }
        }
    }
    for ((call, mut files), (_, allowed)) in found.into_iter().zip(calls) {
        files.sort();
        assert_eq!(files, allowed, "{call}");
    }
}

/// The names in a type, but for those that a share counts.
fn uncounted(returned: TokenStream) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut depth = 0;
    for token in returned {
        match token {
            TokenTree::Ident(name) if name == "CountedValue" => depth = 1,
            TokenTree::Punct(punct) if depth > 0 && punct.as_char() == '<' => depth += 1,
            TokenTree::Punct(punct) if depth > 0 && punct.as_char() == '>' => {
                depth -= 1;
                depth -= i32::from(depth == 1);
            }
            TokenTree::Ident(name) if depth == 0 => {
                names.insert(name.to_string());
            }
            TokenTree::Group(group) if depth == 0 => names.extend(uncounted(group.stream())),
            _ => {}
        }
    }
    names
}

fn layer_of(room: &str) -> Option<usize> {
    LAYERS.iter().position(|rooms| rooms.contains(&room))
}

/// All rooms that a room imports, directly or through others.
fn reachable(imports: &RoomImports, from: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from.to_owned()];
    while let Some(room) = open.pop() {
        for next in imports.get(&room).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    reached
}

/// The Rust files below these folders that are not tests.
pub fn code_files(folders: &[&str]) -> impl Iterator<Item = std::path::PathBuf> {
    rust_files(folders).into_iter().filter(|file| {
        let path = file.strip_prefix(root()).unwrap();
        let in_tests = path.iter().skip(2).any(|part| part == "tests");
        !in_tests && path.file_name() != Some("tests.rs".as_ref())
    })
}

/// The modules that lead to a file: `["turn", "prefix"]` for `turn/prefix/mod.rs`.
fn module_path(path: &Path) -> Vec<String> {
    let path = path.with_extension("");
    let mut parts: Vec<String> = path
        .iter()
        .map(|part| part.to_str().unwrap().to_owned())
        .collect();
    if matches!(
        parts.last().map(String::as_str),
        Some("mod" | "lib" | "main")
    ) {
        parts.pop();
    }
    parts
}

/// The code of a file without its tests.
pub fn parsed(file: &Path) -> Vec<Item> {
    let text = std::fs::read_to_string(file).unwrap();
    let parsed =
        syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut items = parsed.items;
    items.retain(|item| !is_test(item));
    items
}

fn is_test(item: &Item) -> bool {
    let attributes: &[Attribute] = match item {
        Item::Mod(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        _ => &[],
    };
    attributes
        .iter()
        .any(|attribute| attribute.to_token_stream().to_string() == "# [cfg (test)]")
}

fn type_names(items: &[Item]) -> Vec<String> {
    let mut names = Vec::new();
    for item in items {
        match item {
            Item::Struct(item) => names.push(item.ident.to_string()),
            Item::Enum(item) => names.push(item.ident.to_string()),
            Item::Trait(item) => names.push(item.ident.to_string()),
            Item::Type(item) => names.push(item.ident.to_string()),
            Item::Union(item) => names.push(item.ident.to_string()),
            Item::Mod(item) => {
                let inner = item.content.iter().flat_map(|(_, items)| type_names(items));
                names.extend(inner);
            }
            Item::Fn(item) => {
                let inner = item
                    .block
                    .stmts
                    .iter()
                    .filter_map(|statement| match statement {
                        syn::Stmt::Item(item) => Some(item.clone()),
                        _ => None,
                    });
                names.extend(type_names(&inner.collect::<Vec<_>>()));
            }
            _ => {}
        }
    }
    names
}

/// The rooms that a file names, in imports, paths and macros: whatever follows `crate::`, or enough
/// `super::` to leave the file's own room. `depth` is the number of modules that lead to the file.
fn imported_rooms(file: &Path, depth: usize) -> BTreeSet<String> {
    let mut rooms = BTreeSet::new();
    for item in parsed(file) {
        collect_rooms(item.to_token_stream(), depth, &mut rooms);
    }
    rooms
}

fn collect_rooms(tokens: TokenStream, depth: usize, rooms: &mut BTreeSet<String>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token {
            TokenTree::Group(group) => collect_rooms(group.stream(), depth, rooms),
            TokenTree::Ident(word) if word == "crate" || word == "super" => {
                let mut supers = usize::from(word == "super");
                while let Some(next) = after_colons(&tokens, at) {
                    at += 2;
                    match next {
                        TokenTree::Ident(next) if next == "super" => {
                            supers += 1;
                            at += 1;
                        }
                        next if word == "crate" || supers >= depth => {
                            rooms.extend(first_names(next));
                            break;
                        }
                        _ => break,
                    }
                }
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// The token behind `::`, if it is at this position.
fn after_colons(tokens: &[TokenTree], at: usize) -> Option<&TokenTree> {
    let is_colon =
        |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':');
    (tokens.get(at).is_some_and(is_colon) && tokens.get(at + 1).is_some_and(is_colon))
        .then(|| tokens.get(at + 2))
        .flatten()
}

/// The name itself, or the first name of each path of `{a::b, c}`.
fn first_names(token: &TokenTree) -> Vec<String> {
    match token {
        TokenTree::Ident(name) => vec![name.to_string()],
        TokenTree::Group(group) => {
            let mut names = Vec::new();
            let mut starts = true;
            for token in group.stream() {
                match token {
                    TokenTree::Ident(name) if starts => names.push(name.to_string()),
                    TokenTree::Punct(punct) if punct.as_char() == ',' => {
                        starts = true;
                        continue;
                    }
                    _ => {}
                }
                starts = false;
            }
            names
        }
        TokenTree::Punct(_) | TokenTree::Literal(_) => Vec::new(),
    }
}
