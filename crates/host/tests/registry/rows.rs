//! Rows that a host finds in its store.

use inspan_wire::{Digest, v1};
use tonic::Code;

use crate::bed::*;
use crate::support::exec;

const FINE: &str =
    r#"{"capabilities":{"resumability":"RESUMABILITY_STATELESS_REPLAY"},"remote":{"address":"127.0.0.1:9000"}}"#;

/// Every operation on a session of `harness` that needs it.
async fn refuses_sessions_of(bed: &Bed, harness: &str, why: &str) {
    refused(bed.create(harness).await, Code::FailedPrecondition, why);
    let auto = v1::ExecRequest { harness: harness.to_owned(), ..exec("", "out a") };
    refused(bed.exec(auto).await, Code::FailedPrecondition, why);
    let uid = stored_session(bed, harness).await;
    refused(bed.turn(&uid, "out a").await, Code::FailedPrecondition, why);
    refused(bed.resume(&uid).await, Code::FailedPrecondition, why);
    refused(bed.suspend(&uid).await, Code::FailedPrecondition, why);
    refused(bed.fork(&uid).await, Code::FailedPrecondition, why);
}

/// A session that a host made which could still use the harness.
async fn stored_session(bed: &Bed, harness: &str) -> String {
    use inspan_journal::Journal as _;
    let uid = format!("sess-of-{harness}");
    let made = bed.create("echo").await.expect("it is created");
    let echo = bed.store.session(&made.as_str().into()).await.expect("it is read").expect("it is there");
    let info = v1::Session { harness: harness.to_owned(), ..echo.info };
    let new = inspan_journal::NewSession { uid: uid.as_str().into(), info, state: echo.state };
    bed.store.create(new).await.expect("the uid is free");
    uid
}

/// R-REG-4: `chat` and `echo` are nobody's to register; a store that says otherwise is not served, whatever this host brings.
#[tokio::test]
async fn a_host_refuses_a_store_with_a_reserved_name() {
    for name in ["chat", "echo"] {
        let store = store();
        put(&store, "a-fine-one", FINE).await;
        put(&store, name, FINE).await;
        let refused = directory(&store, &Own::default()).await.map(drop).expect_err("it is reserved");
        assert!(refused.contains(&format!("a registration under {name}")), "{refused}");
    }
}

/// R-REG-5: a name that is registered and the host's own is neither, until one of them goes.
#[tokio::test]
async fn a_name_of_both_kinds_is_out_of_order() {
    let store = store();
    put(&store, "moves", FINE).await;
    let bed = Bed::on(&store, Own::default()).await;
    refuses_sessions_of(&bed, "moves", "both registered and brought by this host").await;
    let uid = bed.create("echo").await.expect("others are well");
    let on_moves = v1::ExecRequest { harness: "moves".to_owned(), ..exec(&uid, "out a") };
    refused(bed.exec(on_moves).await, Code::FailedPrecondition, "both registered and brought by this host");

    assert_eq!(bed.names().await, ["echo", "moves"], "it is listed once");
    let shown = bed.get("moves", true).await.expect("it is there");
    assert_eq!(shown.source(), v1::HarnessSource::Static);
    assert!(shown.unservable_reason.contains("both") && shown.observe_error.contains("both"), "{shown:?}");
    refused(bed.register("moves", at("127.0.0.1:9000")).await, Code::AlreadyExists, "the host itself");
    refused(bed.retire("moves", "").await, Code::FailedPrecondition, "the host itself");
    let without = Bed::on(&store, Own { names: &[], ..Own::default() }).await;
    without.create("moves").await.expect("it is only registered now");
}

/// R-REG-7: a row that this host cannot decode or cannot build takes no other with it.
#[tokio::test]
async fn a_row_that_cannot_be_used_isolates_its_name() {
    let store = store();
    let later = FINE.replacen('{', r#"{"colour":"red","#, 1);
    let magic = FINE.replace("STATELESS_REPLAY", "BY_MAGIC");
    let substrate = r#"{"capabilities":{"resumability":"RESUMABILITY_STATELESS_REPLAY"},"substrate":{"atespace":"a","template":"t"}}"#;
    let resolver = FINE.replace("127.0.0.1:9000", "dns://8.8.8.8/h:1");
    let rows = [
        ("later", later.as_str(), "colour"),
        ("magic", &magic, "BY_MAGIC"),
        ("elsewhere", substrate, "substrate"),
        ("resolver", &resolver, "DNS server"),
        ("garbage", "\u{0}", "cannot read"),
    ];
    for (name, spec, _) in rows {
        put(&store, name, spec).await;
    }
    put(&store, "fine", FINE).await;
    let bed = Bed::on(&store, Own::default()).await;
    for (name, spec, why) in rows {
        refuses_sessions_of(&bed, name, why).await;
        let shown = bed.get(name, true).await.expect("it is there");
        assert!(shown.unservable_reason.contains(why) && shown.observe_error.contains(why), "{shown:?}");
        assert_eq!(
            (shown.spec, shown.spec_digest),
            (None, format!("sha256:{}", Digest::of(spec.as_bytes()))),
            "{name}"
        );
    }
    assert_eq!(bed.names().await, ["echo", "elsewhere", "fine", "garbage", "later", "magic", "moves", "resolver"]);
    let retired = bed.retire("later", "gone").await.expect("it can be retired unread");
    assert_eq!(retired.state(), v1::HarnessState::Retired);
    refused(bed.register("later", at("127.0.0.1:9000")).await, Code::AlreadyExists, "another spec");
    bed.create("fine").await.expect("the others are well");

    let without_model = Bed::on(&store, Own { model: false, ..Own::default() }).await;
    refuses_sessions_of(&without_model, "fine", "no model").await;
    let shown = without_model.get("fine", false).await.expect("it is there");
    assert!(shown.spec.is_none() && shown.unservable_reason.contains("no model"), "{shown:?}");
}

/// R-REG-8: what another host registers is seen, and not used until it is registered here too or this host starts anew.
#[tokio::test]
async fn a_row_of_another_host_is_seen_and_not_used() {
    let store = store();
    let (bed, other) = (Bed::on(&store, Own::default()).await, Bed::on(&store, Own::default()).await);
    let (made, _) = other.register("mine", at("127.0.0.1:9000")).await.expect("it is registered");
    assert_eq!(bed.get("mine", false).await.expect("it is seen"), made);
    assert_eq!(bed.names().await, ["echo", "mine", "moves"]);
    assert!(bed.get("mine", true).await.expect("it is seen").observe_error.contains("registered elsewhere"));
    refused(bed.create("mine").await, Code::InvalidArgument, "no harness mine");
    refused(bed.turn(&stored_session(&bed, "mine").await, "out a").await, Code::InvalidArgument, "no harness mine");

    Bed::on(&store, Own::default()).await.create("mine").await.expect("a host that starts now knows it");
    let (same, outcome) = bed.register("mine", at("127.0.0.1:9000")).await.expect("it is the same spec");
    assert_eq!((same, outcome), (made, v1::RegisterOutcome::Unchanged));
    bed.create("mine").await.expect("it is known here now");
    bed.row("late", FINE).await;
    refused(bed.create("late").await, Code::InvalidArgument, "no harness late");

    other.retire("mine", "elsewhere").await.expect("it is there");
    refused(bed.create("mine").await, Code::FailedPrecondition, "elsewhere");
}
