//! Test support: the helpers that every suite of faults uses. Never linked into a release.

pub mod harness;
pub mod provider;
