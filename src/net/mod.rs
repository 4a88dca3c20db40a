//! Helpers for I/O that do not depend on turns, providers or the configuration.

pub(crate) mod blocking;
