//! Pure translation.
