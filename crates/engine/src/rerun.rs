//! Replay as an operation: every completed execution again, on its recorded effects only.

use std::collections::HashMap;

use bytes::Bytes;
use inspan_harness::Start;
use inspan_journal::Session;
use inspan_wire::SessionUid;
use inspan_wire::v1::{self, EventKind, event::Body};

use crate::Error;
use crate::engine::Engine;
use crate::exec::tape_for;
use crate::history::Past;
use crate::recover::{Invocation, check_version};
use crate::scan::Scan;
use crate::sink::{Feed, TurnSink};
use crate::tape::{Mode, Tape};

/// What a re-run of a journal gave (R-REPLAY).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rerun {
    /// Completed executions that were run.
    pub executions: i64,
    /// Recorded effects that were served.
    pub effects: i64,
    /// Texts of the consumed OUTPUT records, in order (R-OUT-5).
    pub outputs: Vec<String>,
}

/// One execution to run again.
#[derive(Debug, Clone, Default)]
struct Execution {
    /// Empty for the legacy part.
    id: String,
    first_seq: i64,
    last_seq: i64,
    harness: String,
    version: String,
    completed: bool,
    /// What its harness says of itself now.
    admitted: v1::HarnessDescriptor,
}

/// The executions of a journal by first appearance, and its legacy part.
#[derive(Default)]
struct Plan {
    modern: Vec<Execution>,
    by_id: HashMap<String, usize>,
    /// Seq of the last legacy END.
    legacy_end: i64,
    /// Seq of the last legacy record that is no LIFECYCLE.
    legacy_last: i64,
    /// First INPUT, else first record that is no LIFECYCLE (R-LEGACY-6).
    legacy_first: i64,
    legacy_first_input: i64,
}

impl Engine {
    /// Runs every completed execution again on its recorded effects (R-REPLAY): no provider, no
    /// append, no fence.
    ///
    /// # Errors
    /// [`Error::ReplayDiverged`] and whatever makes the journal unfit to run.
    pub async fn rerun(&self, uid: &SessionUid) -> Result<Rerun, Error> {
        let session = self.load(uid).await?;
        let scan = Scan::load(&session.state)?;
        if let Some(fault) = &scan.fault {
            return Err(fault.error());
        }
        let past = self.past(uid);
        let plan = Plan::read(&past, scan.head).await?;
        let mut runs = plan.runs();
        self.check_identities(&session, &mut runs).await?;
        let mut total = Rerun::default();
        for run in &runs {
            self.rerun_one(&session, &past, run, scan.head, &plan, &mut total).await?;
        }
        Ok(total)
    }

    /// R-REPLAY-3: all before the first run.
    async fn check_identities(&self, session: &Session, runs: &mut [Execution]) -> Result<(), Error> {
        let mut descriptors: HashMap<String, v1::HarnessDescriptor> = HashMap::new();
        for run in runs {
            let agent = self.recorded_agent(session, &run.harness)?;
            if !descriptors.contains_key(&agent.name) {
                descriptors.insert(agent.name.clone(), self.admit(&agent).await?);
            }
            let descriptor = &descriptors[&agent.name];
            check_version(&agent.name, &run.version, &descriptor.version)?;
            run.admitted = descriptor.clone();
        }
        Ok(())
    }

    async fn rerun_one(
        &self,
        session: &Session,
        past: &Past,
        run: &Execution,
        head: i64,
        plan: &Plan,
        total: &mut Rerun,
    ) -> Result<(), Error> {
        let legacy = run.id.is_empty();
        let agent = self.recorded_agent(session, &run.harness)?;
        let recorded = Invocation::read(past, &run.id, run.first_seq, run.last_seq).await?;
        let (execution_id, history) = if legacy {
            // R-LEGACY-3: the whole journal is its history.
            let end = if plan.modern.is_empty() { head } else { run.last_seq };
            (self.legacy_id(&session.uid, run.first_seq).await?, past.before(end + 1))
        } else {
            (run.id.clone(), past.before(run.first_seq))
        };
        let start = Start {
            session: session.uid.to_string(),
            execution_id,
            config: if legacy { Bytes::new() } else { recorded.config },
            history,
            inputs: recorded.inputs,
            identity: None,
            resume_from_seq: recorded.resume_from_seq,
        };
        let feed = Feed { past: past.clone(), next: run.first_seq, last: run.last_seq };
        let tape = Tape::new(Mode::Replay, legacy);
        let tape = tape_for(tape, &run.admitted);
        let sink = TurnSink::new(session.uid.clone(), run.id.clone(), past.clone(), tape, Some(feed), None);
        let result = agent.harness.run_admitted(&run.admitted, start, &sink).await;
        let closed = sink.close(result.is_ok()).await;
        if let Some(latched) = closed.latch {
            return Err(latched);
        }
        result.map_err(|f| Error::HarnessFailed(f.to_string()))?;
        total.executions += 1;
        total.effects += closed.consumed;
        total.outputs.extend(closed.outputs);
        Ok(())
    }
}

impl Plan {
    async fn read(past: &Past, head: i64) -> Result<Plan, Error> {
        let mut plan = Plan::default();
        let mut seq = 1;
        while seq <= head {
            let page = past.events(seq).await?;
            if page.is_empty() {
                break;
            }
            for event in page {
                if seq > head {
                    break;
                }
                plan.add(seq, &event);
                seq += 1;
            }
        }
        Ok(plan)
    }

    fn add(&mut self, seq: i64, event: &inspan_wire::v1::Event) {
        let kind = event.kind();
        if kind == EventKind::EventLifecycle {
            return;
        }
        if event.execution_id.is_empty() {
            self.legacy_last = seq;
            if self.legacy_first == 0 {
                self.legacy_first = seq;
            }
            if kind == EventKind::EventInput && self.legacy_first_input == 0 {
                self.legacy_first_input = seq;
            }
            if kind == EventKind::EventEnd {
                self.legacy_end = seq;
            }
            return;
        }
        let next = self.modern.len();
        let at = *self.by_id.entry(event.execution_id.clone()).or_insert(next);
        if at == next {
            let id = event.execution_id.clone();
            self.modern.push(Execution { id, first_seq: seq, ..Default::default() });
        }
        let execution = &mut self.modern[at];
        execution.last_seq = seq;
        match &event.body {
            Some(Body::ExecutionStart(start)) => {
                execution.harness.clone_from(&start.harness);
                execution.version.clone_from(&start.harness_version);
            }
            // A cancelled turn never came to its own end: there is nothing to run it against.
            Some(Body::End(end)) => execution.completed = end.state == "COMPLETED",
            _ => {}
        }
    }

    /// The legacy part first (R-LEGACY-3, R-LEGACY-4), then the completed executions (R-REPLAY-1).
    fn runs(&self) -> Vec<Execution> {
        let legacy_last = if self.modern.is_empty() { self.legacy_last } else { self.legacy_end };
        let legacy_first = if self.legacy_first_input > 0 { self.legacy_first_input } else { self.legacy_first };
        let legacy = (legacy_last > 0).then(|| Execution {
            first_seq: legacy_first,
            last_seq: legacy_last,
            completed: true,
            ..Default::default()
        });
        legacy.into_iter().chain(self.modern.iter().filter(|e| e.completed).cloned()).collect()
    }
}
