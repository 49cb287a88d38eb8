//! Gemma 3 text models: norms before and after each block, QK norm, GeGLU, five sliding layers to each full one with a
//! rotary base of their own, embeddings times sqrt(hidden), tied head.
//!
//! Gemma Team 2025; reference: `modeling_gemma3.py` of transformers. GGUF files hold norm weights with their +1.

use crate::hugging_face::{Config, Entries, HuggingFace};
use crate::spec::{AttentionSpec, DenseSpec, FeedForward, LayerSpec, Mixer, NormPlacement, RopeScaling};
use crate::{Header, ModelError, ModelSpec, Sizes};
use quern_backend::{Activation, RopePairs};
use quern_gguf::Value;

/// Every sixth layer sees everything, where the file does not say otherwise.
const PATTERN: usize = 6;
/// Rotary base of the sliding layers, where the file does not say otherwise.
const LOCAL_BASE: f32 = 10_000.0;
/// The 27B model alone scales its scores by the width per query head (168), not by the head's length (128) (R22).
const LAYERS_27B: usize = 62;

const FULL: usize = 0;
const LOCAL: usize = 1;

pub(super) fn spec(h: &Header<'_>) -> Result<ModelSpec, ModelError> {
    let Sizes { n_layers, hidden, n_heads, n_kv_heads, head_dim, width } = h.sizes()?;
    let sliding = h.sliding_layers(n_layers, PATTERN)?;
    let window = h.opt_count("attention.sliding_window")?;
    if window.is_none() && sliding.contains(&true) {
        return h.refuse("attention.sliding_window is missing, and layers slide");
    }
    // The publisher's configuration says it; GGUF files have no key for it.
    let scaled_width = match h.opt_count("attention.query_pre_attn_scalar")? {
        Some(width) => width,
        None if n_layers == LAYERS_27B => hidden / n_heads.max(1),
        None => head_dim,
    };
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
    Ok(ModelSpec {
        embedding_scale: (hidden as f32).sqrt(),
        final_softcap: h.opt_f32("final_logit_softcapping")?.filter(|cap| *cap != 0.0),
        ..h.model(hidden, vec![full, local], (0..n_layers).map(layer).collect())?
    })
}

pub(super) const HUGGING_FACE: HuggingFace = HuggingFace {
    model_types: &["gemma3_text", "gemma3"],
    names: &[
        ("post_attention_layernorm", "post_attention_norm"),
        ("pre_feedforward_layernorm", "ffn_norm"),
        ("post_feedforward_layernorm", "post_ffw_norm"),
    ],
    activation: "gelu_pytorch_tanh",
    one_plus_norms: true,
    tied: true,
    config,
};

/// What the configurations of Gemma 2 and 3 have in common: which layers slide, and by what scores are scaled.
pub(super) fn shared_config(config: &Config<'_>, entries: &mut Entries) -> Result<(), ModelError> {
    if config.opt_bool("use_bidirectional_attention")? == Some(true) {
        return config.refuse("has use_bidirectional_attention: it is no model that generates");
    }
    if let Some(window) = config.opt_count("sliding_window")? {
        entries.count("attention.sliding_window", window);
    }
    match (config.layers_of("sliding_attention")?, config.opt_count("sliding_window_pattern")?) {
        (Some(flags), _) => entries.flags("attention.sliding_window_pattern", flags),
        (None, Some(period)) => entries.count("attention.sliding_window_pattern", period),
        (None, None) => {}
    }
    if let Some(width) = config.opt_count("query_pre_attn_scalar")? {
        entries.count("attention.query_pre_attn_scalar", width);
    }
    Ok(())
}

fn config(config: &Config<'_>, entries: &mut Entries) -> Result<(), ModelError> {
    if config.opt_f32("attn_logit_softcapping")?.is_some() {
        return config.refuse("has attn_logit_softcapping: that cannot be run yet");
    }
    shared_config(config, entries)?;
    let local = config.rope()?.object("sliding_attention")?;
    if let Some(local) = &local {
        local.expect_one_of("rope_type", &["default"])?;
    }
    let base = match &local {
        Some(local) => local.opt_f32("rope_theta")?,
        None => config.opt_f32("rope_local_base_freq")?,
    };
    if let Some(base) = base {
        entries.own("rope.freq_base_swa", Value::F32(base));
    }
    if let Some(cap) = config.opt_f32("final_logit_softcapping")? {
        entries.own("final_logit_softcapping", Value::F32(cap));
    }
    Ok(())
}
