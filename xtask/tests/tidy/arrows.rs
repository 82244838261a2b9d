//! Crate arrows: who may use whom. An arrow that is not in the table is a change of the architecture: it
//! needs a line in ARCHITECTURE.md before it needs one here.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::{items, metadata, root, text};
use crate::none;

/// Each of our crates and what it may use. Dev-dependencies are exempt: a test may look at anything.
const MAY_USE: &[(&str, &[&str])] = &[
    ("inspan-wire", &[]),
    ("inspan-journal", &["inspan-wire"]),
    ("inspan-harness", &["inspan-wire"]),
    ("inspan-engine", &["inspan-wire", "inspan-journal", "inspan-harness"]),
    ("inspan-models", &["inspan-wire", "inspan-engine"]),
    ("inspan-attach", &["inspan-wire", "inspan-harness", "inspan-engine"]),
    (
        "inspan-host",
        &["inspan-wire", "inspan-journal", "inspan-harness", "inspan-engine", "inspan-models", "inspan-attach"],
    ),
    ("inspan-conformance", &["inspan-wire", "inspan-harness", "inspan-attach"]),
    ("inspan", &["inspan-host", "inspan-harness", "inspan-conformance", "inspan-wire"]),
    ("inspan-testkit", &["inspan-harness", "inspan-wire"]),
    ("inspan-sim", &["inspan-wire", "inspan-journal", "inspan-harness", "inspan-engine"]),
    ("xtask", &[]),
    ("inspan-gen", &[]),
    ("inspan-bench", &["inspan-wire", "inspan-journal", "inspan-harness", "inspan-host"]),
];

/// What the bytes of a record must never hang on: a runtime, a transport, a store, a clock, randomness.
const OUT_OF_WIRES_REACH: &[&str] = &[
    "tokio",
    "hyper",
    "tonic",
    "axum",
    "rusqlite",
    "libsqlite3-sys",
    "getrandom",
    "rand",
    "chrono",
    "time",
    "async-trait",
];

#[test]
fn crates_use_only_what_the_architecture_allows() {
    let told = metadata(&["--no-deps"]);
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for package in items(&told, "packages") {
        let name = text(package, "name");
        seen.insert(name.to_owned());
        let Some((_, may_use)) = MAY_USE.iter().find(|(of, _)| *of == name) else {
            findings.push(format!("{name} is not in the table of tests/tidy/arrows.rs"));
            continue;
        };
        for dependency in items(package, "dependencies") {
            let used = text(dependency, "name");
            let ours = MAY_USE.iter().any(|(of, _)| *of == used);
            if ours && dependency["kind"].as_str() != Some("dev") && !may_use.contains(&used) {
                findings.push(format!("{name} may not use {used}"));
            }
        }
    }
    for (name, _) in MAY_USE.iter().filter(|(name, _)| !seen.contains(*name)) {
        findings.push(format!("{name} is in the table of tests/tidy/arrows.rs and not in the workspace"));
    }
    none("arrows between crates", &findings);
}

#[test]
fn wire_reaches_no_runtime_clock_or_store() {
    let told = metadata(&[]);
    let names: BTreeMap<&str, &str> =
        items(&told, "packages").iter().map(|package| (text(package, "id"), text(package, "name"))).collect();
    let nodes: BTreeMap<&str, &serde_json::Value> =
        items(&told["resolve"], "nodes").iter().map(|node| (text(node, "id"), node)).collect();
    let start = names.iter().find(|(_, name)| **name == "inspan-wire").map(|(id, _)| *id).expect("wire is there");

    let mut reached = BTreeSet::from([start]);
    let mut open = vec![start];
    while let Some(id) = open.pop() {
        for dependency in items(nodes[id], "deps") {
            let linked = items(dependency, "dep_kinds").iter().any(|kind| kind["kind"].is_null());
            if linked && reached.insert(text(dependency, "pkg")) {
                open.push(text(dependency, "pkg"));
            }
        }
    }
    let reached: Vec<&str> = reached.into_iter().map(|id| names[id]).collect();
    assert!(reached.contains(&"sha2"), "wire links sha2, so a walk that does not find it is broken: {reached:?}");
    let findings: Vec<String> =
        OUT_OF_WIRES_REACH.iter().filter(|name| reached.contains(name)).map(|name| (*name).to_owned()).collect();
    none("wire is a pure function of its arguments and yet links", &findings);
}

#[test]
fn the_core_keeps_its_bans() {
    let rim = |name: &str| matches!(name, "attach" | "cli" | "conformance" | "host" | "models" | "testkit");
    let mut findings = Vec::new();
    for folder in std::fs::read_dir(root().join("crates")).expect("the crates") {
        let folder = folder.expect("a folder of crates").path();
        let name = folder.file_name().expect("a folder has a name").to_string_lossy();
        if folder.join("clippy.toml").exists() && !rim(&name) {
            findings.push(format!("crates/{name}/clippy.toml takes the place of the bans of the root"));
        }
    }
    none("crates that decide may not lift the bans on clock, randomness, environment and files", &findings);
    let bans = std::fs::read_to_string(root().join("clippy.toml")).expect("the bans");
    for door in [
        "SystemTime::now",
        "Instant::now",
        "thread::sleep",
        "getrandom::fill",
        "env::var",
        "fs::File",
        "process::Command",
    ] {
        assert!(bans.contains(&format!("::{door}\"")) || bans.contains(&format!("\"{door}\"")), "{door} is not banned");
    }
}
