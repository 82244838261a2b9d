//! Sessions on registered harnesses.

use inspan_harness::reference::Counter;
use inspan_wire::v1;
use tonic::Code;

use crate::bed::*;
use crate::support::exec;

/// A registered harness is driven like any other; its sessions find it again after a restart.
#[tokio::test]
async fn a_session_runs_on_a_registered_harness() {
    let (store, node) = (store(), Node::start(moves_as("m")).await);
    let bed = Bed::on(&store, Own::default()).await;
    refused(bed.create("mine").await, Code::InvalidArgument, "no harness mine");
    bed.register("mine", at_only(&node.address, "m")).await.expect("it is registered");
    let uid = bed.create("mine").await.expect("it is created");
    assert_eq!(bed.turn(&uid, "model a; out b").await.expect("it ends well"), ["a", "b"]);
    let auto = v1::ExecRequest { harness: "mine".to_owned(), ..exec("", "out c") };
    assert_eq!(bed.exec(auto).await.expect("it ends well"), ["c"]);
    let bed = Bed::on(&store, Own::default()).await;
    assert_eq!(bed.turn(&uid, "past").await.expect("it ends well"), ["6 EVENT_END"]);
    let unknown = bed.create("other").await.expect_err("there is none").message().to_owned();
    assert!(unknown.contains("echo, mine, moves"), "{unknown}");
}

/// R-REG-3: retired refuses new sessions and no others: turns, resumes and forks of those that exist go on, after a restart too.
#[tokio::test]
async fn a_retired_harness_keeps_its_sessions() {
    let (store, node) = (store(), Node::start(moves_as("m")).await);
    let bed = Bed::on(&store, Own::default()).await;
    bed.register("mine", at(&node.address)).await.expect("it is registered");
    let uid = bed.create("mine").await.expect("it is created");
    bed.retire("mine", "use theirs").await.expect("it is there");
    for bed in [&bed, &Bed::on(&store, Own::default()).await] {
        refused(bed.create("mine").await, Code::FailedPrecondition, "use theirs");
        let auto = v1::ExecRequest { harness: "mine".to_owned(), ..exec("", "out c") };
        refused(bed.exec(auto).await, Code::FailedPrecondition, "takes no new sessions");
        assert_eq!(bed.turn(&uid, "out a").await.expect("it goes on"), ["a"]);
        bed.suspend(&uid).await.expect("it goes on");
        bed.resume(&uid).await.expect("it goes on");
        let child = bed.fork(&uid).await.expect("it goes on");
        assert_eq!(bed.turn(&child, "out b").await.expect("it goes on"), ["b"]);
    }
    bed.register("mine", at(&node.address)).await.expect("it comes back");
    bed.create("mine").await.expect("it takes sessions again");
}

/// R-CAP-3: the id is compared before capabilities, at every Exec, Resume and Fork; nothing is journaled.
#[tokio::test]
async fn another_harness_at_the_registered_address_is_refused() {
    let bed = Bed::new().await;
    let node = Node::start(moves_as("m")).await;
    bed.register("mine", at_only(&node.address, "m")).await.expect("it is registered");
    bed.register("any", at(&node.address)).await.expect("it is registered");
    let (mine, any) = (bed.create("mine").await.expect("created"), bed.create("any").await.expect("created"));
    bed.turn(&mine, "out a").await.expect("it is the one that was registered");

    // It needs its memory kept as well: that is not what is said of it.
    let address = node.gone().await;
    let node = Node::start_at(&address, Counter::default()).await;
    let why = "registered as \"m\" and \"counter\" answers";
    refused(bed.turn(&mine, "out b").await, Code::FailedPrecondition, why);
    refused(bed.resume(&mine).await, Code::FailedPrecondition, why);
    refused(bed.fork(&mine).await, Code::FailedPrecondition, why);
    refused(bed.turn(&any, "out b").await, Code::FailedPrecondition, "memory");
    assert_eq!(bed.running.host.engine().session(&mine.as_str().into()).await.expect("it is there").last_seq, 4);

    node.gone().await;
    let _node = Node::start_at(&address, moves_as("another")).await;
    refused(bed.turn(&mine, "out b").await, Code::FailedPrecondition, "\"another\" answers");
    assert_eq!(bed.turn(&any, "out b").await.expect("it may be any"), ["b"]);
}

/// R-REG-6: a turn on another harness than the session's own is refused when either is registered.
#[tokio::test]
async fn a_registered_harness_shares_its_sessions_with_no_other() {
    let bed = Bed::new().await;
    let node = Node::start(moves_as("m")).await;
    for name in ["mine", "yours"] {
        bed.register(name, at(&node.address)).await.expect("it is registered");
    }
    let on = async |stored: &str, harness: &str| {
        let uid = bed.create(stored).await.expect("it is created");
        let answer = bed.exec(v1::ExecRequest { harness: harness.to_owned(), ..exec(&uid, "out a") }).await;
        let head = bed.running.host.engine().session(&uid.as_str().into()).await.expect("it is there").last_seq;
        (answer, head)
    };
    for (stored, harness) in [("mine", "moves"), ("moves", "mine"), ("mine", "yours"), ("", "mine"), ("mine", "echo")] {
        let (answer, head) = on(stored, harness).await;
        refused(answer, Code::FailedPrecondition, "a registered harness shares its sessions with no other");
        assert_eq!(head, 0, "{stored} {harness}");
    }
    for (stored, harness) in [("mine", "mine"), ("moves", "moves"), ("echo", "moves"), ("", "moves")] {
        assert_eq!(on(stored, harness).await.0.expect("it may"), ["a"], "{stored} {harness}");
    }
    refused(on("mine", "nobody").await.0, Code::InvalidArgument, "no harness nobody");
}

/// R-REG-6: also for a turn that began on another harness while that was the host's own.
#[tokio::test]
async fn an_interrupted_turn_does_not_get_around_the_pin() {
    let store = store();
    let bed = Bed::on(&store, Own { names: &["mine"], ..Own::default() }).await;
    let (uid, gated) = (bed.create("echo").await.expect("created"), bed.create("echo").await.expect("created"));
    let on_mine = |uid: &str, text: &str| v1::ExecRequest { harness: "mine".to_owned(), ..exec(uid, text) };
    refused(bed.exec(on_mine(&uid, "fail now")).await, Code::Internal, "now");
    bed.exec(on_mine(&gated, "gate c k")).await.expect("it waits");
    bed.suspend(&gated).await.expect("both are the host's own");

    let bed = Bed::on(&store, Own { names: &[], ..Own::default() }).await;
    refused(bed.resume(&uid).await, Code::FailedPrecondition, "does not serve");
    bed.register("mine", at("127.0.0.1:9000")).await.expect("it is registered");
    let why = "is on harness echo and not on mine";
    refused(bed.resume(&uid).await, Code::FailedPrecondition, why);
    refused(bed.resume(&gated).await, Code::FailedPrecondition, why);
    refused(bed.suspend(&gated).await, Code::FailedPrecondition, why);
    let inputless = v1::ExecRequest { session: gated.clone(), ..Default::default() };
    refused(bed.exec(inputless).await, Code::FailedPrecondition, why);
}
