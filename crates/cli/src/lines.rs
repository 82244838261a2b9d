//! The lines that people and scripts read: one function for each kind.

use inspan_wire::v1;
use v1::event::Body;

use crate::output::{Dress, Paint};

mod asks;

pub(crate) use asks::{ask_row, ask_table};

/// `COMPUTE_LIVE`, or the number of a state that this build does not know.
pub(crate) fn compute(session: &v1::Session) -> String {
    enum_name(v1::ComputeState::try_from(session.compute_state).map(|s| s.as_str_name()), session.compute_state)
}

/// `EXEC_COMPLETED`, or the number of a state that this build does not know.
pub(crate) fn exec(session: &v1::Session) -> String {
    enum_name(v1::ExecState::try_from(session.exec_state).map(|s| s.as_str_name()), session.exec_state)
}

fn enum_name<E>(name: Result<&'static str, E>, number: i32) -> String {
    name.map_or_else(|_| number.to_string(), str::to_owned)
}

fn short_compute(session: &v1::Session) -> String {
    let name = compute(session);
    name.strip_prefix("COMPUTE_").map(str::to_owned).unwrap_or(name)
}

fn short_exec(session: &v1::Session) -> String {
    let name = exec(session);
    name.strip_prefix("EXEC_").map(str::to_owned).unwrap_or(name)
}

/// The uid of a session, empty when the answer carries none.
pub(crate) fn uid(session: &v1::Session) -> &str {
    session.metadata.as_ref().map_or("", |m| m.uid.as_str())
}

fn name(session: &v1::Session) -> &str {
    session.metadata.as_ref().map_or("", |m| m.name.as_str())
}

fn project(session: &v1::Session) -> &str {
    session.metadata.as_ref().map_or("", |m| m.project.as_str())
}

/// A row of `list` in a pipe.
pub(crate) fn list_row(session: &v1::Session) -> String {
    format!(
        "{}\tlast_seq={}\tcompute={}\tharness={}\tname={}",
        uid(session),
        session.last_seq,
        short_compute(session),
        session.harness,
        name(session)
    )
}

/// Sessions as a table for a terminal.
pub(crate) fn list_table(sessions: &[v1::Session], dress: Dress) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(["SESSION", "SEQ", "STATE", "COMPUTE", "HARNESS", "UPDATED", "NAME"]);
    for session in sessions {
        let updated = session.metadata.as_ref().and_then(|m| m.update_time).map(|t| t.to_string()).unwrap_or_default();
        table.add_row([
            uid(session).to_owned(),
            session.last_seq.to_string(),
            short_exec(session),
            short_compute(session),
            session.harness.clone(),
            updated,
            dress.foreign(name(session)),
        ]);
    }
    table.to_string()
}

/// What `get` says in a pipe.
pub(crate) fn session(session: &v1::Session) -> String {
    format!(
        "session {} project={} name={} harness={} last_seq={} compute={}",
        uid(session),
        project(session),
        name(session),
        session.harness,
        session.last_seq,
        short_compute(session)
    )
}

/// What `get` says on a terminal.
pub(crate) fn session_card(s: &v1::Session, dress: Dress) -> String {
    let meta = s.metadata.clone().unwrap_or_default();
    let time = |t: Option<prost_types::Timestamp>| t.map(|t| t.to_string()).unwrap_or_default();
    let labels: Vec<String> = s.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let mut rows = vec![
        ("session", meta.uid),
        ("project", meta.project),
        ("name", meta.name),
        ("harness", s.harness.clone()),
        ("model", s.model.clone()),
        ("state", short_exec(s)),
        ("compute", short_compute(s)),
        ("last seq", s.last_seq.to_string()),
        ("labels", labels.join(" ")),
        ("created", time(meta.create_time)),
        ("updated", time(meta.update_time)),
    ];
    if !s.parent_uid.is_empty() {
        rows.push(("forked from", format!("{} at seq {}", s.parent_uid, s.fork_seq)));
    }
    if let Some(pending) = &s.pending_approval {
        rows.push((
            "waits for",
            format!("approval of tool call {} (seq {})", pending.tool_call_id, pending.request_seq),
        ));
    }
    let shown = rows.iter().filter(|(_, value)| !value.is_empty());
    let lines: Vec<String> = shown
        .map(|(key, value)| format!("{} {}", dress.paint(Paint::Dim, &format!("{key:<12}")), dress.foreign(value)))
        .collect();
    lines.join("\n")
}

/// What `suspend`, `resume`, `cancel` and `delete` say.
pub(crate) fn moved(verb: &str, session: &v1::Session) -> String {
    format!("session {} {verb} compute={} last_seq={}", uid(session), compute(session), session.last_seq)
}

/// A decision and the session behind it.
pub(crate) fn decided(uid: &str, approved: bool, answer: &inspan_wire::inspan_v1::DecideResponse) -> String {
    let seq = answer.decision.as_ref().map_or(0, |record| record.seq);
    let session = answer.session.clone().unwrap_or_default();
    // The digest stands where it was named: scripts of other hosts know the line without it.
    let digest = if answer.args_digest.is_empty() { String::new() } else { format!(" digest={}", answer.args_digest) };
    format!(
        "session {uid} decision committed seq={seq} approved={approved} compute={} last_seq={}{digest}",
        compute(&session),
        session.last_seq
    )
}

/// A child of a fork.
pub(crate) fn child(session: &v1::Session) -> String {
    format!("child {} parent={} fork_seq={} name={}", uid(session), session.parent_uid, session.fork_seq, name(session))
}

/// A record: `seq=4   EVENT_OUTPUT  assistant: hello`. A terminal also learns what a call asked and what
/// went wrong.
pub(crate) fn record(seq: i64, event: Option<&v1::Event>, dress: Dress) -> String {
    let number = event.map_or(0, |e| e.kind);
    let kind = enum_name(v1::EventKind::try_from(number).map(|k| k.as_str_name()), number);
    let line = format!("seq={seq:<3} {}", dress.paint(colour_of(number), &kind));
    let Some(body) = event.and_then(|e| e.body.as_ref()) else { return line };
    match (body, dress) {
        (Body::Message(message), _) => format!("{line}  {}", message_text(message, dress)),
        (_, Dress::Terminal { .. }) => match detail(body) {
            Some(detail) => format!("{line}  {}", dress.paint(Paint::Dim, &dress.foreign(&detail))),
            None => line,
        },
        _ => line,
    }
}

fn message_text(message: &v1::Message, dress: Dress) -> String {
    let mut text = format!("{}:", message.role);
    for part in &message.parts {
        if let Some(v1::part::Part::Text(t)) = &part.part {
            text.push(' ');
            text.push_str(&dress.foreign(&t.text));
        }
    }
    text
}

fn colour_of(kind: i32) -> Paint {
    use v1::EventKind as K;
    match K::try_from(kind) {
        Ok(K::EventInput | K::EventOutput) => Paint::Bold,
        Ok(K::EventEnd) => Paint::Good,
        Ok(K::EventError) => Paint::Bad,
        Ok(K::EventApprovalRequest | K::EventApprovalResult | K::EventLifecycle) => Paint::Mind,
        _ => Paint::Dim,
    }
}

fn detail(body: &Body) -> Option<String> {
    Some(match body {
        Body::ExecutionStart(s) => format!("harness {} {}", s.harness, s.harness_version),
        Body::Model(m) => format!("model {}", m.model),
        Body::Tool(t) => format!("tool {}", t.tool),
        Body::Usage(u) => format!("{} in, {} out", u.input_tokens, u.output_tokens),
        Body::Lifecycle(l) => {
            let kind = enum_name(v1::lifecycle::Kind::try_from(l.kind).map(|k| k.as_str_name()), l.kind);
            format!("{kind} {}", l.detail)
        }
        Body::End(e) => e.state.clone(),
        Body::Error(e) => e.description.clone(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMINAL: Dress = Dress::Terminal { colour: false };

    fn check(event: &v1::Event, plain: &str, terminal: &str) {
        assert_eq!(record(4, Some(event), Dress::Plain), plain);
        assert_eq!(record(4, Some(event), TERMINAL), terminal);
    }

    #[test]
    fn records_in_a_pipe_and_on_a_terminal() {
        let output =
            v1::Event::new("x", v1::EventKind::EventOutput, Body::Message(v1::Message::text("assistant", "hi")));
        check(&output, "seq=4   EVENT_OUTPUT  assistant: hi", "seq=4   EVENT_OUTPUT  assistant: hi");

        let error = v1::Error { code: 13, description: "no \x1b[2Jprovider".to_owned() };
        let error = v1::Event::new("x", v1::EventKind::EventError, Body::Error(error));
        check(&error, "seq=4   EVENT_ERROR", "seq=4   EVENT_ERROR  no \\u{1b}[2Jprovider");

        let mut two = v1::Message::text("user", "a");
        two.parts.push(v1::Part { part: Some(v1::part::Part::Data(v1::DataPart::default())) });
        two.parts.push(v1::Part::text("b"));
        let input = v1::Event::new("x", v1::EventKind::EventInput, Body::Message(two));
        check(&input, "seq=4   EVENT_INPUT  user: a b", "seq=4   EVENT_INPUT  user: a b");
    }

    #[test]
    fn a_kind_of_a_newer_host_is_shown_by_number() {
        let event = v1::Event { kind: 99, ..Default::default() };
        check(&event, "seq=4   99", "seq=4   99");
        assert_eq!(record(1234, None, Dress::Plain), "seq=1234 EVENT_KIND_UNSPECIFIED");
    }

    #[test]
    fn a_card_leaves_out_what_is_empty() {
        let mut s = v1::Session { harness: "echo".to_owned(), last_seq: 5, ..Default::default() };
        s.metadata = Some(v1::ResourceMetadata { uid: "sess-1".to_owned(), ..Default::default() });
        s.compute_state = v1::ComputeState::ComputeLive.into();
        s.exec_state = v1::ExecState::ExecCompleted.into();
        let want = "session      sess-1\nharness      echo\nstate        COMPLETED\ncompute      LIVE\nlast seq     5";
        assert_eq!(session_card(&s, TERMINAL), want);
        s.parent_uid = "sess-0".to_owned();
        s.fork_seq = 3;
        assert!(session_card(&s, TERMINAL).ends_with("forked from  sess-0 at seq 3"));
    }

    #[test]
    fn a_table_has_a_row_for_each_session() {
        let s = v1::Session { harness: "echo".to_owned(), ..Default::default() };
        let table = list_table(&[s.clone(), s], TERMINAL);
        assert_eq!(table.lines().count(), 3);
        assert!(table.trim_start().starts_with("SESSION"), "{table}");
    }
}
