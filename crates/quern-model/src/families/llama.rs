//! Llama and what shares its shape (SmolLM2, Mistral): pre-norm, grouped-query attention, SwiGLU.
//!
//! Touvron et al. 2023; reference: `modeling_llama.py` of transformers. GGUF files hold q and k permuted, so that values
//! which turn together are adjacent.

use crate::spec::{AttentionSpec, DenseSpec, FeedForward, LayerSpec, Mixer, NormPlacement};
use crate::{Header, ModelError, ModelSpec};
use quern_backend::{Activation, RopePairs};

pub(super) fn spec(h: &Header<'_>) -> Result<ModelSpec, ModelError> {
    let n_layers = h.count("block_count")?;
    let hidden = h.count("embedding_length")?;
    let first_heads = h.layer_count("attention.head_count", 0, n_layers)?.unwrap_or(0);
    let head_dim = h.head_dim(hidden, first_heads)?;
    let has = |name: &str| h.tensor(&format!("blk.0.{name}.bias")).is_some();
    let (qkv_bias, output_bias, ffn_bias) = (has("attn_q"), has("attn_output"), has("ffn_gate"));
    let mut layers = Vec::new();
    for l in 0..crate::spec::SpecLimits::DEFAULT.layers.min(n_layers) {
        let n_heads = h.layer_count("attention.head_count", l, n_layers)?.unwrap_or(0);
        let n_kv_heads = h.layer_count("attention.head_count_kv", l, n_layers)?.unwrap_or(n_heads);
        let width = h.layer_count("feed_forward_length", l, n_layers)?.unwrap_or(0);
        layers.push(LayerSpec {
            mixer: Mixer::Attention(AttentionSpec {
                n_heads,
                n_kv_heads,
                head_dim,
                scale: 1.0 / (head_dim as f32).sqrt(),
                softcap: None,
                window: None,
                rope: 0,
                qk_norm: false,
                qkv_bias,
                output_bias,
            }),
            feed_forward: FeedForward::Dense(DenseSpec {
                width,
                activation: Activation::Silu,
                bias: ffn_bias,
            }),
            norms: NormPlacement::Pre,
        });
    }
    if layers.len() != n_layers {
        return h.refuse(format!("block_count is {n_layers}, more than {}", layers.len()));
    }
    Ok(ModelSpec {
        arch: h.arch().into(),
        n_vocab: h.n_vocab()?,
        hidden,
        context_length: h.count("context_length")?,
        norm_eps: h.f32("attention.layer_norm_rms_epsilon")?,
        embedding_scale: 1.0,
        tied_head: h.tensor("output.weight").is_none(),
        final_softcap: None,
        ropes: vec![h.rope(head_dim, RopePairs::Adjacent)?],
        layers,
    })
}
