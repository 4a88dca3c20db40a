//! Loads `[vision]`.

use registry::ResolvedBy;

use super::ConfigLoader;
use crate::config::toml_file::TomlFile;
use crate::config::vision::VisionConfig;

impl ConfigLoader<'_> {
    /// Takes the model that describes images, if there is one that takes them. One whose provider
    /// is off is left out with a warning, because that provider may only lack its key.
    pub(super) fn vision(&mut self, main: &TomlFile, mut vision: VisionConfig) {
        if vision.timeout.is_zero() {
            let message = "`timeout` must be above zero".to_owned();
            self.fail(main.error(&["vision", "timeout"], message));
        }
        if let Some(model) = vision.model.clone()
            && !self.has_bad_provider
        {
            let resolved = self.config.registry.resolve(&model, false);
            match resolved {
                Ok(route) if route.resolved_by == ResolvedBy::Default => {
                    self.warn(format!("[vision] no provider has the model `{model}`"));
                    vision.model = None;
                }
                Ok(route) if !route.model.images => {
                    let message = format!("`{model}` takes no images; name a model that does");
                    self.fail(main.error(&["vision", "model"], message));
                }
                Ok(_) => {}
                Err(unknown) => {
                    self.warn(format!("[vision] {unknown}"));
                    vision.model = None;
                }
            }
        }
        self.config.vision = vision;
    }
}
