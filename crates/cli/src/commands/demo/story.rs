//! What happens in the demo, in order.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use inspan_wire::{inspan_v1, v1};
use v1::exec_update::Update;

use super::child::Host;
use crate::client::Client;
use crate::error::Error;
use crate::lines;
use crate::output::{Dress, Out, Paint};

/// The demo's model. Which turn answers depends on the request alone, so a host that starts again
/// gets the same answer to the same question.
const SCRIPT: &str = r#"# The model of `inspan demo`. Every call that reaches it adds a line to calls.log.
calls_log: calls.log
turns:
  - chunks: ["Water, ", "a map, ", "a rain jacket. ", "The weather there ", "turns within the hour."]
    chunk_delay_ms: 60
  - chunks: ["Then gaiters ", "and a warmer bag, ", "and turn back ", "at the chain ladders ", "if they are iced over."]
    chunk_delay_ms: 200
  - match: "hot"
    chunks: ["Then start before sunrise ", "and carry four litres each."]
    chunk_delay_ms: 60
"#;

const QUESTIONS: [&str; 2] = ["We walk the Drakensberg for three days. What do we pack first?", "And if it snows?"];
const OTHER_QUESTION: &str = "And if it is hot instead?";

/// What came out, all of it read back.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// The folder that stays.
    pub(super) dir: PathBuf,
    /// The conversation.
    pub(super) session: String,
    /// Its branch.
    pub(super) fork: String,
    /// The last record that the children share.
    pub(super) fork_seq: i64,
    /// Records that the first host had shown when it was killed.
    pub(super) shown_before_kill: i64,
    /// How many of them are there unchanged after the restart.
    pub(super) kept_after_kill: i64,
    /// What the session said of itself after the restart.
    pub(super) state_after_kill: String,
    /// The kinds of the session's records, seq 1 first.
    pub(super) kinds: Vec<String>,
    /// The kinds of the fork's own records, from `fork_seq + 1`.
    pub(super) fork_kinds: Vec<String>,
    /// Calls that reached the model, by the script's turn: 1, 2 and 3, the fork's.
    pub(super) calls: BTreeMap<u32, u32>,
    /// Calls that reached the model while everything was run again and verified.
    pub(super) calls_of_rerun: u32,
    /// What the re-run ran.
    pub(super) rerun: inspan_v1::RerunResponse,
    /// What the verification checked.
    pub(super) verified: inspan_v1::VerifyResponse,
}

impl Facts {
    /// Whether what the first host had shown is there, unchanged.
    pub(super) fn nothing_was_lost(&self) -> bool {
        self.shown_before_kill > self.fork_seq && self.kept_after_kill == self.shown_before_kill
    }

    /// Whether the model was asked once for each call, and once more for the one that the kill cut.
    pub(super) fn nothing_was_repeated(&self) -> bool {
        self.calls == BTreeMap::from([(1, 1), (2, 2), (3, 1)])
    }

    /// Whether everything came out as promised.
    pub(super) fn hold(&self) -> bool {
        self.nothing_was_lost()
            && self.nothing_was_repeated()
            && self.verified.fault.is_empty()
            && self.calls_of_rerun == 0
    }

    /// For `--json`.
    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "dir": self.dir,
            "session": self.session,
            "fork": self.fork,
            "fork_seq": self.fork_seq,
            "shown_before_kill": self.shown_before_kill,
            "kept_after_kill": self.kept_after_kill,
            "state_after_kill": self.state_after_kill,
            "kinds": self.kinds,
            "fork_kinds": self.fork_kinds,
            "model_calls": self.calls,
            "model_calls_of_rerun": self.calls_of_rerun,
            "rerun_executions": self.rerun.executions,
            "verified_records": self.verified.records,
            "verify_fault": self.verified.fault,
        })
    }
}

/// Plays the demo in `dir`, telling each step as it happens.
pub(super) async fn tell(dir: &Path, out: &mut Out) -> Result<Facts, Error> {
    let written = std::fs::write(super::script(dir), SCRIPT);
    written.map_err(|e| Error::new(format!("writing the script failed: {e}"), "inspan demo --dir ./inspan-demo"))?;
    let mut facts = Facts { dir: dir.to_owned(), ..Facts::default() };
    let mut teller = Teller { out };
    let shown = kill_in_a_call(dir, &mut teller, &mut facts).await?;
    pick_up(dir, &mut teller, &mut facts, &shown).await?;
    Ok(facts)
}

/// Two turns; the host dies in the second one's model call. Gives the hashes of the records seen.
async fn kill_in_a_call(dir: &Path, teller: &mut Teller<'_>, facts: &mut Facts) -> Result<Vec<String>, Error> {
    let host = Host::start(dir).await?;
    teller.step("a host starts", host.address())?;
    let mut client = host.client().await?;
    facts.session = create(&mut client).await?;
    teller.step("turn 1", QUESTIONS[0])?;
    let mut shown = take_turn(&mut client, &facts.session, QUESTIONS[0], teller, None).await?;
    facts.fork_seq = seq_of(&shown);
    teller.step("turn 2", QUESTIONS[1])?;
    let cut = take_turn(&mut client, &facts.session, QUESTIONS[1], teller, Some(2)).await?;
    shown.extend(cut);
    host.kill().await?;
    teller.note(Paint::Bad, "kill -9: the host is gone, in the middle of the model's answer")?;
    facts.shown_before_kill = seq_of(&shown);
    Ok(shown)
}

/// A new host on the same journal: resume, fork, verify, run again.
async fn pick_up(dir: &Path, teller: &mut Teller<'_>, facts: &mut Facts, shown: &[String]) -> Result<(), Error> {
    let host = Host::start(dir).await?;
    teller.step("a host starts again", host.address())?;
    let mut client = host.client().await?;
    let found = records(&mut client, &facts.session).await?;
    let same = found.iter().zip(shown).filter(|(record, hash)| record.content_hash == **hash).count();
    facts.kept_after_kill = i64::try_from(same).unwrap_or(i64::MAX);
    let session = client.sessions.get_session(v1::GetSessionRequest { uid: facts.session.clone() }).await;
    facts.state_after_kill = lines::exec(&session.map_err(|s| broken("get", &s))?.into_inner());
    teller.note(
        Paint::Mind,
        &format!("{} of {} records are there; state {}", same, shown.len(), facts.state_after_kill),
    )?;

    teller.step("resume", "the same turn, from where its record ends")?;
    let resumed = client.sessions.resume(v1::ResumeRequest { session: facts.session.clone(), boot: false }).await;
    resumed.map_err(|s| broken("resume", &s))?;
    let found = records(&mut client, &facts.session).await?;
    teller.answer(&found)?;
    facts.kinds = found.iter().map(kind).collect();

    teller.step("fork", &format!("another road from record {}: {OTHER_QUESTION}", facts.fork_seq))?;
    facts.fork = fork(&mut client, &facts.session, facts.fork_seq).await?;
    take_turn(&mut client, &facts.fork, OTHER_QUESTION, teller, None).await?;
    let own = records(&mut client, &facts.fork).await?;
    facts.fork_kinds = own.iter().filter(|r| r.seq > facts.fork_seq).map(kind).collect();
    facts.calls = calls(dir)?;

    teller.step("verify and run again", "every hash, then every finished turn on its record")?;
    let request = inspan_v1::VerifyRequest { session: facts.session.clone() };
    facts.verified = client.journal.verify(request).await.map_err(|s| broken("verify", &s))?.into_inner();
    let request = inspan_v1::RerunRequest { session: facts.session.clone() };
    facts.rerun = client.journal.rerun(request).await.map_err(|s| broken("rerun", &s))?.into_inner();
    facts.calls_of_rerun = calls(dir)?.values().sum::<u32>() - facts.calls.values().sum::<u32>();
    // The journal needs no goodbye, so this host gets none either.
    host.kill().await
}

/// A call that must not fail in a demo.
fn broken(verb: &str, status: &tonic::Status) -> Error {
    Error::new(
        format!("{verb} failed in the demo: {status}"),
        "inspan demo --dir ./inspan-demo, then read host.log in it",
    )
}

async fn create(client: &mut Client) -> Result<String, Error> {
    let metadata = v1::ResourceMetadata { name: "demo".to_owned(), ..Default::default() };
    let session = v1::Session { metadata: Some(metadata), harness: "chat".to_owned(), ..Default::default() };
    let created = client.sessions.create_session(v1::CreateSessionRequest { session: Some(session) }).await;
    Ok(lines::uid(&created.map_err(|s| broken("create", &s))?.into_inner()).to_owned())
}

async fn fork(client: &mut Client, session: &str, at_seq: i64) -> Result<String, Error> {
    let request = v1::ForkRequest {
        session: session.to_owned(),
        at_seq,
        child_names: vec!["demo, another road".to_owned()],
        ..Default::default()
    };
    let forked = client.sessions.fork(request).await.map_err(|s| broken("fork", &s))?.into_inner();
    Ok(forked.children.first().map(lines::uid).unwrap_or_default().to_owned())
}

/// Takes a turn and gives the hashes of its records. With `until` it returns after so many pieces of the
/// answer, and the turn goes on without us.
async fn take_turn(
    client: &mut Client,
    session: &str,
    question: &str,
    teller: &mut Teller<'_>,
    until: Option<usize>,
) -> Result<Vec<String>, Error> {
    let inputs = vec![v1::Message::text("user", question)];
    let request = v1::ExecRequest { session: session.to_owned(), inputs, ..Default::default() };
    let mut stream = client.sessions.exec(request).await.map_err(|s| broken("exec", &s))?.into_inner();
    let mut hashes = Vec::new();
    let mut pieces = 0;
    while let Some(update) = stream.message().await.map_err(|s| broken("exec", &s))? {
        match update.update {
            Some(Update::Record(record)) => hashes.push(record.content_hash),
            Some(Update::Delta(delta)) => {
                teller.piece(&delta, pieces == 0)?;
                pieces += 1;
                if until == Some(pieces) {
                    break;
                }
            }
            Some(Update::Session(_)) | None => {}
        }
    }
    Ok(hashes)
}

async fn records(client: &mut Client, session: &str) -> Result<Vec<v1::LogRecord>, Error> {
    let request = v1::ReplayRequest { session: session.to_owned(), ..Default::default() };
    let mut stream = client.sessions.replay(request).await.map_err(|s| broken("replay", &s))?.into_inner();
    let mut records = Vec::new();
    while let Some(record) = stream.message().await.map_err(|s| broken("replay", &s))? {
        records.push(record);
    }
    Ok(records)
}

/// The kind of a record; a lifecycle record says which kind of lifecycle.
fn kind(record: &v1::LogRecord) -> String {
    let Some(event) = &record.event else { return String::new() };
    match &event.body {
        Some(v1::event::Body::Lifecycle(lifecycle)) => lifecycle.kind().as_str_name(),
        _ => event.kind().as_str_name(),
    }
    .to_owned()
}

fn seq_of(hashes: &[String]) -> i64 {
    i64::try_from(hashes.len()).unwrap_or(i64::MAX)
}

/// Reads the model's own log: lines `turn=<n> …`.
fn calls(dir: &Path) -> Result<BTreeMap<u32, u32>, Error> {
    let path = dir.join("calls.log");
    let log = std::fs::read_to_string(&path)
        .map_err(|e| Error::new(format!("reading the model's log failed: {e}"), format!("ls -l {}", path.display())))?;
    let mut calls = BTreeMap::new();
    for line in log.lines() {
        let turn = line.strip_prefix("turn=").and_then(|rest| rest.split(' ').next()?.parse().ok());
        *calls.entry(turn.unwrap_or(0)).or_insert(0) += 1;
    }
    Ok(calls)
}

/// Says each step as it happens. Silent under `--json`.
struct Teller<'a> {
    out: &'a mut Out,
}

/// Where the second column starts.
const COLUMN: usize = 22;

impl Teller<'_> {
    fn step(&mut self, title: &str, text: &str) -> Result<(), Error> {
        let dress = self.out.dress();
        if dress == Dress::Json {
            return Ok(());
        }
        self.out.line(format!("{}{text}", dress.paint(Paint::Bold, &format!("{title:<COLUMN$}"))))
    }

    fn note(&mut self, paint: Paint, text: &str) -> Result<(), Error> {
        let dress = self.out.dress();
        if dress == Dress::Json {
            return Ok(());
        }
        self.out.line(format!("{:COLUMN$}{}", "", dress.paint(paint, text)))
    }

    fn piece(&mut self, delta: &v1::Delta, first: bool) -> Result<(), Error> {
        if self.out.dress() == Dress::Json {
            return Ok(());
        }
        if first {
            self.out.raw(&format!("{:COLUMN$}> ", ""))?;
        }
        self.out.delta(delta)
    }

    /// The last answer in these records.
    fn answer(&mut self, records: &[v1::LogRecord]) -> Result<(), Error> {
        let outputs = records.iter().rev().filter_map(|r| r.event.as_ref());
        let last = outputs.into_iter().find(|e| e.kind() == v1::EventKind::EventOutput);
        let Some(v1::event::Body::Message(message)) = last.and_then(|e| e.body.as_ref()) else { return Ok(()) };
        self.note(Paint::Good, &format!("> {}", message.concat_text()))
    }
}
