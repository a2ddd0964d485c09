//! Shared machinery of the integration tests.
