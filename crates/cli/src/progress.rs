//! Progress of long work, on stderr and only when a person is there to see it.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A spinner that counts `what`. Silent when stderr is no terminal; gone when it is dropped.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Starts to count, for example `bytes exported`.
    pub(crate) fn start(what: &'static str) -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress(ProgressBar::hidden());
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{spinner} {human_pos} {msg} {elapsed} {per_sec}");
        bar.set_style(style.expect("the template is constant and well-formed"));
        bar.set_message(what);
        bar.enable_steady_tick(Duration::from_millis(100));
        Progress(bar)
    }

    /// Counts on.
    pub(crate) fn add(&self, n: u64) {
        self.0.inc(n);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
