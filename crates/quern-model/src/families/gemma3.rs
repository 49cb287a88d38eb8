//! Gemma 3 text models: norms before and after each block, QK norm, GeGLU, five sliding layers to each full one with a
//! rotary base of their own, embeddings times sqrt(hidden), tied head.
//!
//! Gemma Team 2025; reference: `modeling_gemma3.py` of transformers. GGUF files hold norm weights with their +1.

use crate::spec::{AttentionSpec, DenseSpec, FeedForward, LayerSpec, Mixer, NormPlacement, RopeScaling};
use crate::{Header, ModelError, ModelSpec};
use quern_backend::{Activation, RopePairs};

/// Every sixth layer sees everything, where the file does not say otherwise.
const PATTERN: usize = 6;
/// Rotary base of the sliding layers, where the file does not say otherwise.
const LOCAL_BASE: f32 = 10_000.0;
/// The 27B model alone scales its scores by the width per query head (168), not by the head's length (128) (R22).
const LAYERS_27B: usize = 62;

const FULL: usize = 0;
const LOCAL: usize = 1;

pub(super) fn spec(h: &Header<'_>) -> Result<ModelSpec, ModelError> {
    let n_layers = h.n_layers()?;
    let hidden = h.count("embedding_length")?;
    let n_heads = h.count("attention.head_count")?;
    let n_kv_heads = h.opt_count("attention.head_count_kv")?.unwrap_or(n_heads);
    let head_dim = h.head_dim(hidden, n_heads)?;
    let width = h.count("feed_forward_length")?;
    let sliding = h.sliding_layers(n_layers, PATTERN)?;
    let window = h.opt_count("attention.sliding_window")?;
    if window.is_none() && sliding.contains(&true) {
        return h.refuse("attention.sliding_window is missing, and layers slide");
    }
    let scaled_width = if n_layers == LAYERS_27B { hidden / n_heads.max(1) } else { head_dim };
    let layer = |l: usize| {
        let slides = sliding[l];
        LayerSpec {
            mixer: Mixer::Attention(AttentionSpec {
                n_heads,
                n_kv_heads,
                head_dim,
                scale: 1.0 / (scaled_width as f32).sqrt(),
                softcap: None,
                window: window.filter(|_| slides),
                rope: if slides { LOCAL } else { FULL },
                qk_norm: true,
                qkv_bias: false,
                output_bias: false,
                output_gate: false,
            }),
            feed_forward: FeedForward::Dense(DenseSpec {
                width,
                activation: Activation::GeluTanh,
                bias: false,
            }),
            norms: NormPlacement::Sandwich,
        }
    };
    let full = h.rope(head_dim, RopePairs::Halves)?;
    let mut local = full.clone();
    local.base = h.opt_f32("rope.freq_base_swa")?.unwrap_or(LOCAL_BASE).into();
    local.scaling = RopeScaling::None;
    let final_softcap = h.opt_f32("final_logit_softcapping")?.filter(|cap| *cap != 0.0);
    Ok(ModelSpec {
        arch: h.arch().into(),
        n_vocab: h.n_vocab()?,
        hidden,
        context_length: h.count("context_length")?,
        norm_eps: h.f32("attention.layer_norm_rms_epsilon")?,
        embedding_scale: (hidden as f32).sqrt(),
        tied_head: h.tensor("output.weight").is_none(),
        final_softcap,
        ropes: vec![full, local],
        layers: (0..n_layers).map(layer).collect(),
    })
}
