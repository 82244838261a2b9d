//! An answer of a tool that comes when nobody waits for it any more: recorded, and applied to nothing.

use inspan_journal::FenceRule;
use inspan_wire::v1::{self, EventKind, event::Body};
use inspan_wire::{canon, event::tool_difference};

use crate::engine::Engine;
use crate::gate::Stage;
use crate::scan::{Pending, Scan};
use crate::tool::ToolRun;
use crate::writer::Beside;
use crate::{Error, payload};

/// How the `detail` of the record begins; the call's seq, a colon and the canonical JSON of a TOOL_RESULT follow.
const LATE: &str = "late result of ";

impl Engine {
    /// Records what a tool has answered to `run` after its call was given up: a LIFECYCLE record of no kind, which no
    /// turn, no gate and no replay looks at. What the harness was told stands, and what the call's key stands for stays.
    /// Answers `false`, and records nothing, while a turn of the session is under way or interrupted: an append of
    /// ours would come in between. The caller may come again; for each answer it gets `true` once at most.
    ///
    /// # Errors
    /// NOT_FOUND; FAILED_PRECONDITION when `run` is no call of the session; the store's.
    pub async fn record_late(&self, run: &ToolRun, result: v1::ToolResult) -> Result<bool, Error> {
        let uid = &run.session;
        self.load(uid).await?;
        let guard = match self.inner.guards.acquire(uid) {
            Ok(guard) => guard,
            Err(Error::Busy(_)) => return Ok(false),
            Err(e) => return Err(e),
        };
        let session = self.load(uid).await?;
        let scan = Scan::load(&session.state)?;
        let waits = scan.gate().is_some_and(|(_, gate)| gate.stage() == Stage::Requested);
        if !waits && scan.pending() != Pending::Nothing {
            return Ok(false);
        }
        let event = self.past(uid).event(run.seq).await?;
        let call = event.as_ref().and_then(|event| match &event.body {
            Some(Body::Tool(call)) if tool_difference(call, &run.call).is_none() => Some(event),
            _ => None,
        });
        let Some(call) = call.filter(|_| scan.owns(run.seq)) else {
            let what = format!("record {} of session {uid} is not the tool call that was answered", run.seq);
            return Err(Error::FailedPrecondition(what));
        };
        let result = v1::ToolResult { id: run.call.id.clone(), ..result };
        let mut answered = v1::Event::new(&call.execution_id, EventKind::EventToolResult, Body::Result(result));
        inspan_wire::normal::event(&mut answered);
        let mut blobs = Vec::new();
        for (digest, bytes) in payload::take_out(&mut answered) {
            self.inner.journal.blobs().put(bytes).await?;
            blobs.push(digest);
        }
        let text = canon::event(&answered).map_err(|e| Error::InvalidArgument(e.to_string()))?;
        let detail = format!("{LATE}{}: {}", run.seq, String::from_utf8_lossy(&text));
        let record = v1::Event::lifecycle(v1::Lifecycle { detail, ..Default::default() });
        // No fence is taken: nobody is to be overtaken for this.
        let mut writer = self.writer(&session, FenceRule::Held(session.fence))?;
        writer.append_with(vec![record], Beside { blobs, ..Beside::default() }).await?;
        drop(guard);
        self.inner.observer.turn_changed(uid);
        Ok(true)
    }
}
