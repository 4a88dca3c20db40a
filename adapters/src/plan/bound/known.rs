//! Outputs, as far as they must be looked at whole: each at most once, where there
//! is a memo.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use crate::plan::output::{self, Measure};
use crate::plan::{Found, Memo};
use crate::turn::{Item, ItemKind};

/// The outputs of a turn.
pub(super) struct Known<'t> {
    memo: &'t dyn Memo,
    /// The item that was decoded last, and its text: what is new in a turn is
    /// measured and then shown.
    last: Option<(usize, Cow<'t, str>)>,
}

impl<'t> Known<'t> {
    pub(super) fn new(memo: &'t dyn Memo) -> Self {
        Self { memo, last: None }
    }

    /// What the output of an item is, and whether it was read back; `None` if it has
    /// no text.
    pub(super) fn measure(
        &mut self,
        index: usize,
        item: &Item<'t>,
    ) -> Option<(Arc<Measure>, bool)> {
        let name = self.name(item)?;
        if let Some(Found::Measure(measure, is_read_back)) = self.memo.get(name) {
            return Some((measure, is_read_back));
        }
        let text = self.text(index, item)?;
        let (measure, is_read_back) = (Arc::new(output::measure(text)), output::is_read_back(text));
        let found = Found::Measure(Arc::clone(&measure), is_read_back);
        self.memo.put(name, found);
        Some((measure, is_read_back))
    }

    /// What is shown of an output, which is a function of its text and of `how`.
    pub(super) fn shown(
        &mut self,
        index: usize,
        item: &Item<'t>,
        how: impl Debug,
        show: impl FnOnce(&str) -> String,
    ) -> Option<Arc<str>> {
        let name = self.memo.name(&format!("{:x} {how:?}", self.name(item)?));
        if let Some(Found::Shown(text)) = self.memo.get(name) {
            return Some(text);
        }
        let shown: Arc<str> = show(self.text(index, item)?).into();
        self.memo.put(name, Found::Shown(Arc::clone(&shown)));
        Some(shown)
    }

    /// The text of an output follows from its JSON and the type of its item.
    fn name(&self, item: &Item<'t>) -> Option<u128> {
        let name = self.memo.name(item.output()?.get());
        Some(match item.kind {
            ItemKind::FunctionCallOutput | ItemKind::CustomToolCallOutput => name,
            other => self.memo.name(&format!("{name:x} {other:?}")),
        })
    }

    fn text(&mut self, index: usize, item: &Item<'t>) -> Option<&str> {
        if self.last.as_ref().is_none_or(|(last, _)| *last != index) {
            // Two texts at a time would take too much room.
            self.last = None;
            self.last = Some((index, output::text(item)?));
        }
        self.last.as_ref().map(|(_, text)| text.as_ref())
    }
}
