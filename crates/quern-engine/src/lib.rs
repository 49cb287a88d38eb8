//! Requests in, events out: scheduling, sampling, stops.
//!
//! An [`Engine`] owns a model and one worker thread. A [`Request`] goes in and a [`Generation`] comes back: an iterator
//! of [`Event`]s that ends with a [`Finish`]. Requests run one after the other, in the order they came. Nothing here
//! knows of HTTP, of chat roles or of files.

mod engine;
mod error;
mod event;
mod request;
pub mod sampling;
mod sequence;
pub mod stops;

pub use engine::{Engine, EngineOptions, Generation};
pub use error::EngineError;
pub use event::{Event, Finish, FinishReason, Output, StoppedBy, Timings, Token, Usage};
pub use request::{Prompt, Request};
