//! The `quern` command from outside: the real binary, its streams and its exit codes.
#![allow(clippy::unwrap_used)]

mod caps;
mod chat;
mod common;
mod config;
mod damage;
mod generated;
mod help;
mod inspect;
mod models;
mod run;
mod score;
#[cfg(unix)]
mod terminal;
mod tokens;
