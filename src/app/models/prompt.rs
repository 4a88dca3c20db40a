//! The base instructions for a model in Codex.
//!
//! Codex requires them in every entry of a model catalog, and they replace its own.

/// The default instructions for coding agents.
pub const PROMPT: &str = include_str!("prompt.md");

/// A fifth as long, for entries that would not fit otherwise.
pub const SHORT: &str = include_str!("prompt-short.md");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_is_compact_and_its_example_is_a_patch() {
        assert!((4_000..8_192).contains(&PROMPT.len()), "{}", PROMPT.len());
        assert!(SHORT.len() < 1_500, "{}", SHORT.len());
        let example = PROMPT.split("```\n").nth(1).unwrap();
        assert!(example.starts_with("*** Begin Patch\n") && example.ends_with("*** End Patch\n"));
        assert_eq!(adapters::responses::patch::repair(example, true), None);
    }
}
