//! Named errors and the status code that each promises.

use inspan_journal as journal;
use inspan_wire::SessionUid;

/// The gRPC status codes that the engine uses; numbers as in gRPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
#[expect(missing_docs, reason = "the names are those of gRPC")]
pub enum Code {
    Cancelled = 1,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
}

/// Why an operation was refused or a turn failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The store refused.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// Another operation on this session is in progress (R-CAS-5).
    #[error("session {0} is busy with another operation: wait for it to end, or watch it")]
    Busy(SessionUid),
    /// A field of the request is wrong; the text says which and how.
    #[error("{0}")]
    InvalidArgument(String),
    /// No harness of that name.
    #[error("no harness {name}; this host has: {known}")]
    UnknownHarness {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A registered harness that this host cannot use: the text says why and what to do (R-REG-5, R-REG-7).
    #[error("{0}")]
    HarnessUnservable(String),
    /// A registered harness that takes no new sessions (R-REG-3).
    #[error("harness {harness} is retired and takes no new sessions{}: name another one, or register it again",
        if reason.is_empty() { String::new() } else { format!(" ({reason})") })]
    HarnessRetired {
        /// Its name.
        harness: String,
        /// What it was retired with; may be empty.
        reason: String,
    },
    /// A turn on another harness than the session's own, and one of the two is registered (R-REG-6).
    #[error(
        "session {session} is on harness {stored} and not on {other}, and a registered harness shares its sessions with no \
         other: leave the harness out, or create a session on {other}"
    )]
    HarnessPinned {
        /// The session.
        session: SessionUid,
        /// The harness that it was created on.
        stored: String,
        /// The harness that was asked for, or that the turn began on.
        other: String,
    },
    /// Who answers is not what the harness was registered as (R-CAP-3).
    #[error(
        "harness {harness} is registered as {registered:?} and {answered:?} answers at its address: start the one that was \
         registered, or register the other under another name"
    )]
    HarnessDescriptorMismatch {
        /// Its name.
        harness: String,
        /// The id in its registration.
        registered: String,
        /// The id that it describes itself with.
        answered: String,
    },
    /// The recorded harness of an interrupted turn is not served here (R-VER-4).
    #[error(
        "the turn ran on harness {0}, which this host does not serve: serve it and resume again, or start a new turn"
    )]
    RecordedHarnessNotServed(String),
    /// The recorded harness name is another one (R-VER-2).
    #[error("the turn ran on harness {recorded}, not {served}")]
    HarnessMismatch {
        /// In the journal.
        recorded: String,
        /// Here.
        served: String,
    },
    /// The recorded harness version is another one (R-VER-2).
    #[error(
        "the turn ran on version {recorded:?} of harness {harness}, which now says {served:?}: serve the recorded version, or start a new turn"
    )]
    HarnessVersionMismatch {
        /// The harness.
        harness: String,
        /// In the journal.
        recorded: String,
        /// What it says now.
        served: String,
    },
    /// The harness was asked what it is and failed (R-REMOTE-2).
    #[error("harness {harness} failed to describe itself: {cause}")]
    HarnessDescribeFailed {
        /// The harness.
        harness: String,
        /// Why.
        cause: String,
    },
    /// The harness could not be reached to say what it is (R-REMOTE-2).
    #[error("harness {harness} could not be described: {cause}")]
    HarnessNotDescribed {
        /// The harness.
        harness: String,
        /// Why.
        cause: String,
    },
    /// The harness needs what this host cannot give (R-CAP-1).
    #[error("{0}")]
    Unplaceable(String),
    /// The journal's records do not form executions (R-EXEC).
    #[error("invalid execution log at seq {seq}: {what}")]
    InvalidExecutionLog {
        /// The record.
        seq: i64,
        /// What is wrong.
        what: String,
    },
    /// A turn whose inputs are not all there (R-EXEC-4).
    #[error("the interrupted turn has {have} of its {want} inputs: start a new turn with all of them")]
    IncompleteInvocation {
        /// Inputs found.
        have: i64,
        /// Inputs that its start marker counts.
        want: i64,
    },
    /// An unfinished tool call that a fork inherited (R-FORK-9).
    #[error(
        "the interrupted turn has a tool call from before the fork without a result: fork at or after its TOOL_RESULT, or start a new turn"
    )]
    InheritedToolIntent,
    /// The journal waits for an approval, or the harness asks for one, and this host has no gate.
    #[error("{0}")]
    ApprovalUnavailable(String),
    /// The harness asked for an approval in a way that cannot be decided (R-APPR-1).
    #[error("{0}")]
    InvalidApprovalCall(String),
    /// A turn waits for a decision, or has one that was not acted upon yet (R-APPR-32).
    #[error(
        "session {session} waits on tool call {call}: decide it and resume the session before you start a new turn"
    )]
    ApprovalBlocked {
        /// The session.
        session: SessionUid,
        /// The call's id.
        call: String,
    },
    /// A decision that does not fit what was asked, or another one than the one that stands (R-APPR-18, R-APPR-19).
    #[error("{0}")]
    InvalidApprovalDecision(String),
    /// A decided call that this host has nothing to run with (R-APPR-28).
    #[error(
        "tool call {0} is decided and this host has no tool executor: configure one and resume; the decision stands"
    )]
    MissingToolExecutor(String),
    /// The harness asked for something else than what is recorded (promise 3).
    #[error("replay diverged at seq {seq}: {what}")]
    ReplayDiverged {
        /// The recorded effect, or the end of the recording.
        seq: i64,
        /// Expected and got.
        what: String,
    },
    /// A replay asked for a model call that was never recorded (R-MODEL-5).
    #[error("replay asked for a model call beyond the recording")]
    ReplayInvokedModel,
    /// The harness failed.
    #[error("{0}")]
    HarnessFailed(String),
    /// The turn's deadline passed.
    #[error("the deadline of the turn passed")]
    DeadlineExceeded,
    /// The turn was cancelled.
    #[error("the turn was cancelled: {0}")]
    Canceled(String),
    /// The host is stopping; what was recorded is durable and the turn can be resumed.
    #[error("the host is stopping: resume the session once it is back")]
    Stopping,
    /// Nothing to do this to.
    #[error("{0}")]
    FailedPrecondition(String),
    /// A seq beyond the journal.
    #[error("{0}")]
    OutOfRange(String),
    /// A feature that this host does not have.
    #[error("{0}")]
    Unsupported(String),
}

impl Error {
    /// The status code that tells the caller whether a retry can help.
    pub fn code(&self) -> Code {
        use journal::Error as J;
        match self {
            Error::Journal(J::Conflict { .. } | J::Fenced { .. }) | Error::Busy(_) => Code::Aborted,
            Error::Journal(J::NotFound(_)) => Code::NotFound,
            Error::Journal(J::Exists(_)) => Code::AlreadyExists,
            Error::Journal(J::Full) => Code::ResourceExhausted,
            Error::Journal(J::Failed(_)) => Code::Unavailable,
            Error::Journal(J::Invalid(_)) | Error::InvalidArgument(_) | Error::UnknownHarness { .. } => {
                Code::InvalidArgument
            }
            Error::HarnessUnservable(_)
            | Error::Journal(J::KeyUsed { .. })
            | Error::HarnessRetired { .. }
            | Error::HarnessPinned { .. }
            | Error::HarnessDescriptorMismatch { .. }
            | Error::RecordedHarnessNotServed(_)
            | Error::HarnessMismatch { .. }
            | Error::HarnessVersionMismatch { .. }
            | Error::Unplaceable(_)
            | Error::InvalidExecutionLog { .. }
            | Error::IncompleteInvocation { .. }
            | Error::InheritedToolIntent
            | Error::ApprovalUnavailable(_)
            | Error::InvalidApprovalCall(_)
            | Error::ApprovalBlocked { .. }
            | Error::InvalidApprovalDecision(_)
            | Error::MissingToolExecutor(_)
            | Error::FailedPrecondition(_) => Code::FailedPrecondition,
            Error::HarnessNotDescribed { .. } | Error::Stopping => Code::Unavailable,
            Error::DeadlineExceeded => Code::DeadlineExceeded,
            Error::Canceled(_) => Code::Cancelled,
            Error::OutOfRange(_) => Code::OutOfRange,
            Error::Unsupported(_) => Code::Unimplemented,
            Error::Journal(J::Damaged { .. } | J::Io(_))
            | Error::ReplayDiverged { .. }
            | Error::ReplayInvokedModel
            | Error::HarnessDescribeFailed { .. }
            | Error::HarnessFailed(_) => Code::Internal,
        }
    }
}
