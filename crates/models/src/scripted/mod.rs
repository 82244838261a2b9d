//! The model whose answers are written down: a YAML file of turns.
//!
//! Which turn answers is a function of the request alone (see [`select`]), so a host that was killed
//! and started again gets the same answer to the same request. The one exception is
//! `error.times`, which counts in this process.

mod script;
mod select;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use inspan_engine::{Completion, Model, ModelError};
use inspan_wire::v1;

use crate::completion::OnText;
use script::{Fault, Script, Turn};

/// A model that answers from a script. `docs/models.md` has the reference of the file.
#[derive(Debug)]
pub struct Scripted {
    script: Script,
    calls_log: Option<PathBuf>,
    calls: AtomicU64,
    /// How often each turn was asked, for `error.times`.
    asked: Vec<AtomicU32>,
}

/// Why a script cannot be used. The text has the file, the line and the column where there are such.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("cannot read the script {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is not a script.
    #[error("the script {} is not valid: {reason}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        reason: String,
    },
}

impl Scripted {
    /// Reads a script; a relative `calls_log` is next to the file.
    ///
    /// # Errors
    /// See [`ScriptError`].
    pub fn from_file(path: &Path) -> Result<Scripted, ScriptError> {
        let yaml =
            std::fs::read_to_string(path).map_err(|source| ScriptError::Read { path: path.to_owned(), source })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Scripted::parse(&yaml, folder).map_err(|reason| ScriptError::Parse { path: path.to_owned(), reason })
    }

    /// Reads a script from text; a relative `calls_log` is in `folder`.
    ///
    /// # Errors
    /// What is wrong, with line and column.
    pub fn parse(yaml: &str, folder: &Path) -> Result<Scripted, String> {
        let script: Script = serde_norway::from_str(yaml).map_err(|e| e.to_string())?;
        let calls_log = script.calls_log.as_ref().map(|file| folder.join(file));
        let asked = script.turns.iter().map(|_| AtomicU32::new(0)).collect();
        Ok(Scripted { script, calls_log, calls: AtomicU64::new(0), asked })
    }

    /// How many calls were made since the script was read.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// Notes a call before anything of it is answered.
    fn log(&self, number: usize, request: &v1::ModelCall) -> Result<(), ModelError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let Some(path) = &self.calls_log else { return Ok(()) };
        let line = format!("turn={number} assistant_messages={}\n", select::assistant_messages(&request.messages));
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut f| f.write_all(line.as_bytes())).map_err(|e| ModelError {
            message: format!("cannot write the calls log {}: {e}", path.display()),
            retryable: false,
        })
    }

    /// Says the turn's chunks, up to its cut.
    async fn say(&self, turn: &Turn, on_text: OnText<'_>) {
        let said = match turn.fault {
            Some(Fault::Cut { after_chunks }) => after_chunks,
            _ => turn.chunks.len(),
        };
        for (n, chunk) in turn.chunks.iter().take(said).enumerate() {
            if n > 0 {
                pause(turn.chunk_delay_ms).await;
            }
            if self.script.stream {
                on_text(chunk);
            }
        }
    }
}

#[async_trait]
impl Model for Scripted {
    async fn call(&self, request: &v1::ModelCall, on_text: OnText<'_>) -> Result<Completion, ModelError> {
        let chosen = select::turn(&self.script, &request.messages)
            .map_err(|message| ModelError { message, retryable: false })?;
        let turn = &self.script.turns[chosen];
        self.log(chosen + 1, request)?;
        let earlier = self.asked[chosen].fetch_add(1, Ordering::SeqCst);
        pause(turn.delay_ms).await;
        match &turn.fault {
            Some(Fault::Error(error)) if error.times.is_none_or(|times| earlier < times) => {
                self.say(turn, on_text).await;
                Err(ModelError { message: error.message.clone(), retryable: error.retryable })
            }
            Some(Fault::Cut { after_chunks }) => {
                self.say(turn, on_text).await;
                let message = format!("the script cuts this answer after {after_chunks} chunks");
                Err(ModelError { message, retryable: true })
            }
            _ => {
                self.say(turn, on_text).await;
                Ok(turn.completion(&request.model))
            }
        }
    }

    fn streams(&self) -> bool {
        self.script.stream
    }
}

async fn pause(ms: u64) {
    if ms > 0 {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}
