//! The names and numbers in the text of a refusal.

/// The text of a refusal, taken apart.
#[derive(Debug)]
pub(crate) struct RefusalText<'t> {
    pub(crate) text: &'t str,
    pub(super) words: Vec<RefusalWord<'t>>,
}

/// The most words of a text that are looked at.
const MAX_WORDS: usize = 400;

/// A name or number: ASCII letters, digits, `_`, `$`, and `-` between letters.
#[derive(Clone, Copy, Debug)]
pub(super) struct RefusalWord<'t> {
    pub(super) text: &'t str,
    pub(super) start: usize,
}

impl<'t> RefusalText<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        let mut words = Vec::new();
        let mut begun: Option<usize> = None;
        let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$');
        let mut chars = text.char_indices().peekable();
        let mut end_word = |begun: &mut Option<usize>, end: usize| {
            if let Some(start) = begun.take()
                && words.len() < MAX_WORDS
                && let Some(text) = text.get(start..end)
            {
                words.push(RefusalWord { text, start });
            }
        };
        while let Some((at, c)) = chars.next() {
            let next = chars.peek().map(|(_, next)| *next);
            let joins = c == '-' && begun.is_some() && next.is_some_and(is_letter);
            if is_letter(c) {
                begun.get_or_insert(at);
            } else if !joins {
                end_word(&mut begun, at);
            }
        }
        end_word(&mut begun, text.len());
        Self { text, words }
    }

    /// The text between two neighbouring words, the second of which is at this place.
    pub(super) fn before(&self, place: usize) -> &'t str {
        let Some(word) = self.words.get(place) else {
            return "";
        };
        let previous = place.checked_sub(1).and_then(|it| self.words.get(it));
        let from = previous.map_or(0, |previous| previous.start + previous.text.len());
        self.text.get(from..word.start).unwrap_or_default()
    }

    /// Whether a word stands in quotes.
    pub(super) fn is_quoted(&self, place: usize) -> bool {
        const QUOTES: &str = "\"'`“”„«»‘’‚「」『』《》";
        let is_quote = |c: Option<char>| c.is_some_and(|c| QUOTES.contains(c));
        let ends = self.before(place + 1).chars().next();
        let after = match self.words.get(place + 1) {
            Some(_) => ends,
            None => self.words.get(place).and_then(|word| {
                let rest = self.text.get(word.start + word.text.len()..)?;
                rest.chars().next()
            }),
        };
        let after = after
            .filter(|c| *c != '\\')
            .or(Some('"').filter(|_| after == Some('\\')));
        is_quote(self.before(place).chars().next_back()) && is_quote(after)
    }

    /// Whether a word of the text is this one, whatever the case.
    pub(crate) fn has_word(&self, name: &str) -> bool {
        self.words
            .iter()
            .any(|word| word.text.eq_ignore_ascii_case(name))
    }

    /// The whole numbers, without separators of thousands.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> {
        let mut rest = self.text;
        std::iter::from_fn(move || {
            let start = rest.find(|c: char| c.is_ascii_digit())?;
            let digits = rest.get(start..)?;
            let is_part = |(at, c): &(usize, char)| {
                let next = digits.as_bytes().get(at + 1);
                c.is_ascii_digit() || matches!(c, ',' | '_') && next.is_some_and(u8::is_ascii_digit)
            };
            let length: usize = digits.char_indices().take_while(is_part).count();
            let number = digits.get(..length).unwrap_or_default();
            rest = digits.get(length..).unwrap_or_default();
            let plain: String = number.chars().filter(char::is_ascii_digit).collect();
            Some(plain.parse().unwrap_or(u64::MAX))
        })
    }

    /// What two refusals have in common that say the same: their letters, without numbers and
    /// ids.
    pub(crate) fn letters(&self) -> String {
        let is_id = |word: &str| word.len() >= 8 && word.bytes().any(|byte| byte.is_ascii_digit());
        let mut letters = String::new();
        let mut from = 0;
        for word in &self.words {
            letters.push_str(self.text.get(from..word.start).unwrap_or_default());
            from = word.start + word.text.len();
            if !is_id(word.text) {
                letters.push_str(word.text);
            }
        }
        letters.push_str(self.text.get(from..).unwrap_or_default());
        letters.retain(char::is_alphabetic);
        letters.to_lowercase()
    }
}

/// A name without what its spellings differ in: `stream_options`, `streamOptions` and
/// `stream-options` are one name.
pub(super) fn plain_name(name: &str) -> String {
    let letters = name.chars().filter(|c| !matches!(c, '_' | '-' | ' ' | '.'));
    letters.map(|c| c.to_ascii_lowercase()).collect()
}
