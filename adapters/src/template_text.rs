//! Texts with variables: those of prompt templates and of the nodes of workflows.

use std::borrow::Cow;

/// A text with variables, `{{name}}`, each of which stands for a value. Made when a file is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TemplateText(Vec<TemplatePiece>);

/// A piece of such a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TemplatePiece {
    Literal(String),
    Variable(String),
}

/// Whether a name of a variable may have this byte.
pub(crate) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_".contains(&byte)
}

impl TemplateText {
    /// Finds the variables of a text: `{{name}}`, with spaces around the name or not. Other braces
    /// stay as they are.
    pub(crate) fn new(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let found = after
                .split_once("}}")
                .map(|(name, after)| (name.trim(), after))
                .filter(|(name, _)| !name.is_empty() && name.bytes().all(is_name_byte));
            literal.push_str(before);
            if let Some((name, after)) = found {
                pieces.push(TemplatePiece::Literal(std::mem::take(&mut literal)));
                pieces.push(TemplatePiece::Variable(name.to_owned()));
                rest = after;
            } else {
                literal.push('{');
                // The second brace may be the first of a variable.
                rest = rest.get(before.len() + 1..).unwrap_or_default();
            }
        }
        literal.push_str(rest);
        pieces.push(TemplatePiece::Literal(literal));
        Self(pieces)
    }

    /// The names of its variables.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            TemplatePiece::Literal(_) => None,
            TemplatePiece::Variable(name) => Some(name.as_str()),
        })
    }

    /// Its pieces.
    pub(crate) fn pieces(&self) -> &[TemplatePiece] {
        &self.0
    }

    /// The text with a value in the place of each variable; `None` if it has more than `max_bytes`
    /// bytes. Values are not searched for variables.
    pub(crate) fn fill<'v>(
        &'v self,
        max_bytes: usize,
        value: impl Fn(&'v str) -> Cow<'v, str>,
    ) -> Option<String> {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                TemplatePiece::Literal(literal) => text.push_str(literal),
                TemplatePiece::Variable(name) => text.push_str(&value(name)),
            }
            if text.len() > max_bytes {
                return None;
            }
        }
        Some(text)
    }
}
