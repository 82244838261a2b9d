//! Every write and every sync fails once; the power goes at every one of them.

use inspan_journal::{Error, sqlite};
use inspan_testkit::vfs::{Disk, Failure, Survives, Vfs};

use super::{Told, folder, open, options, script};

/// Runs the script on a disk that `arm` has prepared. `None` when the store did not even open.
async fn run(vfs: &Vfs, folder: &std::path::Path) -> Option<Told> {
    // A short log, so that checkpoints are among the operations that fail.
    let options = sqlite::Options { vfs: Some(vfs.name().to_owned()), checkpoint_bytes: 40 * 1024, ..options(folder) };
    match sqlite::Store::open(options) {
        Ok(store) => Some(script(&store).await),
        Err(Error::Io(_) | Error::Full) => None,
        Err(other) => panic!("{other}"),
    }
}

/// How many operations the script takes from the opening to the close.
async fn operations() -> u64 {
    let (vfs, folder) = (Vfs::register(), folder());
    run(&vfs, folder.path()).await.expect("nothing fails");
    vfs.disk().operations()
}

/// Runs the script with one failure and opens what it left.
async fn fail_each(how: Failure, arm: impl Fn(&Disk, u64)) {
    let total = operations().await;
    assert!(total > 100, "a script of {total} operations");
    let mut met = 0;
    for nth in 1..=total {
        let (vfs, folder) = (Vfs::register(), folder());
        arm(vfs.disk(), nth);
        let told = run(&vfs, folder.path()).await.unwrap_or_default();
        met += u64::from(vfs.disk().failed() > 0);
        if how != Failure::Io {
            assert_eq!(told.unknown.len(), 0, "a full disk at {nth} leaves nothing unknown");
        }
        told.check(&open(folder.path())).await;
    }
    assert!(met > total / 3, "{met} of {total} operations failed");
}

/// A failed write, truncation or fsync: nothing acknowledged is lost, and no write follows it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_operation_fails_once() {
    fail_each(Failure::Io, |disk, nth| disk.fail_at(nth, Failure::Io)).await;
}

/// A disk that is full for one write: that append is rolled back and reported, and the store goes
/// on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_write_meets_a_full_disk() {
    fail_each(Failure::Full, |disk, nth| disk.fail_at(nth, Failure::Full)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_write_meets_a_disk_that_fills_up_halfway() {
    fail_each(Failure::FullHalfway, |disk, nth| disk.fail_at(nth, Failure::FullHalfway)).await;
}

/// The power goes before every single operation. The disk keeps nothing of what was not synced,
/// and, in turns, all of it, every second write, or all but half of the last one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_power_goes_at_every_boundary() {
    let total = operations().await;
    let more = [Survives::Everything, Survives::Even, Survives::Odd, Survives::TornLast];
    for (nth, more) in (1..=total + 1).zip(more.into_iter().cycle()) {
        let (vfs, before) = (Vfs::register(), folder());
        vfs.disk().fail_from(nth, Failure::Io);
        let told = run(&vfs, before.path()).await.unwrap_or_default();
        for survives in [Survives::Nothing, more] {
            let after = folder();
            vfs.disk().reboot(before.path(), after.path(), survives);
            let store = sqlite::Store::open(options(after.path()))
                .unwrap_or_else(|e| panic!("after {survives:?} at operation {nth}: {e}"));
            told.check(&store).await;
        }
    }
}
