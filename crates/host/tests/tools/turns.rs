//! Whole turns through a host: harness, rules, executor, journal.

use std::sync::Arc;

use inspan_host::catalog::{Static, in_process};
use inspan_host::config::File;
use inspan_host::engine::ToolRun;
use inspan_host::tools::{Rules, Tools};
use inspan_testkit::harness::Moves;
use inspan_testkit::provider::Gate;
use inspan_testkit::tool::{Act, ToolServer};
use inspan_wire::v1::{self, event::Body};
use inspan_wire::{SessionUid, parse};

use crate::host::{self, Running};
use crate::support::tools;

/// A host whose `moves` harness has these tools and rules.
async fn start(tools: Tools, policy: &str) -> Running {
    let policy = File::parse("inspan.toml", policy).expect("sound rules").policy;
    host::start_with(|config| {
        let model: Arc<dyn inspan_host::engine::Model> = Arc::new(inspan_host::models::Echo);
        let catalog = Static::new(Arc::clone(&model)).with_executor(Arc::new(tools));
        config.catalog = Arc::new(catalog.with(in_process("moves", Moves::default(), model)));
        config.policy = Some(Arc::new(Rules::new(policy)));
    })
    .await
}

fn bodies(frames: &[v1::ExecUpdate]) -> impl Iterator<Item = (&v1::Event, &Body)> {
    frames.iter().filter_map(|frame| match frame.update.as_ref()? {
        v1::exec_update::Update::Record(record) => {
            let event = record.event.as_ref()?;
            Some((event, event.body.as_ref()?))
        }
        _ => None,
    })
}

/// R-TOOL-3, R-TOOL-16: one call, one effect, under the key that session and call make.
#[tokio::test(flavor = "multi_thread")]
async fn a_harness_has_a_tool_run_on_an_endpoint() {
    let server = ToolServer::start().await;
    let toml = format!("[[tools.http]]\nname = \"t\"\nurl = \"{}\"\nreplay = \"keyed\"", server.keyed());
    let running = start(tools(&toml), "").await;
    let uid = running.session("moves").await;
    let frames = running.turn(&uid, "tool c1 k1").await;
    let called = bodies(&frames).find_map(|(_, body)| match body {
        Body::Tool(call) => Some(call.clone()),
        _ => None,
    });
    let call = called.expect("the call is on record");
    let key = ToolRun { session: SessionUid::from(uid.as_str()), call, seq: 3, again: false }.effect_key();
    assert_eq!(server.effects().into_iter().collect::<Vec<_>>(), [(key, 1)]);
    let result = bodies(&frames).find_map(|(_, body)| match body {
        Body::Result(result) => Some(result.clone()),
        _ => None,
    });
    let result = result.expect("the result is on record");
    assert!(result.id == "c1" && !result.is_error && result.output.is_some(), "{result:?}");
}

/// An answer that comes when its call was given up is recorded once its session is at rest, and the harness's story stays
/// as it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_answer_of_an_endpoint_is_recorded() {
    let server = ToolServer::start().await;
    let gate = Gate::default();
    server.then(Act::HoldAfter(gate.clone()));
    let toml = format!("[[tools.http]]\nname = \"t\"\nurl = \"{}\"\ntimeout = \"100ms\"", server.plain());
    let tools = tools(&toml);
    let running = start(tools.clone(), "").await;
    tools.record_late_with(running.host.engine());
    let uid = running.session("moves").await;
    let frames = running.turn(&uid, "trytool c1 k1; out x").await;
    assert!(bodies(&frames).all(|(_, body)| !matches!(body, Body::Result(_))), "nothing has come");
    gate.open();
    let uid = SessionUid::from(uid.as_str());
    let late = loop {
        let records = running.host.engine().journal().records(&uid, 1, i64::MAX, 100).await.expect("it reads");
        let last = parse::event(&records.last().expect("there are records").event).expect("an event");
        match last.body {
            Some(Body::Lifecycle(lifecycle)) => break lifecycle.detail,
            _ => tokio::task::yield_now().await,
        }
    };
    assert!(late.starts_with("late result of 3: {") && late.contains("effect"), "{late}");
    assert_eq!(running.host.engine().rerun(&uid).await.expect("it runs again").outputs, ["x"]);
    tools.close().await;
}

/// A rule that denies is on record by its name, and nothing leaves the host.
#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_denies_keeps_the_tool_from_running() {
    let server = ToolServer::start().await;
    let toml = format!("[[tools.http]]\nname = \"t\"\nurl = \"{}\"", server.plain());
    let policy =
        "[[policy]]\nname = \"no-work\"\naction = \"deny\"\ntool = \"t*\"\nharness = \"moves\"\nproject = \"default\"";
    let running = start(tools(&toml), policy).await;
    let uid = running.session("moves").await;
    let frames = running.turn(&uid, "tool c1 k1").await;
    let actor = bodies(&frames).find_map(|(event, body)| match body {
        Body::Tool(_) => event.actor.clone(),
        _ => None,
    });
    assert_eq!(actor.expect("who decided is on record").subject, "no-work");
    assert!(bodies(&frames).any(|(_, body)| matches!(body, Body::Result(result) if result.is_error)));
    assert_eq!(server.requests().len(), 0);
}
