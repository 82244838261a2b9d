//! `cargo +nightly fuzz run parse_event`
#![no_main]

#[path = "../checks/parse_event.rs"]
mod parse_event;

libfuzzer_sys::fuzz_target!(|data: &[u8]| parse_event::check(data));
