//! The prompt for a summary.

/// The last user message of a request for a summary. It is short because a long form
/// with many headings is slower, costs more tokens, and comes back as an empty template.
pub const SUMMARY_PROMPT: &str = "\
Pause the work here. Write a handover for another model that continues this session with nothing but your text and the newest messages. Call no tool; answer in plain text only.

Cover, briefly and concretely:
- What was asked: the intent of every user message, and the latest one word for word.
- What was done and decided so far, and why.
- Constraints, preferences and conventions that the user or the project set.
- Data that must not be lost: file paths, ids, commands and their results, error messages, versions, artifact ids (art_...) with what they hold.
- What is still to do, in order.
- The next step, exactly.

Leave out greetings, repetitions and long quotations of output. State what is not known as unknown, and invent nothing.";
