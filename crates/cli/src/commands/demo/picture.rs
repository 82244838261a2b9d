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
    let own = |from: i64, to: i64| -> Vec<(i64, &str)> {
        let records = facts.kinds.iter().zip(1_i64..).filter(|(_, seq)| (from..=to).contains(seq));
        records.map(|(kind, seq)| (seq, kind.as_str())).collect()
    };
    let cut = own(facts.fork_seq + 1, facts.shown_before_kill);
    // The rest of turn 2 hangs below the record that the kill came after.
    let before_cut = row(cut.get(..cut.len().saturating_sub(1)).unwrap_or_default(), Dress::Plain);
    let indent = if before_cut.is_empty() { 0 } else { before_cut.len() + SEPARATOR.len() };
    let rest = own(facts.shown_before_kill + 1, i64::MAX);
    let branch: Vec<_> = (facts.fork_seq + 1..).zip(facts.fork_kinds.iter().map(String::as_str)).collect();
    let kill = dress.paint(Paint::Bad, "x kill -9");
    writeln!(text, "\n{}", dress.paint(Paint::Bold, &format!("The journal of {}", facts.session)))?;
    writeln!(text, "  turn 1   {}", row(&own(1, facts.fork_seq), dress))?;
    writeln!(text, "  turn 2   {}{SEPARATOR}{kill}", row(&cut, dress))?;
    writeln!(text, "  resume   {:indent$}'-> {}", "", row(&rest, dress))?;
    writeln!(text, "  fork     1..{} are shared{SEPARATOR}{}", facts.fork_seq, row(&branch, dress))
}

const SEPARATOR: &str = " - ";

/// Records as `seq NAME`, without the words that every name starts with.
fn row(records: &[(i64, &str)], dress: Dress) -> String {
    let shown = records.iter().map(|(seq, kind)| {
        let name = kind.trim_start_matches("EVENT_").trim_start_matches("LIFECYCLE_").trim_start_matches("EXECUTION_");
        let paint = match name {
            "MODEL_CALL" => Paint::Mind,
            "OUTPUT" | "END" => Paint::Good,
            _ => Paint::Dim,
        };
        format!("{seq} {}", dress.paint(paint, name))
    });
    shown.collect::<Vec<_>>().join(SEPARATOR)
}

fn counts(text: &mut String, facts: &Facts, dress: Dress) -> std::fmt::Result {
    let calls = |turn| facts.calls.get(&turn).copied().unwrap_or(0);
    let mark = |holds: bool, what: String| dress.paint(if holds { Paint::Good } else { Paint::Bad }, &what);
    writeln!(text, "\n{}", dress.paint(Paint::Bold, "What was counted"))?;
    let line =
        format!("{} of {} records outlived the kill, hashes equal", facts.kept_after_kill, facts.shown_before_kill);
    writeln!(text, "  {}", mark(facts.nothing_was_lost(), line))?;
    let line = format!(
        "model calls: {} for turn 1, {} for turn 2 (the killed one and one repeat), {} for the fork",
        calls(1),
        calls(2),
        calls(3)
    );
    writeln!(text, "  {}", mark(facts.nothing_was_repeated(), line))?;
    let holds = facts.verified.fault.is_empty();
    let verdict = if holds { "everything holds" } else { facts.verified.fault.as_str() };
    writeln!(text, "  {}", mark(holds, format!("{} records verified: {verdict}", facts.verified.records)))?;
    let line =
        format!("{} turns run again on their record: {} model calls", facts.rerun.executions, facts.calls_of_rerun);
    writeln!(text, "  {}", mark(facts.calls_of_rerun == 0, line))
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
            ]),
            fork_kinds: vec!["LIFECYCLE_FORK".to_owned(), "EVENT_EXECUTION_START".to_owned()],
            ..Facts::default()
        };
        let text = draw(&facts, Dress::Plain);
        assert!(text.contains("turn 2   6 START - 7 INPUT - 8 MODEL_CALL - x kill -9"), "{text}");
        assert!(text.contains("resume                       '-> 9 OUTPUT - 10 END"), "{text}");
        assert!(text.contains("fork     1..5 are shared - 6 FORK - 7 START"), "{text}");
        assert!(text.contains("8 of 8 records outlived"), "{text}");
    }
}
