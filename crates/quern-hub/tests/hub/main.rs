//! Public behaviour of quern-hub, by topic. Nothing here needs a network: pip is a script, the hub listens on loopback.
#![allow(clippy::unwrap_used)]

mod hugging_face;
mod references;
mod repositories;
mod support;
#[cfg(unix)]
mod wheels;
