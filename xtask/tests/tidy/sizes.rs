//! Files and functions that outgrew one story.

use crate::files::{Source, all};
use crate::none;

const FILE_LINES_MAX: usize = 700;
const FUNCTION_LINES_MAX: usize = 100;

fn judged(file: &Source) -> bool {
    file.is_rust() && !file.is_generated() && !file.is_test()
}

#[test]
fn files_hold_one_kind_of_thing() {
    let findings: Vec<_> = all()
        .iter()
        .filter(|file| judged(file))
        .map(|file| (file.text.lines().count(), &file.path))
        .filter(|(lines, _)| *lines > FILE_LINES_MAX)
        .map(|(lines, path)| format!("{path}: {lines} lines"))
        .collect();
    none("files over 700 lines: split them where two parts change for different reasons", &findings);
}

#[test]
fn functions_fit_the_mind() {
    let findings: Vec<_> =
        all().iter().filter(|file| judged(file)).flat_map(|file| long_functions(&file.path, &file.text)).collect();
    none("functions over 100 lines: keep the branches and move straight-line work out", &findings);
}

/// The text is rustfmt's: a function ends at the first closing brace in its own column.
fn long_functions(path: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let end = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
        let length = lines[start..].iter().position(|line| *line == end).map_or(1, |offset| offset + 1);
        if length > FUNCTION_LINES_MAX {
            found.push(format!("{path}:{}: {name} has {length} lines", start + 1));
        }
    }
    found
}

/// The name, when a function's head starts on this line and its body is not closed on it.
fn function_name(line: &str) -> Option<&str> {
    let code = line.trim_start();
    let (before, after) = code.split_once("fn ")?;
    let head = before.split_whitespace().all(|word| {
        matches!(word, "pub" | "const" | "async" | "unsafe" | "extern")
            || word.starts_with("pub(")
            || word.starts_with('"')
    });
    let name = after.split(['(', '<']).next()?;
    (head && !code.starts_with("//") && !code.ends_with('}') && !code.ends_with(';')).then_some(name)
}

#[test]
fn a_long_function_is_found() {
    let body = "        let x = 1;\n".repeat(FUNCTION_LINES_MAX);
    let text =
        format!("impl A {{\n    pub(crate) async fn long<T>(x: T) {{\n{body}    }}\n\n    fn short() {{\n    }}\n}}\n");
    let length = FUNCTION_LINES_MAX + 2;
    assert_eq!(long_functions("a.rs", &text), [format!("a.rs:2: long has {length} lines")]);
}
