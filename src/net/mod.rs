//! What every layer that speaks HTTP shares: the body of a response and the id of a
//! request.

mod body;
mod request_id;

pub use body::Body;
pub use request_id::RequestId;
