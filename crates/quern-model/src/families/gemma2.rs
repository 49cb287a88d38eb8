//! Gemma 2: norms before and after each block, every other layer sliding, GeGLU, caps on scores and logits, embeddings times
//! sqrt(hidden), tied head.
//!
//! Gemma Team 2024; reference: `modeling_gemma2.py` of transformers. GGUF files hold norm weights with their +1.

use super::gemma3;
use crate::hugging_face::{Config, Entries, HuggingFace};
use crate::spec::{AttentionSpec, DenseSpec, FeedForward, LayerSpec, Mixer, NormPlacement};
use crate::{Header, ModelError, ModelSpec, Sizes};
use quern_backend::{Activation, RopePairs};
use quern_gguf::Value;

/// Every second layer sees everything, where the file does not say otherwise.
const PATTERN: usize = 2;
/// What the publisher's configuration means where it is silent; the first files have none of these keys.
const WINDOW: usize = 4096;
const CAPS: [(&str, f32); 2] = [("attn_logit_softcapping", 50.0), ("final_logit_softcapping", 30.0)];
/// The 27B model alone scales its scores by the width per query head, not by the head's length.
const LAYERS_27B: usize = 46;

pub(super) fn spec(h: &Header<'_>) -> Result<ModelSpec, ModelError> {
    let Sizes { n_layers, hidden, n_heads, n_kv_heads, head_dim, width } = h.sizes()?;
    let sliding = h.sliding_layers(n_layers, PATTERN)?;
    let window = h.opt_count("attention.sliding_window")?.unwrap_or(WINDOW);
    let cap = |(name, silent)| {
        Ok::<_, ModelError>(Some(h.opt_f32(name)?.unwrap_or(silent)).filter(|cap| *cap != 0.0))
    };
    let [softcap, final_softcap] = [cap(CAPS[0])?, cap(CAPS[1])?];
    // The publisher's configuration says it; GGUF files have no key for it.
    let scaled_width = match h.opt_count("attention.query_pre_attn_scalar")? {
        Some(width) => width,
        None if n_layers == LAYERS_27B => hidden / n_heads.max(1),
        None => head_dim,
    };
    let layer = |l: usize| LayerSpec {
        mixer: Mixer::Attention(AttentionSpec {
            n_heads,
            n_kv_heads,
            head_dim,
            scale: 1.0 / (scaled_width as f32).sqrt(),
            softcap,
            window: Some(window).filter(|_| sliding[l]),
            rope: 0,
            qk_norm: false,
            qkv_bias: false,
            output_bias: false,
            output_gate: false,
        }),
        feed_forward: FeedForward::Dense(DenseSpec { width, activation: Activation::GeluTanh, bias: false }),
        norms: NormPlacement::Sandwich,
    };
    Ok(ModelSpec {
        embedding_scale: (hidden as f32).sqrt(),
        final_softcap,
        ..h.model(hidden, vec![h.rope(head_dim, RopePairs::Halves)?], (0..n_layers).map(layer).collect())?
    })
}

pub(super) const HUGGING_FACE: HuggingFace =
    HuggingFace { model_types: &["gemma2"], config, ..gemma3::HUGGING_FACE };

fn config(config: &Config<'_>, entries: &mut Entries) -> Result<(), ModelError> {
    gemma3::shared_config(config, entries)?;
    for (name, silent) in CAPS {
        let cap = if config.is_null(name) { 0.0 } else { config.opt_f32(name)?.unwrap_or(silent) };
        entries.own(name, Value::F32(cap));
    }
    Ok(())
}
