//! One operation at a time on a session of this host (R-CAS-5), and the turns that run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use inspan_wire::SessionUid;
use tokio::sync::watch;

use crate::Error;

/// The sessions that an operation holds.
#[derive(Default)]
pub(crate) struct Guards {
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// In order, so that a drain waits for the same sessions in the same order whenever it is repeated.
    slots: BTreeMap<SessionUid, Slot>,
    draining: bool,
}

struct Slot {
    /// Changes when a turn begins; closes when the guard is released.
    running: watch::Receiver<Option<Running>>,
}

/// A turn that runs.
#[derive(Debug, Clone)]
struct Running {
    execution_id: String,
    cancel: watch::Sender<Option<String>>,
}

/// The right to operate on a session; released on drop.
pub(crate) struct Guard {
    guards: Arc<Guards>,
    session: SessionUid,
    running: watch::Sender<Option<Running>>,
}

impl Guards {
    /// Takes the session, without waiting.
    ///
    /// # Errors
    /// [`Error::Busy`] when another operation holds it, [`Error::Stopping`] when the host is.
    pub(crate) fn acquire(self: &Arc<Self>, session: &SessionUid) -> Result<Guard, Error> {
        let mut held = self.held.lock().expect("no code panics under this lock");
        if held.draining {
            return Err(Error::Stopping);
        }
        if held.slots.contains_key(session) {
            return Err(Error::Busy(session.clone()));
        }
        let (tx, rx) = watch::channel(None);
        held.slots.insert(session.clone(), Slot { running: rx });
        Ok(Guard { guards: self.clone(), session: session.clone(), running: tx })
    }

    /// The execution that runs on the session now.
    pub(crate) fn running(&self, session: &SessionUid) -> Option<String> {
        let held = self.held.lock().expect("no code panics under this lock");
        let running = held.slots.get(session)?.running.borrow();
        running.as_ref().map(|r| r.execution_id.clone())
    }

    /// Asks the running turn to end. Answers what closes when the session is free again; `None` when
    /// no operation holds it.
    ///
    /// # Errors
    /// [`Error::Busy`] when what holds the session is no such turn.
    pub(crate) fn cancel(
        &self,
        session: &SessionUid,
        execution_id: &str,
        reason: &str,
    ) -> Result<Option<Released>, Error> {
        let held = self.held.lock().expect("no code panics under this lock");
        let Some(slot) = held.slots.get(session) else { return Ok(None) };
        {
            let running = slot.running.borrow();
            match &*running {
                Some(r) if execution_id.is_empty() || execution_id == r.execution_id => {
                    r.cancel.send_replace(Some(reason.to_owned()));
                }
                _ => return Err(Error::Busy(session.clone())),
            }
        }
        Ok(Some(Released(slot.running.clone())))
    }

    /// Refuses new operations and new effects from now on.
    pub(crate) fn start_draining(&self) {
        self.held.lock().expect("no code panics under this lock").draining = true;
    }

    /// Whether the host is stopping.
    pub(crate) fn draining(&self) -> bool {
        self.held.lock().expect("no code panics under this lock").draining
    }

    /// What closes when each session held now is free.
    pub(crate) fn all(&self) -> Vec<Released> {
        let held = self.held.lock().expect("no code panics under this lock");
        held.slots.values().map(|s| Released(s.running.clone())).collect()
    }
}

/// Closes when a guard is released.
pub(crate) struct Released(watch::Receiver<Option<Running>>);

impl Released {
    /// Waits for it.
    pub(crate) async fn wait(mut self) {
        while self.0.changed().await.is_ok() {}
    }
}

impl Guard {
    /// Registers the turn that begins; what is returned changes when somebody cancels it.
    pub(crate) fn begin(&self, execution_id: &str) -> watch::Receiver<Option<String>> {
        let (cancel, rx) = watch::channel(None);
        self.running.send_replace(Some(Running { execution_id: execution_id.to_owned(), cancel }));
        rx
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.guards.held.lock().expect("no code panics under this lock").slots.remove(&self.session);
    }
}
