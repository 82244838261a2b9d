//! Test support of inspan: what every suite uses to prove behaviour under faults.
//!
//! [`provider`] is a model provider that plays exact bytes over real HTTP.

pub mod provider;
