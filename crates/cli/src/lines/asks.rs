//! What waits for a person, as lines and as a table.

use inspan_wire::inspan_v1 as pb;

use super::enum_name;
use crate::output::{Dress, Paint};

/// Characters of the arguments in a table.
const ARGS_CHARS_MAX: usize = 120;

/// A row of `asks` in a pipe. The arguments come last: their JSON has neither tabs nor line ends in it.
pub(crate) fn ask_row(ask: &pb::Ask) -> String {
    let call = ask.call.clone().unwrap_or_default();
    let mut row = format!(
        "{}\tproject={}\tname={}\tharness={}\ttool={}\tcall={}\trequest_seq={}\tasked_by={}\trule={}\tsince={}\texpires={}\
         \tdigest={}\targs={}",
        ask.session,
        ask.project,
        one_line(&ask.name),
        ask.harness,
        one_line(&ask.tool),
        one_line(&call.tool_call_id),
        call.request_seq,
        asked_by(ask),
        ask.rule,
        time(ask.since),
        time(ask.expires),
        ask.args_digest,
        ask.args_preview,
    );
    if !ask.fault.is_empty() {
        row.push_str(&format!("\tfault={}", one_line(&ask.fault)));
    }
    row
}

/// Asks as a table for a terminal.
pub(crate) fn ask_table(asks: &[pb::Ask], dress: Dress) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    table.set_header(["SESSION", "NAME", "TOOL", "ARGUMENTS", "ASKED BY", "SINCE", "EXPIRES", "DIGEST"]);
    for ask in asks {
        let args = if ask.fault.is_empty() {
            dress.foreign(&short(&ask.args_preview))
        } else {
            dress.paint(Paint::Bad, &dress.foreign(&one_line(&ask.fault)))
        };
        let by = if ask.rule.is_empty() { asked_by(ask) } else { format!("{} {}", asked_by(ask), ask.rule) };
        table.add_row([
            ask.session.clone(),
            dress.foreign(&one_line(&ask.name)),
            dress.foreign(&one_line(&ask.tool)),
            args,
            by,
            time(ask.since),
            time(ask.expires),
            ask.args_digest.clone(),
        ]);
    }
    table.to_string()
}

fn asked_by(ask: &pb::Ask) -> String {
    let name = enum_name(pb::AskedBy::try_from(ask.asked_by).map(|by| by.as_str_name()), ask.asked_by);
    name.strip_prefix("ASKED_BY_").map_or(name.clone(), str::to_lowercase)
}

fn short(text: &str) -> String {
    if text.chars().count() <= ARGS_CHARS_MAX {
        return text.to_owned();
    }
    text.chars().take(ARGS_CHARS_MAX).chain(['…']).collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn time(time: Option<prost_types::Timestamp>) -> String {
    time.map(|time| time.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use inspan_wire::v1;

    use super::*;

    #[test]
    fn a_row_is_one_line_and_a_table_obeys_nobody() {
        let ask = pb::Ask {
            session: "sess-1".into(),
            project: "p".into(),
            name: "two\nlines".into(),
            harness: "mine".into(),
            call: Some(v1::ApprovalRef { execution_id: "e".into(), tool_call_id: "c".into(), request_seq: 4 }),
            tool: "pay".into(),
            args_preview: r#"{"to":"ann"}"#.into(),
            args_digest: "sha256:00".into(),
            asked_by: pb::AskedBy::Policy.into(),
            rule: "money".into(),
            since: Some(prost_types::Timestamp { seconds: 1_800_000_000, nanos: 0 }),
            ..pb::Ask::default()
        };
        assert_eq!(
            ask_row(&ask),
            "sess-1\tproject=p\tname=two lines\tharness=mine\ttool=pay\tcall=c\trequest_seq=4\tasked_by=policy\trule=money\
             \tsince=2027-01-15T08:00:00Z\texpires=\tdigest=sha256:00\targs={\"to\":\"ann\"}"
        );
        let evil = pb::Ask { args_preview: format!("\u{1b}[2J{}", "x".repeat(500)), ..ask };
        let table = ask_table(&[evil], Dress::Terminal { colour: false });
        assert!(!table.contains('\u{1b}') && table.contains("policy money") && table.contains('…'), "{table}");
    }
}
