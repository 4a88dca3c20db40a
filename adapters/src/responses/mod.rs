//! The client's dialect: Responses requests in, Responses events out.

pub mod patch;
