//! The fuzz target of the export reader on a bounded corpus: one small file, damaged with fixed seeds.

#[path = "../../../../fuzz/checks/mutate.rs"]
#[expect(unreachable_pub, reason = "shared with the fuzz workspace")]
mod mutate;
#[path = "../../../../fuzz/checks/read_export.rs"]
#[expect(unreachable_pub, reason = "shared with the fuzz workspace")]
mod read_export;

use std::io::Cursor;

use inspan_journal::verify;
use mutate::Random;

use crate::support::Stage;

#[tokio::test]
async fn damaged_files_are_read_to_an_end() {
    let stage = Stage::new();
    let uid = stage.create("sess-a").await;
    stage.turns(&uid, 1..3).await;
    let good = stage.export(&uid).await;
    read_export::check(&good);
    let mut deepest = 0;
    for seed in 0..3_000 {
        let bad = mutate::mutate(&good, &good, &mut Random::new(seed));
        read_export::check(&bad);
        let report = verify::export(Cursor::new(&bad), None).expect("memory can be read");
        assert!(bad == good || report.fault.is_some(), "seed {seed}: {report}");
        deepest = deepest.max(report.last_seq);
    }
    assert_eq!(deepest, 10, "some damage came behind the last record");
}
