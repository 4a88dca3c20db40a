//! The offline model.
