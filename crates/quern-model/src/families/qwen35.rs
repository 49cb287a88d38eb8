//! Qwen 3.5, dense: three Gated DeltaNet layers to each full-attention one, whose output passes a gate and whose heads
//! turn in part.
//!
//! Qwen Team 2026; reference: `modeling_qwen3_5.py` of transformers. GGUF files hold norm weights with their +1 (but not
//! the DeltaNet's own), `ssm_a` as `-exp(A_log)`, and value heads in an order in which key heads repeat. For text the
//! three position axes of its rotary embedding are one.

use crate::hugging_face::{Config, Entries, HuggingFace};
use crate::spec::{AttentionSpec, DeltaNetSpec, DenseSpec, FeedForward, LayerSpec, Mixer, NormPlacement};
use crate::{Header, ModelError, ModelSpec, Sizes};
use quern_backend::{Activation, DeltaShape, KeyHeads, RopePairs};

/// Every fourth layer attends, where the file does not say otherwise.
const INTERVAL: usize = 4;

pub(super) fn spec(h: &Header<'_>) -> Result<ModelSpec, ModelError> {
    let Sizes { n_layers, hidden, n_heads, n_kv_heads, head_dim, width } = h.sizes()?;
    let attention = AttentionSpec {
        n_heads,
        n_kv_heads,
        head_dim,
        scale: 1.0 / (head_dim as f32).sqrt(),
        softcap: None,
        window: None,
        rope: 0,
        qk_norm: true,
        qkv_bias: false,
        output_bias: false,
        output_gate: true,
    };
    let n_v_heads = h.count("ssm.time_step_rank")?;
    let value_dim = h.count("ssm.inner_size")?;
    if n_v_heads == 0 || !value_dim.is_multiple_of(n_v_heads) {
        return h.refuse(format!("ssm.inner_size is {value_dim}, not a multiple of {n_v_heads} value heads"));
    }
    let delta_net = DeltaNetSpec {
        shape: DeltaShape {
            n_k_heads: h.count("ssm.group_count")?,
            n_v_heads,
            head_k_dim: h.count("ssm.state_size")?,
            head_v_dim: value_dim / n_v_heads,
            key_heads: if h.is_hugging_face() { KeyHeads::Grouped } else { KeyHeads::Tiled },
        },
        conv_taps: h.count("ssm.conv_kernel")?,
    };
    let recurrent = h.recurrent_layers(n_layers, INTERVAL)?;
    let layer = |l: usize| LayerSpec {
        mixer: match recurrent[l] {
            true => Mixer::DeltaNet(delta_net.clone()),
            false => Mixer::Attention(attention.clone()),
        },
        feed_forward: FeedForward::Dense(DenseSpec { width, activation: Activation::Silu, bias: false }),
        norms: NormPlacement::Pre,
    };
    h.model(hidden, vec![h.rope(head_dim, RopePairs::Halves)?], (0..n_layers).map(layer).collect())
}

pub(super) const HUGGING_FACE: HuggingFace = HuggingFace {
    model_types: &["qwen3_5_text", "qwen3_5"],
    names: &[("post_attention_layernorm", "post_attention_norm")],
    activation: "silu",
    one_plus_norms: true,
    tied: false,
    config,
};

/// What the publisher turns of a head where `partial_rotary_factor` is absent.
const PARTIAL_ROTARY: f32 = 0.25;

fn config(config: &Config<'_>, entries: &mut Entries) -> Result<(), ModelError> {
    let [key_dim, value_dim] =
        ["linear_key_head_dim", "linear_value_head_dim"].map(|name| config.count(name));
    let [key_heads, value_heads] =
        ["linear_num_key_heads", "linear_num_value_heads"].map(|name| config.count(name));
    let (value_dim, value_heads) = (value_dim?, value_heads?);
    entries.count("ssm.state_size", key_dim?);
    entries.count("ssm.group_count", key_heads?);
    entries.count("ssm.time_step_rank", value_heads);
    match value_dim.checked_mul(value_heads) {
        Some(inner) => entries.count("ssm.inner_size", inner),
        None => return config.refuse(format!("has {value_heads} value heads of {value_dim}")),
    }
    entries.count("ssm.conv_kernel", config.count("linear_conv_kernel_dim")?);
    match (config.layers_of("linear_attention")?, config.opt_count("full_attention_interval")?) {
        (Some(flags), _) => entries.flags("attention.recurrent_layers", flags),
        (None, Some(interval)) => entries.count("full_attention_interval", interval),
        (None, None) => {}
    }
    let rope = config.rope()?;
    if rope.get("partial_rotary_factor").is_none() && config.get("partial_rotary_factor").is_none() {
        entries.count("rope.dimension_count", (config.head_dim()? as f32 * PARTIAL_ROTARY) as u32);
    }
    Ok(())
}
