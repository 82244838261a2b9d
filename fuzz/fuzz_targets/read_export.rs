//! `cargo +nightly fuzz run read_export`
#![no_main]

#[path = "../checks/read_export.rs"]
mod read_export;

libfuzzer_sys::fuzz_target!(|data: &[u8]| read_export::check(data));
