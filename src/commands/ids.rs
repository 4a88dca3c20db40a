//! Completes an id from the beginning that a person typed.

use crate::log::{SafeText, is_id_prefix, short_id};

/// The most ids that an error lists.
const MAX_LISTED: usize = 8;

/// The only one of these ids that begins with what was typed; `None` if none does. An id that was
/// typed completely is the only one. The error for several ids lists them.
pub(super) fn complete_id(
    typed: &str,
    ids: impl Iterator<Item = String>,
) -> anyhow::Result<Option<String>> {
    let mut meant: Vec<String> = ids.filter(|id| is_id_prefix(typed, id)).collect();
    if meant.iter().any(|id| id == typed) {
        return Ok(Some(typed.to_owned()));
    }
    if meant.len() < 2 {
        return Ok(meant.pop());
    }
    // Eight characters may not tell them apart.
    let are_distinct = {
        let mut short: Vec<String> = meant.iter().map(|id| short_id(id)).collect();
        short.sort_unstable();
        short.windows(2).all(|pair| pair.first() != pair.last())
    };
    let shown = |id: &String| {
        let id = if are_distinct {
            short_id(id)
        } else {
            id.clone()
        };
        SafeText::new(&id).to_string()
    };
    let mut listed: Vec<String> = meant.iter().take(MAX_LISTED).map(shown).collect();
    if meant.len() > MAX_LISTED {
        listed.push("and more".to_owned());
    }
    anyhow::bail!(
        "several ids begin with {}: {}; type more of the one that you mean",
        SafeText::new(typed),
        listed.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::complete_id;

    fn meant(typed: &str, ids: &[&str]) -> Result<Option<String>, String> {
        let ids = ids.iter().map(|id| (*id).to_owned());
        complete_id(typed, ids).map_err(|error| error.to_string())
    }

    #[test]
    fn a_unique_beginning_is_completed() {
        let ids = ["req_0a11", "req_0a22", "req_0b33"];
        assert_eq!(meant("0b", &ids), Ok(Some("req_0b33".into())));
        assert_eq!(meant("req_0a1", &ids), Ok(Some("req_0a11".into())));
        assert_eq!(meant("ff", &ids), Ok(None));
        assert_eq!(
            meant("0a", &ids).unwrap_err(),
            "several ids begin with 0a: 0a11, 0a22; type more of the one that you mean"
        );
    }

    #[test]
    fn a_whole_id_is_meant_even_if_another_one_continues_it() {
        let ids = ["req_1", "req_12"];
        assert_eq!(meant("req_1", &ids), Ok(Some("req_1".into())));
        assert!(meant("1", &ids).is_err());
    }

    #[test]
    fn ids_that_look_alike_are_listed_in_full() {
        let error = meant("0", &["req_012345678a", "req_012345678b"]).unwrap_err();
        assert!(error.contains("req_012345678a, req_012345678b"), "{error}");
    }
}
