//! The events before a turn, read only as far as the harness reads them.

use std::sync::Arc;

use async_trait::async_trait;
use inspan_wire::v1;

use crate::Failure;

/// Where a history comes from. The host keeps it on disk and warm in part; a test keeps a vector.
#[async_trait]
pub trait HistorySource: Send + Sync + 'static {
    /// Events from position `from` (0-based) on, at least one unless `from` is the end, at most a
    /// page.
    ///
    /// # Errors
    /// When the journal cannot be read.
    async fn page(&self, from: usize) -> Result<Vec<Arc<v1::Event>>, Failure>;
}

/// The events before this turn, in journal order. Costs nothing until it is read, so a harness that
/// needs no history takes a turn as fast in a session of a million records as in an empty one.
#[derive(Clone)]
pub struct History {
    source: Arc<dyn HistorySource>,
    len: usize,
}

impl History {
    /// A history of `len` events.
    pub fn new(source: Arc<dyn HistorySource>, len: usize) -> History {
        History { source, len }
    }

    /// No events.
    pub fn empty() -> History {
        History::from_events(Vec::new())
    }

    /// A history held in memory.
    pub fn from_events(events: Vec<v1::Event>) -> History {
        let events: Vec<_> = events.into_iter().map(Arc::new).collect();
        let len = events.len();
        History { source: Arc::new(InMemory(events)), len }
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads from the first event on.
    pub fn reader(&self) -> Reader {
        Reader { history: self.clone(), position: 0 }
    }
}

/// Walks a history page by page.
pub struct Reader {
    history: History,
    position: usize,
}

impl Reader {
    /// The next page, empty at the end.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn next_page(&mut self) -> Result<Vec<Arc<v1::Event>>, Failure> {
        if self.position >= self.history.len {
            return Ok(Vec::new());
        }
        let mut page = self.history.source.page(self.position).await?;
        page.truncate(self.history.len - self.position);
        if page.is_empty() {
            return Err(Failure::Failed("the history ended early".to_owned()));
        }
        self.position += page.len();
        Ok(page)
    }
}

struct InMemory(Vec<Arc<v1::Event>>);

#[async_trait]
impl HistorySource for InMemory {
    async fn page(&self, from: usize) -> Result<Vec<Arc<v1::Event>>, Failure> {
        Ok(self.0.get(from..).unwrap_or_default().to_vec())
    }
}
