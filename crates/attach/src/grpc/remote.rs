//! The harness at an address, as the engine sees it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use inspan_harness::{Failure, Harness, Sink, Start};
use inspan_wire::v1;
use tokio::runtime::{self, Handle};
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::proto::harness_client::HarnessClient;
use super::{Address, MESSAGE_BYTES_MAX, Settings, dial, turn};

/// A harness that lives at an address. Its process is not the host's: nothing here starts it, stops it or keeps its
/// memory (R-REMOTE-4).
///
/// Each runtime that drives turns has a connection of its own, so that what comes over it is read on the thread that waits
/// for it.
pub struct Remote {
    address: Address,
    settings: Settings,
    clients: Mutex<HashMap<runtime::Id, HarnessClient<Channel>>>,
}

impl Remote {
    /// The harness at `address`. Nothing is dialled yet.
    pub fn new(address: Address) -> Remote {
        Remote::with(address, Settings::default())
    }

    /// The harness at `address`, with this much patience.
    pub fn with(address: Address, settings: Settings) -> Remote {
        Remote { address, settings, clients: Mutex::default() }
    }

    /// The client of the runtime that this is called on.
    fn client(&self) -> HarnessClient<Channel> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let client = clients.entry(Handle::current().id()).or_insert_with(|| {
            HarnessClient::new(dial::channel(&self.address, &self.settings))
                .max_decoding_message_size(MESSAGE_BYTES_MAX)
                .max_encoding_message_size(MESSAGE_BYTES_MAX)
        });
        client.clone()
    }

    /// Where it is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// R-REMOTE-2: what tells the caller that a later try may help.
    fn failure(&self, status: &Status) -> Failure {
        let text = format!("{} at {}", said(status), self.address);
        match status.code() {
            Code::Unavailable | Code::DeadlineExceeded => Failure::Unavailable(text),
            _ if is_lost(status) => Failure::Unavailable(text),
            _ => Failure::Failed(text),
        }
    }

    /// R-REMOTE-3: asks again on the connection that is to carry the turn. Behind one address there may be another
    /// process than the one that this turn was admitted on, and its turn would be recorded under the other's name. What others
    /// were told at this address in the meantime does not count.
    async fn check_again(&self, admitted: Option<&v1::HarnessDescriptor>) -> Result<(), Failure> {
        let now = self.describe().await.map_err(|failure| Failure::Failed(failure.to_string()))?;
        if resumability(&now) == v1::Resumability::RequiresMemorySnapshot {
            return Err(Failure::Failed(format!(
                "the harness that now answers at {} needs its memory kept, which no host can do for another process",
                self.address
            )));
        }
        match admitted {
            Some(then) if (&then.id, &then.version) != (&now.id, &now.version) => Err(Failure::Failed(format!(
                "{} {:?} was admitted at {} and {} {:?} answers there now: resume the turn",
                then.id, then.version, self.address, now.id, now.version
            ))),
            _ => Ok(()),
        }
    }

    /// Drives a turn over one stream.
    async fn drive(
        &self,
        admitted: Option<&v1::HarnessDescriptor>,
        start: Start,
        sink: &dyn Sink,
    ) -> Result<(), Failure> {
        let (opening, ()) = futures_util::try_join!(turn::Opening::of(start), self.check_again(admitted))?;
        turn::drive(self.client(), opening, sink, &self.settings).await
    }
}

/// Every value but one reads as stateless.
fn resumability(descriptor: &v1::HarnessDescriptor) -> v1::Resumability {
    descriptor.capabilities.as_ref().map(v1::Capabilities::resumability).unwrap_or_default()
}

/// A status that no harness sent: the connection broke under the call. The transport calls that `Unknown`.
pub(super) fn is_lost(status: &Status) -> bool {
    use std::error::Error as _;
    status.source().is_some() && matches!(status.code(), Code::Unknown | Code::Unavailable)
}

/// What a status says, its innermost cause when it is the transport's.
pub(super) fn said(status: &Status) -> String {
    use std::error::Error as _;
    let Some(mut cause) = status.source() else {
        return format!("the harness answered {:?}: {}", status.code(), status.message());
    };
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    match status.code() {
        Code::Unavailable => format!("no harness answers: {cause}"),
        Code::Unknown => format!("the connection to the harness was lost: {cause}"),
        code => format!("the stream broke with {code:?}: {cause}"),
    }
}

#[async_trait]
impl Harness for Remote {
    async fn describe(&self) -> Result<v1::HarnessDescriptor, Failure> {
        match self.client().describe(v1::DescribeRequest {}).await {
            Ok(answer) => Ok(answer.into_inner()),
            Err(status) => Err(self.failure(&status)),
        }
    }

    /// Drives a turn over one stream. Dropping the future cancels the stream (W-9).
    async fn run(&self, start: Start, sink: &dyn Sink) -> Result<(), Failure> {
        self.drive(None, start, sink).await
    }

    async fn run_admitted(
        &self,
        admitted: &v1::HarnessDescriptor,
        start: Start,
        sink: &dyn Sink,
    ) -> Result<(), Failure> {
        self.drive(Some(admitted), start, sink).await
    }
}
