//! What can go wrong when asking the operating system for something.

use std::io;

/// A request the operating system did not grant.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlatformError {
    /// Anonymous memory could not be reserved.
    #[error("cannot reserve {bytes} bytes of memory: {source}; free some memory or ask for less")]
    Allocate {
        /// The size that was asked for.
        bytes: usize,
        /// The system's reason.
        source: io::Error,
    },
    /// A thread could not be bound to a CPU.
    #[error("cannot pin this thread to CPU {cpu}: {source}; choose one that the affinity mask allows")]
    Pin {
        /// The CPU that was asked for.
        cpu: usize,
        /// The system's reason.
        source: io::Error,
    },
    /// A hint about a memory range was refused.
    #[error("the system refused memory advice on {bytes} bytes: {source}")]
    Advice {
        /// Length of the range.
        bytes: usize,
        /// The system's reason.
        source: io::Error,
    },
    /// A range that was to be released holds pages that exist nowhere else.
    #[error("cannot release {bytes} bytes: they are not clean pages of a mapped file")]
    NotFileBacked {
        /// Length of the range.
        bytes: usize,
    },
    /// A signal disposition could not be changed.
    #[error("cannot change how the {signal} signal is handled: {source}")]
    Signal {
        /// The signal's name.
        signal: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// No home directory is known and none was given.
    #[error(
        "cannot place the {what} directory: no home directory is known; set {variable} to an absolute path"
    )]
    NoHome {
        /// `cache`, `config` or `data`.
        what: &'static str,
        /// The environment variable that decides it.
        variable: &'static str,
    },
    /// A directory override is not an absolute path.
    #[error("{variable} is not an absolute path: {value:?}; give the full path of the {what} directory")]
    RelativePath {
        /// `cache`, `config` or `data`.
        what: &'static str,
        /// The environment variable that holds it.
        variable: &'static str,
        /// What it holds.
        value: std::path::PathBuf,
    },
}
