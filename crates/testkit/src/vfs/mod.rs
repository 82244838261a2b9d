//! A SQLite VFS that fails on demand and knows what a power loss would leave.
//!
//! It wraps the default VFS: every write, sync and truncation of a database, log or journal file goes through a
//! [`Disk`], which counts it, decides whether it fails, and keeps beside the real file an image of what is
//! durable. Shared memory and locks are passed on.

mod disk;
mod shim;

pub use disk::{Disk, Failure, Survives};

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A registered VFS: name it when a connection is opened.
pub struct Vfs {
    name: String,
    disk: Arc<Disk>,
}

impl Vfs {
    /// Registers a VFS under a name of its own. It stays registered until the process ends.
    ///
    /// # Panics
    /// When SQLite refuses it.
    pub fn register() -> Vfs {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("inspan-faults-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let disk = Arc::new(Disk::default());
        shim::register(&name, &disk);
        Vfs { name, disk }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its files lie on.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }
}
