//! Answers that come after their call was given up: they are waited for a while, and recorded beside their turn.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use inspan_engine::{Engine, ToolRun};
use inspan_wire::v1;

/// How long an answer is waited for once its call was given up, and how long a session may be busy before what came is
/// dropped with a word in the log: together they bound what a call can hold.
pub(super) const LATE_MAX: Duration = Duration::from_secs(600);

/// Between two tries while a turn of the session is under way: it doubles up to the second.
const TRY_AFTER: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(20));

/// Who records late answers: nobody, until the host is there.
#[derive(Clone, Default)]
pub(super) struct Late(Arc<Mutex<Option<Engine>>>);

impl Late {
    /// Has them recorded by `engine`, or by nobody.
    pub(super) fn by(&self, engine: Option<Engine>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = engine;
    }

    /// Records what a tool answered to `run`, once its session is at rest.
    pub(super) async fn record(&self, run: ToolRun, result: v1::ToolResult) {
        let Some(engine) = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone() else { return };
        let of = (run.session.to_string(), run.call.tool.clone(), run.seq);
        let mut after = TRY_AFTER.0;
        let tries = async {
            while !engine.record_late(&run, result.clone()).await? {
                tokio::time::sleep(after).await;
                after = (after * 2).min(TRY_AFTER.1);
            }
            Ok::<_, inspan_engine::Error>(())
        };
        let (session, tool, seq) = of;
        match tokio::time::timeout(LATE_MAX, tries).await {
            Ok(Ok(())) => tracing::info!(session, tool, seq, "late answer recorded"),
            Ok(Err(e)) => tracing::warn!(session, tool, seq, "late answer dropped: {e}"),
            Err(_) => tracing::warn!(session, tool, seq, "late answer dropped: its session's turn was never ended"),
        }
    }
}
