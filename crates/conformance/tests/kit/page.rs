//! docs/conformance.md has the tables of the kit, row for row.

use inspan_conformance::{Check, harness, host};

const PAGE: &str = include_str!("../../../../docs/conformance.md");

fn rows(checks: &[Check]) -> String {
    let row = |c: &Check| format!("| {} | `{}` | {} |\n", c.rule, c.name, c.proves);
    checks.iter().map(row).collect()
}

#[test]
fn the_page_has_every_check() {
    for (side, checks) in [("harness", harness::CHECKS), ("host", host::CHECKS)] {
        let table = rows(checks);
        assert!(PAGE.contains(&table), "docs/conformance.md: the table of the {side} must read\n\n{table}");
    }
}

#[test]
fn names_are_unique_on_their_side() {
    for checks in [harness::CHECKS, host::CHECKS] {
        let mut names: Vec<&str> = checks.iter().map(|check| check.name).collect();
        names.sort_unstable();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
    }
}
