//! Why a model cannot be loaded or a batch cannot be run.

use quern_backend::BackendError;
use quern_gguf::GgufError;
use std::path::PathBuf;

/// An error of the model layer.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The file itself.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// A Hugging Face configuration.
    #[error("{} {reason}", .path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// No family of that name.
    #[error("unknown architecture \"{arch}\": the families are {known}")]
    Architecture {
        /// `general.architecture`, made printable.
        arch: String,
        /// What would be known.
        known: String,
    },
    /// The metadata asks for something that cannot be right, or that is not built.
    #[error("{arch}: {reason}")]
    Spec {
        /// Family.
        arch: String,
        /// What is wrong, and where.
        reason: String,
    },
    /// A tensor that the spec needs is not there.
    #[error("tensor {0} is missing: the file is incomplete, or its architecture is not what it says")]
    MissingTensor(String),
    /// A tensor of another shape than the spec asks for.
    #[error("tensor {name} is {found}, where {expected} is needed")]
    TensorShape {
        /// Its name.
        name: String,
        /// Its shape, or the value that is wrong.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// Tensors that the forward pass would not use.
    #[error(
        "the {arch} forward pass has no use for {count} tensors of this file, {names} among them: leaving them out would change the answer, so the file is refused"
    )]
    UnusedTensors {
        /// Family.
        arch: String,
        /// How many.
        count: usize,
        /// The first few.
        names: String,
    },
    /// A cache type that the heads of a layer do not fit.
    #[error(
        "layer {layer} has heads of {head_dim}, and {kv} caches hold blocks of {block}: choose one of {fit}"
    )]
    Cache {
        /// Which.
        layer: usize,
        /// Length of its keys and values.
        head_dim: usize,
        /// The type.
        kv: &'static str,
        /// What head_dim must be a multiple of.
        block: usize,
        /// The types that fit.
        fit: String,
    },
    /// The backend refused.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The backend refused in a layer.
    #[error("layer {layer}: {source}")]
    Layer {
        /// Which.
        layer: usize,
        /// Why.
        source: BackendError,
    },
    /// A token that the model has no embedding for.
    #[error("token id {id} is outside the vocabulary of {n_vocab}")]
    Token {
        /// The id.
        id: u32,
        /// Vocabulary size.
        n_vocab: usize,
    },
    /// More positions than the state was made for.
    #[error("position {position} is outside the context of {context}")]
    Context {
        /// First position that does not fit.
        position: usize,
        /// Positions that do.
        context: usize,
    },
    /// A sequence that does not exist, or whose state ends elsewhere than the batch begins.
    #[error("sequence {seq} {reason}")]
    Sequence {
        /// Its id.
        seq: u64,
        /// What is wrong.
        reason: String,
    },
}
