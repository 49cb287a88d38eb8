//! What can go wrong between a reference and an answer.

use quern_chat::ChatError;
use quern_cpu::CpuError;
use quern_engine::EngineError;
use quern_gguf::GgufError;
use quern_hub::HubError;
use quern_model::ModelError;
use quern_tokenizer::TokenizerError;
use std::path::{Path, PathBuf};

/// An error of the library.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The reference leads to no file.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] GgufError),
    /// A file beside the model's cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file holds a model that cannot be run.
    #[error("{}: {error}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: ModelError,
    },
    /// The file holds a vocabulary that cannot be used.
    #[error("{}: {error}", path.display())]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: TokenizerError,
    },
    /// Text was given, and nothing can turn it into ids.
    #[error("{}: the file has no tokenizer: give token ids instead of text", path.display())]
    NoTokenizer {
        /// The file.
        path: PathBuf,
    },
    /// A conversation cannot become a prompt.
    #[error(transparent)]
    Chat(#[from] ChatError),
    /// The CPU cannot be used as asked.
    #[error(transparent)]
    Cpu(#[from] CpuError),
    /// A request was refused or broke off.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Error {
    /// Whether what was asked for cannot be done: another request or another file is needed, and trying again is useless.
    /// What is left are failures of the machine, the network, or the computation.
    pub fn is_refusal(&self) -> bool {
        match self {
            Error::Hub(error) => error.is_refusal(),
            Error::File(error) => error.fault().is_some(),
            Error::Model { error, .. } => model_refuses(error),
            Error::Engine(EngineError::Model(error)) => model_refuses(error),
            Error::Engine(EngineError::Stopped) | Error::Read { .. } => false,
            Error::Tokenizer { .. }
            | Error::NoTokenizer { .. }
            | Error::Chat(_)
            | Error::Cpu(_)
            | Error::Engine(_) => true,
        }
    }

    /// The layers below name the file only where the container is at fault.
    pub(crate) fn model(path: &Path, error: ModelError) -> Error {
        match error {
            ModelError::Gguf(error) => Error::File(error),
            error => Error::Model { path: path.into(), error },
        }
    }

    pub(crate) fn tokenizer(path: &Path, error: TokenizerError) -> Error {
        match error {
            TokenizerError::Metadata(error) => Error::File(error),
            error => Error::Tokenizer { path: path.into(), error },
        }
    }
}

/// A layer that overflows is found while computing; everything else of a model is found in its file or the request.
fn model_refuses(error: &ModelError) -> bool {
    !matches!(error, ModelError::Layer { .. } | ModelError::Sequence { .. })
}
