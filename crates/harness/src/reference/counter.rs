//! Counts its turns in memory: state that no journal can rebuild.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use inspan_wire::v1;

use crate::{Failure, Harness, Sink, Start};

/// Needs its memory kept, and says so: a host that cannot do that refuses it.
#[derive(Debug, Default)]
pub struct Counter {
    count: AtomicU64,
}

#[async_trait]
impl Harness for Counter {
    async fn describe(&self) -> Result<v1::HarnessDescriptor, Failure> {
        Ok(v1::HarnessDescriptor {
            id: "counter".to_owned(),
            version: "1".to_owned(),
            capabilities: Some(v1::Capabilities {
                resumability: v1::Resumability::RequiresMemorySnapshot.into(),
                ..Default::default()
            }),
            ..Default::default()
        })
    }

    /// Never reads the history: rebuilding the count from it would destroy what a snapshot keeps.
    async fn run(&self, _start: Start, sink: &dyn Sink) -> Result<(), Failure> {
        let n = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        sink.output(&n.to_string()).await?;
        Ok(())
    }
}
