//! Decoded records and last requests, kept while they are used.
//!
//! Bounded by bytes over all sessions: what falls out is read from the journal again. Nothing here
//! is needed for correctness.

use std::sync::{Arc, Mutex};

use inspan_wire::{Digest, SessionUid, v1};
use lru::LruCache;

/// Records per page.
pub(crate) const PAGE: i64 = 128;

/// Pages that are let go of at once when a session goes to sleep; what is warm before them falls out by its age, so that going to
/// sleep costs the same at every length.
const FORGOTTEN_PAGES_MAX: i64 = 16;

/// The decoded events of one page, from its first on.
type Page = Vec<Arc<v1::Event>>;

/// The warm part of all sessions.
pub(crate) struct Warm {
    pages: Mutex<Bounded<(SessionUid, i64), Page>>,
    requests: Mutex<Bounded<SessionUid, (Digest, Arc<str>)>>,
}

struct Bounded<K, V> {
    map: LruCache<K, (V, usize)>,
    bytes: usize,
    bytes_max: usize,
}

impl<K: std::hash::Hash + Eq, V> Bounded<K, V> {
    fn new(bytes_max: usize) -> Self {
        Bounded { map: LruCache::unbounded(), bytes: 0, bytes_max }
    }

    fn put(&mut self, key: K, value: V, bytes: usize) {
        if let Some((_, (_, old))) = self.map.push(key, (value, bytes)) {
            self.bytes -= old;
        }
        self.bytes += bytes;
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.bytes > self.bytes_max {
            let Some((_, (_, old))) = self.map.pop_lru() else { break };
            self.bytes -= old;
        }
    }

    fn pop(&mut self, key: &K) -> Option<V> {
        let (value, bytes) = self.map.pop(key)?;
        self.bytes -= bytes;
        Some(value)
    }
}

impl Warm {
    /// Three quarters of `bytes_max` for records, the rest for requests.
    pub(crate) fn new(bytes_max: usize) -> Warm {
        Warm { pages: Mutex::new(Bounded::new(bytes_max / 4 * 3)), requests: Mutex::new(Bounded::new(bytes_max / 4)) }
    }

    /// The warm events of the page that holds `seq`, from `seq` on; empty when they are cold.
    pub(crate) fn events(&self, session: &SessionUid, seq: i64) -> Vec<Arc<v1::Event>> {
        let (page, offset) = place(seq);
        let mut pages = self.pages.lock().expect("no code panics under this lock");
        match pages.map.get(&(session.clone(), page)) {
            Some((items, _)) => items.iter().skip(offset).cloned().collect(),
            None => Vec::new(),
        }
    }

    /// Where reading has to start so that the page of `seq` becomes warm without a gap.
    pub(crate) fn cold_from(&self, session: &SessionUid, seq: i64) -> i64 {
        let (page, _) = place(seq);
        let mut pages = self.pages.lock().expect("no code panics under this lock");
        let have = pages.map.get(&(session.clone(), page)).map_or(0, |(items, _)| items.len());
        page * PAGE + 1 + i64::try_from(have).expect("a page is small")
    }

    /// Keeps an event, if it continues its page. `bytes` is the length of its canonical text.
    pub(crate) fn keep(&self, session: &SessionUid, seq: i64, event: &Arc<v1::Event>, bytes: usize) {
        // A decoded event takes a few times its text.
        let bytes = bytes * 3 + 256;
        let (page, offset) = place(seq);
        let key = (session.clone(), page);
        let mut pages = self.pages.lock().expect("no code panics under this lock");
        let pages = &mut *pages;
        match pages.map.get_mut(&key) {
            Some((items, total)) if items.len() == offset => {
                items.push(event.clone());
                *total += bytes;
                pages.bytes += bytes;
                pages.shrink();
            }
            None if offset == 0 => pages.put(key, vec![event.clone()], bytes),
            Some(_) | None => {}
        }
    }

    /// Lets go of the last pages of a session whose journal ends at `head`, and of its last request.
    pub(crate) fn forget(&self, session: &SessionUid, head: i64) {
        {
            let mut pages = self.pages.lock().expect("no code panics under this lock");
            let last = place(head.max(1)).0;
            for page in (last - FORGOTTEN_PAGES_MAX + 1).max(0)..=last {
                pages.pop(&(session.clone(), page));
            }
        }
        self.requests.lock().expect("no code panics under this lock").pop(session);
    }

    /// The session's last model request.
    pub(crate) fn request(&self, session: &SessionUid) -> Option<(Digest, Arc<str>)> {
        let mut requests = self.requests.lock().expect("no code panics under this lock");
        requests.map.get(session).map(|(request, _)| request.clone())
    }

    /// Keeps the session's last model request.
    pub(crate) fn keep_request(&self, session: &SessionUid, digest: Digest, text: Arc<str>) {
        let bytes = text.len();
        self.requests.lock().expect("no code panics under this lock").put(session.clone(), (digest, text), bytes);
    }
}

fn place(seq: i64) -> (i64, usize) {
    debug_assert!(seq >= 1, "records start at 1");
    ((seq - 1) / PAGE, usize::try_from((seq - 1) % PAGE).expect("a remainder of a positive number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_a_session_that_sleeps() {
        let warm = Warm::new(1 << 20);
        let (asleep, awake) = (SessionUid::from("a"), SessionUid::from("b"));
        for session in [&asleep, &awake] {
            for seq in 1..=2 * PAGE + 1 {
                warm.keep(session, seq, &Arc::default(), 10);
            }
            warm.keep_request(session, Digest::of(b"x"), Arc::from("x"));
        }
        let whole = warm.pages.lock().unwrap().bytes;
        warm.forget(&asleep, 2 * PAGE + 1);
        assert!(warm.events(&asleep, 1).is_empty() && warm.events(&asleep, 2 * PAGE + 1).is_empty());
        assert_eq!((warm.request(&asleep), warm.pages.lock().unwrap().bytes), (None, whole / 2));
        assert!(!warm.events(&awake, 1).is_empty() && warm.request(&awake).is_some());
    }
}
