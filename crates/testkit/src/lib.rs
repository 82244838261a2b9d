//! Test support: the helpers that every suite of faults uses. Never linked into a release.

pub mod fault;
pub mod harness;
pub mod provider;
pub mod tool;
#[cfg(unix)]
pub mod vfs;
