//! Chat templates: the model's own Jinja, with outside text kept plain.
//!
//! A model file carries a Jinja program that turns a list of messages into the one string the model was trained on.
//! This crate runs that program the way the publishers' own library does, and hands back the text in [segments]: what
//! the template wrote is trusted and may hold control tokens, what came from outside (user text, tool results, tool
//! definitions, arguments) can never become one. How that is done stands at the head of `shield.rs`.
//!
//! Absent on purpose: per-model string patches (the engine is made to behave like Jinja2 instead), guessing a template
//! from a model's name, and anything about HTTP or token ids.
//!
//! [segments]: quern_tokenizer::OwnedSegment

mod environment;
mod error;
mod fallback;
mod json;
mod message;
mod methods;
mod rewrite;
mod shield;
mod spellings;
mod template;
mod values;

pub use error::ChatError;
pub use fallback::{FALLBACKS, Fallback};
pub use message::Message;
pub use quern_tokenizer::OwnedSegment;
pub use template::{ChatTemplate, RenderOptions, TemplateOrigin, TemplateTokens};
