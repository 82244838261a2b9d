//! Harnesses that operators register, through the services of running hosts.

mod bed;
mod operations;
mod routing;
mod rows;
#[path = "../support/mod.rs"]
mod support;
