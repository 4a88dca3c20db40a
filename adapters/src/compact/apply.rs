//! A request becomes what its purpose wants.

use super::{Form, PROMPT, Purpose};
use crate::tools::{Choice, Toolbox};
use crate::turn::{Format, Item, ItemKind, Turn};

/// Changes a turn that was read for its own sake.
pub(crate) fn apply(turn: &mut Turn<'_>, purpose: &Purpose) {
    turn.purpose = purpose.clone();
    match purpose {
        Purpose::Answer => {}
        Purpose::Summary { form, prompted, .. } => {
            turn.items
                .retain(|item| item.kind != ItemKind::CompactionTrigger);
            if !prompted {
                turn.items.push(Item::user(PROMPT.into()));
            }
            turn.choice = Choice::None;
            if *form == Form::Cut {
                turn.tools = Toolbox::default();
            }
            let controls = &mut turn.controls;
            controls.format = Format::Text;
            controls.max_output_tokens = None;
            controls.top_logprobs = None;
            controls.logprobs = false;
        }
        Purpose::Compacted { blob, from } => {
            let items = std::mem::take(&mut turn.items);
            let mut late = Vec::with_capacity(items.len());
            for (index, item) in items.into_iter().enumerate() {
                if index >= *from {
                    late.push(item);
                } else if item.is_system() {
                    turn.items.push(item);
                }
            }
            turn.items.push(Item::compaction(blob));
            turn.items.append(&mut late);
        }
    }
}
