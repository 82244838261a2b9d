//! What comes from outside: licences, sources, and crates that are there twice.
//!
//! The same rules as deny.toml, read from `cargo metadata`: the tool itself takes longer to build than every
//! test here, so `cargo xtask deny` is for whoever changes a dependency, and this is for every run.

use std::collections::BTreeMap;

use crate::files::{items, metadata, root, text};
use crate::none;

/// The strings of an array in deny.toml, so that the two lists cannot differ.
fn listed(key: &str) -> Vec<String> {
    let policy = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml");
    let (_, rest) = policy.split_once(&format!("\n{key} = [")).unwrap_or_else(|| panic!("deny.toml has a list {key}"));
    let (list, _) = rest.split_once("\n]").expect("the list ends");
    list.lines().filter_map(|line| line.split('"').nth(1)).map(str::to_owned).collect()
}

/// Crates from elsewhere.
fn foreign(told: &serde_json::Value) -> impl Iterator<Item = &serde_json::Value> {
    items(told, "packages").iter().filter(|package| !package["source"].is_null())
}

/// Whether an SPDX expression can be met with the allowed licences. Reads `A OR B`, `A AND B`, parentheses,
/// `A WITH B`, and the old `A/B`.
fn met(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ").replace(" WITH ", "_WITH_");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let met = either(&tokens, &mut at, allowed);
    met && at == tokens.len()
}

fn either(tokens: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut met = both(tokens, at, allowed);
    while tokens.get(*at) == Some(&"OR") {
        *at += 1;
        met |= both(tokens, at, allowed);
    }
    met
}

fn both(tokens: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut met = single(tokens, at, allowed);
    while tokens.get(*at) == Some(&"AND") {
        *at += 1;
        met &= single(tokens, at, allowed);
    }
    met
}

fn single(tokens: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let Some(token) = tokens.get(*at) else { return false };
    *at += 1;
    if *token != "(" {
        return allowed.iter().any(|licence| *licence == token.replace("_WITH_", " WITH "));
    }
    let met = either(tokens, at, allowed);
    let closed = tokens.get(*at) == Some(&")");
    *at += 1;
    met && closed
}

#[test]
fn every_licence_is_on_the_list() {
    let allowed = listed("allow");
    let told = metadata(&[]);
    assert!(foreign(&told).count() > 50, "cargo metadata names too few crates to be believed");
    let findings: Vec<_> = foreign(&told)
        .filter(|package| !met(text(package, "license"), &allowed))
        .map(|package| format!("{} {}: {}", text(package, "name"), text(package, "version"), package["license"]))
        .collect();
    none("licences that deny.toml does not allow", &findings);
}

#[test]
fn licence_expressions_are_read_as_spdx_says() {
    let allowed = ["MIT".to_owned(), "Apache-2.0".to_owned(), "Apache-2.0 WITH LLVM-exception".to_owned()];
    for good in ["MIT", "MIT/GPL-3.0", "GPL-3.0 OR MIT", "Apache-2.0 WITH LLVM-exception", "(MIT OR X) AND Apache-2.0"]
    {
        assert!(met(good, &allowed), "{good}");
    }
    for bad in ["", "GPL-3.0", "MIT AND X", "(MIT OR X) AND X", "MIT MIT", "(MIT", "MIT WITH X"] {
        assert!(!met(bad, &allowed), "{bad}");
    }
}

#[test]
fn every_crate_comes_from_the_one_registry() {
    let told = metadata(&[]);
    let findings: Vec<_> = foreign(&told)
        .filter(|package| {
            let source = text(package, "source");
            !(source.starts_with("registry+") && source.ends_with("/crates.io-index"))
        })
        .map(|package| format!("{} from {}", text(package, "name"), package["source"]))
        .collect();
    none("crates from elsewhere", &findings);
}

#[test]
fn no_large_crate_is_there_twice() {
    let once = listed("deny");
    let told = metadata(&[]);
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in foreign(&told) {
        versions.entry(text(package, "name")).or_default().push(text(package, "version"));
    }
    let findings: Vec<_> = versions
        .iter()
        .filter(|(name, found)| found.len() > 1 && once.iter().any(|large| large == *name))
        .map(|(name, found)| format!("{name}: {}", found.join(", ")))
        .collect();
    none("large crates in two versions: move the older user up, or say in deny.toml why not", &findings);
}
