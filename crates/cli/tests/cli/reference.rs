//! `docs/cli.md` is what the help says.

use std::path::Path;

use crate::shell::Shell;

/// Rewrite the page with `cargo run -q -- reference > docs/cli.md`.
#[test]
fn the_page_is_what_the_binary_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let committed = std::fs::read_to_string(page).expect("the committed page");
    let now = Shell::new().stdout("inspan reference");
    assert!(committed == now, "docs/cli.md is stale: cargo run -q -- reference > docs/cli.md");
}
