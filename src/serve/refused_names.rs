//! The hosts and origins that were refused. Each is logged once, although a client may ask again
//! and again.

use std::collections::HashSet;

use parking_lot::Mutex;

use super::guard::RefusedName;

/// How many names are logged. A client can invent any number of them.
const MAX_NAMES: usize = 50;

/// The hosts and origins whose refusal was logged. An edge has one for the life of the process.
#[derive(Debug, Default)]
pub(super) struct RefusedNames {
    logged: Mutex<HashSet<String>>,
}

impl RefusedNames {
    /// Logs a refusal, unless one of the same name was logged before, or too many others were.
    pub(super) fn warn_once(&self, refused: &RefusedName) {
        if self.is_new(&refused.name) {
            tracing::warn!("refused: {}", refused.message);
        }
    }

    fn is_new(&self, name: &str) -> bool {
        let mut logged = self.logged.lock();
        logged.len() < MAX_NAMES && logged.insert(name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_new_once_and_their_number_is_limited() {
        let names = RefusedNames::default();
        assert!(names.is_new("a.example"));
        assert!(!names.is_new("a.example"));
        let new = (0..1000).filter(|number| names.is_new(&number.to_string()));
        assert_eq!(new.count(), MAX_NAMES - 1);
    }
}
