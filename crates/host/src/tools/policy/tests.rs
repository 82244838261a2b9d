//! Rules in, words out.

use super::*;
use crate::config::File;

fn rules(toml: &str) -> Rules {
    Rules::new(File::parse("t", toml).expect("sound rules").policy)
}

/// A session of `project`, with labels written `a=b c=d`.
fn session(project: &str, labels: &str) -> v1::Session {
    let labels = labels.split_whitespace().filter_map(|label| label.split_once('='));
    v1::Session {
        metadata: Some(v1::ResourceMetadata { uid: "s".into(), project: project.into(), ..Default::default() }),
        labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        ..Default::default()
    }
}

fn fork(labels: &str) -> v1::Session {
    v1::Session { parent_uid: "p".into(), ..session("p", labels) }
}

fn call(tool: &str, args: &serde_json::Value) -> v1::ToolCall {
    let args = json::to_struct(args.as_object().expect("an object").clone());
    v1::ToolCall { tool: tool.into(), args, ..Default::default() }
}

/// The word as `action rule`; `-` when there is none.
fn word(rules: &Rules, session: &v1::Session, harness: &str, call: &v1::ToolCall) -> String {
    let verdict = rules.decide(session, harness, call);
    verdict.map_or("-".to_owned(), |v| format!("{:?} {}", v.action, v.rule).to_lowercase())
}

#[test]
fn the_first_rule_that_fits_decides() {
    let rules = rules(
        r#"
        [[policy]]
        name = "prod"
        action = "deny"
        tool = "db/*"
        project = "prod-*"
        [[policy]]
        name = "chat"
        action = "ask"
        tool = "db/*"
        harness = "chat"
        [[policy]]
        name = "rest"
        action = "allow"
        "#,
    );
    let none = serde_json::json!({});
    let table = [
        ("prod-eu", "chat", "db/drop", "deny prod"),
        ("dev", "chat", "db/drop", "ask chat"),
        ("dev", "echo", "db/drop", "allow rest"),
        ("prod-eu", "chat", "fs/read", "allow rest"),
    ];
    for (project, harness, tool, expected) in table {
        assert_eq!(
            word(&rules, &session(project, ""), harness, &call(tool, &none)),
            expected,
            "{project} {harness} {tool}"
        );
    }
    assert_eq!(word(&Rules::new(Vec::new()), &session("p", ""), "h", &call("t", &none)), "-");
}

#[test]
fn arguments_are_found_by_pointer_and_compared_by_kind() {
    let check = |args: &str, given: serde_json::Value, fits: bool| {
        let rules = rules(&format!("[[policy]]\nname = \"r\"\naction = \"deny\"\nargs = {args}"));
        let expected = if fits { "deny r" } else { "-" };
        assert_eq!(word(&rules, &session("p", ""), "h", &call("t", &given)), expected, "{args} {given}");
    };
    use serde_json::json;
    check(r#"{ "/path" = "/etc/*" }"#, json!({"path": "/etc/passwd"}), true);
    check(r#"{ "/path" = "/etc/*" }"#, json!({"path": "/home"}), false);
    check(r#"{ "/path" = "*" }"#, json!({}), false);
    check(r#"{ "/path" = "*" }"#, json!({"path": 1}), false);
    check(r#"{ "/n" = 1 }"#, json!({"n": 1.0}), true);
    check(r#"{ "/n" = 1 }"#, json!({"n": "1"}), false);
    check(r#"{ "/force" = true }"#, json!({"force": true}), true);
    check(r#"{ "/a/1/b" = "x" }"#, json!({"a": [0, {"b": "x"}]}), true);
    check(r#"{ "/a/01" = "x" }"#, json!({"a": [0, "x"]}), false);
    check(r#"{ "/a~1b" = "x" }"#, json!({"a/b": "x"}), true);
    check(r#"{ "/a" = [1, { b = false }] }"#, json!({"a": [1, {"b": false}]}), true);
    check(r#"{ "/a" = [1] }"#, json!({"a": [1, 2]}), false);
    check(r#"{ "/a" = "x", "/b" = "y" }"#, json!({"a": "x"}), false);
}

#[test]
fn labels_must_be_there_and_fit() {
    let rules = rules("[[policy]]\nname = \"r\"\naction = \"allow\"\nlabels = { tier = \"g*\", x = \"*\" }");
    let none = call("t", &serde_json::json!({}));
    assert_eq!(word(&rules, &session("p", "tier=gold x=1"), "h", &none), "allow r");
    for labels in ["", "tier=gold", "tier=silver x=1"] {
        assert_eq!(word(&rules, &session("p", labels), "h", &none), "-", "{labels}");
    }
}

/// A fork gets its labels from whoever forks: they neither open what was closed nor take it out of a rule's sight.
#[test]
fn a_fork_can_only_narrow() {
    let none = call("t", &serde_json::json!({}));
    let opened = rules(
        "[[policy]]\nname = \"gold\"\naction = \"allow\"\nlabels = { tier = \"gold\" }\n\
         [[policy]]\nname = \"rest\"\naction = \"deny\"",
    );
    assert_eq!(word(&opened, &session("p", "tier=gold"), "h", &none), "allow gold");
    assert_eq!(word(&opened, &fork("tier=gold"), "h", &none), "deny rest");
    let closed = rules(
        "[[policy]]\nname = \"locked\"\naction = \"deny\"\nlabels = { locked = \"yes\" }\n\
         [[policy]]\nname = \"rest\"\naction = \"allow\"",
    );
    assert_eq!(word(&closed, &session("p", ""), "h", &none), "allow rest");
    assert_eq!(word(&closed, &fork(""), "h", &none), "deny locked");
    let plain = rules("[[policy]]\nname = \"rest\"\naction = \"allow\"");
    assert_eq!(word(&plain, &fork("any=thing"), "h", &none), "allow rest");
    let granted = rules("[[policy]]\nname = \"gold\"\naction = \"allow\"\nlabels = { tier = \"gold\" }");
    assert_eq!(word(&granted, &fork("tier=gold"), "h", &none), "-");
}

/// Over every pair of label sets: what a fork gets is never looser than what its parent gets.
#[test]
fn no_labels_of_a_fork_get_more_than_any_parent() {
    let actions = ["allow", "ask", "deny"];
    let conditions = ["", "labels = { a = \"1\" }", "labels = { b = \"1\" }"];
    let rank = |word: &str| match word.split(' ').next() {
        Some("allow") => 0,
        Some("ask") => 2,
        Some("deny") => 3,
        _ => 1,
    };
    let none = call("t", &serde_json::json!({}));
    let one: Vec<String> =
        actions.iter().flat_map(|a| conditions.iter().map(move |c| format!("action = \"{a}\"\n{c}"))).collect();
    let count = one.len();
    for n in 0..count.pow(3) {
        let (x, y, z) = (&one[n % count], &one[n / count % count], &one[n / count / count]);
        let rules = rules(&format!(
            "[[policy]]\nname = \"x\"\n{x}\n[[policy]]\nname = \"y\"\n{y}\n[[policy]]\nname = \"z\"\n{z}"
        ));
        for parent in ["", "a=1", "b=1", "a=1 b=1"] {
            let parents = word(&rules, &session("p", parent), "h", &none);
            for child in ["", "a=1", "b=1", "a=1 b=1"] {
                let forks = word(&rules, &fork(child), "h", &none);
                assert!(rank(&forks) >= rank(&parents), "{x}\n{y}\n{z}\n{parent} {parents} / {child} {forks}");
            }
        }
    }
}
