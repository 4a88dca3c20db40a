//! The id of one request to this server.
use std::sync::Arc;

/// The id of a request: `req_` and 32 random hexadecimal digits.
///
/// The HTTP edge makes one for each request and puts it into the extensions of the
/// request and into `x-request-id` of the response.
#[derive(Debug, Clone)]
pub struct RequestId(
    /// The id itself.
    pub Arc<str>,
);

impl RequestId {
    /// A fresh id.
    pub fn random() -> Self {
        let mut bytes = [0; 16];
        // The id only ties a log line to a response. Without randomness it is zero, and
        // the request goes on.
        let _ = getrandom::fill(&mut bytes);
        Self(format!("req_{:032x}", u128::from_be_bytes(bytes)).into())
    }
}

#[cfg(test)]
mod tests {
    use super::RequestId;

    #[test]
    fn ids_are_random_and_have_one_form() {
        let (one, two) = (RequestId::random().0, RequestId::random().0);
        assert_ne!(one, two);
        assert_eq!(one.len(), 36);
        assert!(one.starts_with("req_"));
    }
}
