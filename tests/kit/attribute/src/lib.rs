//! The attribute of tests that are async functions. It is part of the kit, as `kit::test`.
use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// The wires, as the name of a test and the variant of `PlayerWire`.
const WIRES: [(&str, &str); 2] = [("chat", "Chat"), ("responses", "Responses")];

/// The time limit of a test on a busy machine.
const USUAL_MINUTES: &str = "3";

/// Makes an async function a test of the standard harness, with a runtime and a time limit of its
/// own (`kit::harness::run`).
///
/// - `#[kit::test]`: the test may take three minutes; only one that hangs takes as long.
/// - `#[kit::test(minutes = 5)]`: it may take so many.
/// - `#[kit::test(on_each_wire)]`: its parameter is the wire of its upstream, a `PlayerWire`, and
///   it is one test for each wire: `name::chat` and `name::responses`.
#[proc_macro_attribute]
pub fn test(options: TokenStream, item: TokenStream) -> TokenStream {
    let options: Vec<String> = options.into_iter().map(|token| token.to_string()).collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    match options.as_slice() {
        [] => of_one(item, USUAL_MINUTES),
        ["minutes", "=", minutes] => of_one(item, minutes),
        ["on_each_wire"] => on_each_wire(item),
        _ => error("the options are `minutes = NUMBER` and `on_each_wire`"),
    }
}

/// `async fn NAME() BODY` becomes `fn NAME() { run(MINUTES, async BODY) }`.
fn of_one(item: TokenStream, minutes: &str) -> TokenStream {
    let mut tokens: Vec<TokenTree> = item.into_iter().collect();
    let Some(body) = tokens.pop() else {
        return error("an async function is expected");
    };
    let Some(at) = tokens.iter().position(|token| is_word(token, "async")) else {
        return error("a test that is not async is a plain `#[test]`");
    };
    let word = tokens.remove(at);
    let future = TokenStream::from_iter([word, body]);
    let mut arguments = parse(&format!("{minutes},"));
    arguments.extend(future);
    let mut call = parse("::kit::harness::run");
    call.extend([group(Delimiter::Parenthesis, arguments)]);
    let mut test = parse("#[::core::prelude::v1::test]");
    test.extend(tokens);
    test.extend([group(Delimiter::Brace, call)]);
    test
}

/// `async fn NAME(wire: PlayerWire) BODY` stays, and a module of its name has the tests.
fn on_each_wire(item: TokenStream) -> TokenStream {
    let mut name = item
        .clone()
        .into_iter()
        .skip_while(|token| !is_word(token, "fn"));
    let Some(TokenTree::Ident(name)) = name.nth(1) else {
        return error("an async function is expected");
    };
    let tests = WIRES.map(|(test, wire)| {
        format!(
            "#[::core::prelude::v1::test]
             fn {test}() {{
                 let test = super::{name}(::kit::player::PlayerWire::{wire});
                 ::kit::harness::run({USUAL_MINUTES}, test);
             }}"
        )
    });
    let mut tokens = item;
    tokens.extend(parse("mod"));
    tokens.extend([
        TokenTree::Ident(name),
        group(Delimiter::Brace, parse(&tests.concat())),
    ]);
    tokens
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident.to_string() == word)
}

fn group(delimiter: Delimiter, content: TokenStream) -> TokenTree {
    TokenTree::Group(Group::new(delimiter, content))
}

/// Code that this file has written.
fn parse(code: &str) -> TokenStream {
    code.parse().unwrap_or_default()
}

fn error(message: &str) -> TokenStream {
    parse(&format!("::core::compile_error!({message:?});"))
}
