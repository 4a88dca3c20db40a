//! Service.

pub mod sandbox;
