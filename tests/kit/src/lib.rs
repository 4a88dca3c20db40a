//! What the tests share: `strict` judges the event streams and response objects a client receives,
//! `session` is a long session of an agent as data.

pub mod session;
pub mod strict;
