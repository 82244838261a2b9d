//! The rows, in the order of the table.

mod appends;
mod canon;
mod forks;
pub(crate) mod hop;
mod million;
mod open;
mod parked;
mod remote;
mod stream;
mod tool;
mod turns;

use crate::frame::Bench;

pub(crate) const ALL: &[Bench] = &[
    appends::ONE,
    appends::MANY,
    canon::BENCH,
    turns::ONE,
    turns::MANY,
    turns::LONG,
    remote::ONE,
    remote::MANY,
    tool::BENCH,
    forks::BENCH,
    open::BENCH,
    stream::BENCH,
    million::BENCH,
    parked::BENCH,
];
