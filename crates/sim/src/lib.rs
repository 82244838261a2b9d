//! The seeded simulator: whole worlds of hosts, sessions, crashes and takeovers in one thread.
//!
//! The engine is the real one; everything that it is given is not: clock, randomness, store, provider,
//! harness, watcher and clients are drawn from one seed, and a scheduler picks what moves next. So a run
//! is a pure function of its seed, and a rare bug becomes a number to repeat.
//!
//! Beside the store runs a model of it, `oracle`, that is told of every commit and knows what each
//! promise of inspan allows there. It checks after every commit, every provider call, every run of a tool, every record that
//! is shown, and whenever an operation ends; when the dust has settled every interrupted turn must come
//! to its end. What it does not look at: the stores on disk and transports.
//!
//! In reading order: `run` moves the world step by step, `client` asks for things, `host` is one
//! process, `agent`, `provider` and `tools` play the turn, `store` loses and delays, `oracle` and `judge` know
//! what is right, `plant` breaks things on purpose so that the judges are judged too.

mod agent;
mod client;
mod host;
mod judge;
mod oracle;
mod plant;
mod promise;
mod provider;
mod rng;
mod run;
mod script;
mod settle;
mod store;
mod tasks;
mod tools;
mod trace;
mod weather;
mod world;

pub use plant::Plant;
pub use promise::{Failure, Promise, Violation};
pub use rng::Rng;
pub use run::{Config, Summary, run, run_with};
pub use trace::Echo;
