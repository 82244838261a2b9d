//! What happened, in a screenful.

use std::fmt::Write as _;
use std::path::Path;

use super::story::Facts;
use crate::output::{Dress, Paint};

/// The journal as a picture, the counts, and what to try next.
pub(super) fn draw(facts: &Facts, dress: Dress) -> String {
    let mut text = String::new();
    journal(&mut text, facts, dress).expect("writing to a string cannot fail");
    counts(&mut text, facts, dress).expect("writing to a string cannot fail");
    next(&mut text, facts, dress).expect("writing to a string cannot fail");
    text.trim_end().to_owned()
}

fn journal(text: &mut String, facts: &Facts, dress: Dress) -> std::fmt::Result {
    let split = |from: i64, to: i64| -> String {
        let records = facts.kinds.iter().zip(1_i64..).filter(|(_, seq)| (from..=to).contains(seq));
        row(records.map(|(kind, seq)| (seq, kind.as_str())), dress)
    };
    let last = i64::try_from(facts.kinds.len()).unwrap_or(i64::MAX);
    let own = facts.fork_kinds.iter().zip(facts.fork_seq + 1..).map(|(kind, seq)| (seq, kind.as_str()));
    let kill = dress.paint(Paint::Bad, "x kill -9");
    writeln!(text, "\n{}", dress.paint(Paint::Bold, &format!("The journal of {}", facts.session)))?;
    writeln!(text, "  turn 1   {}", split(1, facts.fork_seq))?;
    writeln!(text, "  turn 2   {} - {kill}", split(facts.fork_seq + 1, facts.shown_before_kill))?;
    writeln!(text, "  resume   {}", split(facts.shown_before_kill + 1, last))?;
    writeln!(text, "  fork     1..{} are shared - {}", facts.fork_seq, row(own, dress))
}

fn row<'a>(records: impl Iterator<Item = (i64, &'a str)>, dress: Dress) -> String {
    let names: Vec<String> = records
        .map(|(seq, kind)| {
            let name = kind.strip_prefix("EVENT_").unwrap_or(kind).replace("EXECUTION_START", "START");
            let paint = match name.as_str() {
                "MODEL_CALL" => Paint::Mind,
                "OUTPUT" | "END" => Paint::Good,
                _ => Paint::Dim,
            };
            format!("{seq} {}", dress.paint(paint, &name))
        })
        .collect();
    names.join(" - ")
}

fn counts(text: &mut String, facts: &Facts, dress: Dress) -> std::fmt::Result {
    let calls = |turn| facts.calls.get(&turn).copied().unwrap_or(0);
    let good = |holds: bool, what: String| dress.paint(if holds { Paint::Good } else { Paint::Bad }, &what);
    writeln!(text, "\n{}", dress.paint(Paint::Bold, "What was counted"))?;
    let kept = facts.kept_after_kill == facts.shown_before_kill;
    let line =
        format!("{} of {} records survived the kill, hashes equal", facts.kept_after_kill, facts.shown_before_kill);
    writeln!(text, "  {}", good(kept, line))?;
    let once = calls(1) == 1 && calls(2) == 2 && calls(3) == 1;
    let line = format!(
        "calls that reached the model: turn 1 {}, turn 2 {} (the killed one and its one repeat), fork {}",
        calls(1),
        calls(2),
        calls(3)
    );
    writeln!(text, "  {}", good(once, line))?;
    let holds = facts.verified.fault.is_empty();
    let verdict = if holds { "everything holds" } else { facts.verified.fault.as_str() };
    writeln!(text, "  {}", good(holds, format!("verified {} records: {verdict}", facts.verified.records)))?;
    let line =
        format!("{} turns run again on their record: {} model calls", facts.rerun.executions, facts.calls_of_rerun);
    writeln!(text, "  {}", good(facts.calls_of_rerun == 0, line))
}

fn next(text: &mut String, facts: &Facts, dress: Dress) -> std::fmt::Result {
    let inspan = program();
    let journal = super::journal(&facts.dir).display().to_string();
    let session = &facts.session;
    writeln!(text, "\n{}", dress.paint(Paint::Bold, "Try next"))?;
    writeln!(text, "  {inspan} replay --journal {journal} --session {session}")?;
    writeln!(text, "  {inspan} verify --journal {journal}")?;
    writeln!(text, "  {inspan} export --journal {journal} --session {session} --out demo.inspan")?;
    writeln!(text, "  {inspan} serve --journal {journal} --model-script {}", super::script(&facts.dir).display())
}

/// How to call this program from here: by name when the shell finds it, else by path.
fn program() -> String {
    let fallback = || "inspan".to_owned();
    let Ok(own) = std::env::current_exe() else { return fallback() };
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|dir| dir.join("inspan") == own) {
        return fallback();
    }
    let here = std::env::current_dir().unwrap_or_default();
    let shown: &Path = own.strip_prefix(&here).unwrap_or(&own);
    shown.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kill_is_marked_where_it_was() {
        let kinds = |names: &[&str]| names.iter().map(|n| format!("EVENT_{n}")).collect::<Vec<_>>();
        let facts = Facts {
            session: "sess-1".to_owned(),
            fork_seq: 5,
            shown_before_kill: 8,
            kept_after_kill: 8,
            kinds: kinds(&[
                "EXECUTION_START",
                "INPUT",
                "MODEL_CALL",
                "OUTPUT",
                "END",
                "EXECUTION_START",
                "INPUT",
                "MODEL_CALL",
                "OUTPUT",
                "END",
                "LIFECYCLE",
            ]),
            fork_kinds: kinds(&["LIFECYCLE", "EXECUTION_START"]),
            ..Facts::default()
        };
        let text = draw(&facts, Dress::Plain);
        assert!(text.contains("turn 2   6 START - 7 INPUT - 8 MODEL_CALL - x kill -9"), "{text}");
        assert!(text.contains("resume   9 OUTPUT - 10 END - 11 LIFECYCLE"), "{text}");
        assert!(text.contains("fork     1..5 are shared - 6 LIFECYCLE - 7 START"), "{text}");
        assert!(text.contains("8 of 8 records survived"), "{text}");
    }
}
