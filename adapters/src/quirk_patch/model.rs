//! Patches of the model.

use std::fmt;

use registry::Model;
use serde::{Deserialize, Serialize};

use crate::effort::EffortLevels;

/// A change of what is known of a model, whatever its wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelPatch {
    /// Size of the context window: tokens that input and output share.
    Window(u32),
    /// The largest output limit, in tokens.
    MaxOutput(u32),
    /// The effort levels that the model has.
    Efforts(EffortLevels),
    /// `temperature` and `top_p` are fixed.
    NoSampling,
    /// The model does not accept images.
    NoImages,
    /// The model does not accept audio.
    NoAudio,
}

impl ModelPatch {
    /// Applies the patch.
    pub(crate) fn apply(self, model: &mut Model) {
        match self {
            Self::Window(tokens) => model.window = Some(u64::from(tokens)),
            Self::MaxOutput(tokens) => model.max_output = Some(u64::from(tokens)),
            Self::Efforts(levels) => {
                model.reasoning = levels.names().map(str::to_owned).collect();
                if let Some(first) = &model.default_reasoning
                    && !model.reasoning.contains(first)
                {
                    model.default_reasoning = None;
                }
            }
            Self::NoSampling => model.sampling = false,
            Self::NoImages => model.images = false,
            Self::NoAudio => model.audio = false,
        }
    }
}

impl fmt::Display for ModelPatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Window(tokens) => write!(f, "the window has {tokens} tokens"),
            Self::MaxOutput(tokens) => write!(f, "an answer has at most {tokens} tokens"),
            Self::Efforts(levels) => {
                let names: Vec<&str> = levels.names().collect();
                write!(f, "the effort levels are {}", names.join(", "))
            }
            Self::NoSampling => f.write_str("temperature and top_p are left out"),
            Self::NoImages => f.write_str("the model takes no images"),
            Self::NoAudio => f.write_str("the model takes no audio"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quirk_patch::tests::changed_fields;

    /// The fields of a model that the patch changes.
    fn changed(patch: ModelPatch) -> Vec<String> {
        let model = Model::unlisted("m");
        let mut patched = model.clone();
        patch.apply(&mut patched);
        changed_fields(&model, &patched)
    }

    #[test]
    fn a_patch_changes_one_thing() {
        for (patch, change) in [
            (ModelPatch::NoSampling, "sampling: false"),
            (ModelPatch::NoImages, "images: false"),
            (ModelPatch::NoAudio, "audio: false"),
        ] {
            assert_eq!(changed(patch), [change], "{patch}");
        }
        for (patch, number) in [
            (ModelPatch::Window(8_192), "8192"),
            (ModelPatch::MaxOutput(4_096), "4096"),
        ] {
            let change = changed(patch);
            assert!(change.contains(&number.to_owned()), "{change:?}");
            assert!(patch.to_string().contains(number), "{patch}");
        }
    }

    #[test]
    fn a_default_effort_that_the_model_lacks_is_dropped() {
        let mut model = Model {
            default_reasoning: Some("xhigh".to_owned()),
            ..Model::unlisted("m")
        };
        let levels = EffortLevels::from_names(&["max", "low", "or", "high"]).unwrap();
        let patch = ModelPatch::Efforts(levels);
        patch.apply(&mut model);
        assert_eq!(model.reasoning, ["low", "high", "max"]);
        assert_eq!(model.default_reasoning, None);
        assert_eq!(patch.to_string(), "the effort levels are low, high, max");
        assert_eq!(EffortLevels::from_names(&["or"]), None);
    }
}
