//! `inspan verify`.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use inspan_host::journal::Head;
use inspan_host::journal::sqlite::Store;
use inspan_host::journal::verify::{self as check, Report};
use inspan_wire::{SessionUid, inspan_v1, json, v1};

use crate::client::{Client, Target};
use crate::error::Error;
use crate::output::{Dress, Out, Paint};
use crate::progress::Progress;
use crate::values::{self, Anchor};
use crate::{foreign, store};

/// Check a session, an export file or a whole journal: every hash, every link, every payload
///
/// Works offline: on the journal itself, or on FILE. With --server it asks that host about one session. Says what was checked and
/// where it stops, and exits with 1 when something does not hold. A chain cannot show that its end was cut off: for that,
/// keep a head (the last seq and its hash) somewhere else and compare with --expect-head.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// An export, or the SQLite journal of an earlier agentsessions host
    #[arg(value_name = "FILE", conflicts_with_all = ["session", "server"])]
    file: Option<PathBuf>,
    /// The session; without it, and without FILE, every session of the journal
    #[arg(long, value_name = "UID", default_value = "", hide_default_value = true)]
    session: String,
    /// Folder of large payloads; the journal's name with `-blobs` behind it when left out
    #[arg(long, value_name = "DIR")]
    blobs: Option<PathBuf>,
    /// A head that was noted earlier; the record there must be the same
    #[arg(long, value_name = "SEQ:HASH", value_parser = values::anchor)]
    expect_head: Option<Anchor>,
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let anchor = args.expect_head;
    match &args.file {
        Some(file) => of_file(&args.target, file, anchor).await,
        None if !args.target.server.is_empty() => of_host(&args.target, &args.session, anchor).await,
        None => of_journal(&args).await,
    }
}

/// What was found, however it was checked.
struct Verdict {
    /// What was checked: `session sess-…`.
    what: String,
    session: String,
    records: i64,
    last_seq: i64,
    head: String,
    blobs: i64,
    requests: i64,
    /// Model calls whose request was not kept, where that is known.
    not_kept: u64,
    anchored: Option<i64>,
    /// The first thing that does not hold: its seq, and what.
    fault: Option<(i64, String)>,
}

impl Verdict {
    fn of(uid: &SessionUid, report: &Report) -> Verdict {
        Verdict {
            what: format!("session {uid}"),
            session: uid.to_string(),
            records: report.records,
            last_seq: report.last_seq,
            head: report.head_hash.map(|h| h.to_string()).unwrap_or_default(),
            blobs: i64::try_from(report.blobs).unwrap_or(i64::MAX),
            requests: i64::try_from(report.requests).unwrap_or(i64::MAX),
            not_kept: report.requests_not_kept,
            anchored: report.anchored,
            fault: report.fault.as_ref().map(|f| (f.seq, format!("{}: {}", f.kind, f.text))),
        }
    }

    /// `session … records=… : everything holds`.
    fn line(&self, dress: Dress) -> String {
        let verdict = match &self.fault {
            None => dress.paint(Paint::Good, "everything holds"),
            Some((seq, text)) => dress.paint(Paint::Bad, &format!("stops at seq {seq}: {text}")),
        };
        let head = if self.head.is_empty() { String::new() } else { format!(" head={}", self.head) };
        format!(
            "{} records={} last_seq={}{head} blobs={} requests={}: {verdict}",
            self.what, self.records, self.last_seq, self.blobs, self.requests
        )
    }

    /// How far the verdict reaches.
    fn reach(&self) -> Vec<String> {
        let mut lines = vec![
            "checked: every record's hash, its link to the one before it, payloads and model requests by their digests"
                .to_owned(),
        ];
        if self.not_kept > 0 {
            lines.push(format!("not checked: {} model calls whose request was not kept", self.not_kept));
        }
        lines.push(match self.anchored {
            Some(seq) => format!("anchor: the record at seq {seq} has the expected hash"),
            None if self.head.is_empty() => "no anchor: records that were cut off would not show".to_owned(),
            None => format!(
                "no anchor: records cut off after seq {} would not show; keep this head and compare with --expect-head {}:{}",
                self.last_seq, self.last_seq, self.head
            ),
        });
        lines
    }

    fn json(&self) -> Result<serde_json::Value, json::Error> {
        let (bad_seq, fault) = self.fault.clone().unwrap_or_default();
        let mut value = json::to_value(&inspan_v1::VerifyResponse {
            records: self.records,
            last_seq: self.last_seq,
            head_hash: self.head.clone(),
            blobs: self.blobs,
            requests: self.requests,
            bad_seq,
            fault,
        })?;
        if !self.session.is_empty() {
            value["session"] = self.session.clone().into();
        }
        if let Some(seq) = self.anchored {
            value["anchored"] = seq.to_string().into();
        }
        Ok(value)
    }

    /// Prints it whole; a fault is the error of the command.
    fn tell(self, out: &mut Out, next: impl Into<String>) -> Result<(), Error> {
        match out.dress() {
            Dress::Json => out.json(self.json())?,
            dress => {
                out.line(self.line(dress))?;
                if self.fault.is_none() {
                    for line in self.reach() {
                        out.line(dress.paint(Paint::Dim, &line))?;
                    }
                }
            }
        }
        match self.fault {
            None => Ok(()),
            Some((seq, text)) => Err(Error::new(format!("{} does not hold at seq {seq}: {text}", self.what), next)),
        }
    }
}

fn head_of(anchor: Option<Anchor>) -> Option<Head> {
    anchor.map(|a| Head { seq: a.seq, hash: Some(a.hash) })
}

/// One session, by the host that has it.
async fn of_host(target: &Target, session: &str, anchor: Option<Anchor>) -> Result<(), Error> {
    if session.is_empty() {
        let text = "a host verifies one session at a time: name it with --session, or verify its journal offline";
        return Err(Error::usage(text, target.command("list", "")));
    }
    let verdict = Client::with(target, async |client| {
        let failed = |s: tonic::Status| target.rpc_error("verify", session, &s);
        let request = inspan_v1::VerifyRequest { session: session.to_owned() };
        let found = client.journal.verify(request).await.map_err(failed)?.into_inner();
        let mut verdict = Verdict {
            what: format!("session {session}"),
            session: session.to_owned(),
            records: found.records,
            last_seq: found.last_seq,
            head: found.head_hash,
            blobs: found.blobs,
            requests: found.requests,
            not_kept: 0,
            anchored: None,
            fault: (!found.fault.is_empty()).then_some((found.bad_seq, found.fault)),
        };
        if let (Some(anchor), None) = (anchor, &verdict.fault) {
            compare(client, &mut verdict, anchor).await.map_err(failed)?;
        }
        Ok(verdict)
    });
    let next = target.command("replay", session);
    verdict.await?.tell(&mut target.out(), next)
}

/// Holds a chain that was found whole against a head that was noted elsewhere.
async fn compare(client: &mut Client, verdict: &mut Verdict, anchor: Anchor) -> Result<(), tonic::Status> {
    if anchor.seq > verdict.last_seq {
        let text = format!("truncated after {}: the anchor knows record {}", verdict.last_seq, anchor.seq);
        verdict.fault = Some((verdict.last_seq, text));
        return Ok(());
    }
    let request = v1::ReplayRequest { session: verdict.session.clone(), from_seq: anchor.seq, to_seq: anchor.seq };
    let record = client.sessions.replay(request).await?.into_inner().message().await?.unwrap_or_default();
    if record.content_hash == anchor.hash.to_string() {
        verdict.anchored = Some(anchor.seq);
    } else {
        verdict.fault = Some((anchor.seq, "the anchor knows another record here: it was rewritten".to_owned()));
    }
    Ok(())
}

/// An export, or the journal of an earlier host.
async fn of_file(target: &Target, file: &Path, anchor: Option<Anchor>) -> Result<(), Error> {
    let mut out = target.out();
    if foreign::is_sqlite(file)? {
        return of_foreign(&mut out, file, anchor);
    }
    let source = File::open(file).map_err(|e| super::import::unreadable(file, &e))?;
    let checked = {
        let _progress = Progress::start("export");
        tokio::task::block_in_place(|| check::export(BufReader::with_capacity(1 << 20, source), head_of(anchor)))
    };
    let report = checked.map_err(|e| Error::new(e.to_string(), format!("ls -l {}", file.display())))?;
    let verdict = Verdict {
        what: format!("export {}", file.display()),
        session: String::new(),
        ..Verdict::of(&"".into(), &report)
    };
    verdict.tell(&mut out, "inspan export --help, to write the file again from its journal")
}

fn of_foreign(out: &mut Out, file: &Path, anchor: Option<Anchor>) -> Result<(), Error> {
    let found = foreign::verify(file, head_of(anchor))?;
    let mut tally = Tally::default();
    for (uid, report) in &found {
        tally.add(out, uid, report)?;
    }
    tally.tell(out, file)
}

/// The journal of this machine: one session, or all of them.
async fn of_journal(args: &Args) -> Result<(), Error> {
    let journal = Path::new(&args.target.journal);
    if !journal.exists() {
        let text = format!("there is no journal {}", journal.display());
        return Err(Error::new(text, "inspan verify --journal FILE, or inspan verify FILE for an export"));
    }
    let mut out = args.target.out();
    let blobs = args.blobs.clone().unwrap_or_else(|| store::blobs_beside(journal));
    let opened = open(&mut out, journal, &blobs)?;
    if args.session.is_empty() {
        if args.expect_head.is_some() {
            let text = "--expect-head is the head of one session: name it with --session";
            return Err(Error::usage(text, args.target.command("list", "")));
        }
        let checked = every_session(&mut out, &opened, journal).await;
        return opened.conclude(checked);
    }
    let uid = SessionUid::from(args.session.as_str());
    let report = check::session(opened.store.as_ref(), &uid, head_of(args.expect_head)).await;
    let report = report.map_err(|e| Error::new(e.to_string(), args.target.command("list", "")))?;
    let checked = Verdict::of(&uid, &report).tell(&mut out, args.target.command("replay", &args.session));
    opened.conclude(checked)
}

/// An opened journal, and why it could only be opened for reading.
struct Opened {
    store: Arc<Store>,
    damage: Option<String>,
}

/// Opens the journal; one whose log is damaged is opened for reading only, which is said.
fn open(out: &mut Out, journal: &Path, blobs: &Path) -> Result<Opened, Error> {
    let refused = match store::open(journal, blobs) {
        Ok(store) => return Ok(Opened { store, damage: None }),
        Err(refused) => refused,
    };
    let Ok(store) = store::open_damaged(journal, blobs) else { return Err(refused) };
    let damage = refused.text().to_owned();
    if out.dress() != Dress::Json {
        out.line(format!("the journal is damaged and was opened for reading only: {damage}"))?;
    }
    Ok(Opened { store, damage: Some(damage) })
}

impl Opened {
    /// What is left may hold; what the damage took is still missing.
    fn conclude(self, checked: Result<(), Error>) -> Result<(), Error> {
        match self.damage {
            Some(damage) if checked.is_ok() => Err(Error::new(damage, RESTORE)),
            _ => checked,
        }
    }
}

/// The first step before anything else is tried, and where the rest is written.
const RESTORE: &str = "cp -a JOURNAL* ELSEWHERE, then restore a backup as docs/operating.md says";

async fn every_session(out: &mut Out, opened: &Opened, journal: &Path) -> Result<(), Error> {
    let mut tally = Tally { is_rest: opened.damage.is_some(), ..Tally::default() };
    let mut told = Ok(());
    let checked = {
        let progress = Progress::start("records verified");
        let mut found = |uid: &SessionUid, report: &Report| {
            progress.add(u64::try_from(report.records).unwrap_or(0));
            if told.is_ok() {
                told = tally.add(out, uid, report);
            }
        };
        check::store(opened.store.as_ref(), &mut found).await
    };
    told?;
    checked.map_err(|e| Error::new(e.to_string(), format!("ls -l {}", journal.display())))?;
    tally.tell(out, journal)
}

/// The sum over many sessions.
#[derive(Default)]
struct Tally {
    sessions: i64,
    records: i64,
    faults: Vec<String>,
    /// Whether these are only what a damage left.
    is_rest: bool,
}

impl Tally {
    fn add(&mut self, out: &mut Out, uid: &SessionUid, report: &Report) -> Result<(), Error> {
        let verdict = Verdict::of(uid, report);
        self.sessions += 1;
        self.records += verdict.records;
        if verdict.fault.is_some() {
            self.faults.push(verdict.session.clone());
        }
        match out.dress() {
            Dress::Json => out.json(verdict.json()),
            dress => out.line(verdict.line(dress)),
        }
    }

    fn tell(self, out: &mut Out, file: &Path) -> Result<(), Error> {
        let sums = format!("journal {} sessions={} records={}", file.display(), self.sessions, self.records);
        if out.dress() != Dress::Json {
            let verdict = match (self.faults.is_empty(), self.is_rest) {
                (true, false) => "everything holds",
                (true, true) => "everything that is left holds",
                (false, _) => "not everything holds",
            };
            out.line(format!("{sums}: {verdict}"))?;
        }
        match self.faults.first() {
            None => Ok(()),
            Some(first) => {
                let text = format!("{} of {} sessions do not hold", self.faults.len(), self.sessions);
                Err(Error::new(text, format!("inspan verify --journal {} --session {first}", file.display())))
            }
        }
    }
}
