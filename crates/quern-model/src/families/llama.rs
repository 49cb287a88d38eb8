//! Llama and what shares its shape (SmolLM2, Mistral): pre-norm, grouped-query attention, SwiGLU.
//!
//! Touvron et al. 2023; reference: `modeling_llama.py` of transformers. GGUF files hold q and k permuted, so that values
//! which turn together are adjacent.

use super::dense::{Dense, dense, hugging_face};
use crate::hugging_face::HuggingFace;
use crate::{Header, ModelError, ModelSpec};
use quern_backend::RopePairs;

pub(super) fn spec(h: &Header<'_>) -> Result<ModelSpec, ModelError> {
    let pairs = if h.is_hugging_face() { RopePairs::Halves } else { RopePairs::Adjacent };
    dense(h, Dense { pairs, qk_norm: false })
}

pub(super) const HUGGING_FACE: HuggingFace = hugging_face(&["llama", "mistral"]);
