//! The sessions that were written to lately, as of the last commit: read without a thread of their own.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inspan_wire::SessionUid;
use lru::LruCache;

use crate::Session;

/// Sessions that are remembered, about 1 KB each.
pub(super) const SESSIONS_MAX: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

/// What every session that the writer knows has become. Only the writer changes it, behind each commit and before the
/// callers are answered: whoever has seen an answer finds it here.
#[derive(Clone)]
pub(super) struct Live(Arc<Mutex<LruCache<SessionUid, Arc<Session>>>>);

impl Live {
    pub(super) fn new() -> Live {
        Live(Arc::new(Mutex::new(LruCache::new(SESSIONS_MAX))))
    }

    /// The session, when it is remembered.
    pub(super) fn get(&self, uid: &SessionUid) -> Option<Arc<Session>> {
        self.lock().get(uid).cloned()
    }

    /// Takes over what a commit has changed; `None` for a session that is not live any more.
    pub(super) fn publish(&self, changed: impl Iterator<Item = (SessionUid, Option<Arc<Session>>)>) {
        let mut sessions = self.lock();
        for (uid, session) in changed {
            match session {
                Some(session) => drop(sessions.put(uid, session)),
                None => drop(sessions.pop(&uid)),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<SessionUid, Arc<Session>>> {
        // The map is whole between any two operations on it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
