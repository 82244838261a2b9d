//! Fault points: named places where a test lets the process die or an operation fail, and running
//! a test again in a process that may be killed.

use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// What happens at an armed point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The process dies at once, as by `kill -9`: nothing is flushed, no destructor runs.
    Kill,
    /// [`Points::hit`] returns [`Tripped`].
    Fail,
}

/// An armed point was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tripped;

/// Named points, one of them armed at most.
#[derive(Debug, Default)]
pub struct Points {
    armed: Mutex<Option<Armed>>,
}

#[derive(Debug)]
struct Armed {
    name: String,
    hits_left: u64,
    action: Action,
}

impl Points {
    /// Nothing is armed.
    pub fn new() -> Points {
        Points::default()
    }

    /// Arms the `nth` hit of `name`, counted from 1 and from now.
    pub fn arm(&self, name: &str, nth: u64, action: Action) {
        let armed = Armed { name: name.to_owned(), hits_left: nth, action };
        *self.armed.lock().unwrap_or_else(PoisonError::into_inner) = Some(armed);
    }

    /// Passes the point `name`.
    ///
    /// # Errors
    /// [`Tripped`] when this is the armed hit and its action is [`Action::Fail`].
    pub fn hit(&self, name: &str) -> Result<(), Tripped> {
        let mut slot = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(armed) = slot.as_mut().filter(|armed| armed.name == name) else { return Ok(()) };
        armed.hits_left = armed.hits_left.saturating_sub(1);
        if armed.hits_left > 0 {
            return Ok(());
        }
        let action = armed.action;
        *slot = None;
        match action {
            Action::Kill => kill_now(),
            Action::Fail => Err(Tripped),
        }
    }
}

/// Dies as by `kill -9`.
#[expect(unsafe_code, reason = "the standard library can abort, but not be killed")]
pub fn kill_now() -> ! {
    // SAFETY: raising a signal has no preconditions.
    unsafe {
        libc::raise(libc::SIGKILL);
    }
    unreachable!("SIGKILL cannot be survived");
}

/// A command that runs the test `name` of the running test binary, alone, with its output passed
/// through: the test finds out through an environment variable of its own that it is the child.
///
/// # Panics
/// When the binary's own path is not known.
pub fn rerun(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a process knows its binary"));
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_armed_hit_trips_once() {
        let points = Points::new();
        points.arm("here", 2, Action::Fail);
        let hits = ["here", "there", "here", "here"].map(|name| points.hit(name));
        assert_eq!(hits, [Ok(()), Ok(()), Err(Tripped), Ok(())]);
    }
}
