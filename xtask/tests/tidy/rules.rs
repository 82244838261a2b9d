//! The rules of the contracts, each named in the tests that assert it.
//!
//! A test names a rule by its id, `R-CAS-1`, in its doc comment, its assertion or its name (`r_cas_1`).

use crate::files::{Source, all};
use crate::none;

/// Each family and how many rules it has.
const FAMILIES: &[(&str, u32)] = &[
    ("CAS", 5),
    ("START", 7),
    ("LIVE", 6),
    ("IN", 10),
    ("HASH", 11),
    ("MODEL", 14),
    ("OUT", 5),
    ("EXEC", 6),
    ("REPLAY", 7),
    ("RESUME", 8),
    ("VER", 5),
    ("FORK", 9),
    ("LIFE", 5),
    ("LEGACY", 10),
    ("LIST", 4),
    ("CAP", 4),
    ("REMOTE", 5),
    ("REG", 10),
    ("TOOL", 17),
    ("APPR", 35),
];

/// The rules of Harness.Connect: `W-1` and so on.
const OF_CONNECT: u32 = 10;

/// Rules that no test asserts yet, each with the reason. A rule that a test names must leave this list.
const UNTESTED: &[(&str, &str)] = &[];

#[test]
fn every_rule_is_named_in_a_test() {
    let tests: Vec<(String, String)> = all().iter().filter_map(test_code).collect();
    let mut findings = Vec::new();
    let families = FAMILIES.iter().flat_map(|(family, count)| (1..=*count).map(move |n| format!("R-{family}-{n}")));
    for id in families.chain((1..=OF_CONNECT).map(|n| format!("W-{n}"))) {
        let places: Vec<&str> =
            tests.iter().filter(|(_, code)| names(code, &id)).map(|(path, _)| path.as_str()).collect();
        let excuse = UNTESTED.iter().find(|(rule, _)| *rule == id);
        println!("{id:<12} {}", if places.is_empty() { "-".to_owned() } else { places.join(" ") });
        match (places.is_empty(), excuse) {
            (true, None) => findings.push(format!("{id}: no test names it")),
            (false, Some(_)) => {
                findings.push(format!("{id}: a test names it, so it can leave the list of untested rules"))
            }
            _ => {}
        }
    }
    none("rules of the contracts", &findings);
}

/// The part of a file that is test code: all of a file under `tests/`, what follows `#[cfg(test)]` elsewhere.
fn test_code(file: &Source) -> Option<(String, String)> {
    if file.path.starts_with("xtask/") || !(file.is_rust() || file.path.ends_with(".py")) {
        return None;
    }
    let code = if file.is_test() { file.text.as_str() } else { file.text.split_once("#[cfg(test)]")?.1 };
    Some((file.path.clone(), code.to_owned()))
}

/// Whether `code` has this very id, and not one that starts with it.
fn names(code: &str, id: &str) -> bool {
    let function = id.to_lowercase().replace('-', "_");
    [id, &function].iter().any(|word| {
        code.match_indices(*word).any(|(at, _)| {
            let before = code[..at].chars().next_back();
            let after = code[at + word.len()..].chars().next();
            !before.is_some_and(|c| c.is_alphanumeric() || c == '_') && !after.is_some_and(|c| c.is_ascii_digit())
        })
    })
}

#[test]
fn an_id_is_told_from_a_longer_one() {
    assert!(names("/// R-IN-1: the text", "R-IN-1") && names("fn r_in_1_is_exact()", "R-IN-1"));
    assert!(!names("/// R-IN-10", "R-IN-1") && !names("fn r_in_10()", "R-IN-1"));
    assert!(names("/// W-1: x", "W-1") && !names("new_1", "W-1"));
}
