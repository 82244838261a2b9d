//! A client of the Sessions service that notes what it sees.

use std::time::Duration;

use inspan_wire::v1::{self, EventKind, exec_update::Update};
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::MESSAGE_BYTES_MAX;
use crate::proto::agentsessions_v1::sessions_client::SessionsClient;
use crate::proto::inspan_v1::journal_client::JournalClient;

/// Frames of one stream: a host that never stops is not listened to for ever.
const FRAMES_MAX: usize = 100_000;

/// Both services of a host, with an end to every wait.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) sessions: SessionsClient<Channel>,
    pub(super) journal: JournalClient<Channel>,
    patience: Duration,
}

/// What came over one Exec stream.
#[derive(Debug, Clone, Default)]
pub(super) struct Executed {
    pub(super) frames: Vec<Update>,
    /// How it ended; `None` is OK.
    pub(super) refused: Option<Status>,
}

impl Executed {
    pub(super) fn records(&self) -> Vec<&v1::LogRecord> {
        self.frames
            .iter()
            .filter_map(|frame| match frame {
                Update::Record(record) => Some(record),
                _ => None,
            })
            .collect()
    }

    pub(super) fn sessions(&self) -> Vec<&v1::Session> {
        self.frames
            .iter()
            .filter_map(|frame| match frame {
                Update::Session(session) => Some(session),
                _ => None,
            })
            .collect()
    }

    pub(super) fn code(&self) -> Code {
        self.refused.as_ref().map_or(Code::Ok, Status::code)
    }

    /// How it ended, in words.
    pub(super) fn told(&self) -> String {
        match &self.refused {
            None => format!("OK after {} frames", self.frames.len()),
            Some(status) => format!("{} after {} frames", said(status), self.frames.len()),
        }
    }
}

/// A status in words.
pub(super) fn said(status: &Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}

/// The uid of a session; empty when it has none.
pub(super) fn uid(session: &v1::Session) -> &str {
    session.metadata.as_ref().map_or("", |m| m.uid.as_str())
}

/// The event of a record.
pub(super) fn event(record: &v1::LogRecord) -> v1::Event {
    record.event.clone().unwrap_or_default()
}

/// The kind of a record's event.
pub(super) fn kind(record: &v1::LogRecord) -> EventKind {
    record.event.as_ref().map_or(EventKind::Unspecified, v1::Event::kind)
}

/// The kinds of records without their prefix, in one line.
pub(super) fn kinds<'r>(records: impl IntoIterator<Item = &'r v1::LogRecord>) -> String {
    let names = records.into_iter().map(|r| kind(r).as_str_name().trim_start_matches("EVENT_"));
    names.collect::<Vec<_>>().join(" ")
}

impl Client {
    pub(super) fn new(channel: Channel, patience: Duration) -> Client {
        let sessions = SessionsClient::new(channel.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let journal = JournalClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        Client { sessions, journal, patience }
    }

    /// An answer, or a status of the kit's own when none comes.
    pub(super) async fn bounded<T>(
        &self,
        call: impl Future<Output = Result<tonic::Response<T>, Status>>,
    ) -> Result<T, Status> {
        match timeout(self.patience, call).await {
            Ok(answer) => answer.map(tonic::Response::into_inner),
            Err(_) => Err(Status::unknown(format!("no answer came within {} s", self.patience.as_secs_f32()))),
        }
    }

    pub(super) async fn create(&self, session: v1::Session) -> Result<v1::Session, Status> {
        let request = v1::CreateSessionRequest { session: Some(session) };
        self.bounded(self.sessions.clone().create_session(request)).await
    }

    pub(super) async fn get(&self, uid: &str) -> Result<v1::Session, Status> {
        self.bounded(self.sessions.clone().get_session(v1::GetSessionRequest { uid: uid.to_owned() })).await
    }

    pub(super) async fn list(&self, request: v1::ListSessionsRequest) -> Result<v1::ListSessionsResponse, Status> {
        self.bounded(self.sessions.clone().list_sessions(request)).await
    }

    pub(super) async fn exec(&self, request: v1::ExecRequest) -> Executed {
        let mut done = Executed::default();
        let mut stream = match self.bounded(self.sessions.clone().exec(request)).await {
            Ok(stream) => stream,
            Err(status) => return Executed { refused: Some(status), ..done },
        };
        while done.frames.len() < FRAMES_MAX {
            match timeout(self.patience, stream.message()).await {
                Ok(Ok(Some(v1::ExecUpdate { update: Some(update) }))) => done.frames.push(update),
                Ok(Ok(Some(_))) => {}
                Ok(Ok(None)) => return done,
                Ok(Err(status)) => return Executed { refused: Some(status), ..done },
                Err(_) => break,
            }
        }
        Executed { refused: Some(Status::unknown("the stream did not end")), ..done }
    }

    pub(super) async fn replay(&self, session: &str, from_seq: i64, to_seq: i64) -> Result<Vec<v1::LogRecord>, Status> {
        let request = v1::ReplayRequest { session: session.to_owned(), from_seq, to_seq };
        let mut stream = self.bounded(self.sessions.clone().replay(request)).await?;
        let mut records = Vec::new();
        while records.len() < FRAMES_MAX {
            match timeout(self.patience, stream.message()).await {
                Ok(Ok(Some(record))) => records.push(record),
                Ok(Ok(None)) => return Ok(records),
                Ok(Err(status)) => return Err(status),
                Err(_) => break,
            }
        }
        Err(Status::unknown("the stream did not end"))
    }

    pub(super) async fn suspend(&self, session: &str) -> Result<v1::Session, Status> {
        self.bounded(self.sessions.clone().suspend(v1::SuspendRequest { session: session.to_owned() })).await
    }

    pub(super) async fn resume(&self, session: &str) -> Result<v1::Session, Status> {
        let request = v1::ResumeRequest { session: session.to_owned(), ..Default::default() };
        self.bounded(self.sessions.clone().resume(request)).await
    }

    pub(super) async fn fork(&self, request: v1::ForkRequest) -> Result<Vec<v1::Session>, Status> {
        self.bounded(self.sessions.clone().fork(request)).await.map(|answer| answer.children)
    }

    pub(super) async fn approve(&self, request: v1::ApproveRequest) -> Result<v1::ApproveResponse, Status> {
        self.bounded(self.sessions.clone().approve(request)).await
    }
}

/// Fails unless a call was refused with one of these codes.
pub(super) fn refused<T>(what: &str, answer: Result<T, Status>, codes: &[Code]) -> Result<String, String> {
    match answer {
        Err(status) if codes.contains(&status.code()) => Ok(format!("{what}: {:?}", status.code())),
        Err(status) => Err(format!("{what} is refused with {} and not {codes:?}", said(&status))),
        Ok(_) => Err(format!("{what} is not refused; {codes:?} is due")),
    }
}

/// All of several steps, or the first that is wrong.
pub(super) fn all(steps: Vec<Result<String, String>>) -> Result<String, String> {
    let told: Result<Vec<String>, String> = steps.into_iter().collect();
    told.map(|told| told.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; "))
}

/// `Ok` when `holds`, else what is wrong.
pub(super) fn ensure(holds: bool, wrong: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(wrong()) }
}

/// A status as what is wrong.
pub(super) fn wrong<T>(what: &str, answer: Result<T, Status>) -> Result<T, String> {
    answer.map_err(|status| format!("{what} failed with {}", said(&status)))
}
