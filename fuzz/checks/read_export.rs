//! Any bytes are read to an end, and nothing is vouched for that was not there.

use std::io::Cursor;

use inspan_journal::verify;

pub fn check(data: &[u8]) {
    let report = verify::export(Cursor::new(data), None).expect("memory can be read");
    assert_eq!(report.records, report.last_seq, "dense from 1");
    assert_eq!(report.last_seq > 0, report.head_hash.is_some());
    let lines = data.iter().filter(|b| **b == b'\n').count() as u64;
    let claimed = report.records.unsigned_abs() + report.blobs + report.requests;
    assert!(claimed <= lines, "{claimed} things in {lines} lines");
    if report.fault.is_none() {
        assert!(data.ends_with(b"}}\n"), "a file that holds has its last line");
    }
}
