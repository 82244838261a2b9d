//! Suspend, cancel, delete.

use inspan_journal::FenceRule;
use inspan_wire::SessionUid;
use inspan_wire::v1;

use crate::Error;
use crate::drive::{cancel_events, suspend_event};
use crate::engine::Engine;
use crate::scan::{Pending, Scan};

impl Engine {
    /// Puts a session to sleep (R-LIFE-1): what was used of it last leaves memory.
    ///
    /// # Errors
    /// As the table of Suspend's status codes says.
    pub async fn suspend(&self, uid: &SessionUid) -> Result<v1::Session, Error> {
        self.load(uid).await?;
        let guard = self.inner.guards.acquire(uid)?;
        let session = self.load(uid).await?;
        let scan = Scan::load(&session.state)?;
        match scan.gate() {
            // R-APPR-35: who waits is put to sleep by the host that can wake it.
            Some((turn, gate)) if scan.owns(gate.call_seq) => {
                self.check_pin(&session, &turn.harness)?;
                self.recorded_agent(&session, &turn.harness)?;
            }
            _ => drop(self.stored_agent(&session)?),
        }
        let mut writer = self.writer(&session, FenceRule::Next)?;
        writer.append(vec![suspend_event(uid)]).await?;
        writer.cool();
        drop(guard);
        self.settled(uid).await
    }

    /// Ends a turn with CANCELED: the running one, or an interrupted one. An empty `execution_id`
    /// means the last. Returns once the turn has ended; a turn that ended by itself just before stays
    /// as it ended, and the answer tells.
    ///
    /// # Errors
    /// NOT_FOUND, or FAILED_PRECONDITION when there is no such unfinished turn; ABORTED when another
    /// operation holds the session.
    pub async fn cancel(&self, uid: &SessionUid, execution_id: &str, reason: &str) -> Result<v1::Session, Error> {
        let reason = if reason.is_empty() { "USER" } else { reason };
        self.load(uid).await?;
        if let Some(released) = self.inner.guards.cancel(uid, execution_id, reason)? {
            released.wait().await;
            return self.session(uid).await;
        }
        let guard = self.inner.guards.acquire(uid)?;
        let session = self.load(uid).await?;
        let scan = Scan::load(&session.state)?;
        let record_id = match scan.pending() {
            Pending::Turn(turn) if execution_id.is_empty() || execution_id == turn.execution_id => {
                turn.execution_id.as_str()
            }
            Pending::Legacy { .. } if execution_id.is_empty() => "",
            _ => {
                return Err(Error::FailedPrecondition(format!(
                    "session {uid} has no unfinished turn{} to cancel",
                    if execution_id.is_empty() { String::new() } else { format!(" {execution_id}") }
                )));
            }
        };
        let mut writer = self.writer(&session, FenceRule::Next)?;
        writer.append(cancel_events(record_id, reason)).await?;
        drop(guard);
        self.settled(uid).await
    }

    /// Hides a session for ever and drops what nobody needs. Answers with the session as it was.
    ///
    /// # Errors
    /// NOT_FOUND; ABORTED while it is busy.
    pub async fn delete(&self, uid: &SessionUid) -> Result<v1::Session, Error> {
        let session = self.load(uid).await?;
        let _guard = self.inner.guards.acquire(uid)?;
        self.inner.journal.delete(uid).await?;
        self.inner.observer.turn_changed(uid);
        Ok(self.view(&session))
    }
}
