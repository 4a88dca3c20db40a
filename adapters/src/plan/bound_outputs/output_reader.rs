//! Measures outputs and makes texts from them, with the help of the cache: with one, each
//! output of a session is read at most once.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use crate::plan::output::{self, OutputMeasure};
use crate::plan::{CachedOutput, PlanCache};
use crate::stop_flag::StopFlag;
use crate::turn::{Item, ItemKind};

pub(super) struct OutputReader<'t> {
    cache: &'t dyn PlanCache,
    stop: &'t StopFlag,
    /// The item that was decoded last, and its text: a new output is measured first and
    /// then rendered.
    last: Option<(usize, Cow<'t, str>)>,
}

impl<'t> OutputReader<'t> {
    pub(super) fn new(cache: &'t dyn PlanCache, stop: &'t StopFlag) -> Self {
        Self {
            cache,
            stop,
            last: None,
        }
    }

    /// The measure of an item's output, and whether it was read back from an artifact;
    /// `None` if it has no text, or the work was stopped.
    pub(super) fn measure(
        &mut self,
        index: usize,
        item: &'t Item<'t>,
    ) -> Option<(Arc<OutputMeasure>, bool)> {
        let key = self.key(item)?;
        if let Some(CachedOutput::Measure(measure, is_read_back)) = self.cache.get(key) {
            return Some((measure, is_read_back));
        }
        let stop = self.stop;
        let text = self.text(index, item)?;
        let measure = Arc::new(excerpts::measure_until(text, &|| stop.is_raised())?);
        let is_read_back = output::is_read_back(text);
        let entry = CachedOutput::Measure(Arc::clone(&measure), is_read_back);
        self.cache.put(key, entry);
        Some((measure, is_read_back))
    }

    /// The text that `render` makes of an item's output. It must depend on the output and
    /// on `settings` alone. `None` if the work was stopped.
    pub(super) fn render(
        &mut self,
        index: usize,
        item: &'t Item<'t>,
        settings: impl Debug,
        render: impl FnOnce(&str) -> String,
    ) -> Option<Arc<str>> {
        let key = self
            .cache
            .key(&format!("{:x} {settings:?}", self.key(item)?));
        if let Some(CachedOutput::Replacement(text)) = self.cache.get(key) {
            return Some(text);
        }
        let stop = self.stop;
        let text: Arc<str> = render(self.text(index, item)?).into();
        if stop.is_raised() {
            return None;
        }
        self.cache
            .put(key, CachedOutput::Replacement(Arc::clone(&text)));
        Some(text)
    }

    /// The key of an output. Its text depends on its JSON and on the type of its item.
    fn key(&self, item: &Item<'t>) -> Option<u128> {
        let key = self.cache.key(item.output()?.get());
        Some(match item.kind {
            ItemKind::FunctionCallOutput | ItemKind::CustomToolCallOutput => key,
            other => self.cache.key(&format!("{key:x} {other:?}")),
        })
    }

    fn text(&mut self, index: usize, item: &'t Item<'t>) -> Option<&str> {
        if self.last.as_ref().is_none_or(|(last, _)| *last != index) {
            // Freed first: two texts at a time would take too much memory.
            self.last = None;
            self.last = Some((index, output::text(item)?));
        }
        self.last.as_ref().map(|(_, text)| text.as_ref())
    }
}
