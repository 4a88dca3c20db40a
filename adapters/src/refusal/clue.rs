//! What of a request the text of a refusal names.

use super::sent::RefusedRequest;
use super::words::{RefusalText, plain_name};

/// Something that a refusal names: a place in the history, a tool, or a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clue {
    /// The names from the outermost, in plain spelling: `content` of `messages[2].content`.
    pub(crate) names: Vec<String>,
    /// The place in the history.
    pub(crate) item: Option<usize>,
    /// The place in the list of tools.
    pub(crate) tool: Option<usize>,
    /// How surely it is meant.
    pub(crate) strength: ClueStrength,
}

/// How surely something is meant, the surest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClueStrength {
    /// A path into the request.
    Path,
    /// A name in quotes, or with signs that no word has.
    Quoted,
    /// Several words that are a name together, or the name of a tool.
    Name,
    /// An ordinary word.
    #[default]
    Word,
}

/// The most names of a path.
const MAX_PATH: usize = 24;
/// The most bytes between a list and the place in it.
const MAX_GAP: usize = 6;

impl Clue {
    /// The innermost name, or an empty one.
    pub(crate) fn name(&self) -> &str {
        self.names.last().map_or("", String::as_str)
    }
}

impl RefusalText<'_> {
    /// What the text names, the surest first. `history` is the name of the list of messages.
    pub(crate) fn clues(&self, sent: &RefusedRequest<'_>, history: &str) -> Vec<Clue> {
        let mut clues = Vec::new();
        for place in 0..self.words.len() {
            clues.extend(self.path_at(place, sent, history));
            clues.extend(self.tool_at(place, sent));
            clues.extend(self.names_at(place));
        }
        // A place alone says less than the names beside it, which are about that place.
        let is_bare = |clue: &Clue| clue.strength == ClueStrength::Path && clue.names.len() == 1;
        let place = clues
            .iter()
            .find(|clue| clue.strength == ClueStrength::Path)
            .cloned();
        let (bare, mut clues): (Vec<Clue>, Vec<Clue>) = clues.into_iter().partition(is_bare);
        clues.extend(bare.into_iter().map(|clue| Clue {
            strength: ClueStrength::Word,
            ..clue
        }));
        if let Some(place) = place {
            let named = clues
                .iter_mut()
                .filter(|it| it.item.is_none() && it.tool.is_none());
            for clue in named {
                (clue.item, clue.tool) = (place.item, place.tool);
            }
        }
        // The sort keeps the order of those that are as sure.
        clues.sort_by_key(|clue| clue.strength);
        let mut seen: Vec<Clue> = Vec::with_capacity(clues.len());
        for clue in clues {
            if !seen.contains(&clue) {
                seen.push(clue);
            }
        }
        seen
    }

    fn number_at(&self, place: usize) -> Option<usize> {
        self.words.get(place)?.text.parse().ok()
    }

    /// The path that begins with the word at a place: `messages[2].content`,
    /// `["body","messages",2,"content"]`, `message at index 2`, `tools.function.parameters`.
    fn path_at(&self, place: usize, sent: &RefusedRequest<'_>, history: &str) -> Option<Clue> {
        let list = plain_name(self.words.get(place)?.text);
        let is_tool = matches!(
            list.as_str(),
            "tools" | "tool" | "functiondeclarations" | "function" | "parameters"
        );
        let is_item = list == history || list == "messages" || list == "message";
        if !is_tool && !is_item {
            return None;
        }
        let mut at = place + 1;
        for filler in ["at", "index", "position", "number", "no"] {
            let word = self.words.get(at).map_or("", |word| word.text);
            at += usize::from(word.eq_ignore_ascii_case(filler));
        }
        let length = if is_tool {
            sent.tools.len()
        } else {
            sent.items.len()
        };
        let is_near = (place + 1..=at).all(|at| self.before(at).len() <= MAX_GAP);
        let number = self
            .number_at(at)
            .filter(|number| is_near && *number < length);
        let mut names = vec![list];
        let next = at + usize::from(number.is_some());
        for next in next..self.words.len().min(at + MAX_PATH) {
            if !joins_path(self.before(next)) {
                break;
            }
            let name = self.words.get(next)?.text;
            if name.parse::<u64>().is_err() {
                names.push(plain_name(name));
            }
        }
        (number.is_some() || names.len() > 1).then_some(Clue {
            names,
            item: number.filter(|_| is_item),
            tool: number.filter(|_| is_tool),
            strength: ClueStrength::Path,
        })
    }

    /// The tool of this name, if the word at a place is one that nobody would write otherwise.
    fn tool_at(&self, place: usize, sent: &RefusedRequest<'_>) -> Option<Clue> {
        let word = self.words.get(place)?.text;
        let tool = sent.tools.iter().position(|tool| tool.name == word)?;
        let is_quoted = self.is_quoted(place);
        (is_quoted || word.contains(['_', '-'])).then(|| Clue {
            names: vec!["tools".to_owned()],
            item: None,
            tool: Some(tool),
            strength: if is_quoted {
                ClueStrength::Quoted
            } else {
                ClueStrength::Name
            },
        })
    }

    /// The names that begin with the word at a place: itself, and with the one or two behind it.
    fn names_at(&self, place: usize) -> Vec<Clue> {
        let mut clues = Vec::new();
        let mut joined = String::new();
        for (count, at) in (place..(place + 3).min(self.words.len())).enumerate() {
            let Some(word) = self.words.get(at) else {
                break;
            };
            if count > 0 && !matches!(self.before(at), " " | "." | "_" | "-") {
                break;
            }
            joined.push_str(&plain_name(word.text));
            let is_odd = word.text.contains(['_', '$', '-'])
                || word.text.chars().skip(1).any(|c| c.is_ascii_uppercase())
                    && word.text.chars().any(|c| c.is_ascii_lowercase());
            // Nobody writes null but for a value.
            let is_null = word.text.eq_ignore_ascii_case("null");
            let strength = if is_odd || is_null || self.is_quoted(at) && count == 0 {
                ClueStrength::Quoted
            } else if count > 0 {
                ClueStrength::Name
            } else {
                ClueStrength::Word
            };
            clues.push(Clue {
                names: vec![joined.clone()],
                strength,
                ..Clue::default()
            });
        }
        clues
    }
}

/// Whether what stands between two words joins them to a path.
fn joins_path(between: &str) -> bool {
    let has_sign = between.contains(['.', '[', ']', '/', ':', '>', '→', '»', ',']);
    // Words with a blank between them are a sentence, unless a list or an arrow joins them.
    let is_list = between.contains(['>', '→', '»']) || between.contains(['\'', '"', '[']);
    let is_sentence = between.contains([' ', '\n']) && !is_list;
    let is_plain = between.chars().all(|c| " .[]/:>-→»,'\"`()\\".contains(c));
    has_sign && is_plain && !is_sentence && between.len() <= 8
}
