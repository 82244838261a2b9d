//! Files in, entries or errors out.

use std::time::Duration;

use inspan_engine::{Action, ReplayRule};
use proptest::prelude::*;

use super::*;

const WHOLE: &str = r#"
[[tools.mcp]]
name = "fs"
command = ["npx", "-y", "server-filesystem", "/data"]
env = { MODE = "ro" }
env_from = ["TOKEN"]
timeout = "90s"
start_timeout = "2m"
replay = "safe"
expose = ["read_*", "list_directory"]
prefix = "fs/"
[tools.mcp.rules]
write_file = "ask"
move_file = "never"

[[tools.mcp]]
name = "search"
url = "https://mcp.example.com/mcp"
headers_env = { X-Key = "SEARCH_KEY" }
prefix = "search/"

[[tools.http]]
name = "charge"
url = "http://127.0.0.1:9000/charge"
method = "PUT"
key_file = "charge.key"
replay = "keyed"
description = "charges a card"
input_schema = { type = "object", required = ["amount"] }

[[policy]]
name = "no-root"
action = "deny"
tool = "fs/*"
harness = "chat"
project = "prod-*"
labels = { tier = "g*" }
args = { "/path" = "/root/*", "/force" = true, "/a~1b/0" = 1 }
"#;

fn parse(text: &str) -> Result<File, Error> {
    File::parse("inspan.toml", text)
}

#[test]
fn everything_that_can_be_said_is_read() {
    let file = parse(WHOLE).expect("a sound file");
    let [fs, search] = file.tools.mcp.as_slice() else { panic!("two servers") };
    assert_eq!((fs.timeout, fs.start_timeout), (Duration::from_secs(90), Duration::from_secs(120)));
    assert_eq!(fs.own_name("fs/read_file"), Some("read_file"));
    for other in ["read_file", "fs/", "fs/write_file", "search/read_file"] {
        assert_eq!(fs.own_name(other), None, "{other}");
    }
    let rules = [fs.rule("read_file"), fs.rule("write_file"), fs.rule("move_file"), search.rule("x")];
    assert_eq!(rules, [ReplayRule::Safe, ReplayRule::Ask, ReplayRule::Never, ReplayRule::Ask]);
    assert!(matches!(&fs.place, Place::Command { command, env, env_from }
        if command.len() == 4 && env.len() == 1 && env_from.len() == 1));
    assert!(matches!(&search.place, Place::Http { url, headers }
        if url.is_https() && headers.env[0].0 == "x-key" && headers.env[0].1.as_str() == "SEARCH_KEY"));

    let [charge] = file.tools.http.as_slice() else { panic!("one endpoint") };
    assert_eq!((charge.method, charge.replay), (Method::Put, ReplayRule::Keyed));
    assert_eq!(charge.input_schema, Some(serde_json::json!({"type": "object", "required": ["amount"]})));

    let [rule] = file.policy.as_slice() else { panic!("one rule") };
    assert_eq!((rule.name.as_str(), rule.action, rule.args.len()), ("no-root", Action::Deny, 3));
    assert!(rule.args.iter().any(|(pointer, _)| pointer.steps() == ["a/b", "0"]));
}

#[test]
fn an_empty_file_has_nothing() {
    let file = parse("").expect("sound");
    assert!(file.tools.mcp.is_empty() && file.tools.http.is_empty() && file.policy.is_empty());
}

/// Each bad file with the line that its error names and a word of what it says.
#[test]
fn errors_name_file_line_and_remedy() {
    let table: &[(&str, usize, &str)] = &[
        ("x = 1", 1, "unknown field `x`"),
        ("\n[tools]\nmpc = []", 3, "unknown field `mpc`"),
        ("[[tools.mcp]]\nname = \"a\"\ncommand = [\"x\"]\nurls = \"http://h\"", 4, "unknown field `urls`"),
        ("[[tools.mcp]]\ncommand = [\"x\"]", 1, "missing field `name`"),
        ("[[tools.mcp]]\nname = \"a\"", 2, "neither a command nor a url"),
        ("[[tools.mcp]]\nname = \"a\"\ncommand = []", 2, "the command is empty"),
        ("[[tools.mcp]]\nname = \"a\"\ncommand = [\"x\"]\nurl = \"http://h\"", 2, "keep one"),
        ("[[tools.mcp]]\nname = \"a\"\ncommand = [\"x\"]\nkey_file = \"k\"", 2, "belong to a url"),
        ("[[tools.mcp]]\nname = \"a\"\nurl = \"http://h\"\nenv = { A = \"1\" }", 2, "belong to a command"),
        ("[[tools.mcp]]\nname = \"a\"\ncommand = [\"x\"]\nenv = { A = \"\" }\nenv_from = [\"A\"]", 2, "keep one"),
        ("[[tools.mcp]]\nname = \"a\"\ncommand = [\"x\"]\nreplay = \"often\"", 4, "expected one of `safe`"),
        (
            "[[tools.mcp]]\nname = \"a\"\ncommand = [\"x\"]\n[tools.mcp.rules]\nt = \"often\"",
            5,
            "expected one of `safe`",
        ),
        ("[[tools.mcp]]\nname = \"a\"\ncommand = [\"x\"]\ntimeout = \"soon\"", 4, "write 30s"),
        ("[[tools.mcp]]\nname = \"a\"\ncommand = [\"x\"]\ntimeout = 5", 4, "expected a string"),
        ("[[tools.mcp]]\nname = \"a b\"\ncommand = [\"x\"]", 2, "is no name"),
        ("[[tools.mcp]]\nname = \"a\"\ncommand = [\"x\"]\nenv_from = [\"A=1\"]", 4, "never the value"),
        ("[[tools.mcp]]\nname = \"a\"\nurl = \"http://u:p@h\"", 3, "headers_env or key_file"),
        ("[[tools.mcp]]\nname = \"a\"\nurl = \"http://h\"\nheaders_env = { host = \"A\" }", 4, "set by the host"),
        (
            "[[tools.mcp]]\nname = \"a\"\nurl = \"http://h\"\nkey_file = \"k\"\nheaders_env = { Authorization = \"A\" }",
            2,
            "keep one",
        ),
        (
            "[[tools.mcp]]\nname = \"a\"\ncommand = [\"x\"]\n\n[[tools.mcp]]\nname = \"a\"\ncommand = [\"x\"]",
            6,
            "rename one",
        ),
        (
            "[[tools.mcp]]\nname = \"a\"\ncommand = [\"x\"]\n\n[[tools.mcp]]\nname = \"b\"\ncommand = [\"x\"]",
            6,
            "prefix = \"b/\"",
        ),
        ("[[tools.http]]\nname = \"a\"", 1, "missing field `url`"),
        ("[[tools.http]]\nname = \"a\"\nurl = \"http://h\"\nmethod = \"GET\"", 4, "expected one of `POST`"),
        (
            "[[tools.http]]\nname = \"a\"\nurl = \"http://h\"\n[[tools.http]]\nname = \"a\"\nurl = \"http://h\"",
            5,
            "rename one",
        ),
        ("[[tools.http]]\nname = \"a\"\nurl = \"http://h\"\ninput_schema = { x = 2030-01-31 }", 4, "put it in quotes"),
        ("[[policy]]\nname = \"a\"", 1, "missing field `action`"),
        ("[[policy]]\nname = \"a\"\naction = \"maybe\"", 3, "expected one of `allow`"),
        ("[[policy]]\nname = \"a\"\naction = \"deny\"\nargs = { path = 1 }", 4, "JSON pointer"),
        ("[[policy]]\nname = \"a\"\naction = \"deny\"\nargs = { \"/a~2\" = 1 }", 4, "JSON pointer"),
        ("[[policy]]\nname = \"a\"\naction = \"deny\"\nargs = { \"/a\" = nan }", 4, "no JSON form"),
        ("[[policy]]\nname = \"a\"\naction = \"deny\"\n[[policy]]\nname = \"a\"\naction = \"ask\"", 5, "rename one"),
        ("[[policy]\n", 1, ""),
    ];
    for (text, line, word) in table {
        let error = parse(text).expect_err(text).to_string();
        let start = format!("inspan.toml line {line}: ");
        assert!(error.starts_with(&start) && error.contains(word), "{text}\n{error}\n{start}… {word}");
        assert!(!error.contains('\n'), "{error}");
    }
}

/// Two servers may do without prefixes when their lists cannot meet.
#[test]
fn names_are_told_apart_by_prefix_or_list() {
    let two = |a: &str, b: &str| {
        parse(&format!(
            "[[tools.mcp]]\nname = \"a\"\ncommand = [\"x\"]\n{a}\n[[tools.mcp]]\nname = \"b\"\ncommand = [\"x\"]\n{b}"
        ))
    };
    assert!(two("prefix = \"a/\"", "prefix = \"b/\"").is_ok());
    assert!(two("expose = [\"read\"]", "expose = [\"write*\"]").is_ok());
    assert!(two("prefix = \"a/\"", "").is_err());
    assert!(two("prefix = \"a\"", "prefix = \"ab\"").is_err());
    assert!(two("expose = [\"re*\"]", "expose = [\"read\"]").is_err());
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("inspan.toml");
    assert!(File::read(&path).expect_err("not there").to_string().contains("inspan.toml: cannot be read"));
    std::fs::File::create(&path).and_then(|file| file.set_len(FILE_BYTES_MAX + 1)).expect("writable");
    assert!(File::read(&path).expect_err("too large").to_string().contains("is it the right file"));
    std::fs::write(&path, WHOLE).expect("writable");
    assert_eq!(File::read(&path).expect("sound").policy.len(), 1);
}

proptest! {
    /// Whatever stands in a file: an answer, never a panic, and an error on a line that the file has.
    #[test]
    fn a_damaged_file_is_an_error_on_one_of_its_lines(at in 0..WHOLE.len(), length in 0..40_usize, put in "[\\[\\]a-z\"=\n{} .]{0,6}") {
        let end = (at + length).min(WHOLE.len());
        let text = format!("{}{put}{}", &WHOLE[..at], &WHOLE[end..]);
        if let Err(error) = parse(&text) {
            let line = error.line.expect("a mistake in a text has a line");
            prop_assert!(line >= 1 && line <= text.matches('\n').count() + 1, "{error}");
            prop_assert!(!error.to_string().contains('\n'));
        }
    }
}
