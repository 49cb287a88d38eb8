//! Public behaviour of quern-chat, by topic.

mod changing;
mod choosing;
mod conformance;
mod support;
mod text_safety;
mod token_ids;
