//! The common shape of dense families: pre-norm, grouped-query attention over everything, SwiGLU. Biases are where the
//! file has them.

use crate::hugging_face::HuggingFace;
use crate::spec::{AttentionSpec, DenseSpec, FeedForward, LayerSpec, Mixer, NormPlacement};
use crate::{Header, ModelError, ModelSpec};
use quern_backend::{Activation, RopePairs};

/// What such families differ in.
#[derive(Clone, Copy)]
pub(super) struct Dense {
    /// Which values of a head turn together.
    pub(super) pairs: RopePairs,
    /// RMS norm of each query and key head.
    pub(super) qk_norm: bool,
}

pub(super) fn dense(h: &Header<'_>, family: Dense) -> Result<ModelSpec, ModelError> {
    let n_layers = h.n_layers()?;
    let hidden = h.count("embedding_length")?;
    let first_heads = h.layer_count("attention.head_count", 0, n_layers)?.unwrap_or(0);
    let head_dim = h.head_dim(hidden, first_heads)?;
    let has = |name: &str| h.tensor(&format!("blk.0.{name}.bias")).is_some();
    let (qkv_bias, output_bias, ffn_bias) = (has("attn_q"), has("attn_output"), has("ffn_gate"));
    let layer = |l: usize| {
        let n_heads = h.layer_count("attention.head_count", l, n_layers)?.unwrap_or(0);
        Ok(LayerSpec {
            mixer: Mixer::Attention(AttentionSpec {
                n_heads,
                n_kv_heads: h.layer_count("attention.head_count_kv", l, n_layers)?.unwrap_or(n_heads),
                head_dim,
                scale: 1.0 / (head_dim as f32).sqrt(),
                softcap: None,
                window: None,
                rope: 0,
                qk_norm: family.qk_norm,
                qkv_bias,
                output_bias,
                output_gate: false,
            }),
            feed_forward: FeedForward::Dense(DenseSpec {
                width: h.layer_count("feed_forward_length", l, n_layers)?.unwrap_or(0),
                activation: Activation::Silu,
                bias: ffn_bias,
            }),
            norms: NormPlacement::Pre,
        })
    };
    let layers = (0..n_layers).map(layer).collect::<Result<_, ModelError>>()?;
    h.model(hidden, vec![h.rope(head_dim, family.pairs)?], layers)
}

/// The folders of such a family.
pub(super) const fn hugging_face(model_types: &'static [&'static str]) -> HuggingFace {
    HuggingFace {
        model_types,
        names: &[("post_attention_layernorm", "ffn_norm")],
        activation: "silu",
        one_plus_norms: false,
        tied: false,
        // Qwen says by a key of its own whether the window counts; Mistral has no such key.
        config: |config, _| match (
            config.opt_bool("use_sliding_window")?,
            config.opt_count("sliding_window")?,
        ) {
            (Some(true), _) => config.refuse("has use_sliding_window: that cannot be run yet"),
            (None, Some(_)) => config.refuse("has a sliding_window: that cannot be run yet"),
            (Some(false), _) | (None, None) => Ok(()),
        },
    }
}
