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
    #[error(
        "no model is called `{name}`; known names: {known}; a path to a .gguf file works too, and hf:owner/name"
    )]
    UnknownName {
        /// What was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A kind of reference that is not understood.
    #[error(
        "`{reference}`: fetching from an address is not supported; download the file and give its path, or use a \
         repository (hf:owner/name) or one of: {known}"
    )]
    Address {
        /// What was asked for.
        reference: String,
        /// The names there are.
        known: String,
    },
    /// A reference to a repository that is not written as one.
    #[error("`{reference}`: {why}; a reference is hf:owner/name, then :Q4_K_M or :FILE.gguf, then @REVISION")]
    BadReference {
        /// What was asked for.
        reference: String,
        /// What is wrong with it.
        why: String,
    },
    /// A repository without a model that could be run.
    #[error(
        "`{reference}`: the repository holds {holds}; or look for its GGUF version, often under a name that ends in \
         -GGUF"
    )]
    NoModel {
        /// What was asked for.
        reference: String,
        /// What there is instead.
        holds: String,
    },
    /// A repository where no file, or more than one, is meant.
    #[error("`{reference}`: {what}; pick one with hf:{repo}:QUANT or hf:{repo}:FILE out of: {files}")]
    Choice {
        /// What was asked for.
        reference: String,
        /// What is wrong with it.
        what: String,
        /// The files that could be picked.
        files: String,
        /// The repository.
        repo: String,
    },
    /// A file whose hash the server does not say.
    #[error(
        "`{reference}`: the server gives no hash for {file}, so it cannot be checked; download it and give its path"
    )]
    NoHash {
        /// What was asked for.
        reference: String,
        /// The file.
        file: String,
    },
    /// The server wants to know who asks, or does not know the token (401).
    #[error(
        "`{reference}`: the server wants a token (HTTP 401): the repository is private, or there is none of this name; \
         check the name, and set HF_TOKEN to a valid token that may read it (huggingface.co/settings/tokens)"
    )]
    Unauthorized {
        /// What was asked for.
        reference: String,
    },
    /// The token does not open it (403).
    #[error(
        "`{reference}`: the token in HF_TOKEN may not read this repository (HTTP 403); use one with read access to it"
    )]
    Forbidden {
        /// What was asked for.
        reference: String,
    },
    /// Its owner lets in those who ask.
    #[error(
        "`{reference}`: the repository is gated: accept its terms at {page}, then set HF_TOKEN to a token of that \
         account"
    )]
    Gated {
        /// What was asked for.
        reference: String,
        /// Where to ask.
        page: String,
    },
    /// There is nothing of this name (404).
    #[error(
        "`{reference}`: the server has no such repository, revision or file (HTTP 404); check the spelling at {page}"
    )]
    NotFound {
        /// What was asked for.
        reference: String,
        /// Where it would be.
        page: String,
    },
    /// Too many requests (429).
    #[error(
        "`{reference}`: the server takes no more requests for now (HTTP 429); wait some minutes, or set HF_TOKEN, which raises the limit"
    )]
    TooMany {
        /// What was asked for.
        reference: String,
    },
    /// The server could not be reached, or what it sent is not what it promised.
    #[error("`{reference}`: {said}; a download that broke off goes on where it stopped when you try again")]
    Remote {
        /// What was asked for.
        reference: String,
        /// What came of it.
        said: String,
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
    /// Whether another reference is needed, or another permission: trying the same again is useless.
    pub fn is_refusal(&self) -> bool {
        !matches!(
            self,
            HubError::Unavailable { .. }
                | HubError::Io { .. }
                | HubError::TooMany { .. }
                | HubError::Remote { .. }
        )
    }

    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> HubError {
        HubError::Io { action, path: path.into(), source }
    }
}

fn list(attempts: &[Attempt]) -> String {
    attempts.iter().map(|attempt| format!("\n  {attempt}")).collect()
}
