//! Qwen 3, dense: no biases, an RMS norm on each query and key head, rotary pairs half a head apart.
//!
//! Qwen Team 2025; reference: `modeling_qwen3.py` of transformers.

use super::dense::{Dense, dense, hugging_face};
use crate::hugging_face::HuggingFace;
use crate::{Header, ModelError, ModelSpec};
use quern_backend::RopePairs;

pub(super) fn spec(h: &Header<'_>) -> Result<ModelSpec, ModelError> {
    dense(h, Dense { pairs: RopePairs::Halves, qk_norm: true })
}

pub(super) const HUGGING_FACE: HuggingFace = hugging_face(&["qwen3"]);
