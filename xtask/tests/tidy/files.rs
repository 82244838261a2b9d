//! The files of the project, as git tells: tracked ones and new ones that are not ignored.

use std::path::{Path, PathBuf};
use std::process::Command;

/// One text file.
pub(crate) struct Source {
    /// From the root, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    /// Whether generators write it.
    pub(crate) fn is_generated(&self) -> bool {
        self.path.contains("/src/gen/")
            || self.path.contains("/_gen/")
            || self.path == "Cargo.lock"
            || self.path.ends_with("openapi.json")
    }

    /// Whether all of it is test code.
    pub(crate) fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.starts_with("tests/") || self.path.starts_with("crates/testkit/")
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_owned()
}

/// Every text file; what is not UTF-8 is no text.
pub(crate) fn all() -> Vec<Source> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root())
        .output()
        .expect("git lists the project's files");
    assert!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    let paths = String::from_utf8(listed.stdout).expect("paths are UTF-8");
    let files: Vec<_> = paths
        .split('\0')
        .filter(|path| !path.is_empty())
        .filter_map(|path| {
            Some(Source { path: path.to_owned(), text: std::fs::read_to_string(root().join(path)).ok()? })
        })
        .collect();
    assert!(files.iter().any(|file| file.path == "Cargo.toml"), "the list of files is not this project's");
    files
}

/// What `cargo metadata` says, with the arguments on top of the fixed ones.
pub(crate) fn metadata(args: &[&str]) -> serde_json::Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let told = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(args)
        .current_dir(root())
        .output()
        .expect("cargo tells the project's metadata");
    assert!(told.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&told.stderr));
    serde_json::from_slice(&told.stdout).expect("cargo metadata is JSON")
}

/// The elements of a JSON array under `key`; none when there is no such array.
pub(crate) fn items<'v>(value: &'v serde_json::Value, key: &str) -> &'v [serde_json::Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// A JSON string under `key`; empty when there is none.
pub(crate) fn text<'v>(value: &'v serde_json::Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}
