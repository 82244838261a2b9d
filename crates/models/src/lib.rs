//! Model providers, behind one neutral request and completion.
//!
//! A call passes through the folders in this order: [`config`] says which provider; `request` renders
//! the neutral request in the provider's format and refuses what that cannot carry; [`http`] posts it;
//! [`stream`] reads the answer, strict about where it ends; `completion` makes the neutral message of
//! it. What goes out carries the [`request_id`] that it is for. [`Echo`] and [`Scripted`] need no provider: tests, the demo and users' own tests live on them.
//!
//! Nothing here reads the environment, and a key is shown nowhere: not in `Debug`, an error or a URL.

mod completion;
pub mod config;
pub mod http;
mod remote;
mod request;
pub mod request_id;
pub mod stream;

mod echo;
mod scripted;

mod json;

pub use config::{Api, AuthHeader, BadUrl, BaseUrl, BuildError, Key, KeyError, Provider, Retry, Timeouts, build};
pub use echo::Echo;
pub use scripted::{ScriptError, Scripted};

#[cfg(test)]
mod testing;
