//! Forks: shared prefixes, own ways.

mod support;

use inspan_engine::scan::Folder;
use inspan_engine::{Code, Error, ForkArgs};
use inspan_wire::parse;
use inspan_wire::v1::{self, ComputeState, event::Body};
use support::{Answer, World, input, model_call, output, start, uid};

fn at(at_seq: i64) -> ForkArgs {
    ForkArgs { at_seq, ..Default::default() }
}

/// R-FORK-1, R-FORK-2, R-HASH-7: the prefix is the parent's, hash for hash; the marker follows; the parent's uid is
/// in it too.
#[tokio::test]
async fn a_child_shares_its_parents_prefix() {
    let w = World::new();
    let s = w.create().await;
    w.exec(&s, "model a").await.unwrap();
    for at_seq in [0, 1, 3, 5] {
        let child = w.engine.fork(&s, at(at_seq)).await.unwrap().remove(0);
        let point = if at_seq == 0 { 5 } else { at_seq };
        assert_eq!((child.parent_uid.as_str(), child.fork_seq), (s.as_str(), point));
        assert_eq!(child.compute_state(), ComputeState::ComputeCold);
        let (parent, child) = (w.records(&s).await, w.records(&uid(&child)).await);
        let point = point as usize;
        assert_eq!(child.len(), point + 1);
        for (p, c) in parent.iter().zip(&child[..point]) {
            assert_eq!((p.seq, &p.event, p.content_hash), (c.seq, &c.event, c.content_hash));
        }
        let Some(Body::Lifecycle(marker)) = parse::event(&child[point].event).unwrap().body else {
            panic!("no marker")
        };
        assert_eq!(marker.detail, format!("parent@{point}"));
        assert_eq!(marker.snapshot_local, s.as_str());
    }
    assert_eq!(w.records(&s).await.len(), 5, "R-FORK-2: the parent does not change");
}

/// R-FORK-3: what a child inherits and what it does not.
#[tokio::test]
async fn a_child_inherits_what_it_should() {
    let w = World::new();
    let map = |k: &str| [(k.to_owned(), "v".to_owned())].into_iter().collect::<std::collections::BTreeMap<_, _>>();
    let info = v1::Session {
        metadata: Some(v1::ResourceMetadata { project: "p".to_owned(), name: "n".to_owned(), ..Default::default() }),
        harness: "moves".to_owned(),
        model: "m".to_owned(),
        identity: Some(v1::IdentityRef { principal: "me".to_owned(), ..Default::default() }),
        origin: Some(v1::Origin { source: "o".to_owned(), ..Default::default() }),
        labels: map("l"),
        annotations: map("a"),
        ..Default::default()
    };
    let s = uid(&w.engine.create(info.clone()).await.unwrap());
    let args =
        ForkArgs { count: 2, names: vec!["c1".to_owned(), "c2".to_owned()], labels: map("x"), ..Default::default() };
    let children = w.engine.fork(&s, args).await.unwrap();
    for (child, name) in children.iter().zip(["c1", "c2"]) {
        let metadata = child.metadata.as_ref().unwrap();
        assert_eq!((metadata.project.as_str(), metadata.name.as_str()), ("p", name));
        assert_eq!((&child.harness, &child.model), (&info.harness, &info.model));
        assert_eq!((&child.annotations, &child.origin), (&info.annotations, &info.origin));
        assert_eq!((&child.labels, &child.identity), (&map("x"), &None));
    }
}

/// R-FORK-5: the fan-out's bounds; beyond the head is OUT_OF_RANGE; count 0 is 1.
#[tokio::test]
async fn a_fork_is_bounded() {
    let w = World::new();
    let s = w.create().await;
    w.exec(&s, "out x").await.unwrap();
    let code = |r: Result<Vec<v1::Session>, Error>| r.map(|c| c.len()).map_err(|e| e.code());
    assert_eq!(code(w.engine.fork(&s, ForkArgs { count: 129, ..at(0) }).await), Err(Code::InvalidArgument));
    assert_eq!(code(w.engine.fork(&s, ForkArgs { count: -1, ..at(0) }).await), Err(Code::InvalidArgument));
    let names = vec!["one".to_owned()];
    assert_eq!(code(w.engine.fork(&s, ForkArgs { count: 2, names, ..at(0) }).await), Err(Code::InvalidArgument));
    assert_eq!(code(w.engine.fork(&s, at(5)).await), Err(Code::OutOfRange));
    assert_eq!(code(w.engine.fork(&"sess-none".into(), at(0)).await), Err(Code::NotFound));
    assert_eq!(code(w.engine.fork(&s, ForkArgs { count: 0, ..at(4) }).await), Ok(1));
    assert_eq!(code(w.engine.fork(&s, ForkArgs { count: 128, ..at(4) }).await), Ok(128));
}

/// R-MODEL-12, R-FORK-8: cut at a MODEL_CALL, the child asks the provider once, with inherited inputs and config.
#[tokio::test]
async fn a_child_cut_in_a_model_call_asks_once() {
    let w = World::new();
    let s = w.create().await;
    w.exec(&s, "model a; model b").await.unwrap();
    w.model.take_calls();
    let child = uid(&w.engine.fork(&s, at(5)).await.unwrap()[0]);
    w.model.then([Answer::Say(v1::Message::text("assistant", "child's own"))]);
    w.engine.resume(&child).await.unwrap();
    assert_eq!(w.model.take_calls(), ["b"]);
    w.check(
        &child,
        "1 EXECUTION_START moves@1 inputs=1
         2 INPUT user model a; model b
         3 MODEL_CALL m hashed
         4 OUTPUT assistant re:a
         5 MODEL_CALL m hashed
         6 LIFECYCLE FORK parent@5
         7 OUTPUT assistant child's own
         8 END COMPLETED
         9 LIFECYCLE RESUME",
    )
    .await;
    assert_eq!(w.engine.rerun(&child).await.unwrap().outputs, ["re:a", "child's own"]);
    assert!(w.journal_text(&s).await.ends_with("OUTPUT assistant re:b\n7 END COMPLETED"));
}

/// A fork in the past folds to the same state as a journal that ended there.
#[tokio::test]
async fn a_fork_in_the_past_knows_only_that_past() {
    let w = World::new();
    let s = w.create().await;
    w.exec(&s, "model a").await.unwrap();
    w.exec(&s, "model b; fail x").await.unwrap_err();
    w.exec(&s, "out c").await.unwrap();
    for at_seq in 1..=w.records(&s).await.len() as i64 {
        let child = uid(&w.engine.fork(&s, at(at_seq)).await.unwrap()[0]);
        let mut folder = inspan_engine::scan::Folder::default();
        for r in w.records(&child).await {
            folder.step(r.seq, &parse::event(&r.event).unwrap());
        }
        let stored = w.journal.session(&child).await.unwrap().unwrap().state;
        let (stored, fresh) = (inspan_engine::scan::Scan::load(&stored).unwrap(), folder.scan().clone());
        // Marks are where the parent put them.
        assert_eq!(
            inspan_engine::scan::Scan { mark_seq: 0, ..stored },
            inspan_engine::scan::Scan { mark_seq: 0, ..fresh }
        );
    }
}

/// R-FORK-9: an inherited tool call without a result is not the child's to finish; with one it is served.
#[tokio::test]
async fn an_inherited_tool_intent_is_refused() {
    let call = v1::Event::new(
        "e1",
        v1::EventKind::EventToolCall,
        Body::Tool(v1::ToolCall {
            id: "c".to_owned(),
            tool: "t".to_owned(),
            idempotency_key: "k".to_owned(),
            mediation: v1::Mediation::ControllerMediated.into(),
            ..Default::default()
        }),
    );
    let result = v1::Event::new(
        "e1",
        v1::EventKind::EventToolResult,
        Body::Result(v1::ToolResult { id: "c".to_owned(), ..Default::default() }),
    );
    let w = World::new();
    let s = w.create().await;
    w.plant(&s, vec![start("e1", Some(1), "moves", "1"), input("e1", "tool c k; out x"), call, result]).await;
    let cut = uid(&w.engine.fork(&s, at(3)).await.unwrap()[0]);
    let e = w.engine.resume(&cut).await.unwrap_err();
    assert_eq!((&e, e.code()), (&Error::InheritedToolIntent, Code::FailedPrecondition));
    assert_eq!(w.records(&cut).await.len(), 4);
    w.exec(&cut, "out y").await.unwrap();
    let whole = uid(&w.engine.fork(&s, at(4)).await.unwrap()[0]);
    w.engine.resume(&whole).await.unwrap();
    assert!(w.journal_text(&whole).await.contains("6 OUTPUT assistant x"), "R-TOOL-10");
}

/// R-FORK-6, and deleting a parent keeps what its children read.
#[tokio::test]
async fn a_child_outlives_its_parent() {
    let w = World::new();
    let s = w.create().await;
    w.exec(&s, "model a").await.unwrap();
    let child = uid(&w.engine.fork(&s, at(3)).await.unwrap()[0]);
    w.engine.delete(&s).await.unwrap();
    assert_eq!(w.engine.session(&s).await.unwrap_err().code(), Code::NotFound);
    w.engine.resume(&child).await.unwrap();
    assert_eq!(w.engine.rerun(&child).await.unwrap().executions, 1);
}

/// R-FORK-7, R-CAP-4: forks of forks, and a suspended parent, stay readable through the lineage.
#[tokio::test]
async fn forks_of_forks() {
    let w = World::new();
    let mut s = w.create().await;
    w.plant(
        &s,
        vec![start("e1", Some(1), "moves", "1"), input("e1", "model a"), model_call("e1", "a"), output("e1", "r")],
    )
    .await;
    for depth in 0..20_i64 {
        s = uid(&w.engine.fork(&s, at(0)).await.unwrap()[0]);
        assert_eq!(w.records(&s).await.len() as i64, 5 + depth);
    }
    w.engine.resume(&s).await.unwrap();
    assert_eq!(w.model.count(), 0);
    assert!(w.journal_text(&s).await.ends_with("25 END COMPLETED\n26 LIFECYCLE RESUME"));
}

/// R-EXEC-4: a turn that was cut before its inputs can be cancelled; the session is as good as new then.
#[tokio::test]
async fn a_turn_cut_before_its_inputs_can_be_cancelled() {
    let w = World::new();
    let s = w.create().await;
    w.exec(&s, "model a").await.unwrap();
    let child = uid(&w.engine.fork(&s, at(1)).await.unwrap()[0]);
    assert_eq!(w.engine.resume(&child).await.unwrap_err().code(), Code::FailedPrecondition);
    w.engine.cancel(&child, "", "USER").await.unwrap();
    w.engine.resume(&child).await.unwrap();
    w.exec(&child, "model b").await.unwrap();
    assert_eq!(w.engine.rerun(&child).await.unwrap().executions, 1);
}

/// R-LIFE-2: the projections of a fork are those of a fresh fold, also where a mark would be due at its marker.
#[tokio::test]
async fn a_fork_in_a_long_turn_folds_as_its_records_do() {
    let w = World::new();
    let s = w.create().await;
    let mut events = vec![start("e1", Some(1), "moves", "1"), input("e1", "model a")];
    events.extend((0..4094).map(|_| output("e1", "x")));
    w.plant(&s, events).await;
    let child = uid(&w.engine.fork(&s, at(0)).await.unwrap()[0]);
    let mut folder = Folder::default();
    for record in w.records(&child).await {
        folder.step(record.seq, &parse::event(&record.event).unwrap());
    }
    assert_eq!(w.journal.session(&child).await.unwrap().unwrap().state, folder.state());
}
