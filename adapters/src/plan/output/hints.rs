//! Paths and addresses that a text names.
