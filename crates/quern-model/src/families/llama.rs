//! Llama and what shares its shape (SmolLM2, Mistral): pre-norm, grouped-query attention, SwiGLU.
//!
//! Touvron et al. 2023; reference: `modeling_llama.py` of transformers. GGUF files hold q and k permuted, so that values
//! which turn together are adjacent.

use super::dense::{Dense, dense};
use crate::{Header, ModelError, ModelSpec};
use quern_backend::RopePairs;

pub(super) fn spec(h: &Header<'_>) -> Result<ModelSpec, ModelError> {
    dense(h, Dense { pairs: RopePairs::Adjacent, qk_norm: false })
}
