//! What a server has learned of a model from refusals: a measurement begins with it, so that it is
//! in the file that is written.

use std::sync::Arc;

use super::measure::{Known, with_known};
use super::report::DoctorCheck;
use crate::commands::learned::stored;
use crate::config::Config;
use crate::net::LOCAL_OWNER;
use crate::upstream::{LearnedPatch, PatchesOf};

/// Makes what is stored of a model, `provider/model`, for all or for the operator, the settings of
/// its provider. Limits are not stored. Returns what was known before, if that changed, and what
/// there is to say.
pub(super) fn apply(config: &mut Config, name: &str) -> (Option<Known>, Option<DoctorCheck>) {
    let quirks = match stored(config) {
        Ok((quirks, _)) => quirks,
        Err(error) => {
            let found = format!("What was learned cannot be read: {error:#}");
            let remedy = "`respondent store check` says more.";
            return (None, Some(DoctorCheck::warning("learned", found, remedy)));
        }
    };
    // The measurement tells that there is no such model.
    let Ok(route) = config.registry.resolve(name, false) else {
        return (None, None);
    };
    let of = PatchesOf::owner(LOCAL_OWNER);
    let patches = quirks.patches(&route, of);
    let is_meant = |it: &LearnedPatch| it.owner.is_empty() || *it.owner == *LOCAL_OWNER;
    let all = quirks.all().into_iter();
    let others = all.filter(|(provider, model, patches)| {
        *provider == route.provider.id
            && *model != route.upstream_model
            && patches.iter().any(is_meant)
    });
    let mut found: Vec<String> = patches.iter().map(ToString::to_string).collect();
    if let others @ 1.. = others.count() {
        found.push(format!("more of {others} other models (see --model)"));
    }
    if found.is_empty() {
        return (None, None);
    }
    let check = DoctorCheck::good("learned", found.join("; "));
    let mut patched = route.clone();
    if quirks.apply(&mut patched, of).is_empty() {
        return (None, Some(check));
    }
    let provider = with_known(&route.provider, &Known::of(&patched));
    config.registry.replace_provider(&Arc::new(provider));
    (Some(Known::of(&route)), Some(check))
}
