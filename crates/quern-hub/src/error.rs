//! What can go wrong between a reference and a file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// One try at one source, for the message when none worked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The command that ran, or the file that was asked for.
    pub tried: String,
    /// What came of it.
    pub said: String,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n      {}", self.tried, self.said)
    }
}

/// An error from resolving a model reference.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// Neither `QUERN_CACHE` nor the platform says where caches go.
    #[error("no cache folder is known: set QUERN_CACHE to a folder for model files")]
    NoCacheFolder,
    /// Not a short name.
    #[error("no model is called `{name}`; known names: {known}; a path to a .gguf file works too")]
    UnknownName {
        /// What was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A kind of reference that is not understood yet.
    #[error(
        "`{reference}`: fetching from a repository or an address is not supported yet; download the file and give its \
         path, or use one of: {known}"
    )]
    NotYet {
        /// What was asked for.
        reference: String,
        /// The names there are.
        known: String,
    },
    /// A path with nothing there.
    #[error("there is no file {}; give the path of a .gguf file, or one of the names: {known}", .path.display())]
    NoSuchFile {
        /// The path, made absolute.
        path: PathBuf,
        /// The names there are.
        known: String,
    },
    /// A folder where a file is needed.
    #[error("{} is a folder without a config.json; give the path of one .gguf file in it", .path.display())]
    IsFolder {
        /// The path.
        path: PathBuf,
    },
    /// No source delivered the file.
    #[error("could not fetch `{name}`; tried:{}\n{by_hand}", list(.attempts))]
    Unavailable {
        /// The short name.
        name: String,
        /// What was tried, in order.
        attempts: Vec<Attempt>,
        /// What to run by hand.
        by_hand: String,
    },
    /// The file system refused.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl HubError {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> HubError {
        HubError::Io { action, path: path.into(), source }
    }
}

fn list(attempts: &[Attempt]) -> String {
    attempts.iter().map(|attempt| format!("\n  {attempt}")).collect()
}
