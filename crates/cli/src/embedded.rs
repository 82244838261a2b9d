//! A host in this process, for one command.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use inspan_host::Settings;
use inspan_host::catalog::Static;
use inspan_host::models::Echo;
use inspan_host::registry::Directory;
use inspan_host::server::{Address, Config, Server};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::Target;
use crate::error::Error;
use crate::store;
use crate::temp::PrivateDir;

/// A running host that only this process can reach.
pub(crate) struct Embedded {
    /// Where its socket is, until the connection stands.
    dir: Option<PrivateDir>,
    address: String,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

impl Embedded {
    /// Starts a host on the target's journal, with the echo harness, on a socket that only this user can open.
    ///
    /// # Errors
    /// The journal cannot be opened, or the temporary folder does not take a socket.
    pub(crate) async fn start(target: &Target) -> Result<Embedded, Error> {
        let journal = Path::new(&target.journal);
        let store = store::open(journal, &store::blobs_beside(journal))?;
        let dir = PrivateDir::new()?;
        // What is registered is known here too, so that its sessions are refused for the right reason: there is no model.
        let catalog = Directory::load(Static::new(Arc::new(Echo)), Arc::clone(&store) as _, None).await;
        let catalog = catalog.map_err(|e| Error::new(e.to_string(), "inspan list --journal FILE"))?;
        let mut config = Config::new(Address::Unix(socket(&dir)), store, Arc::new(catalog));
        config.settings = Settings {
            default_project: target.project.clone(),
            scratch: Some(store::folder_of(journal)),
            ..Settings::default()
        };
        let address = config.address.endpoint();
        let bound = Server::bind(config).await.map_err(|e| {
            let text = format!("starting a host in this process failed: {e}");
            Error::new(text, format!("inspan serve --journal {}", target.journal))
        })?;
        let (stop, stopped) = oneshot::channel();
        let served = tokio::spawn(async move {
            // A sender that is gone means the same as its signal.
            bound.serve(async { drop(stopped.await) }).await;
        });
        Ok(Embedded { dir: Some(dir), address, stop, served })
    }

    /// Where it listens until [`Embedded::hide`].
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Takes the socket's name away once the connection stands: whatever ends this process, nothing
    /// stays in the temporary folder.
    pub(crate) fn hide(&mut self) {
        self.dir = None;
    }

    /// Lets turns reach a durable point and closes the journal.
    pub(crate) async fn stop(self) {
        drop(self.stop);
        // A host that panicked has said so already, and its records are as after a crash.
        drop(self.served.await);
    }
}

fn socket(dir: &PrivateDir) -> PathBuf {
    dir.path().join("s")
}
