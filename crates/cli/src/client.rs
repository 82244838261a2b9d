//! The way to a host: one that listens somewhere, or one in this process.

use inspan_host::proto::{AsksClient, JournalClient, SessionsClient};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::embedded::Embedded;
use crate::error::Error;
use crate::output::Out;

/// The journal of an embedded host when none is named.
pub(crate) const DEFAULT_JOURNAL: &str = "agentsessions.db";
/// The largest message that is taken from a host: a record holds at most 64 KiB of each payload, but text
/// stays inline whatever its size.
const MESSAGE_BYTES_MAX: usize = 256 << 20;
/// The project when none is named.
pub(crate) const DEFAULT_PROJECT: &str = "default";

/// Which host, which project, and how to answer.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Target {
    /// The host to ask: HOST:PORT or unix:/path. Without it a host starts in this process, for this command only
    /// and with the echo harness only
    #[arg(long, value_name = "ADDRESS", default_value = "", hide_default_value = true)]
    pub(crate) server: String,
    /// Journal file of the host in this process
    #[arg(long, value_name = "FILE", default_value = DEFAULT_JOURNAL)]
    pub(crate) journal: String,
    /// Project
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROJECT)]
    pub(crate) project: String,
    /// Answer in JSON: one object, or one to a line where records stream
    #[arg(long)]
    pub(crate) json: bool,
}

impl Target {
    /// Stdout, dressed as the caller asked.
    pub(crate) fn out(&self) -> Out {
        Out::stdout(self.json)
    }

    /// A command line that asks the same host: `inspan get --server … --session …`.
    pub(crate) fn command(&self, verb: &str, session: &str) -> String {
        let mut line = format!("inspan {verb}");
        if !self.server.is_empty() {
            line.push_str(&format!(" --server {}", shell(&self.server)));
        } else if self.journal != DEFAULT_JOURNAL {
            line.push_str(&format!(" --journal {}", shell(&self.journal)));
        }
        if self.project != DEFAULT_PROJECT {
            line.push_str(&format!(" --project {}", shell(&self.project)));
        }
        if !session.is_empty() {
            line.push_str(&format!(" --session {}", shell(session)));
        }
        line
    }

    /// An error of a call, with the command that helps.
    pub(crate) fn rpc_error(&self, verb: &str, session: &str, status: &Status) -> Error {
        let lost = connection_lost(status);
        let status = lost.as_ref().unwrap_or(status);
        let next = match status.code() {
            Code::NotFound => self.command("list", ""),
            Code::Unavailable if session.is_empty() => self.command(verb, ""),
            // The turn is unfinished.
            Code::Unavailable | Code::DeadlineExceeded | Code::Internal if verb == "exec" && !session.is_empty() => {
                self.command("resume", session)
            }
            Code::Aborted | Code::OutOfRange | Code::Unavailable if !session.is_empty() => self.command("get", session),
            Code::FailedPrecondition | Code::Cancelled | Code::Internal | Code::DataLoss if !session.is_empty() => {
                self.command("replay", session)
            }
            _ => format!("inspan {verb} --help"),
        };
        Error::new(rpc_text(status), next)
    }
}

/// A word as a shell takes it.
pub(crate) fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,[]".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A status as gRPC tools print it.
pub(crate) fn rpc_text(status: &Status) -> String {
    let code = match status.code() {
        Code::Cancelled => "Canceled".to_owned(),
        code => format!("{code:?}"),
    };
    format!("rpc error: code = {code} desc = {}", status.message())
}

/// A status that no host sent: the connection broke under the call. The transport calls that `Unknown`, which
/// would not tell a caller that trying again can help.
fn connection_lost(status: &Status) -> Option<Status> {
    use std::error::Error as _;
    let is_ours = status.code() == Code::Unknown && status.source().is_some();
    is_ours.then(|| Status::unavailable("the connection to the host was lost; every record that was shown is durable"))
}

/// The services of one host.
pub(crate) struct Client {
    /// Package `agentsessions.v1`.
    pub(crate) sessions: SessionsClient<Channel>,
    /// Package `inspan.v1`.
    pub(crate) journal: JournalClient<Channel>,
    /// Its inbox.
    pub(crate) asks: AsksClient<Channel>,
    embedded: Option<Embedded>,
}

impl Client {
    /// Connects to the target's host, or starts one.
    ///
    /// # Errors
    /// Nobody answers, or the embedded host cannot start: its journal is damaged or in use.
    pub(crate) async fn open(target: &Target) -> Result<Client, Error> {
        if !target.server.is_empty() {
            let channel = connect(&target.server, || serve_at(&target.server)).await?;
            return Ok(Client::over(channel, None));
        }
        let mut embedded = Embedded::start(target).await?;
        let channel = connect(embedded.address(), || serve_at(embedded.address())).await?;
        embedded.hide();
        Ok(Client::over(channel, Some(embedded)))
    }

    /// A client of a host at `address`.
    ///
    /// # Errors
    /// Nobody answers.
    pub(crate) async fn connect(address: &str) -> Result<Client, Error> {
        Ok(Client::over(connect(address, || serve_at(address)).await?, None))
    }

    fn over(channel: Channel, embedded: Option<Embedded>) -> Client {
        let limit = MESSAGE_BYTES_MAX;
        let sessions = SessionsClient::new(channel.clone()).max_decoding_message_size(limit);
        let journal = JournalClient::new(channel.clone()).max_decoding_message_size(limit);
        let asks = AsksClient::new(channel).max_decoding_message_size(limit);
        Client { sessions, journal, asks, embedded }
    }

    /// Opens a client, uses it and closes it, whatever came out.
    ///
    /// # Errors
    /// As [`Client::open`] and `work`.
    pub(crate) async fn with<T>(
        target: &Target,
        work: impl AsyncFnOnce(&mut Client) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut client = Client::open(target).await?;
        let result = work(&mut client).await;
        client.close().await;
        result
    }

    /// Lets an embedded host stop in its own time: what it acknowledged is durable before this returns.
    async fn close(self) {
        let Client { sessions, journal, asks, embedded } = self;
        drop((sessions, journal, asks));
        if let Some(embedded) = embedded {
            embedded.stop().await;
        }
    }
}

/// The command that starts a host at an address where there is none.
fn serve_at(address: &str) -> String {
    format!("inspan serve --addr {}", shell(address))
}

/// A connection to `address`. `next` is the command that helps when nobody answers.
///
/// # Errors
/// Nobody answers, or it is no address.
pub(crate) async fn connect(address: &str, next: impl FnOnce() -> String) -> Result<Channel, Error> {
    let uri = if address.starts_with("unix:") || address.contains("://") {
        address.to_owned()
    } else {
        format!("http://{address}")
    };
    let endpoint = Endpoint::from_shared(uri).map_err(|_| {
        Error::usage(format!("{address:?} is no address: write HOST:PORT or unix:/path"), "inspan --help")
    })?;
    endpoint.connect().await.map_err(|e| {
        let status = Status::unavailable(format!("no host answers at {address}: {}", root_cause(&e)));
        Error::new(rpc_text(&status), next())
    })
}

/// The innermost reason: the outer ones only say that connecting failed.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target { server: String::new(), journal: DEFAULT_JOURNAL.into(), project: DEFAULT_PROJECT.into(), json: false }
    }

    #[test]
    fn a_hint_asks_the_same_host() {
        assert_eq!(target().command("list", ""), "inspan list");
        let t = Target { journal: "my file.db".into(), project: "p".into(), ..target() };
        assert_eq!(t.command("get", "sess-1"), "inspan get --journal 'my file.db' --project p --session sess-1");
        let t = Target { server: "unix:/run/x".into(), ..target() };
        assert_eq!(t.command("list", ""), "inspan list --server unix:/run/x");
    }

    #[test]
    fn statuses_read_as_grpc_prints_them() {
        let cancelled = Status::cancelled("the turn was cancelled: USER");
        assert_eq!(rpc_text(&cancelled), "rpc error: code = Canceled desc = the turn was cancelled: USER");
        assert_eq!(rpc_text(&Status::not_found("no session x")), "rpc error: code = NotFound desc = no session x");
    }
}
