//! Whose request this is, and whose what it stores is.
use std::sync::Arc;

use crate::secrets::TokenHash;

/// The owner of a server without clients, and of every request with the server's own token.
pub const LOCAL_OWNER: &str = "local";

/// [`LOCAL_OWNER`], for what names no owner.
pub fn local_owner() -> String {
    LOCAL_OWNER.to_owned()
}

/// The owner of a request: [`LOCAL_OWNER`], or the name of a client in the configuration.
///
/// The HTTP edge puts it into the extensions of every request that it lets in, except for those
/// that need no token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner(
    /// The name.
    pub Arc<str>,
);

impl Owner {
    /// The owner without a client.
    pub fn local() -> Self {
        Self(LOCAL_OWNER.into())
    }

    /// Whether this is the operator of the server, who may use the routes about the whole server.
    pub fn is_operator(&self) -> bool {
        &*self.0 == LOCAL_OWNER
    }
}

/// The hash of the token that let a request in; `None` if no token was needed. The HTTP edge puts
/// it into the extensions of the request, for what outlives it: connections and streams.
#[derive(Debug, Clone, Copy, Default)]
pub struct AdmittedBy(
    /// The hash.
    pub Option<TokenHash>,
);
