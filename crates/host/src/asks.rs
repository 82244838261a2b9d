//! The inbox: what waits for a person, everywhere on this host, and decisions that name what was shown.

use inspan_engine::{Asked, AskedBy, Error};
use inspan_journal::{Ask, AskQuery, Asks};
use inspan_wire::{Digest, inspan_v1 as pb, time, v1};

use crate::fault::Fault;
use crate::host::{Host, outlive};
use crate::page;
use crate::update::{log_of, timestamp};

/// Bytes of an ask's arguments that a listing shows.
const PREVIEW_BYTES_MAX: usize = 4 << 10;

impl Host {
    /// One page of what waits, the longest wait first.
    pub(crate) async fn asks(&self, request: pb::ListAsksRequest) -> Result<pb::ListAsksResponse, Fault> {
        let of = match request.project.as_str() {
            "" => Asks::All,
            project => Asks::Project(project.to_owned()),
        };
        let after = page::after(&request.page_token)?;
        let query = AskQuery { of, limit: page::size(request.page_size), after };
        let found = self.engine().journal().asks(query).await?;
        let mut asks = Vec::with_capacity(found.asks.len());
        for ask in &found.asks {
            asks.push(self.ask(ask).await?);
        }
        let next_page_token = found.next.map(|(since_ns, uid)| page::token(since_ns, &uid)).unwrap_or_default();
        Ok(pb::ListAsksResponse { asks, next_page_token })
    }

    /// What a session asks. One whose records cannot be read hides none of the others.
    pub(crate) async fn ask(&self, ask: &Ask) -> Result<pb::Ask, Fault> {
        let session = &ask.session;
        let metadata = session.info.metadata.clone().unwrap_or_default();
        let shown = pb::Ask {
            session: session.uid.to_string(),
            project: metadata.project,
            name: metadata.name,
            harness: session.info.harness.clone(),
            call: session.state.pending.clone(),
            since: Some(timestamp(ask.since_ns.div_euclid(1_000_000))),
            expires: session.state.deadline_ns.map(time::from_ns),
            ..pb::Ask::default()
        };
        match self.engine().asked(session).await {
            Ok(Some(asked)) => Ok(with_call(shown, asked)),
            Ok(None) => Ok(shown),
            Err(e @ (Error::InvalidExecutionLog { .. } | Error::Journal(inspan_journal::Error::Damaged { .. }))) => {
                Ok(pb::Ask { fault: e.to_string(), ..shown })
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Decides on what waits; see [`inspan_engine::Engine::approve_shown`].
    pub(crate) async fn decide(&self, request: pb::DecideRequest) -> Result<pb::DecideResponse, Fault> {
        let shown = match request.args_digest.as_str() {
            "" => None,
            text => Some(digest(text)?),
        };
        let approve = v1::ApproveRequest::from(request);
        let engine = self.engine().clone();
        let decided = outlive(async move { Ok(engine.approve_shown(&approve, shown).await?) });
        let decided = decided.await.map_err(|fault| fault.during("approve"))?;
        Ok(pb::DecideResponse {
            session: Some(decided.session),
            decision: Some(log_of(decided.record, None)?),
            args_digest: decided.args_digest.map(spelled).unwrap_or_default(),
        })
    }
}

fn with_call(shown: pb::Ask, asked: Asked) -> pb::Ask {
    let by = match asked.by {
        AskedBy::Harness => pb::AskedBy::Harness,
        AskedBy::Policy => pb::AskedBy::Policy,
        AskedBy::Recovery => pb::AskedBy::Recovery,
    };
    pb::Ask {
        harness: if asked.harness.is_empty() { shown.harness } else { asked.harness },
        call_seq: asked.call_seq,
        tool: asked.tool,
        args_bytes: i64::try_from(asked.args.len()).unwrap_or(i64::MAX),
        args_digest: spelled(asked.args_digest),
        args_preview: start_of(asked.args, PREVIEW_BYTES_MAX),
        asked_by: by.into(),
        rule: asked.rule,
        reason: asked.reason,
        since: Some(timestamp(asked.since_ms)),
        expires: asked.deadline_ns.map(time::from_ns),
        ..shown
    }
}

/// The first `bytes_max` bytes of a text, whole characters only.
fn start_of(mut text: String, bytes_max: usize) -> String {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

fn spelled(digest: Digest) -> String {
    format!("sha256:{digest}")
}

/// The digest that a decision names.
fn digest(text: &str) -> Result<Digest, Fault> {
    let hex = text.strip_prefix("sha256:").unwrap_or(text);
    hex.parse().map_err(|_| {
        Fault::invalid(format!("args_digest {text:?} is none: write sha256: and 64 hex digits, as the ask shows it"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_is_cut_between_characters() {
        assert_eq!(start_of("ab".to_owned(), 9), "ab");
        assert_eq!(start_of("aéb".to_owned(), 3), "aé");
        assert_eq!(start_of("aéb".to_owned(), 2), "a");
        assert_eq!(start_of(String::new(), 0), "");
    }

    #[test]
    fn a_digest_is_read_with_its_name_and_without() {
        let of = Digest::of(b"x");
        assert_eq!(digest(&spelled(of)), Ok(of));
        assert_eq!(digest(&of.to_string()), Ok(of));
        for bad in ["sha256:", "x", "md5:00", &spelled(of)[..70]] {
            assert_eq!(digest(bad).unwrap_err().code, tonic::Code::InvalidArgument, "{bad}");
        }
    }
}
