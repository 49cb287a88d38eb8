//! Qwen 2 and 2.5: llama's shape with biases on queries, keys and values, and rotary pairs half a head apart.
//!
//! Qwen Team 2024; reference: `modeling_qwen2.py` of transformers.

use super::dense::{Dense, dense, hugging_face};
use crate::hugging_face::HuggingFace;
use crate::{Header, ModelError, ModelSpec};
use quern_backend::RopePairs;

pub(super) fn spec(h: &Header<'_>) -> Result<ModelSpec, ModelError> {
    dense(h, Dense { pairs: RopePairs::Halves, qk_norm: false })
}

pub(super) const HUGGING_FACE: HuggingFace = hugging_face(&["qwen2"]);
