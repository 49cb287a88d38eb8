//! What an engine is asked for.

use crate::sampling::SamplingParams;
use quern_tokenizer::OwnedSegment;

/// What is continued.
#[derive(Clone, Debug)]
pub enum Prompt {
    /// Text in trusted and plain pieces.
    Text {
        /// The pieces.
        segments: Vec<OwnedSegment>,
        /// Put the tokenizer's beginning-of-text token in front, where its rules say so.
        add_special: bool,
    },
    /// Token ids.
    Ids(Vec<u32>),
}

/// A request for one completion.
#[derive(Clone, Debug)]
pub struct Request {
    /// What is continued.
    pub prompt: Prompt,
    /// How tokens are drawn.
    pub sampling: SamplingParams,
    /// Most tokens to generate; None: until the model stops or the context is full.
    pub max_tokens: Option<usize>,
    /// Text that ends the answer, and is not part of it.
    pub stops: Vec<String>,
    /// Tokens that end the answer, beside the model's own.
    pub stop_ids: Vec<u32>,
    /// The model's own end tokens can not be drawn.
    pub ignore_eos: bool,
    /// Report the log probability of every drawn token.
    pub logprobs: bool,
}

impl Request {
    /// A request with neutral sampling and no limits.
    pub fn new(prompt: Prompt) -> Request {
        Request {
            prompt,
            sampling: SamplingParams::default(),
            max_tokens: None,
            stops: Vec::new(),
            stop_ids: Vec::new(),
            ignore_eos: false,
            logprobs: false,
        }
    }
}
