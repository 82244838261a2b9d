//! The kit against harnesses and hosts that each break one rule, and against ours.

mod broken_harnesses;
mod broken_hosts;
mod harness;
mod ours;
mod page;
mod proxy;
mod support;
