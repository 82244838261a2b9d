//! The one table of routes: the router and openapi.json are both made from it.

/// An operation of the HTTP spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    CreateSession,
    ListSessions,
    GetSession,
    DeleteSession,
    Exec,
    ExecNew,
    Records,
    Watch,
    Suspend,
    Resume,
    Fork,
    Cancel,
    Approve,
    ListAsks,
    Rerun,
    Verify,
    Export,
    Import,
    ModelRequest,
    Blob,
    Harnesses,
    Health,
    OpenApi,
}

/// A method that some route has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Post,
    Delete,
}

/// The body of a request, by its protobuf message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    None,
    /// May be left out: then the message is empty.
    Optional(&'static str),
    Required(&'static str),
    /// An export, or a journal of an earlier host.
    File,
}

/// The body of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A protobuf message as JSON.
    Message(&'static str),
    /// A stream of these events.
    Stream(&'static [Event]),
    /// JSON of a schema that stands in `openapi`.
    Json(Shape),
    /// JSON text as it was kept.
    Kept,
    /// Bytes as they were kept.
    Bytes,
    /// An export: one JSON object in a line.
    File,
}

/// JSON answers that are no protobuf message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Harnesses,
    Health,
    OpenApi,
}

/// An event of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Session,
    Record,
    Delta,
    Heartbeat,
    Error,
    End,
}

/// A query parameter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) about: &'static str,
}

/// What a parameter's text must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Int32,
    Int64,
    Bool,
}

/// A route.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) op: Op,
    pub(crate) verb: Verb,
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) query: &'static [Param],
    pub(crate) body: Body,
    pub(crate) answer: Answer,
    /// HTTP statuses of its refusals, beside those that every route has.
    pub(crate) refusals: &'static [u16],
}

/// The content type of an export.
pub(crate) const EXPORT_TYPE: &str = "application/x-ndjson";
/// The content types of a file that is imported.
pub(crate) const IMPORT_TYPES: &[&str] = &[EXPORT_TYPE, "application/octet-stream"];
const FROM: Param = Param { name: "from", kind: Kind::Int64, about: "The first record wanted; zero or less means 1." };
const SESSION: &str = "agentsessions.v1.Session";
const EXEC_EVENTS: Answer =
    Answer::Stream(&[Event::Session, Event::Record, Event::Delta, Event::Heartbeat, Event::Error, Event::End]);
/// Refusals of an operation that drives a session.
const DRIVES: &[u16] = &[404, 409, 413, 415, 429, 499, 504];

/// Every route.
pub(crate) const TABLE: &[Route] = &[
    Route {
        op: Op::CreateSession,
        verb: Verb::Post,
        path: "/v1/sessions",
        summary: "Create a session",
        query: &[],
        body: Body::Required("agentsessions.v1.CreateSessionRequest"),
        answer: Answer::Message(SESSION),
        refusals: &[413, 415, 429],
    },
    Route {
        op: Op::ListSessions,
        verb: Verb::Get,
        path: "/v1/sessions",
        summary: "List a project's sessions, newest first",
        query: &[
            Param { name: "project", kind: Kind::Text, about: "Empty means the host's default project." },
            Param { name: "page_size", kind: Kind::Int32, about: "Zero or less means 50; more than 500 means 500." },
            Param { name: "page_token", kind: Kind::Text, about: "The `next_page_token` of the page before." },
        ],
        body: Body::None,
        answer: Answer::Message("agentsessions.v1.ListSessionsResponse"),
        refusals: &[],
    },
    Route {
        op: Op::GetSession,
        verb: Verb::Get,
        path: "/v1/sessions/{uid}",
        summary: "Read a session",
        query: &[],
        body: Body::None,
        answer: Answer::Message(SESSION),
        refusals: &[404],
    },
    Route {
        op: Op::DeleteSession,
        verb: Verb::Delete,
        path: "/v1/sessions/{uid}",
        summary: "Hide a session for ever; what its forks need stays",
        query: &[],
        body: Body::None,
        answer: Answer::Message(SESSION),
        refusals: &[404, 409, 429],
    },
    Route {
        op: Op::ExecNew,
        verb: Verb::Post,
        path: "/v1/turns",
        summary: "Run a turn, on a new session unless the body names one",
        query: &[],
        body: Body::Required("agentsessions.v1.ExecRequest"),
        answer: EXEC_EVENTS,
        refusals: DRIVES,
    },
    Route {
        op: Op::Exec,
        verb: Verb::Post,
        path: "/v1/sessions/{uid}/turns",
        summary: "Run a turn and follow it; it goes on when its viewer leaves",
        query: &[],
        body: Body::Required("agentsessions.v1.ExecRequest"),
        answer: EXEC_EVENTS,
        refusals: DRIVES,
    },
    Route {
        op: Op::Records,
        verb: Verb::Get,
        path: "/v1/sessions/{uid}/records",
        summary: "Read a session's records, and with follow=true those to come",
        query: &[
            FROM,
            Param {
                name: "to",
                kind: Kind::Int64,
                about: "The last record wanted; 0 means the head. Not together with follow=true.",
            },
            Param { name: "follow", kind: Kind::Bool, about: "Go on with the records to come." },
        ],
        body: Body::None,
        answer: Answer::Stream(&[Event::Record, Event::Heartbeat, Event::Error, Event::End]),
        refusals: &[404],
    },
    Route {
        op: Op::Watch,
        verb: Verb::Get,
        path: "/v1/sessions/{uid}/watch",
        summary: "Follow a session: its state, records and deltas",
        query: &[FROM],
        body: Body::None,
        answer: Answer::Stream(&[Event::Session, Event::Record, Event::Delta, Event::Heartbeat, Event::Error]),
        refusals: &[404],
    },
    Route {
        op: Op::ModelRequest,
        verb: Verb::Get,
        path: "/v1/sessions/{uid}/records/{seq}/request",
        summary: "The exact text that a recorded model call asked with: its SHA-256 is the record's input_hash",
        query: &[],
        body: Body::None,
        answer: Answer::Kept,
        refusals: &[404],
    },
    Route {
        op: Op::Blob,
        verb: Verb::Get,
        path: "/v1/sessions/{uid}/blobs/{digest}",
        summary: "A payload that a record of the session names",
        query: &[],
        body: Body::None,
        answer: Answer::Bytes,
        refusals: &[404],
    },
    Route {
        op: Op::Suspend,
        verb: Verb::Post,
        path: "/v1/sessions/{uid}/suspend",
        summary: "Put a session to sleep",
        query: &[],
        body: Body::Optional("agentsessions.v1.SuspendRequest"),
        answer: Answer::Message(SESSION),
        refusals: DRIVES,
    },
    Route {
        op: Op::Resume,
        verb: Verb::Post,
        path: "/v1/sessions/{uid}/resume",
        summary: "Drive an interrupted turn to its end, or wake a sleeping session",
        query: &[],
        body: Body::Optional("agentsessions.v1.ResumeRequest"),
        answer: Answer::Message(SESSION),
        refusals: DRIVES,
    },
    Route {
        op: Op::Fork,
        verb: Verb::Post,
        path: "/v1/sessions/{uid}/fork",
        summary: "Fork a session into children that share its records",
        query: &[],
        body: Body::Optional("agentsessions.v1.ForkRequest"),
        answer: Answer::Message("agentsessions.v1.ForkResponse"),
        refusals: DRIVES,
    },
    Route {
        op: Op::Cancel,
        verb: Verb::Post,
        path: "/v1/sessions/{uid}/cancel",
        summary: "End the running or interrupted turn with CANCELED",
        query: &[],
        body: Body::Optional("agentsessions.v1.CancelRequest"),
        answer: Answer::Message(SESSION),
        refusals: DRIVES,
    },
    Route {
        op: Op::Approve,
        verb: Verb::Post,
        path: "/v1/sessions/{uid}/approve",
        summary: "Decide what a session waits for",
        query: &[],
        body: Body::Required("inspan.v1.DecideRequest"),
        answer: Answer::Message("inspan.v1.DecideResponse"),
        refusals: DRIVES,
    },
    Route {
        op: Op::ListAsks,
        verb: Verb::Get,
        path: "/v1/asks",
        summary: "What waits for a person, the longest wait first",
        query: &[
            Param { name: "project", kind: Kind::Text, about: "Empty means every project." },
            Param { name: "page_size", kind: Kind::Int32, about: "Zero or less means 50; more than 500 means 500." },
            Param { name: "page_token", kind: Kind::Text, about: "The `next_page_token` of the page before." },
        ],
        body: Body::None,
        answer: Answer::Message("inspan.v1.ListAsksResponse"),
        refusals: &[],
    },
    Route {
        op: Op::Rerun,
        verb: Verb::Post,
        path: "/v1/sessions/{uid}/rerun",
        summary: "Run every completed turn again on its recorded effects; nothing is appended",
        query: &[],
        body: Body::Optional("inspan.v1.RerunRequest"),
        answer: Answer::Message("inspan.v1.RerunResponse"),
        refusals: DRIVES,
    },
    Route {
        op: Op::Verify,
        verb: Verb::Post,
        path: "/v1/sessions/{uid}/verify",
        summary: "Check a session against its hashes, its payloads and its kept requests",
        query: &[],
        body: Body::Optional("inspan.v1.VerifyRequest"),
        answer: Answer::Message("inspan.v1.VerifyResponse"),
        refusals: &[404, 413, 415],
    },
    Route {
        op: Op::Export,
        verb: Verb::Get,
        path: "/v1/sessions/{uid}/export",
        summary: "A session as one self-contained file; a file that was cut reads as truncated",
        query: &[],
        body: Body::None,
        answer: Answer::File,
        refusals: &[404],
    },
    Route {
        op: Op::Import,
        verb: Verb::Post,
        path: "/v1/import",
        summary: "Import an export, or the SQLite journal of an earlier agentsessions host",
        query: &[],
        body: Body::File,
        answer: Answer::Message("inspan.v1.ImportResponse"),
        refusals: &[409, 415, 429],
    },
    Route {
        op: Op::Harnesses,
        verb: Verb::Get,
        path: "/v1/harnesses",
        summary: "The harnesses that this host places sessions on",
        query: &[],
        body: Body::None,
        answer: Answer::Json(Shape::Harnesses),
        refusals: &[],
    },
    Route {
        op: Op::Health,
        verb: Verb::Get,
        path: "/healthz",
        summary: "Whether this host takes work",
        query: &[],
        body: Body::None,
        answer: Answer::Json(Shape::Health),
        refusals: &[],
    },
    Route {
        op: Op::OpenApi,
        verb: Verb::Get,
        path: "/v1/openapi.json",
        summary: "This description",
        query: &[],
        body: Body::None,
        answer: Answer::Json(Shape::OpenApi),
        refusals: &[],
    },
];
