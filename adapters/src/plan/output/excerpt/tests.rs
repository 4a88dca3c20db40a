//! Excerpts of every kind.
