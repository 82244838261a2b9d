//! Marks of unfinished work, of silenced checks, and of one machine.

use crate::files::{Source, all};
use crate::none;

/// The lines of every file that `wrong` says something about.
fn lines(chosen: impl Fn(&Source) -> bool, wrong: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for file in all().iter().filter(|file| !file.is_generated() && chosen(file)) {
        for (number, line) in file.text.lines().enumerate().filter(|(_, line)| wrong(line)) {
            found.push(format!("{}:{}: {}", file.path, number + 1, line.trim()));
        }
    }
    found
}

/// Whether this file spells the marks because it looks for them.
fn is_this_file(file: &Source) -> bool {
    file.path.ends_with("tests/tidy/marks.rs")
}

#[test]
fn nothing_is_left_unfinished() {
    const MARKS: &[&str] =
        &["todo!(", "unimplemented!(", "#[ignore", "raise NotImplementedError", "pytest.mark.skip", "FIXME"];
    let found = lines(|file| !is_this_file(file), |line| MARKS.iter().any(|mark| line.contains(mark)));
    none("unfinished work", &found);
}

#[test]
fn a_silenced_lint_says_why() {
    let mut found = Vec::new();
    for file in all().iter().filter(|file| file.is_rust() && !file.is_generated() && !is_this_file(file)) {
        for (number, attribute) in attributes(&file.text, &["allow(", "expect("]) {
            if !attribute.contains("reason = \"") {
                found.push(format!("{}:{number}: {attribute}", file.path));
            }
        }
    }
    none("a lint silenced without `reason = \"…\"`", &found);
}

/// Outer and inner attributes that start with one of `names`, each joined to one line, with its line number.
fn attributes(text: &str, names: &[&str]) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = line.strip_prefix("#![").or_else(|| line.strip_prefix("#[")) else { continue };
        if names.iter().any(|wanted| name.starts_with(wanted)) {
            let length = lines[start..].iter().position(|line| line.ends_with(']')).unwrap_or_default();
            found.push((start + 1, lines[start..=start + length].join(" ")));
        }
    }
    found
}

#[test]
fn attributes_are_read_to_their_end() {
    let text = "#![allow(\n    unused,\n    reason = \"x\"\n)]\n  #[expect(dead_code)]\nfn f() { a.expect(\"x\") }\n";
    let read = attributes(text, &["allow(", "expect("]);
    assert_eq!(read, [(1, "#![allow( unused, reason = \"x\" )]".to_owned()), (5, "#[expect(dead_code)]".to_owned())]);
}

#[test]
fn no_file_hangs_on_one_machine() {
    const PLACES: &[&str] = &["/root/", "/home/", "/Users/", "/work/", "/tmp/wt", "C:\\Users"];
    let found = lines(|file| !is_this_file(file), |line| PLACES.iter().any(|place| has_path(line, place)));
    none("paths of one machine", &found);
}

#[test]
fn no_file_points_out_of_the_repository() {
    let found = lines(|file| !is_this_file(file), |line| has_path(line, "shared/"));
    none("a folder that a reader of the repository does not have", &found);
}

/// Whether `place` stands in `line` where a path starts: behind nothing that could be a part of a longer name.
fn has_path(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '~' | '}'))
    })
}

#[test]
fn a_path_is_told_from_a_part_of_one() {
    assert!(has_path("see ../shared/x", "shared/") && has_path("\"/root/.cargo\"", "/root/"));
    assert!(!has_path("crates/unshared/x", "shared/") && !has_path("target/root/x", "/root/"));
}
