//! Refusals of an upstream that speaks Responses, and the quirk patches that they lead to.

use crate::provider_error::error::ProviderError;
use crate::provider_error::patches::{self, limits, parameters, schema};
use crate::quirk_patch::QuirkPatch;

/// The patch for a refusal that is not a context overflow; `lower` is its text in lower case.
/// The first rule that matches counts.
pub(crate) fn find_patch(error: &ProviderError, lower: &str) -> Option<QuirkPatch> {
    patches::reasoning(lower)
        .or_else(|| limits::max_output(lower).map(Into::into))
        .or_else(|| limits::fixed_temperature(lower).map(Into::into))
        .or_else(|| schema::refused_schema(error, lower).map(Into::into))
        .or_else(|| patches::images(lower))
        .or_else(|| patches::roles(error, lower))
        .or_else(|| parameters::efforts(error, lower).map(Into::into))
        .or_else(|| parameters::tool_choice(error, lower).map(Into::into))
        .or_else(|| parameters::unknown_parameter(error, lower, &[]))
        .or_else(|| parameters::unknown_setting(lower).map(Into::into))
}
