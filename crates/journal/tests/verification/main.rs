//! Exports, imports, journals of other hosts, and what the verification says of all of them.

mod damage;
mod foreign;
mod mutated;
mod round_trip;
mod support;
