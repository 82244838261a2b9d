//! `Harness.Connect`: both ends over real sockets, and each end against a peer that breaks the rules.

mod both;
mod gates;
mod raw;
mod raw_harness;
mod raw_host;
mod reach;
mod support;
