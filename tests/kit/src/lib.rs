//! What the tests share: `strict` judges the event streams and response objects a client receives.

pub mod strict;
