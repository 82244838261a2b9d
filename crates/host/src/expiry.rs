//! The time of an ask that nobody answers runs out here. The engine decides whether it has, from the records alone; this
//! part only waits, and drives the turn on from the denial.

use std::sync::Arc;
use std::time::Duration;

use inspan_engine::{Code, Engine, Error, Rim as _};
use inspan_journal::{AskQuery, Asks};
use inspan_wire::SessionUid;
use tokio::sync::{Semaphore, watch};

use crate::Host;
use crate::system::System;

/// Asks that are read at once.
const PAGE: usize = 100;
/// Turns that go on from their denial at once.
const TURNS_MAX: usize = 16;
/// After this, what could not be expired because somebody else held its session is tried again.
const HELD_AGAIN: Duration = Duration::from_secs(1);
/// The same for what failed otherwise.
const FAILED_AGAIN: Duration = Duration::from_secs(60);

/// Lets asks expire for as long as it is polled. `asked` changes with each new ask.
pub(crate) async fn run(host: Arc<Host>, mut asked: watch::Receiver<()>) {
    let turns = Arc::new(Semaphore::new(TURNS_MAX));
    loop {
        // What comes while the round goes on rings again.
        asked.borrow_and_update();
        let next_ns = round(host.engine(), &turns).await;
        tokio::select! {
            changed = asked.changed() => if changed.is_err() { return },
            () = until(next_ns) => {}
        }
    }
}

async fn until(ns: Option<i64>) {
    match ns {
        Some(ns) => System.sleep_until(ns).await,
        None => std::future::pending().await,
    }
}

/// Expires what is due. Gives the time at which to look again.
async fn round(engine: &Engine, turns: &Arc<Semaphore>) -> Option<i64> {
    let mut again: Option<Duration> = None;
    let mut after = None;
    let now_ns = System.now_ns();
    let at = |wait: Duration| now_ns.saturating_add(i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX));
    loop {
        let page = match engine.journal().asks(AskQuery { of: Asks::Due, limit: PAGE, after }).await {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(%error, "what expires could not be read");
                return Some(at(FAILED_AGAIN));
            }
        };
        for ask in page.asks {
            let deadline_ns = ask.session.state.deadline_ns.unwrap_or(i64::MAX);
            if deadline_ns > now_ns {
                return Some(again.map_or(deadline_ns, |wait| deadline_ns.min(at(wait))));
            }
            if let Err(wait) = expire(engine, ask.session.uid, turns).await {
                again = Some(again.map_or(wait, |other| other.min(wait)));
            }
        }
        after = page.next;
        if after.is_none() {
            return again.map(at);
        }
    }
}

/// Expires one ask and has its turn go on; otherwise says when to try again.
async fn expire(engine: &Engine, uid: SessionUid, turns: &Arc<Semaphore>) -> Result<(), Duration> {
    match engine.expire(&uid).await {
        Ok(None) => Ok(()),
        Ok(Some(record)) => {
            tracing::info!(session = %uid, seq = record.seq, "nobody decided in time: the call is denied");
            let (engine, turns) = (engine.clone(), Arc::clone(turns));
            // A turn outlives this task as it outlives a caller, and asks behind it do not wait for it.
            tokio::spawn(async move {
                let _place = turns.acquire().await.expect("the semaphore is never closed");
                if let Err(error) = engine.resume(&uid).await {
                    tracing::warn!(session = %uid, %error, "the turn did not go on: resume it");
                }
            });
            Ok(())
        }
        Err(error) => Err(put_off(&uid, &error)),
    }
}

fn put_off(uid: &SessionUid, error: &Error) -> Duration {
    if error.code() == Code::Aborted {
        return HELD_AGAIN;
    }
    tracing::warn!(session = %uid, %error, "what nobody decided in time could not be denied yet");
    FAILED_AGAIN
}
