//! Public behaviour of quern-hub, by topic. Nothing here needs a network: pip is a script, the hub listens on loopback.

mod hugging_face;
mod references;
mod support;
#[cfg(unix)]
mod wheels;
