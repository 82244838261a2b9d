//! A host that is killed, and a disk that is really full.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use inspan_journal::{Append, Error, Head, Journal, State, sqlite};
use inspan_testkit::fault;

use super::{folder, open, options};
use crate::suite::{append_to, check_chain, head_after, new_session, text};

/// Set in the child: the folder of its store.
const FOLDER: &str = "INSPAN_TEST_KILL_FOLDER";

/// How many kills, when not the usual hundred.
const KILLS: &str = "INSPAN_TEST_KILLS";

/// A hundred times: a process appends and says what was acknowledged, and is killed. Every record that
/// it had acknowledged is there. A kill leaves what the system holds of a file, so memory is disk enough.
#[tokio::test]
async fn nothing_acknowledged_is_lost_to_a_kill() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        append_for_ever(Path::new(&folder)).await;
    }
    let folder = folder();
    let mut acked: BTreeMap<String, i64> = BTreeMap::new();
    let kills = std::env::var(KILLS).map_or(100, |text| text.parse().expect("a number of kills"));
    for round in 0..kills {
        let mut command = fault::rerun("faults::kill::nothing_acknowledged_is_lost_to_a_kill");
        let mut child = command.env(FOLDER, folder.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut seen = 0;
        while seen < 5 + round % 20 * 3 {
            let line = lines.next().expect("the child goes on for ever").unwrap();
            seen += i32::from(note(&mut acked, &line));
        }
        child.kill().unwrap();
        // What it said before it died counts too.
        lines.map_while(Result::ok).for_each(|line| {
            note(&mut acked, &line);
        });
        child.wait().unwrap();
        let store = open(folder.path());
        for (uid, seq) in &acked {
            let session = store.session(&uid.as_str().into()).await.unwrap().expect("it was acknowledged");
            assert!(session.head.seq >= *seq, "{uid} is at {} and {seq} was acknowledged", session.head.seq);
            let records = store.records(&uid.as_str().into(), 1, i64::MAX, usize::MAX).await.unwrap();
            check_chain(&records, session.head);
        }
    }
    assert!(acked.len() == 3 && acked.values().all(|seq| *seq > 0), "{acked:?}");
}

/// Reads `acked <uid> <seq>`, wherever the test harness of the child has put it.
fn note(acked: &mut BTreeMap<String, i64>, line: &str) -> bool {
    let Some((_, rest)) = line.split_once("acked ") else { return false };
    let mut words = rest.split(' ');
    let (Some(uid), Some(Ok(seq))) = (words.next(), words.next().map(str::parse::<i64>)) else { return false };
    let last = acked.entry(uid.to_owned()).or_default();
    *last = seq.max(*last);
    true
}

async fn append_for_ever(folder: &Path) {
    let store = std::sync::Arc::new(open(folder));
    let writers = ["x", "y", "z"].map(|uid| {
        let store = std::sync::Arc::clone(&store);
        tokio::spawn(async move {
            match store.create(new_session(uid, "p")).await {
                Ok(_) | Err(Error::Exists(_)) => {}
                Err(e) => panic!("{e}"),
            }
            let mut head = store.session(&uid.into()).await.unwrap().unwrap().head;
            loop {
                let append = append_to(uid, head, &[&text(head.seq + 1)]);
                head = head_after(&append);
                store.append(append).await.unwrap();
                println!("acked {uid} {}", head.seq);
            }
        })
    });
    let [writer, ..] = writers;
    let Err(stopped) = writer.await;
    panic!("{stopped}");
}

/// A tmpfs of two megabytes, where mounting one is allowed.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"])
            .arg(folder.path())
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then_some(SmallDisk(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// Full disk: the append is rolled back and reported, reads go on, and so do appends once there is
/// room.
#[tokio::test]
async fn a_full_disk_is_reported_and_survived() {
    let Some(disk) = SmallDisk::mount() else {
        println!("skipped: no tmpfs can be mounted here; the same is tested with a failing VFS");
        return;
    };
    let ballast = disk.0.path().join("ballast");
    std::fs::write(&ballast, vec![7; 512 * 1024]).unwrap();
    let store = sqlite::Store::open(options(disk.0.path())).unwrap();
    store.create(new_session("a", "p")).await.unwrap();
    let body = format!("{{\"text\":\"{}\"}}", "x".repeat(20_000));
    let mut head = Head::default();
    // The same few pages each time: moving the log away must not make room for the next append.
    let append_at = |head| Append { state: State::default(), ..append_to("a", head, &[&body]) };
    let mut appends = 0;
    let refused = loop {
        let append = append_at(head);
        let next = head_after(&append);
        match store.append(append).await {
            Ok(_) => head = next,
            Err(e) => break e,
        }
        appends += 1;
        assert!(appends < 200, "two megabytes are full by now");
    };
    assert_eq!(refused, Error::Full);
    assert_eq!(store.session(&"a".into()).await.unwrap().unwrap().head, head);
    assert_eq!(store.append(append_at(head)).await.map(drop), Err(Error::Full));
    std::fs::remove_file(&ballast).unwrap();
    let append = append_at(head);
    head = head_after(&append);
    store.append(append).await.unwrap();
    drop(store);
    let store = open(disk.0.path());
    let mut records = Vec::new();
    while (records.len() as i64) < head.seq {
        records.extend(store.records(&"a".into(), records.len() as i64 + 1, i64::MAX, 50).await.unwrap());
    }
    check_chain(&records, head);
}

/// A folder of payloads on a disk that fills up: nothing half-written is found, and nothing is left behind.
#[tokio::test]
async fn a_payload_that_does_not_fit_leaves_nothing() {
    use inspan_journal::{Blobs as _, blob};
    let Some(disk) = SmallDisk::mount() else {
        println!("skipped: no tmpfs can be mounted here");
        return;
    };
    let blobs = blob::Folder::open(disk.0.path().join("blobs")).unwrap();
    let small = blobs.put(vec![1; 1000].into()).await.unwrap();
    let big = vec![2; 3 * 1024 * 1024];
    assert_eq!(blobs.put(big.clone().into()).await, Err(Error::Full));
    assert_eq!(blobs.get(inspan_wire::Digest::of(&big)).await.unwrap(), None);
    blobs.put(vec![3; 1024 * 1024].into()).await.unwrap();
    assert_eq!(blobs.get(small).await.unwrap().unwrap(), vec![1; 1000]);
    drop(folder());
}
