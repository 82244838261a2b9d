//! The disk alone: append 4 KiB, fdatasync, again. No durable append can be cheaper.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::frame::Failure;
use crate::stats::as_ms;

/// A file that grows by 4 KiB and a flush at a time.
pub(crate) struct Disk(File);

impl Disk {
    /// In the folder of what it is measured beside.
    pub(crate) fn in_folder(folder: &Path) -> Result<Disk, Failure> {
        Ok(Disk(File::create(folder.join("fdatasync"))?))
    }

    /// One append and flush, in milliseconds.
    pub(crate) fn flush_ms(&mut self) -> Result<f64, Failure> {
        let began = Instant::now();
        self.0.write_all(&[0x5a; 4096])?;
        self.0.sync_data()?;
        Ok(as_ms(began.elapsed()))
    }

    /// Appends and flushes for `time`; how long each took, in milliseconds.
    pub(crate) fn flushes_ms(&mut self, time: Duration) -> Result<Vec<f64>, Failure> {
        let began = Instant::now();
        let mut took = Vec::new();
        while began.elapsed() < time {
            took.push(self.flush_ms()?);
        }
        Ok(took)
    }

    /// Appends and flushes in a second.
    pub(crate) fn rate(&mut self, time: Duration) -> Result<f64, Failure> {
        let took = self.flushes_ms(time)?;
        Ok(took.len() as f64 * 1e3 / took.iter().sum::<f64>())
    }
}
