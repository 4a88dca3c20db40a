//! How many tokens a text has, by its words. Tokenizers differ; this follows those that models of
//! several vendors use today, in which a common word with the blank before it is one token.

/// The kinds of characters that make runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CharacterRun {
    /// Letters of the Latin script. A capital begins another word.
    Latin,
    Digits,
    Blanks,
    LineEnds,
    Punctuation,
    /// Letters of the other alphabets.
    Alphabet,
    /// Chinese characters and kana.
    Ideographs,
    Hangul,
    /// Emoji, symbols and the rest.
    Other,
}

impl CharacterRun {
    fn of(character: char) -> Self {
        match character {
            'a'..='z' | 'A'..='Z' => Self::Latin,
            '0'..='9' => Self::Digits,
            '\n' | '\r' => Self::LineEnds,
            '\0'..='\u{7f}' if character.is_whitespace() => Self::Blanks,
            '\0'..='\u{7f}' => Self::Punctuation,
            '\u{80}'..'\u{250}' if character.is_alphabetic() => Self::Latin,
            '\u{250}'..'\u{2000}' => Self::Alphabet,
            '\u{3040}'..'\u{3100}' | '\u{3400}'..'\u{a000}' | '\u{f900}'..'\u{fb00}' => {
                Self::Ideographs
            }
            '\u{20000}'..'\u{30000}' => Self::Ideographs,
            '\u{ac00}'..'\u{d7b0}' => Self::Hangul,
            _ => Self::Other,
        }
    }
}

/// An estimate of the tokens of a text.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
pub(super) fn tokens(text: &str) -> f64 {
    let mut total = 0.0;
    let mut before = CharacterRun::LineEnds;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let run = CharacterRun::of(first);
        let (mut previous, mut chars, mut is_ascii) = (first, 0_usize, true);
        let end = rest.char_indices().find(|(_, character)| {
            let begins_word =
                run == CharacterRun::Latin && character.is_uppercase() && previous.is_lowercase();
            let goes_on = match CharacterRun::of(*character) {
                CharacterRun::LineEnds | CharacterRun::Blanks => {
                    matches!(run, CharacterRun::LineEnds | CharacterRun::Blanks)
                }
                other => other == run,
            };
            if begins_word || !goes_on {
                return true;
            }
            (previous, chars) = (*character, chars + 1);
            is_ascii &= character.is_ascii();
            false
        });
        let end = end.map_or(rest.len(), |(at, _)| at);
        let word = rest.get(..end).unwrap_or_default();
        let after = rest.get(end..).unwrap_or_default();
        let length = chars as f64;
        total += match run {
            CharacterRun::Latin => {
                1.0 + (length - 7.0).max(0.0) / 7.0 + if is_ascii { 0.0 } else { 0.2 }
            }
            // Up to three digits are a token, which takes no blank before it.
            CharacterRun::Digits => {
                let blank = if before == CharacterRun::Blanks {
                    1.0
                } else {
                    0.0
                };
                chars.div_ceil(3) as f64 + blank
            }
            CharacterRun::Blanks | CharacterRun::LineEnds if word.contains('\n') => 0.7,
            CharacterRun::Blanks | CharacterRun::LineEnds if chars > 1 => 0.5,
            CharacterRun::Blanks | CharacterRun::LineEnds => 0.0,
            CharacterRun::Punctuation if word == "_" => 0.3,
            CharacterRun::Punctuation => chars.div_ceil(3) as f64,
            CharacterRun::Alphabet => (length / 4.0).max(1.0),
            CharacterRun::Ideographs => length * 0.7,
            CharacterRun::Hangul => length * 0.55,
            CharacterRun::Other => length,
        };
        (before, rest) = (run, after);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    // Counted with the tokenizer o200k.
    #[test]
    fn texts_of_many_kinds_have_about_as_many_tokens_as_counted() {
        for (text, counted) in [
            ("Hello world", 2.0),
            ("What is the weather in San Francisco, CA?", 10.0),
            ("get_weather", 2.0),
            (
                "The nightly job failed because the disk of the build machine was full; nobody noticed until Monday.",
                19.0,
            ),
            (
                r#"{"order_id":"A-1029","lines":[{"sku":"x1","amount":2},{"sku":"x2","amount":14}]}"#,
                31.0,
            ),
            (
                "fn main() {\n    let total: u64 = items.iter().map(|item| item.price).sum();\n    println!(\"{total}\");\n}\n",
                29.0,
            ),
            ("请帮我写一个程序，读取文件并统计每个单词出现的次数。", 19.0),
            (
                "Каждый день миллионы людей ездят на работу в столицу.",
                14.0,
            ),
            ("4821 77 903412 6 55120 418 20077", 17.0),
        ] {
            let estimated = tokens(text);
            assert!(
                (estimated / counted - 1.0).abs() < 0.25,
                "{estimated} of {counted}: {text}"
            );
        }
    }
}
