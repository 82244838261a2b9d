//! The id of the request that a model call is made for, so that a host's log and its provider's can be
//! laid side by side.
//!
//! It belongs to the task that serves the request and is no part of the call: the engine does not know
//! of it, no journal holds it, and a turn that is repeated under another id asks the same.

use std::future::Future;

use hyper::header::{HeaderName, HeaderValue};

tokio::task_local! {
    static CURRENT: HeaderValue;
}

/// The header that carries it, on what comes in and on what goes out.
pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Does `work` for the request `id`: a call to a provider that is made in it, on this task, says so. The
/// id has been checked by whoever took it in; it is sent as it is.
pub async fn within<T>(id: HeaderValue, work: impl Future<Output = T>) -> T {
    CURRENT.scope(id, work).await
}

/// `work`, for the request that this is called in, if in any: takes the id along to a task of its own.
pub fn carried<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    let id = current();
    async move {
        match id {
            Some(id) => within(id, work).await,
            None => work.await,
        }
    }
}

/// The id of the request that this is called in.
pub(crate) fn current() -> Option<HeaderValue> {
    CURRENT.try_with(HeaderValue::clone).ok()
}
