//! Exports, imports, journals of other hosts, and what the verification says of all of them.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the stranger is another process, and journals of other hosts are files"
)]

mod damage;
mod foreign;
mod mutated;
mod round_trip;
mod support;
