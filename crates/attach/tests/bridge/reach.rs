//! Reaching a harness, or not.

use inspan_attach::grpc::{Address, Remote};
use inspan_harness::{Failure, Harness as _};

use crate::support::*;

async fn unreachable(remote: &Remote) -> String {
    match remote.describe().await {
        Err(Failure::Unavailable(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// R-REMOTE-2: nobody there means that a later try may help.
#[tokio::test]
async fn nobody_at_the_address_is_unavailable() {
    let dir = tempfile::tempdir().expect("a folder");
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
    for address in [format!("unix:{}", dir.path().join("none.sock").display()), free.to_string()] {
        let remote = Remote::new(address.parse::<Address>().expect("an address"));
        let said = unreachable(&remote).await;
        assert!(said.starts_with("no harness answers: ") && said.ends_with(&address), "{said}");
    }
}

/// R-REMOTE-2: what the harness says of itself decides.
#[tokio::test]
async fn a_harness_that_cannot_say_is_told_from_one_that_will_later() {
    let script = script([]).saying([
        Err(Failure::Unavailable("warming up".to_owned())),
        Err(Failure::Failed("misconfigured".to_owned())),
        Ok(described("1")),
    ]);
    let served = Served::new(Socket::Unix, script).await;
    let remote = served.remote();
    assert!(unreachable(&remote).await.contains("warming up"));
    match remote.describe().await {
        Err(Failure::Failed(text)) => assert!(text.contains("Internal: misconfigured"), "{text}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(remote.describe().await, Ok(described("1")));
}

/// R-REMOTE-4: a harness that went away and came back is found again by the next call, at the same address.
#[tokio::test]
async fn a_restarted_harness_is_found_again() {
    for socket in [Socket::Tcp, Socket::Unix] {
        let mut served = Served::new(socket, script([Step::Model("a".into())])).await;
        let remote = served.remote();
        for _ in 0..2 {
            assert_eq!(remote.describe().await, Ok(described("1")));
            assert_eq!(remote.run(start(), &TestSink::default()).await, Ok(()));
            served.stop().await;
            unreachable(&remote).await;
            unreachable(&remote).await;
            served = served.replaced(script([Step::Model("a".into())])).await;
        }
        assert_eq!(remote.run(start(), &TestSink::default()).await, Ok(()));
    }
}

/// R-REMOTE-5: a harness that is gone when its turn is to run fails the turn; it is not asked for another try.
#[tokio::test]
async fn a_harness_that_is_gone_after_admission_fails_the_turn() {
    let mut served = Served::new(Socket::Tcp, script([])).await;
    let remote = served.remote();
    remote.describe().await.expect("admitted");
    served.stop().await;
    let failed = text(remote.run(start(), &TestSink::default()).await);
    assert!(failed.contains("no harness answers"), "{failed}");
}

/// R-REMOTE-3: the turn's own connection is asked again; another harness than the admitted one does not run, and one that needs
/// its memory kept never does.
#[tokio::test]
async fn another_harness_behind_the_address_is_refused() {
    let swapped = script([Step::Output("ran")]).saying([Ok(described("1")), Ok(described("2"))]);
    let served = Served::new(Socket::Unix, swapped).await;
    let (remote, sink) = (served.remote(), TestSink::default());
    let admitted = remote.describe().await.expect("it answers");
    let failed = text(remote.run_admitted(&admitted, start(), &sink).await);
    assert!(failed.contains("script \"1\" was admitted") && failed.contains("script \"2\" answers"), "{failed}");

    let keeps = script([Step::Output("ran")]).saying([Ok(described("1")), Ok(needs_memory())]);
    let served = Served::new(Socket::Unix, keeps).await;
    let remote = served.remote();
    let admitted = remote.describe().await.expect("it answers");
    let failed = text(remote.run_admitted(&admitted, start(), &sink).await);
    assert!(failed.contains("needs its memory kept"), "{failed}");
    assert_eq!(sink.asked(), Vec::<String>::new());
}

/// R-REMOTE-3: each turn is held to its own admission. What the address said to others in between neither saves a turn whose
/// harness was replaced nor fails one whose harness is the one that was admitted.
#[tokio::test]
async fn a_turn_is_compared_with_its_own_admission() {
    let replaced = script([Step::Output("ran")]).saying([Ok(described("1")), Ok(described("2"))]);
    let served = Served::new(Socket::Unix, replaced).await;
    let (remote, sink) = (served.remote(), TestSink::default());
    let mine = remote.describe().await.expect("it answers");
    let yours = remote.describe().await.expect("it answers another turn");
    let failed = text(remote.run_admitted(&mine, start(), &sink).await);
    assert!(failed.contains("script \"1\" was admitted"), "{failed}");
    assert_eq!(sink.asked(), Vec::<String>::new());
    assert_eq!(remote.run_admitted(&yours, start(), &sink).await, Ok(()));

    let came_back = script([Step::Output("ran")]).saying([Ok(described("1")), Ok(described("2")), Ok(described("1"))]);
    let served = Served::new(Socket::Unix, came_back).await;
    let remote = served.remote();
    let mine = remote.describe().await.expect("it answers");
    remote.describe().await.expect("it answers another turn");
    assert_eq!(remote.run_admitted(&mine, start(), &sink).await, Ok(()));
    assert_eq!(sink.asked(), ["output ran", "output ran"]);
}
