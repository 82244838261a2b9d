//! The binary as its users meet it: what is typed, what comes back.

mod arguments;
mod conformance;
mod demo;
mod embedded;
mod files;
mod gates;
mod harness;
mod json;
mod providers;
mod recovery;
mod reference;
mod registry;
mod served;
mod shell;
#[cfg(unix)]
mod terminal;
mod tools;
