//! `inspan.toml`: where it is, and what it says.

use std::path::{Path, PathBuf};

use inspan_host::config::File;
use inspan_host::tools::Tools;
use inspan_host::webhook::Webhook;

use crate::error::Error;

/// The file that is read when none is named and it is there.
const HERE: &str = "inspan.toml";

/// A configuration and where it was found.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    /// `None`: there is no file, and nothing is configured.
    pub(crate) path: Option<PathBuf>,
    /// What it says.
    pub(crate) file: File,
}

impl Settings {
    /// Reads the file that was named, else the one in the current folder when there is one.
    ///
    /// # Errors
    /// A file that was named is not there; a file is not right. The text names the line.
    pub(crate) fn find(given: Option<&Path>) -> Result<Settings, Error> {
        let path = match given {
            Some(path) => path.to_owned(),
            None if Path::new(HERE).exists() => PathBuf::from(HERE),
            None => return Ok(Settings::default()),
        };
        let file = File::read(&path);
        let file =
            file.map_err(|e| Error::usage(e.to_string(), format!("inspan tools --config {}", path.display())))?;
        Ok(Settings { path: Some(path), file })
    }

    /// Who is told of what waits for a person, with the key from this process's environment or from its file.
    ///
    /// # Errors
    /// The key is not where the file says.
    pub(crate) fn webhook(&self) -> Result<Option<Webhook>, Error> {
        let Some(config) = &self.file.webhook else { return Ok(None) };
        let env = |name: &str| std::env::var(name).ok();
        Webhook::new(config, &env).map(Some).map_err(|e| Error::new(e, "inspan serve --help"))
    }

    /// The executors that the file names, with their secrets from this process's environment.
    ///
    /// # Errors
    /// A secret is not where the file says.
    pub(crate) fn tools(&self) -> Result<Tools, Error> {
        let env = |name: &str| std::env::var(name).ok();
        Tools::new(&self.file.tools, &env).map_err(|e| {
            let next = self
                .path
                .as_ref()
                .map_or_else(|| "inspan tools".to_owned(), |path| format!("inspan tools --config {}", path.display()));
            Error::new(e, next)
        })
    }
}
