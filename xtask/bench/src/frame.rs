//! Rows, their bars, the table and the file.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Why a row could not be measured, or that a bar does not hold.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(text: impl Into<String>) -> Failure {
        Failure(text.into())
    }

    /// The same, with the row's name before it.
    pub(crate) fn within(self, name: &str) -> Failure {
        Failure(format!("{name}: {}", self.0))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Any error ends the row: a bench that goes on after one measures something else.
impl<E: std::error::Error> From<E> for Failure {
    fn from(e: E) -> Failure {
        let mut text = e.to_string();
        let mut cause = e.source();
        while let Some(inner) = cause {
            text = format!("{text}: {inner}");
            cause = inner.source();
        }
        Failure(text)
    }
}

/// A measurement that gives one or more rows.
pub(crate) struct Bench {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) run: fn(&Context) -> Result<Vec<Row>, Failure>,
}

/// What a ratio must keep.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bar {
    AtLeast(f64),
    AtMost(f64),
}

impl Bar {
    fn holds(self, ratio: f64) -> bool {
        match self {
            Bar::AtLeast(bar) => ratio >= bar,
            Bar::AtMost(bar) => ratio <= bar,
        }
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bar::AtLeast(bar) => write!(f, ">= {bar}"),
            Bar::AtMost(bar) => write!(f, "<= {bar}"),
        }
    }
}

/// One promise, measured.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    /// What was measured, and beside what.
    pub(crate) row: String,
    pub(crate) figure: f64,
    pub(crate) unit: &'static str,
    /// The limit's or the peer's figure, in the same unit.
    pub(crate) beside: f64,
    pub(crate) ratio: f64,
    pub(crate) bar: String,
    pub(crate) holds: bool,
}

impl Row {
    /// A figure beside another, with a bar for a ratio that was measured round by round.
    pub(crate) fn paired(row: &str, unit: &'static str, figure: f64, beside: f64, ratio: f64, bar: Bar) -> Row {
        Row { row: row.to_owned(), figure, unit, beside, ratio, bar: bar.to_string(), holds: bar.holds(ratio) }
    }

    /// A figure beside a limit.
    pub(crate) fn limit(row: &str, unit: &'static str, figure: f64, limit: f64, bar: Bar) -> Row {
        Row::paired(row, unit, figure, limit, figure / limit, bar)
    }
}

/// What every row is given.
pub(crate) struct Context {
    pub(crate) quick: bool,
    folder: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
}

impl Context {
    /// A fresh folder on the disk that holds the build: a temp folder may be memory, and no promise is about that.
    pub(crate) fn new(quick: bool) -> Result<Context, Failure> {
        let target = target();
        std::fs::create_dir_all(&target)?;
        let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(target)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        Ok(Context { quick, folder, runtime })
    }

    /// Runs a future to its end on the runtime that every row shares.
    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Runs futures side by side, each as a task of its own, and gives what they gave, in order.
    pub(crate) fn all<T: Send + 'static>(
        &self,
        work: Vec<impl Future<Output = Result<T, Failure>> + Send + 'static>,
    ) -> Result<Vec<T>, Failure> {
        let tasks: Vec<_> = work.into_iter().map(|work| self.runtime.spawn(work)).collect();
        self.block_on(async {
            let mut done = Vec::with_capacity(tasks.len());
            for task in tasks {
                done.push(task.await??);
            }
            Ok(done)
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A new folder below the run's own.
    pub(crate) fn fresh(&self, name: &str) -> Result<PathBuf, Failure> {
        let folder = self.folder().join(name);
        std::fs::create_dir(&folder)?;
        Ok(folder)
    }

    /// `full`, or `quick` when sizes do not matter.
    pub(crate) fn size(&self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }

    /// The release binary of inspan.
    pub(crate) fn inspan(&self) -> PathBuf {
        target().join("release/inspan")
    }
}

fn target() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target")
}

/// The rows for people.
pub(crate) fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.row.chars().count()).max().unwrap_or_default().max(4);
    let mut text =
        format!("{:<width$} {:>12} {:>12} {:<10} {:>8} {:>9}\n", "row", "figure", "beside", "unit", "ratio", "bar");
    for row in rows {
        let verdict = if row.holds { "" } else { "  MISSED" };
        text += &format!(
            "{:<width$} {:>12} {:>12} {:<10} {:>8} {:>9}{verdict}\n",
            row.row,
            number(row.figure),
            number(row.beside),
            row.unit,
            number(row.ratio),
            row.bar
        );
    }
    text
}

/// Three or four digits that mean something.
fn number(n: f64) -> String {
    match n.abs() {
        size if size >= 100.0 => format!("{n:.0}"),
        size if size >= 10.0 => format!("{n:.1}"),
        size if size >= 1.0 => format!("{n:.2}"),
        _ => format!("{n:.3}"),
    }
}

/// Writes target/bench.json, an array of rows.
pub(crate) fn write_json(rows: &[Row]) -> Result<(), Failure> {
    std::fs::write(target().join("bench.json"), serde_json::to_string_pretty(rows)? + "\n")?;
    Ok(())
}
