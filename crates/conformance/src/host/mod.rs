//! The host side: the kit is a client of the Sessions service at an address.
//!
//! It makes sessions in a project of its own, with a label that names the run, has turns run there by whatever harness and model
//! the host has, and judges what it is told. Nothing of the host but that service is used, so any host can be judged.
//!
//! In reading order: `client` asks, `sessions` and `lists` judge what is said of sessions, `turns` and `records` one
//! turn and its records, `heads` who may write, `life` suspend and resume, `forks` and `gates` what their names say.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Mutex;
use std::time::Duration;

use inspan_wire::v1;
use tonic::{Code, Status};

use crate::report::Check;
use crate::{Address, Report, Unreachable, Verdict};

mod client;
mod forks;
mod gates;
mod heads;
mod life;
mod lists;
mod records;
mod sessions;
mod turns;

use client::{Client, Executed, uid};

/// What a host is run with.
#[derive(Debug, Clone)]
pub struct Options {
    /// The harness of the sessions; empty is the host's default.
    pub harness: String,
    /// The text of a turn that ends well.
    pub input: String,
    /// The configuration of every turn.
    pub config: Vec<u8>,
    /// A turn that asks for an approval: its harness and its text.
    pub gate: Option<(String, String)>,
    /// How long the kit waits for anything.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            harness: String::new(),
            input: "hello".to_owned(),
            // What a harness that knows configurations takes for none.
            config: b"{}".into(),
            gate: None,
            patience: Duration::from_secs(30),
        }
    }
}

/// The label that every session of the kit carries, with the run as its value.
pub const LABEL: &str = "inspan-conformance";

/// Every check of a host, in the order of the report.
pub const CHECKS: &[Check] = &[
    Check {
        name: "create",
        rule: "R-LIST-4",
        proves: "a new session keeps project, name, labels, annotations, origin and identity",
    },
    Check {
        name: "new-state",
        rule: "R-LIFE-4",
        proves: "a session without records is pending, at 0, without compute",
    },
    Check {
        name: "unknown-harness",
        rule: "R-LIST-4",
        proves: "an unknown harness is refused with INVALID_ARGUMENT, an Exec without a frame",
    },
    Check { name: "unknown-session", rule: "W-CODE", proves: "an unknown session is refused with NOT_FOUND" },
    Check { name: "empty-session", rule: "W-CODE", proves: "an empty uid is refused with INVALID_ARGUMENT" },
    Check {
        name: "exec-first",
        rule: "W-EXEC",
        proves: "frame 1 of Exec is the session with its uid, as it was before the turn",
    },
    Check {
        name: "exec-creates",
        rule: "W-EXEC",
        proves: "an Exec without a session makes one and names it in frame 1",
    },
    Check {
        name: "exec-end",
        rule: "R-LIVE-1",
        proves: "a turn is START, INPUT, its effects, END, and the stream ends there with OK",
    },
    Check { name: "exec-dense", rule: "R-CAS-4", proves: "the records of a turn come without a gap" },
    Check {
        name: "exec-start",
        rule: "R-START-1",
        proves: "EXECUTION_START keeps config, cursor and the count of inputs",
    },
    Check { name: "exec-name", rule: "R-START-2", proves: "EXECUTION_START names the harness" },
    Check { name: "exec-ids", rule: "R-EXEC-2", proves: "every record of a turn carries the id of its execution" },
    Check { name: "durable-first", rule: "R-LIVE-2", proves: "a record that Exec shows can be read at once" },
    Check {
        name: "model-record",
        rule: "R-HASH-11",
        proves: "a recorded model call holds its model, its input hash and an id, nothing more",
    },
    Check { name: "plain-records", rule: "R-HASH-10", proves: "records carry no time, version or actor of their own" },
    Check { name: "hashes", rule: "R-HASH-1", proves: "every content hash is that of its record" },
    Check { name: "links", rule: "R-HASH-8", proves: "every record is linked to the one before it" },
    Check { name: "replay-same", rule: "R-REPLAY-7", proves: "Replay gives the records that Exec gave" },
    Check { name: "replay-range", rule: "R-REPLAY-7", proves: "Replay gives the range that is asked for" },
    Check { name: "replay-unknown", rule: "R-REPLAY-7", proves: "Replay of an unknown session is empty, or NOT_FOUND" },
    Check { name: "watch", rule: "inspan.v1", proves: "Watch gives the records that Replay gives" },
    Check {
        name: "head-wrong",
        rule: "R-CAS-4",
        proves: "an Exec that expects another head is ABORTED and writes nothing; 0 is an expectation",
    },
    Check { name: "head-right", rule: "R-CAS-4", proves: "an Exec that expects the head runs" },
    Check {
        name: "one-writer",
        rule: "R-CAS-5",
        proves: "of eight Execs at once that expect one head one runs, and the others are ABORTED",
    },
    Check {
        name: "deadline",
        rule: "W-CODE",
        proves: "a turn whose deadline has passed is refused with DEADLINE_EXCEEDED",
    },
    Check { name: "resume-nothing", rule: "R-RESUME-1", proves: "Resume of a finished session runs nothing" },
    Check { name: "suspend", rule: "R-LIFE-1", proves: "Suspend appends SUSPEND and leaves the compute cold" },
    Check {
        name: "resume-live",
        rule: "R-LIFE-2",
        proves: "Resume of a suspended session appends RESUME and leaves the compute live",
    },
    Check { name: "agree", rule: "R-LIFE-5", proves: "Get, List and the answers of Suspend and Resume agree" },
    Check {
        name: "fork-prefix",
        rule: "R-FORK-1",
        proves: "a child has its parent's records with their hashes, then the marker",
    },
    Check { name: "fork-parent", rule: "R-FORK-2", proves: "a fork and its child's turn leave the parent as it was" },
    Check {
        name: "fork-fields",
        rule: "R-FORK-3",
        proves: "a child has its parent, project, harness, annotations and origin, and its own name and labels",
    },
    Check {
        name: "fork-identity",
        rule: "R-FORK-4",
        proves: "a fork with an identity is refused before its session is looked up",
    },
    Check {
        name: "fork-bounds",
        rule: "R-FORK-5",
        proves: "129 children, or names for another number, are refused with INVALID_ARGUMENT",
    },
    Check { name: "fork-nothing", rule: "R-FORK-6", proves: "a refused fork leaves no child" },
    Check {
        name: "fork-beyond",
        rule: "R-HASH-7",
        proves: "a fork beyond the head is refused, or its child's records hold",
    },
    Check {
        name: "fork-redrive",
        rule: "R-MODEL-12",
        proves: "a child cut at a model call asks the model once and records its answer",
    },
    Check {
        name: "fork-resumes",
        rule: "R-RESUME-3",
        proves: "a cut turn is resumed under its id, without a second START or INPUT",
    },
    Check {
        name: "list-order",
        rule: "R-LIST-1",
        proves: "a project's sessions are listed newest first, and no others",
    },
    Check {
        name: "list-pages",
        rule: "R-LIST-1",
        proves: "pages of any size give every session once, in the same order",
    },
    Check { name: "list-token", rule: "R-LIST-2", proves: "a page token of nobody is refused with INVALID_ARGUMENT" },
    Check { name: "list-fresh", rule: "R-LIST-3", proves: "a session without records is listed" },
    Check {
        name: "approve-fields",
        rule: "R-APPR-16",
        proves: "a decision that names no request in full is INVALID_ARGUMENT",
    },
    Check {
        name: "approve-nothing",
        rule: "R-APPR-19",
        proves: "a decision on a request that is not there is FAILED_PRECONDITION and writes nothing",
    },
    Check {
        name: "gate-parks",
        rule: "R-APPR-2",
        proves: "a gated call is recorded with its request, and the turn stops there without END or ERROR",
    },
    Check { name: "gate-handoff", rule: "R-APPR-6", proves: "a parked turn ends with SUSPEND, a session frame and OK" },
    Check { name: "gate-shown", rule: "R-APPR-15", proves: "a parked session is awaiting and shows what it waits for" },
    Check { name: "gate-blocks", rule: "R-APPR-24", proves: "new inputs are refused while a request is open" },
    Check { name: "gate-waits", rule: "R-APPR-22", proves: "Resume of an undecided session writes nothing" },
    Check { name: "gate-decides", rule: "R-APPR-17", proves: "a decision is one record with its time" },
    Check {
        name: "gate-again",
        rule: "R-APPR-18",
        proves: "the same decision again is the same record, another one is refused",
    },
    Check {
        name: "gate-denied",
        rule: "R-APPR-26",
        proves: "a denied call gets its receipt from the host, with both places in the journal",
    },
];

/// A finding: the name of its check and what it came to.
type Found = Vec<(&'static str, Verdict)>;

/// Judges the host at `address`. Must be called in a tokio runtime.
///
/// # Errors
/// [`Unreachable`] when nobody answers there.
pub async fn run(address: &Address, options: &Options) -> Result<Report, Unreachable> {
    let channel = inspan_attach::grpc::channel(address, &inspan_attach::grpc::Settings::default());
    let client = Client::new(channel, options.patience);
    let run = format!("{:016x}", RandomState::new().hash_one("run"));
    let bench = Bench {
        client,
        options,
        project: format!("conformance-{run}"),
        run,
        made: Mutex::default(),
        unlabelled: Mutex::default(),
    };
    let mut found = Found::new();
    let first = bench.create("first").await;
    if let Err(status) = &first
        && matches!(status.code(), Code::Unavailable | Code::Unknown)
    {
        return Err(Unreachable(format!("no host answers at {address}: {}", status.message())));
    }
    sessions::judge(&bench, &first, &mut found).await;
    if let Ok(session) = &first {
        let main = turns::judge(&bench, session, &mut found).await;
        judge_on(&bench, &main, &mut found).await;
    }
    let missing: Vec<_> = CHECKS.iter().filter(|check| found.iter().all(|(name, _)| *name != check.name)).collect();
    let why = bench.why_not(&first, &found);
    found.extend(missing.into_iter().map(|check| (check.name, Verdict::skipped(why.clone()))));
    let notes = bench.left_behind();
    Ok(Report::new(format!("host {address}"), CHECKS, found, notes))
}

/// The checks that need a session with a turn that ended well.
async fn judge_on(bench: &Bench<'_>, main: &Main, found: &mut Found) {
    records::judge(bench, main, found).await;
    if main.is_good() {
        heads::judge(bench, main, found).await;
        forks::judge(bench, main, found).await;
        life::judge(bench, main, found).await;
    }
    gates::judge(bench, main, found).await;
    lists::judge(bench, found).await;
}

/// What the checks work with.
struct Bench<'a> {
    client: Client,
    options: &'a Options,
    run: String,
    project: String,
    /// The sessions that were made in the project.
    made: Mutex<Vec<String>>,
    /// Sessions that could not be labelled.
    unlabelled: Mutex<Vec<String>>,
}

/// A session and its first turn.
struct Main {
    uid: String,
    turn: Executed,
}

impl Main {
    fn is_good(&self) -> bool {
        self.turn.refused.is_none() && !self.turn.records().is_empty()
    }
}

impl Bench<'_> {
    /// A session as the kit makes them.
    fn session(&self, name: &str) -> v1::Session {
        v1::Session {
            metadata: Some(v1::ResourceMetadata {
                project: self.project.clone(),
                name: name.to_owned(),
                ..Default::default()
            }),
            harness: self.options.harness.clone(),
            labels: self.labels(),
            ..Default::default()
        }
    }

    fn labels(&self) -> std::collections::BTreeMap<String, String> {
        [(LABEL.to_owned(), self.run.clone())].into()
    }

    /// A turn of a session with one text.
    fn turn(&self, session: &str, text: &str) -> v1::ExecRequest {
        v1::ExecRequest {
            session: session.to_owned(),
            inputs: vec![v1::Message::text("user", text)],
            config: self.options.config.clone().into(),
            ..Default::default()
        }
    }

    async fn create(&self, name: &str) -> Result<v1::Session, Status> {
        self.create_with(self.session(name)).await
    }

    async fn create_with(&self, session: v1::Session) -> Result<v1::Session, Status> {
        let made = self.client.create(session).await?;
        self.made(&made);
        Ok(made)
    }

    fn made(&self, session: &v1::Session) {
        self.made.lock().expect("no code panics while it holds this lock").push(uid(session).to_owned());
    }

    fn why_not(&self, first: &Result<v1::Session, Status>, found: &Found) -> String {
        let turn = found.iter().find(|(name, verdict)| *name == "exec-end" && matches!(verdict, Verdict::Failed(_)));
        match (first, turn) {
            (Err(status), _) => format!("no session could be made: {}", client::said(status)),
            (_, Some((_, verdict))) => format!("no turn ended well: {}", verdict.text()),
            _ => "what it needs did not work".to_owned(),
        }
    }

    fn left_behind(&self) -> Vec<String> {
        let made = self.made.lock().expect("no code panics while it holds this lock").len();
        let mut notes =
            vec![format!("{made} sessions are left in project {} with the label {LABEL}={}", self.project, self.run)];
        for uid in &*self.unlabelled.lock().expect("no code panics while it holds this lock") {
            notes.push(format!("session {uid} is left in the default project: Exec made it, and Exec takes no label"));
        }
        notes
    }
}
