//! Clients: what they ask for, and with which arguments.

use std::sync::Arc;

use inspan_engine::{Decided, Engine, Error, ForkArgs, Rerun};
use inspan_journal::{Clock as _, ListQuery};
use inspan_wire::{SessionUid, v1};

use crate::host::HARNESSES;
use crate::oracle::{Oracle, short};
use crate::plant::Plant;
use crate::script;
use crate::tasks::{TaskId, Work};
use crate::world::{Kind, Op, World, lock};

/// Live sessions that a run keeps.
const SESSIONS_MAX: usize = 8;

/// Records beyond which a session gets no new turns: every audit reads all of them.
const RECORDS_MAX: i64 = 180;

/// The project of every session.
pub(crate) const PROJECT: &str = "p";

/// What an operation ended with.
pub(crate) type Outcome = Result<Done, Error>;

/// What an operation answers.
#[derive(Debug)]
pub(crate) enum Done {
    /// A session.
    Session(Box<v1::Session>),
    /// The children of a fork.
    Children(Vec<v1::Session>),
    /// Listed uids.
    Listed(Vec<SessionUid>),
    /// A re-run.
    Rerun(Rerun),
    /// A decision.
    Decided(Box<Decided>),
    /// No answer but that it is done.
    Nothing,
}

/// An operation that is about to begin.
pub(crate) struct Asked {
    /// What is known of it.
    pub(crate) op: Op,
    /// What carries it out.
    pub(crate) work: Work<Outcome>,
}

/// Draws an operation for a client of `host`.
pub(crate) fn draw(world: &Arc<World>, engine: &Engine, id: TaskId, host: usize) -> Asked {
    let live = lock(&world.oracle).live();
    let kind = draw_kind(world, live.len());
    let session = draw_session(world, &live, kind);
    let mut op = Op::new(id, host, kind, session.clone());
    if matches!(kind, Kind::Resume | Kind::Rerun) {
        op.twisted = world.chance(world.weather.twist);
    }
    let uid = session.unwrap_or_else(|| "sess-nobody".into());
    let work = match kind {
        Kind::Exec => exec(world, engine, &mut op, &uid),
        Kind::Fork => fork(world, engine, &mut op, uid.clone()),
        Kind::Approve => approve(world, engine, &mut op, &uid),
        Kind::Cancel => cancel(world, engine.clone(), uid.clone()),
        _ => simple(engine.clone(), kind, uid.clone()),
    };
    op.completed_before = completed(&lock(&world.oracle), &uid);
    Asked { op, work }
}

/// An operation with no arguments but its session.
pub(crate) fn simple(engine: Engine, kind: Kind, uid: SessionUid) -> Work<Outcome> {
    Box::pin(async move {
        match kind {
            Kind::Resume => engine.resume(&uid).await.map(session),
            Kind::Suspend => engine.suspend(&uid).await.map(session),
            Kind::Delete => engine.delete(&uid).await.map(session),
            Kind::Rerun => engine.rerun(&uid).await.map(Done::Rerun),
            Kind::List => list(&engine).await.map(Done::Listed),
            Kind::Drain => {
                engine.drain().await;
                Ok(Done::Nothing)
            }
            _ => engine.create(session_info()).await.map(session),
        }
    })
}

/// A turn of `uid` that plays `text`.
pub(crate) fn turn(engine: Engine, uid: &SessionUid, text: &str) -> Work<Outcome> {
    let inputs = vec![v1::Message::text("user", text)];
    run_turn(engine, v1::ExecRequest { session: uid.to_string(), inputs, ..Default::default() })
}

fn run_turn(engine: Engine, request: v1::ExecRequest) -> Work<Outcome> {
    Box::pin(async move { engine.accept(request, PROJECT).await?.run().await.map(session) })
}

fn session(view: v1::Session) -> Done {
    Done::Session(Box::new(view))
}

/// Every uid of the project, page by page.
async fn list(engine: &Engine) -> Result<Vec<SessionUid>, Error> {
    let mut listed = Vec::new();
    let mut after = None;
    loop {
        let page = engine.journal().list(ListQuery { project: PROJECT.to_owned(), limit: 3, after }).await?;
        listed.extend(page.sessions.iter().map(|s| s.uid.clone()));
        after = page.sessions.last().map(|s| (s.create_ns, s.uid.clone()));
        if !page.more {
            return Ok(listed);
        }
    }
}

fn draw_kind(world: &World, live: usize) -> Kind {
    let drawn = world.rng().below(100);
    match drawn {
        _ if live == 0 => Kind::Create,
        _ if live > SESSIONS_MAX => Kind::Delete,
        0..=28 => Kind::Exec,
        29..=52 => Kind::Resume,
        53..=64 => Kind::Approve,
        65..=73 => Kind::Rerun,
        74..=80 => Kind::Fork,
        81..=86 => Kind::Cancel,
        87..=90 => Kind::Suspend,
        91..=93 => Kind::List,
        94..=95 => Kind::Delete,
        _ => Kind::Create,
    }
}

/// A live session; at times one that was deleted or that never was.
fn draw_session(world: &World, live: &[SessionUid], kind: Kind) -> Option<SessionUid> {
    let mut rng = world.rng();
    if matches!(kind, Kind::Create | Kind::List) || live.is_empty() {
        return None;
    }
    if rng.chance(15) {
        let oracle = lock(&world.oracle);
        let gone: Vec<_> = oracle.all().filter(|(_, m)| m.deleted).map(|(uid, _)| uid.clone()).collect();
        return if gone.is_empty() { None } else { Some(rng.pick(&gone).clone()) };
    }
    if rng.chance(world.weather.crowd) {
        let oracle = lock(&world.oracle);
        let short = |uid: &&SessionUid| oracle.mirror(uid).is_some_and(|m| m.head() <= RECORDS_MAX);
        return live.iter().find(short).or(live.first()).cloned();
    }
    if kind == Kind::Approve && rng.chance(700) {
        let oracle = lock(&world.oracle);
        let waits = |uid: &&SessionUid| oracle.mirror(uid).is_some_and(|m| m.awaited().is_some());
        let waiting: Vec<_> = live.iter().filter(waits).collect();
        if !waiting.is_empty() {
            return Some((*rng.pick(&waiting)).clone());
        }
    }
    if kind.drives() || kind == Kind::Approve {
        // Clients crowd: takeovers need two of them on one session.
        let some = live.len().min(3);
        if rng.chance(600) {
            return Some(rng.pick(&live[..some]).clone());
        }
    }
    Some(rng.pick(live).clone())
}

fn exec(world: &Arc<World>, engine: &Engine, op: &mut Op, uid: &SessionUid) -> Work<Outcome> {
    let head = lock(&world.oracle).mirror(uid).map_or(0, |m| m.head());
    let now_s = world.now_ns() / 1_000_000_000;
    let mut rng = world.rng();
    let mut request = v1::ExecRequest { session: uid.to_string(), ..Default::default() };
    let script = script::random(&mut rng, world.weather.large);
    world.note(format!("op {} host {} {}: asks for {script}", op.id, op.host, short(uid)));
    op.bare = rng.chance(80);
    if !op.bare {
        request.inputs.push(v1::Message::text("user", script));
    }
    if !op.bare && rng.chance(200) {
        request.inputs.push(v1::Message::text("user", "a second input"));
    }
    if rng.chance(100) {
        let skew = i64::try_from(rng.below(3)).unwrap_or_default() - 1;
        request.expected_last_seq = Some(head + skew);
        op.expected_last_seq = request.expected_last_seq;
    }
    if rng.chance(120) {
        request.deadline_unix = now_s + i64::try_from(rng.below(4)).unwrap_or_default();
    }
    match rng.below(40) {
        0 => "nobody".clone_into(&mut request.harness),
        1..=9 => (*rng.pick(&HARNESSES)).clone_into(&mut request.harness),
        _ => {}
    }
    if head > RECORDS_MAX || rng.chance(30) {
        op.session = None;
        op.expected_last_seq = None;
        request.session.clear();
        request.expected_last_seq = None;
    }
    run_turn(engine.clone(), request)
}

/// Decides on what the session waits for, or on what was decided last; at times on something else.
fn approve(world: &Arc<World>, engine: &Engine, op: &mut Op, uid: &SessionUid) -> Work<Outcome> {
    let asked = {
        let oracle = lock(&world.oracle);
        let mirror = oracle.mirror(uid);
        let last = mirror.and_then(|m| m.last_decision()).map(|(event, decision)| v1::ApprovalRef {
            execution_id: event.execution_id.clone(),
            tool_call_id: decision.tool_call_id.clone(),
            request_seq: decision.request_seq,
        });
        mirror.and_then(|m| m.awaited()).or(last).unwrap_or_default()
    };
    let mut rng = world.rng();
    let identity = match rng.below(3) {
        0 => None,
        who => Some(v1::IdentityRef { principal: format!("person {who}"), ..Default::default() }),
    };
    let mut request = v1::ApproveRequest {
        session: uid.to_string(),
        execution_id: asked.execution_id,
        tool_call_id: asked.tool_call_id,
        request_seq: asked.request_seq,
        approved: Some(rng.chance(650)),
        reason: (*rng.pick(&["", "it is fine"])).to_owned(),
        identity,
    };
    match rng.below(40) {
        0 => request.approved = None,
        1 => "other".clone_into(&mut request.tool_call_id),
        2 => request.request_seq += 1,
        3 => "0000000000000000".clone_into(&mut request.execution_id),
        _ => {}
    }
    decide(world, engine.clone(), op, request)
}

/// Carries out a decision.
pub(crate) fn decide(world: &Arc<World>, engine: Engine, op: &mut Op, request: v1::ApproveRequest) -> Work<Outcome> {
    op.decision = Some(request.clone());
    let agrees = world.plant == Some(Plant::AgreesWithEveryone);
    Box::pin(async move {
        let mut decided = engine.approve(&request).await;
        if agrees && matches!(decided, Err(Error::InvalidApprovalDecision(_))) {
            let other = v1::ApproveRequest { approved: request.approved.map(|approved| !approved), ..request };
            decided = engine.approve(&other).await;
        }
        decided.map(|decided| Done::Decided(Box::new(decided)))
    })
}

fn fork(world: &Arc<World>, engine: &Engine, op: &mut Op, uid: SessionUid) -> Work<Outcome> {
    let head = lock(&world.oracle).mirror(&uid).map_or(0, |m| m.head());
    let mut rng = world.rng();
    let mut args = ForkArgs { count: i32::try_from(rng.below(3)).unwrap_or_default(), ..ForkArgs::default() };
    args.at_seq = i64::try_from(rng.below(u64::try_from(head).unwrap_or_default() + 2)).unwrap_or_default();
    match rng.below(30) {
        0 => args.count = -1,
        1 => args.count = 129,
        2 => args.names = vec!["one".to_owned(); 5],
        _ => {}
    }
    op.children_wanted = usize::try_from(args.count.max(1)).unwrap_or_default();
    let engine = engine.clone();
    Box::pin(async move { engine.fork(&uid, args).await.map(Done::Children) })
}

fn cancel(world: &World, engine: Engine, uid: SessionUid) -> Work<Outcome> {
    let last = lock(&world.oracle).mirror(&uid).and_then(|m| m.last_execution().map(str::to_owned));
    let execution_id = match world.rng().below(4) {
        0 => last.unwrap_or_default(),
        1 => "0000000000000000".to_owned(),
        _ => String::new(),
    };
    Box::pin(async move { engine.cancel(&uid, &execution_id, "USER").await.map(session) })
}

fn session_info() -> v1::Session {
    v1::Session {
        metadata: Some(v1::ResourceMetadata { project: PROJECT.to_owned(), ..Default::default() }),
        ..Default::default()
    }
}

/// A length as the engine counts.
pub(crate) fn count(len: usize) -> i64 {
    i64::try_from(len).expect("a length fits")
}

/// Completed executions of a session.
pub(crate) fn completed(oracle: &Oracle, uid: &SessionUid) -> i64 {
    oracle.mirror(uid).map_or(0, |m| count(m.completed().len()))
}
