//! Words of the same meaning, in English and twelve other languages, so that a request finds a tool
//! that is described in other words.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use super::words::is_unspaced;

/// One meaning a line: a code of a language and its words, and so on behind `|`. Two words that
/// mean something together are joined by `_`.
const LINES: &str = include_str!("lexicon.txt");
/// An unknown word means what longer words mean that begin as it does, in this many characters or
/// more, and in half of its own.
const MIN_STEM: usize = 4;
/// How much longer such a word may be.
const MAX_ENDING: usize = 3;
/// The shortest parts of which an unknown word may be made, as German ones are, in characters.
const MIN_PART: usize = 4;

static LEXICON: LazyLock<Lexicon> = LazyLock::new(|| Lexicon::of(LINES));

/// The meanings of words.
pub(super) struct Lexicon {
    by_word: BTreeMap<String, Vec<usize>>,
    /// Words of scripts that have no spaces between them.
    unspaced: Vec<(&'static str, usize)>,
}

impl Lexicon {
    /// That of this program.
    pub(super) fn get() -> &'static Self {
        &LEXICON
    }

    fn of(lines: &'static str) -> Self {
        let mut lexicon = Self {
            by_word: BTreeMap::new(),
            unspaced: Vec::new(),
        };
        for (meaning, line) in lines.lines().enumerate() {
            let languages = line.split('|').filter_map(|part| part.split_once(':'));
            for word in languages.flat_map(|(_, words)| words.split_whitespace()) {
                if word.chars().any(is_unspaced) {
                    lexicon.unspaced.push((word, meaning));
                } else {
                    lexicon
                        .by_word
                        .entry(folded(word))
                        .or_default()
                        .push(meaning);
                }
            }
        }
        lexicon
    }

    /// The meanings of these words of a text, as words of which each stands for one.
    pub(super) fn meanings(&self, words: &[String], text: &str) -> Vec<String> {
        let mut meanings: Vec<usize> = Vec::new();
        for word in words.iter().filter(|word| !word.chars().any(is_unspaced)) {
            meanings.extend(self.of_word(&folded(word)));
        }
        for pair in super::words::words(text).windows(2) {
            let pair = self.by_word.get(&folded(&pair.join("_")));
            meanings.extend(pair.into_iter().flatten());
        }
        if text.chars().any(is_unspaced) {
            let inside = self.unspaced.iter();
            let inside: Vec<_> = inside.filter(|(word, _)| text.contains(word)).collect();
            // Of ログイン, which means to log in, ログ is no word.
            let is_whole = |word: &str| {
                let mut others = inside.iter();
                !others.any(|(other, _)| *other != word && other.contains(word))
            };
            let whole = inside.iter().filter(|(word, _)| is_whole(word));
            meanings.extend(whole.map(|(_, meaning)| *meaning));
        }
        let name = |meaning: usize| format!("meaning{meaning}x");
        meanings.into_iter().map(name).collect()
    }

    /// The meanings of a word: its own, else those of the words that begin as it does, else those
    /// of its parts.
    fn of_word(&self, word: &str) -> Vec<usize> {
        if let Some(meanings) = self.by_word.get(word) {
            return meanings.clone();
        }
        let signs: Vec<(usize, char)> = word.char_indices().collect();
        let shortest = MIN_STEM.max(signs.len().div_ceil(2));
        for length in (shortest..signs.len()).rev() {
            let end = signs.get(length).map_or(word.len(), |(at, _)| *at);
            let stem = word.get(..end).unwrap_or(word);
            let begins_so = self.by_word.range(stem.to_owned()..);
            let begins_so = begins_so.take_while(|(known, _)| known.starts_with(stem));
            let alike = begins_so.filter(|(known, _)| known.chars().count() <= length + MAX_ENDING);
            let mut meanings: Vec<usize> = alike.flat_map(|(_, it)| it.iter().copied()).collect();
            if !meanings.is_empty() {
                meanings.sort_unstable();
                meanings.dedup();
                return meanings;
            }
        }
        self.of_parts(word, &signs)
    }

    /// The meanings of the longest known beginning and of the longest known end of a word.
    fn of_parts(&self, word: &str, signs: &[(usize, char)]) -> Vec<usize> {
        let cuts = signs.iter().map(|(at, _)| *at);
        let cuts: Vec<usize> = cuts.skip(MIN_PART).collect();
        let cuts = cuts
            .get(..(cuts.len() + 1).saturating_sub(MIN_PART))
            .unwrap_or_default();
        let known = |part: Option<&str>| self.by_word.get(part?);
        let begin = cuts.iter().rev().find_map(|at| known(word.get(..*at)));
        let end = cuts.iter().find_map(|at| known(word.get(*at..)));
        begin.into_iter().chain(end).flatten().copied().collect()
    }
}

/// A word without accents.
fn folded(word: &str) -> String {
    word.nfd()
        .filter(|sign| !is_combining_mark(*sign))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share_a_meaning(one: &str, other: &str) -> bool {
        let of = |text: &str| Lexicon::get().meanings(&[text.to_lowercase()], text);
        of(one).iter().any(|meaning| of(other).contains(meaning))
    }

    #[test]
    fn words_of_the_same_meaning_are_known_in_all_forms() {
        for (one, other) in [
            ("delete", "lösche"),
            ("deleting", "remove"),
            ("supprimez", "delete"),
            ("suprimir", "delete"),
            ("删除", "delete"),
            ("削除して", "remove"),
            ("calendario", "calendar"),
            ("fehlerrate", "error"),
            ("ログイン", "login"),
        ] {
            assert!(share_a_meaning(one, other), "{one} {other}");
        }
        assert!(!share_a_meaning("delete", "create"));
        assert!(!share_a_meaning("ログイン", "logs"));
        assert!(!share_a_meaning("xyzzy", "xyzzy"));
    }

    #[test]
    fn each_line_has_english_and_words_in_lower_case() {
        for line in LINES.lines() {
            assert!(line.starts_with("en: "), "{line}");
            assert_eq!(line, line.to_lowercase(), "{line}");
            let languages = line.split('|').filter(|part| part.contains(':'));
            assert!(languages.count() >= 8, "{line}");
        }
    }
}
