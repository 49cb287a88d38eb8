//! Why a request was refused or broke off.

use crate::sampling::SamplingError;
use crate::stops::StopError;
use quern_model::ModelError;

/// An error of the engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A prompt of no tokens.
    #[error("the prompt is empty: there is nothing to continue")]
    EmptyPrompt,
    /// A prompt that leaves no room for an answer.
    #[error(
        "the prompt has {prompt} tokens, and the context holds {context}: shorten it, or raise the context"
    )]
    PromptTooLong {
        /// Its tokens.
        prompt: usize,
        /// What fits.
        context: usize,
    },
    /// Text for a model without a tokenizer.
    #[error("the model file has no tokenizer: give token ids instead of text")]
    NoTokenizer,
    /// A context the model cannot have.
    #[error("a context of {asked} positions was asked for, and the model reaches {most}")]
    Context {
        /// Asked for.
        asked: usize,
        /// The most it can have.
        most: usize,
    },
    /// Sampling settings, or logits that cannot be drawn from.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// Stop strings.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// The forward pass.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The worker is gone, which means that it panicked.
    #[error("the engine has stopped")]
    Stopped,
}
