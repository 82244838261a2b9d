//! The rows, in the order of the table.

mod canon;
pub(crate) mod hop;

use crate::frame::Bench;

pub(crate) const ALL: &[Bench] = &[canon::BENCH];
