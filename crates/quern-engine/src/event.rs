//! What an engine answers with.

use std::time::Duration;

/// A step of a generation.
#[derive(Clone, Debug)]
pub enum Event {
    /// The prompt, as far as it has been read.
    Prefill {
        /// Tokens read.
        done: usize,
        /// Tokens in all.
        total: usize,
    },
    /// A token that belongs to the answer.
    Token(Token),
    /// Text that belongs to the answer: what tokens so far have completed and no stop string can still claim.
    Text(String),
    /// The end. Nothing follows.
    Finish(Finish),
}

/// A token of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// Its log probability under the model, before sampling settings, in nats; where it was asked for.
    pub logprob: Option<f32>,
}

/// How a generation ended.
#[derive(Clone, Debug)]
pub struct Finish {
    /// Why.
    pub reason: FinishReason,
    /// What ended it, where the reason is `Stop`.
    pub stopped_by: Option<StoppedBy>,
    /// Tokens in and out.
    pub usage: Usage,
    /// Where the time went.
    pub timings: Timings,
    /// The seed that was used.
    pub seed: u64,
}

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended it, or a stop string or stop token did.
    Stop,
    /// The token limit or the context was reached.
    Length,
    /// It was cancelled.
    Cancelled,
}

impl FinishReason {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            FinishReason::Cancelled => "cancelled",
        }
    }
}

/// What stopped a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoppedBy {
    /// A token; it is not part of the answer.
    Token(u32),
    /// A stop string of the request; it is not part of the answer.
    Text(String),
}

/// Tokens in and out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens drawn, the one that stopped included.
    pub completion_tokens: usize,
}

/// Where the time went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timings {
    /// From submission to the start of work.
    pub queue: Duration,
    /// Text to ids.
    pub tokenize: Duration,
    /// Reading the prompt, to the logits of its last token.
    pub prefill: Duration,
    /// From those logits to the last token drawn.
    pub decode: Duration,
    /// From submission to the first token drawn.
    pub first_token: Duration,
}

impl Timings {
    /// Prompt tokens per second.
    pub fn prompt_tok_s(&self, usage: &Usage) -> f64 {
        usage.prompt_tokens as f64 / self.prefill.as_secs_f64()
    }

    /// Forward steps per second after the prompt: the first token comes out of the prompt's own logits.
    pub fn generate_tok_s(&self, usage: &Usage) -> f64 {
        usage.completion_tokens.saturating_sub(1) as f64 / self.decode.as_secs_f64()
    }
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its text; empty without a tokenizer.
    pub text: String,
    /// Its tokens.
    pub tokens: Vec<Token>,
    /// How it ended.
    pub finish: Finish,
}
