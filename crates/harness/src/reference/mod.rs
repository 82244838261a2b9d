//! Three small harnesses: the ones that every journal of the field starts with, and examples to copy.

mod chat;
mod counter;
mod echo;

pub use chat::Chat;
pub use counter::Counter;
pub use echo::Echo;
