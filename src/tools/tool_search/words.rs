//! Texts as words: names in any style of writing, and scripts without spaces.

/// Words that say nothing about a tool, without which a request means the same.
const FILLER_WORDS: &str = "a about again all also am an and any are as at be been being both but by can could did do does doing done down each few for from get go got had has have having he her here him his how i if in into is it its just let lets like make may me might mine more most must my need needs no nor not now of off on once one ones only onto or other our over own please s same shall she should so some such sure t than that the their them then there these they thing things this those to too under up us very want wants was we were what when where which who whom whose why will with without would you your";

/// The words of a text, in lower case. A script that has no spaces between words is cut into pairs
/// of characters.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut word = Word::default();
    for sign in text.chars() {
        if !sign.is_alphanumeric() {
            word.end(&mut all);
            continue;
        }
        let begins = word.last.is_some_and(|last| {
            let is_hump = sign.is_uppercase() && !last.is_uppercase();
            is_hump || is_unspaced(last) != is_unspaced(sign)
        });
        if begins {
            word.end(&mut all);
        }
        word.text.extend(sign.to_lowercase());
        word.last = Some(sign);
    }
    word.end(&mut all);
    all
}

/// The words of a request that say something about a tool.
pub(super) fn search_words(text: &str) -> Vec<String> {
    let mut all = words(text);
    all.retain(|word| {
        let is_filler = FILLER_WORDS.split(' ').any(|filler| filler == word);
        word.chars().nth(1).is_some() && !is_filler
    });
    all
}

/// Whether a character is of a script that is searched for in parts: that of Chinese, Japanese or
/// Korean.
pub(super) fn is_unspaced(sign: char) -> bool {
    matches!(sign, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
}

#[derive(Default)]
struct Word {
    text: String,
    last: Option<char>,
}

impl Word {
    /// Adds the word to the others, if there is one.
    fn end(&mut self, all: &mut Vec<String>) {
        let text = std::mem::take(&mut self.text);
        let signs: Vec<char> = match self.last.take() {
            Some(last) if is_unspaced(last) => text.chars().collect(),
            Some(_) => return all.push(text),
            None => return,
        };
        if signs.len() == 1 {
            all.push(text);
        } else {
            all.extend(signs.windows(2).map(|pair| pair.iter().collect::<String>()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_scripts_are_cut_into_words() {
        for (text, expected) in [
            ("create_issue", "create issue"),
            ("searchMessages-v2", "search messages v2"),
            ("getPRDiff", "get prdiff"),
            ("Où est-il?", "où est il"),
            ("把文件删除v2", "把文 文件 件删 删除 v2"),
            ("猫", "猫"),
            ("", ""),
        ] {
            assert_eq!(words(text).join(" "), expected, "{text}");
        }
        let kept = search_words("Please get me the 5 newest mails");
        assert_eq!(kept.join(" "), "newest mails");
    }
}
