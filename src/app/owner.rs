//! Whose request a handler answers.

use axum::body::Body;
use axum::extract::{FromRef, FromRequestParts};
use http::Response;
use http::request::Parts;

use crate::artifacts::owner::OwnerArtifacts;
use crate::net::Owner;
use crate::serve::error::internal;

/// The owner of a request. A request that was not let in has none, and is not answered.
pub(super) struct RequestOwner(pub(super) Owner);

impl<S: Send + Sync> FromRequestParts<S> for RequestOwner {
    type Rejection = Response<Body>;

    async fn from_request_parts(head: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let owner = head.extensions.get::<Owner>().ok_or_else(internal)?;
        Ok(Self(owner.clone()))
    }
}

/// The artifacts of the owner of a request.
pub(super) struct RequestArtifacts(pub(super) OwnerArtifacts);

impl<S> FromRequestParts<S> for RequestArtifacts
where
    OwnerArtifacts: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = Response<Body>;

    async fn from_request_parts(head: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let RequestOwner(Owner(owner)) = RequestOwner::from_request_parts(head, state).await?;
        Ok(Self(OwnerArtifacts::from_ref(state).of(owner)))
    }
}
