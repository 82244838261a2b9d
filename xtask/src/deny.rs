//! `cargo xtask deny`: the licence, ban and source check with cargo-deny.
//!
//! Building that tool takes longer than all of our tests, so CI checks the same rules from `cargo metadata`
//! (the `supply` part of the tidy tests) and this command is for whoever changes a dependency.

use crate::shell::{self, Failure};

/// Runs the check; installs cargo-deny first when it is missing.
///
/// # Errors
/// When it cannot be installed or finds something.
pub(crate) fn run() -> Result<(), Failure> {
    if !shell::exists("cargo-deny", "--version") {
        println!("installing cargo-deny: it is missing, and building it takes some minutes");
        shell::run(shell::cargo().args(["install", "--locked", "--no-default-features", "cargo-deny"]))?;
    }
    shell::run(shell::cargo().args(["deny", "check", "bans", "licenses", "sources"]))
}
