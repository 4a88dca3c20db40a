//! One place chooses between wires: no other code names one.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;

use crate::layers::{code_files, parsed};
use crate::literals::root;

/// The enums whose variants are wires.
const ENUMS: [&str; 4] = ["Wire", "WireQuirks", "QuirkPatch", "Decoder"];

/// Their variants. Other names behind them are functions, which any code may call.
const VARIANTS: [&str; 2] = ["Chat", "Responses"];

/// The methods that take the quirks of one wire out of its enum, and the patches of one wire.
const OF_ONE_WIRE: [&str; 3] = ["as_chat", "as_chat_mut", "ChatPatch"];

/// The files and folders that may name a wire: the choice, the wires, and the reader of the
/// registry.
const WIRES: [&str; 4] = [
    "adapters/src/wire.rs",
    "adapters/src/chat/",
    "adapters/src/relay/",
    "registry/src/wire.rs",
];

/// The files that may also name the patches of one wire: those of all patches.
const PATCHES: &str = "adapters/src/quirk_patch";

#[test]
fn only_their_rooms_name_a_wire() {
    let (mut faults, mut uses) = (Vec::new(), 0);
    for file in code_files(&[
        "src",
        "adapters/src",
        "adapters/excerpts/src",
        "registry/src",
    ]) {
        let path = file.strip_prefix(root()).unwrap().display().to_string();
        let mut named = Vec::new();
        for item in parsed(&file) {
            collect_names(item.to_token_stream(), &mut named);
        }
        uses += named.len();
        let is_allowed = |name: &String| {
            WIRES.iter().any(|place| path.starts_with(place))
                || path.starts_with(PATCHES) && OF_ONE_WIRE.contains(&name.as_str())
        };
        named.retain(|name| !is_allowed(name));
        faults.extend(named.into_iter().map(|name| format!("{path}: {name}")));
    }
    assert!(uses > 10, "{uses} uses found");
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Collects `Wire::Chat` and the like, imports of variants, and names of one wire.
fn collect_names(tokens: TokenStream, named: &mut Vec<String>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => collect_names(group.stream(), named),
            TokenTree::Ident(word) if OF_ONE_WIRE.iter().any(|name| word == name) => {
                named.push(word.to_string());
            }
            TokenTree::Ident(word) if ENUMS.iter().any(|name| word == name) => {
                let behind: String = tokens
                    .iter()
                    .skip(at + 1)
                    .take(2)
                    .map(ToString::to_string)
                    .collect();
                let Some(next) = tokens.get(at + 3).filter(|_| behind == "::") else {
                    continue;
                };
                let text = next.to_string();
                let mut words = text.split(|c: char| !c.is_alphanumeric());
                if text == "*" || words.any(|word| VARIANTS.contains(&word)) {
                    named.push(format!("{word}::{text}"));
                }
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}
