//! What keeps a page from taking all the time, the stack or the program.

use std::{fs, thread};

use html5gum::{DefaultEmitter, Token, Tokenizer};

use crate::arms::{Arm, Content};

pub const MOST_BYTES: usize = 5 << 20;
pub const DEEPEST: usize = 256;
pub const MOST_ATTRIBUTES: usize = 256;

const WITHOUT_END: &[&[u8]] = &[
    b"area", b"base", b"br", b"col", b"embed", b"hr", b"img", b"input", b"link", b"meta",
    b"source", b"track", b"wbr",
];
/// Elements whose end may be left out: the next one ends them.
const ENDED_BY_THE_NEXT: &[&[u8]] = &[
    b"p", b"li", b"dt", b"dd", b"tr", b"td", b"th", b"thead", b"tbody", b"tfoot", b"option",
];

/// Whether elements are nested deeper, or have more attributes, than in any page that people write:
/// parsers compare each attribute of an element with each other one. An end tag counts only
/// where it ends an open element, since a parser ignores all others.
pub fn is_too_deep_or_wide(html: &str) -> bool {
    let mut emitter = DefaultEmitter::<()>::default();
    emitter.naively_switch_states(true);
    let mut open: Vec<Vec<u8>> = Vec::new();
    for token in Tokenizer::new_with_emitter(html, emitter) {
        let Ok(token) = token;
        match token {
            Token::StartTag(tag) => {
                if tag.attributes.len() > MOST_ATTRIBUTES {
                    return true;
                }
                let name: &[u8] = &tag.name;
                if WITHOUT_END.contains(&name) {
                    continue;
                }
                let ended = |name: &[u8]| ENDED_BY_THE_NEXT.contains(&name);
                if ended(name) {
                    // What ends without an end tag goes up to the last element that stays open.
                    let first = open.iter().rposition(|element| !ended(element));
                    let first = first.map_or(0, |at| at + 1);
                    if let Some(at) = open[first..].iter().position(|element| element == name) {
                        open.truncate(first + at);
                    }
                }
                open.push(name.to_vec());
                if open.len() > DEEPEST {
                    return true;
                }
            }
            Token::EndTag(tag) => {
                let name: &[u8] = &tag.name;
                if let Some(at) = open.iter().rposition(|element| element == name) {
                    open.truncate(at);
                }
            }
            _ => {}
        }
    }
    false
}

/// Runs an extractor on a stack as large as that of a blocking task, behind the guards or without
/// them. Also says how many seconds of a processor it took, whatever else the machine does.
pub fn run(arm: Arm, html: &str, is_guarded: bool) -> (Result<Content, String>, f64) {
    let work = || {
        let result = match () {
            () if is_guarded && html.len() > MOST_BYTES => Err("too large".to_owned()),
            () if is_guarded && is_too_deep_or_wide(html) => Err("too deep or wide".to_owned()),
            () => arm(html),
        };
        (result, seconds_of_this_thread())
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .stack_size(2 << 20)
            .spawn_scoped(scope, work);
        thread
            .unwrap()
            .join()
            .unwrap_or_else(|_| (Err("panicked".to_owned()), 0.0))
    })
}

fn seconds_of_this_thread() -> f64 {
    let times = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    times.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}
