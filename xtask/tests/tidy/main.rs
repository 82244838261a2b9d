//! House rules as tests: what a review should not have to look for.
//!
//! Each module is one rule or one family; a failure names the place and what to do.

mod arrows;
mod dependencies;
mod files;
mod marks;
mod rules;
mod sizes;
mod supply;

/// Fails with one line for each finding; says nothing when there is none.
fn none(what: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{what}:\n  {}", findings.join("\n  "));
}
