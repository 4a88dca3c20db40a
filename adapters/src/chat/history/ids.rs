//! Call ids in the form that the provider accepts, and the names of the tools
//! called. A call and its result get the same id.

use std::collections::{HashMap, HashSet};

use registry::CallIds;
use sha2::{Digest, Sha256};

use crate::plan::Plan;
use crate::turn::{Item, Turn};

/// The length limit of [`CallIds::Word`].
const MAX_WORD_LENGTH: usize = 64;

/// Maps the plan's call ids to those that are sent.
#[derive(Debug, Default)]
pub(super) struct WireCallIds {
    changed: HashMap<String, String>,
}

impl WireCallIds {
    /// Chooses ids of this form for a history. An id that already has the form is
    /// kept. Any other is derived from the id alone, unless an earlier call has the
    /// result.
    pub(super) fn new(turn: &Turn<'_>, plan: &Plan, form: CallIds) -> Self {
        let mut changed = HashMap::new();
        if form == CallIds::Any {
            return Self { changed };
        }
        let mut taken = HashSet::new();
        for (index, _) in calls(turn) {
            let id = plan.call_id(turn, index);
            if changed.contains_key(id.as_ref()) {
                continue;
            }
            let mut new = derive_id(&id, form, 0);
            let mut salt = 0;
            while !taken.insert(new.clone()) {
                salt += 1;
                new = derive_id(&id, form, salt);
            }
            changed.insert(id.into_owned(), new);
        }
        Self { changed }
    }

    /// Whether any id differs from the plan's.
    pub(super) fn any_changed(&self) -> bool {
        self.changed.iter().any(|(id, wire)| id != wire)
    }

    /// The id to send. A result without a call keeps its id.
    pub(super) fn wire_id<'i>(&'i self, id: &'i str) -> &'i str {
        self.changed.get(id).map_or(id, String::as_str)
    }
}

fn derive_id(id: &str, form: CallIds, salt: u32) -> String {
    let fits = |c: char| match form {
        CallIds::Any => true,
        CallIds::NineAlphanumeric => c.is_ascii_alphanumeric(),
        CallIds::Word => c.is_ascii_alphanumeric() || c == '_' || c == '-',
    };
    let right_length = match form {
        CallIds::Any => true,
        CallIds::NineAlphanumeric => id.len() == 9,
        CallIds::Word => (1..=MAX_WORD_LENGTH).contains(&id.len()),
    };
    if salt == 0 && right_length && id.chars().all(fits) {
        return id.to_owned();
    }
    let hash = hash(id, salt);
    match form {
        CallIds::Any => id.to_owned(),
        CallIds::NineAlphanumeric => nine_alphanumerics(hash),
        CallIds::Word => {
            let clean = id.chars().map(|c| if fits(c) { c } else { '_' });
            let head: String = clean.take(MAX_WORD_LENGTH - 10).collect();
            format!("{head}_{}", nine_alphanumerics(hash))
        }
    }
}

/// FNV-1a, because an id must be the same in every build and on every machine. Ids that have the
/// hash of another one may have been made for it: with a salt it is SHA-256, so that no two of them
/// have the same hashes again and again.
fn hash(id: &str, salt: u32) -> u64 {
    if salt > 0 {
        let hash = Sha256::new_with_prefix(id).chain_update(salt.to_le_bytes());
        let first = hash.finalize().first_chunk().copied();
        return u64::from_le_bytes(first.unwrap_or_default());
    }
    id.bytes()
        .chain([0])
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}

/// Nine letters and digits.
fn nine_alphanumerics(mut hash: u64) -> String {
    const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    (0..9)
        .map(|_| {
            let digit = usize::try_from(hash % 62).unwrap_or_default();
            hash /= 62;
            char::from(DIGITS.get(digit).copied().unwrap_or(b'0'))
        })
        .collect()
}

/// The wire names of the tools that were called, by the plan's call ids.
pub(super) fn tool_names(
    turn: &Turn<'_>,
    plan: &Plan,
    name: impl Fn(&Item<'_>) -> String,
) -> HashMap<String, String> {
    calls(turn)
        .map(|(index, item)| (plan.call_id(turn, index).into_owned(), name(item)))
        .collect()
}

fn calls<'t, 'a>(turn: &'t Turn<'a>) -> impl Iterator<Item = (usize, &'t Item<'a>)> {
    let items = turn.items.iter().enumerate();
    items.filter(|(_, item)| item.kind.is_call())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::{Bounds, plan};
    use crate::responses::request::TurnSource;

    #[test]
    fn ids_have_the_form_and_stay_distinct() {
        let long = "x".repeat(80);
        assert_eq!(
            hash("8yn0iYCKYHlIj4-BwPqk.", 0),
            hash("GReLUrM4wMqfg9yzV3KQ.", 0)
        );
        let given = [
            "abcdefghi",
            "call_1",
            "call_2",
            "functions.ls:0",
            &long,
            "漢",
            "call_1",
            "8yn0iYCKYHlIj4-BwPqk.",
            "GReLUrM4wMqfg9yzV3KQ.",
        ];
        let items: Vec<_> = given
            .iter()
            .map(|id| json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"}))
            .collect();
        let source = TurnSource::new(json!({"model": "m", "input": items}).to_string());
        let turn = source.turn().unwrap();
        for (form, kept, legal) in [
            (CallIds::Any, 7, (|_| true) as fn(&str) -> bool),
            (CallIds::NineAlphanumeric, 1, |id| {
                id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric())
            }),
            (CallIds::Word, 3, |id| {
                id.len() <= 64
                    && id
                        .bytes()
                        .all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
            }),
        ] {
            let plan = plan(&turn, &Bounds::none());
            let ids = WireCallIds::new(&turn, &plan, form);
            let wire: HashSet<String> = (0..given.len())
                .map(|index| ids.wire_id(&plan.call_id(&turn, index)).to_owned())
                .collect();
            assert_eq!(wire.len(), given.len(), "{form:?} {wire:?}");
            assert!(wire.iter().all(|id| legal(id)), "{form:?} {wire:?}");
            assert_eq!(
                wire.iter()
                    .filter(|id| given.contains(&id.as_str()))
                    .count(),
                kept
            );
        }
    }
}
