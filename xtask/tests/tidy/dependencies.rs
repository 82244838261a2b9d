//! Every dependency is a decision: it is declared once, in the root, under a line that says why.

use crate::files::{all, root};
use crate::none;

#[test]
fn every_workspace_dependency_says_why_it_is_here() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("the root manifest");
    let (_, section) = manifest.split_once("[workspace.dependencies]").expect("the dependencies of the workspace");
    let section = section.split("\n[").next().expect("split gives at least one part");
    let mut before = "";
    let mut findings = Vec::new();
    let mut seen = 0;
    for line in section.lines() {
        if let Some((name, value)) = line.split_once(" = ")
            && !value.contains("path = \"")
        {
            seen += 1;
            if !before.starts_with("# ") {
                findings.push(format!("{name}: no comment in the line above it"));
            }
        }
        before = line;
    }
    assert!(seen > 10, "only {seen} dependencies found: the section was misread");
    none("dependencies without a reason in Cargo.toml", &findings);
}

#[test]
fn crates_take_their_dependencies_from_the_workspace() {
    let mut findings = Vec::new();
    for file in all().iter().filter(|file| file.path.ends_with("/Cargo.toml") && !file.path.starts_with("fuzz/")) {
        let mut section = "";
        for line in file.text.lines() {
            if line.starts_with('[') {
                section = line;
            } else if section.contains("dependencies]") && line.contains('=') && !line.contains("workspace = true") {
                findings.push(format!("{}: {line}", file.path));
            }
        }
    }
    none("versions outside the root manifest", &findings);
}

#[test]
fn a_release_links_no_test_support() {
    let mut findings = Vec::new();
    for file in all().iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        let mut section = "";
        for line in file.text.lines() {
            if line.starts_with('[') {
                section = line;
            } else if line.starts_with("inspan-testkit") && matches!(section, "[dependencies]" | "[build-dependencies]")
            {
                findings.push(file.path.clone());
            }
        }
    }
    none("inspan-testkit is for [dev-dependencies] only", &findings);
}
