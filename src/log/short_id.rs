//! Ids as people read and type them.

/// The characters of an id in tables.
const SHORT_LENGTH: usize = 8;

/// The first 8 characters of the random part of an id: `0f5a19f7` of `req_0f5a19f7c3…`.
pub fn short_id(id: &str) -> String {
    random_part(id).chars().take(SHORT_LENGTH).collect()
}

/// Whether this text is the beginning of this id. The part that says what kind of id it is, such
/// as `req_`, may be left out.
pub fn is_id_prefix(typed: &str, id: &str) -> bool {
    !typed.is_empty() && (id.starts_with(typed) || random_part(id).starts_with(typed))
}

/// The id without what says its kind, such as `req_`.
fn random_part(id: &str) -> &str {
    id.split_once('_').map_or(id, |(_, random)| random)
}

#[cfg(test)]
mod tests {
    use super::{is_id_prefix, short_id};

    #[test]
    fn the_beginning_of_an_id_is_enough() {
        let id = "req_0f5a19f7c3aa";
        assert_eq!(short_id(id), "0f5a19f7");
        assert_eq!(short_id("plain"), "plain");
        for typed in [
            "0f5a19f7",
            "0",
            "req_0f5a",
            "req_0f5a19f7c3aa",
            "0f5a19f7c3aa",
        ] {
            assert!(is_id_prefix(typed, id), "{typed}");
        }
        for typed in ["", "f5a1", "resp_0f5a", "req_0f5a19f7c3aa0"] {
            assert!(!is_id_prefix(typed, id), "{typed}");
        }
    }
}
