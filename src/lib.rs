//! Respondent: answers the `OpenAI` Responses API for every model.
pub mod diagnostics;
pub mod metrics;
pub mod serve;
