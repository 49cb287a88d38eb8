//! Sampling: how one token is chosen from a row of logits.
//!
//! The order of the stages is data ([`STAGES`]); a request's settings ([`SamplingParams`]) decide which of them act. The
//! arithmetic is fixed to the last bit:
//!
//! - Candidates stand by descending logit, ascending id among equals. Temperature stretches the distances and never
//!   changes that order.
//! - A weight is `exp((l - l_max) / temperature)`. The draw adds weights one after the other in f32 in that order and
//!   takes the first candidate whose prefix sum exceeds `u` times the last one.
//! - Softmax denominators, entropies and variances of the stages are sums over candidates in ascending id, by the
//!   sixteen-partial rule. Cumulative probabilities are sequential in the order of the stage's walk.
//! - `u` has 24 bits and comes from Philox4x32-10 under the request's seed, at (generated index, choice, stage).
//!
//! These definitions speak of sorted vocabularies, but no step sorts one: the ranking sorts as far as a walk goes, and
//! a walk ends where later weights are too small to change its sum. The tests hold the two against each other.
//!
//! Deliberately absent: any generator state (draws are addressed by position), prompts (penalties see generated tokens
//! only), and text (stop strings are in [`stops`](crate::stops)).

mod candidates;
mod error;
mod logprobs;
mod mask;
mod math;
mod params;
mod philox;
pub mod presets;
mod ranking;
mod resolve;
mod sampler;
mod stages;
#[cfg(test)]
mod tests;

pub use error::SamplingError;
pub use logprobs::{MAX_TOP_LOGPROBS, TokenLogprob, log_sum_exp, top_logprobs};
pub use mask::TokenMask;
pub use params::{Mirostat, SamplingParams};
pub use philox::{DrawAt, philox4x32_10, uniform};
pub use resolve::{Layers, Overrides, Resolved, Setting, Source, resolve};
pub use sampler::{Drawn, Sampler, SamplerState};
pub use stages::{STAGES, Stage, StageInfo};
