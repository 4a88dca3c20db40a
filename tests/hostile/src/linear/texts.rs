//! Texts that scanners find hard: short fragments, repeated.

/// Fragments that begin, end, escape or look like something that a scanner knows.
const FRAGMENTS: [&str; 44] = [
    "a",
    " ",
    "\n",
    "\r",
    "\t",
    "\u{3000}",
    "\u{a0}",
    "漢",
    "😀",
    "a ",
    "a\n",
    "<",
    "<a",
    "<p>",
    "<!--",
    "</think>",
    "<tool_call>",
    "<|tool_call_begin|>",
    "<function=read>",
    "&",
    "&amp;",
    "&#x2F;",
    "[",
    "{",
    "{\"a\":",
    "[1,",
    "\"",
    "\\",
    "\\\"",
    "\\u",
    "\\ud83d",
    "\\n",
    "%25",
    "data:",
    "data: {}\n\n",
    "sk-",
    "sk-proj-A1b2C3d4E5f6G7h8",
    "canary",
    "QUJD",
    "/usr/lib/a.rs:1: error",
    "https://example.org/?q=",
    "1.5e9",
    "=",
    "```\n",
];

/// Fragments that open something, and what closes it.
const PAIRS: [(&str, &str); 24] = [
    ("<p>", "</p>"),
    ("<", ">"),
    ("<!--", "-->"),
    ("<think>", "</think>"),
    ("<tool_call>", "</tool_call>"),
    ("<function=f>", "</function>"),
    ("<summary>", "</summary>"),
    ("[", "]"),
    ("{\"a\":", "}"),
    ("{\"a\":[", "]}"),
    ("\"", "\\\""),
    ("'", "\""),
    ("\\ud83d", "\\ude00"),
    ("\\", "u"),
    ("&", ";"),
    ("%", "25"),
    ("```", "\n"),
    ("\r", "\n"),
    ("a", "\u{3000}"),
    ("sk-", "."),
    ("canary", "-"),
    ("data: ", "\n"),
    ("*** Begin Patch\n", "*** End Patch\n"),
    ("x=", "&"),
];

/// How fragments become a text.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pattern {
    /// One fragment, again and again.
    Repeated(&'static str),
    /// Two fragments in turn.
    InTurn(&'static str, &'static str),
    /// The first fragment up to the middle of the text, then the second.
    Halves(&'static str, &'static str),
}

impl Pattern {
    /// The patterns that every form gets.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let repeated = FRAGMENTS.into_iter().map(Self::Repeated);
        let pairs = PAIRS
            .into_iter()
            .flat_map(|(open, close)| [Self::InTurn(open, close), Self::Halves(open, close)]);
        repeated.chain(pairs)
    }

    /// Pairs of any two fragments, one of `parts` parts of them; together the parts are all pairs.
    pub(super) fn any_two(part: usize, parts: usize) -> impl Iterator<Item = Self> {
        let both = (0..FRAGMENTS.len() * FRAGMENTS.len()).filter(move |pair| {
            // Neither fragment is in one part only.
            let (first, second) = (pair / FRAGMENTS.len(), pair % FRAGMENTS.len());
            first != second && (first + second) % parts == part % parts
        });
        both.map(|pair| {
            let (first, second) = (pair / FRAGMENTS.len(), pair % FRAGMENTS.len());
            Self::InTurn(FRAGMENTS[first], FRAGMENTS[second])
        })
    }

    /// A text of about this many bytes.
    pub(super) fn text(self, bytes: usize) -> String {
        match self {
            Self::Repeated(fragment) => fragment.repeat(bytes.div_ceil(fragment.len())),
            Self::InTurn(first, second) => {
                let both = format!("{first}{second}");
                both.repeat(bytes.div_ceil(both.len()))
            }
            Self::Halves(first, second) => {
                let times = bytes.div_ceil(first.len() + second.len());
                first.repeat(times) + &second.repeat(times)
            }
        }
    }
}
