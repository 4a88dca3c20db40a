//! Helpers below the HTTP code that know nothing of turns and providers.

pub(crate) mod blocking;
