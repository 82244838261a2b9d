//! Which turn of a script answers a request.
//!
//! 1. Turns whose `match` is part of the last user message come first. The n-th of them answers after
//!    n-1 assistant messages since that user message: a tool loop is a row of turns with one `match`.
//! 2. If none matches, the n-th turn without a `match` answers after n-1 assistant messages in the
//!    whole request.
//!
//! A row that is used up is an error, or starts again with `loop: true`.

use inspan_wire::v1;

use super::script::Script;

/// The position of the turn that answers.
///
/// # Errors
/// The row is used up, or there is none.
pub(super) fn turn(script: &Script, messages: &[v1::Message]) -> Result<usize, String> {
    let asked = messages.iter().rposition(|m| matches!(m.role.as_str(), "" | "user"));
    let text = asked.map(|at| messages[at].concat_text()).unwrap_or_default();
    let row = |wanted: &dyn Fn(Option<&str>) -> bool| -> Vec<usize> {
        (0..script.turns.len()).filter(|n| wanted(script.turns[*n].pattern.as_deref())).collect()
    };
    let matching = row(&|pattern| pattern.is_some_and(|p| text.contains(p)));
    let (row, step) = if matching.is_empty() {
        (row(&|pattern| pattern.is_none()), assistant_messages(messages))
    } else {
        (matching, assistant_messages(&messages[asked.map_or(0, |at| at + 1)..]))
    };
    match row.get(step) {
        Some(turn) => Ok(*turn),
        None if script.repeat && !row.is_empty() => Ok(row[step % row.len()]),
        None if row.is_empty() => {
            Err("no turn of the script matches the last user message; add one without match".to_owned())
        }
        None => Err(format!(
            "the script has {} turns for this conversation and is asked for turn {}; add a turn or set loop: true",
            row.len(),
            step + 1
        )),
    }
}

/// How many messages are the assistant's.
pub(super) fn assistant_messages(messages: &[v1::Message]) -> usize {
    messages.iter().filter(|m| m.role == "assistant").count()
}

#[cfg(test)]
mod tests {
    use inspan_wire::v1::Message;

    use super::turn;

    /// `conversation` is one word per message: `u:text`, `a` for assistant, `t` for tool.
    #[track_caller]
    fn check(yaml: &str, conversation: &str, expected: Result<usize, &str>) {
        let script = serde_norway::from_str(yaml).expect("a valid script");
        let message = |word: &str| match word.split_once(':') {
            Some((_, text)) => Message::text("user", text),
            None => Message::text(if word == "a" { "assistant" } else { "tool" }, ""),
        };
        let messages: Vec<Message> = conversation.split_whitespace().map(message).collect();
        match (turn(&script, &messages), expected) {
            (Ok(n), Ok(e)) => assert_eq!(n + 1, e, "{conversation}"),
            (Err(text), Err(part)) => assert!(text.contains(part), "{text}"),
            (got, expected) => panic!("{conversation}: {got:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn the_request_alone_selects_the_turn() {
        let in_order = "turns: [{text: one}, {text: two}]";
        check(in_order, "u:hi", Ok(1));
        check(in_order, "u:hi a u:more", Ok(2));
        check(in_order, "u:hi a u:more a u:again", Err("asked for turn 3"));
        check(in_order, "", Ok(1));
        let looped = "{loop: true, turns: [{text: one}, {text: two}]}";
        check(looped, "u:hi a u:more a u:again", Ok(1));
        let matched = "turns: [{match: sun, text: a}, {text: b}, {match: sun, text: c}, {match: rain, text: d}]";
        check(matched, "u:sunny", Ok(1));
        check(matched, "u:sunny a t", Ok(3));
        check(matched, "u:x a u:rain", Ok(4));
        check(matched, "u:else", Ok(2));
        check(matched, "u:sunny a t a t", Err("asked for turn 3"));
        check("turns: [{match: sun, text: a}]", "u:else", Err("no turn"));
    }
}
