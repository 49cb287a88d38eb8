//! `ModelSpec`: what a model is made of, as plain data. One chokepoint validates it before anything is allocated.

use crate::ModelError;
use quern_backend::{Activation, ConvShape, DeltaShape, KvType, RopePairs};

/// A model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSpec {
    /// Family, as `general.architecture` names it.
    pub arch: String,
    /// Rows of the embedding.
    pub n_vocab: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Positions the model was trained for, or reaches by [`ModelSpec::with_rope`].
    pub context_length: usize,
    /// Added to the mean square in every RMS norm.
    pub norm_eps: f32,
    /// Embedding rows are multiplied by this.
    pub embedding_scale: f32,
    /// The head is the embedding.
    pub tied_head: bool,
    /// `cap tanh(logit / cap)` over the logits.
    pub final_softcap: Option<f32>,
    /// Rotary embeddings that layers refer to by index.
    pub ropes: Vec<RopeSpec>,
    /// In order.
    pub layers: Vec<LayerSpec>,
}

/// A layer: mixer, feed-forward, and where the norms stand.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerSpec {
    /// What mixes positions.
    pub mixer: Mixer,
    /// What follows it.
    pub feed_forward: FeedForward,
    /// Where norms stand.
    pub norms: NormPlacement,
}

/// What mixes positions.
#[derive(Clone, Debug, PartialEq)]
pub enum Mixer {
    /// Softmax attention over a cache of keys and values.
    Attention(AttentionSpec),
    /// Gated DeltaNet: linear attention over a state of fixed size.
    DeltaNet(DeltaNetSpec),
}

/// Gated DeltaNet (Yang et al. 2024): one projection to queries, keys and values, a short convolution over them, the
/// gated delta rule, and an RMS norm of each value head gated by silu.
#[derive(Clone, Debug, PartialEq)]
pub struct DeltaNetSpec {
    /// Heads.
    pub shape: DeltaShape,
    /// Rows that an output of the short convolution sees.
    pub conv_taps: usize,
}

impl DeltaNetSpec {
    /// The convolution over queries, keys and values.
    pub fn conv(&self) -> ConvShape {
        ConvShape { channels: self.shape.channels(), taps: self.conv_taps }
    }

    /// Values in a row of outputs.
    pub fn value_dim(&self) -> usize {
        self.shape.n_v_heads * self.shape.head_v_dim
    }
}

/// Softmax attention.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionSpec {
    /// Query heads.
    pub n_heads: usize,
    /// Key and value heads.
    pub n_kv_heads: usize,
    /// Length of queries, keys and values.
    pub head_dim: usize,
    /// Multiplies the scores.
    pub scale: f32,
    /// Soft cap of the scores.
    pub softcap: Option<f32>,
    /// Positions a row sees, its own included; None: all.
    pub window: Option<usize>,
    /// Index into [`ModelSpec::ropes`].
    pub rope: usize,
    /// RMS norm of each query and key head.
    pub qk_norm: bool,
    /// Biases of q, k and v.
    pub qkv_bias: bool,
    /// Bias of the output projection.
    pub output_bias: bool,
    /// What is attended is multiplied by the sigmoid of a gate, which the query projection gives beside each head.
    pub output_gate: bool,
}

/// A feed-forward.
#[derive(Clone, Debug, PartialEq)]
pub enum FeedForward {
    /// `down(act(gate(x)) * up(x))`
    Dense(DenseSpec),
}

/// A gated dense feed-forward.
#[derive(Clone, Debug, PartialEq)]
pub struct DenseSpec {
    /// Inner width.
    pub width: usize,
    /// Of the gate.
    pub activation: Activation,
    /// Biases of all three.
    pub bias: bool,
}

/// Where norms stand in a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormPlacement {
    /// Before the mixer and before the feed-forward.
    Pre,
    /// Before and after each (Gemma 2 and 3).
    Sandwich,
}

/// A rotary embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeSpec {
    /// Leading values of a head that turn.
    pub dims: usize,
    /// theta
    pub base: f64,
    /// How values pair up.
    pub pairs: RopePairs,
    /// How long contexts are reached.
    pub scaling: RopeScaling,
    /// Divides each pair's frequency; empty: none. One per pair.
    pub factors: Vec<f32>,
}

/// How a rotary embedding reaches beyond its trained context.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// It does not.
    None,
    /// Positions divided by the factor.
    Linear {
        /// The factor.
        factor: f64,
    },
    /// YaRN (Peng et al. 2023): slow pairs divided by the factor, fast ones kept, a ramp between, and a factor on the
    /// rotated values.
    Yarn {
        /// The factor.
        factor: f64,
        /// Context before.
        original_context: f64,
        /// Rotations in the original context above which a pair is fast.
        beta_fast: f64,
        /// Rotations below which it is slow.
        beta_slow: f64,
        /// Multiplies cosines and sines.
        attention_factor: f64,
    },
}

impl RopeScaling {
    /// YaRN with the constants of its paper.
    pub(crate) fn yarn(factor: f64, original_context: f64) -> RopeScaling {
        RopeScaling::Yarn {
            factor,
            original_context,
            beta_fast: 32.0,
            beta_slow: 1.0,
            attention_factor: 1.0 + 0.1 * libm::log(factor),
        }
    }
}

/// Bounds on what a file may ask for: far above any model there is, far below what overflows or exhausts memory.
#[derive(Clone, Copy, Debug)]
pub struct SpecLimits {
    /// Layers.
    pub layers: usize,
    /// Width of the residual stream, of a feed-forward, and of all heads together.
    pub width: usize,
    /// Heads of a layer.
    pub heads: usize,
    /// Length of a head.
    pub head_dim: usize,
    /// Taps of a short convolution.
    pub conv_taps: usize,
    /// Positions.
    pub context: usize,
}

impl SpecLimits {
    /// The limits in force.
    pub const DEFAULT: SpecLimits = SpecLimits {
        layers: 1024,
        width: 1 << 20,
        heads: 1024,
        head_dim: 1024,
        conv_taps: 64,
        context: 1 << 28,
    };
}

/// Refuses on behalf of a family.
struct Check<'a> {
    arch: &'a str,
}

impl Check<'_> {
    fn refuse(&self, reason: String) -> Result<(), ModelError> {
        Err(ModelError::Spec { arch: self.arch.into(), reason })
    }

    fn count(&self, what: &str, value: usize, most: usize) -> Result<(), ModelError> {
        if value == 0 || value > most {
            return self.refuse(format!("{what} is {value}, outside 1..={most}"));
        }
        Ok(())
    }

    /// So many query heads or value heads share one key head.
    fn multiple(&self, l: usize, what: &str, heads: usize, key_heads: usize) -> Result<(), ModelError> {
        if !heads.is_multiple_of(key_heads) {
            return self.refuse(format!(
                "layer {l} has {heads} {what} heads for {key_heads} key heads: not a multiple"
            ));
        }
        Ok(())
    }

    fn rope(&self, i: usize, rope: &RopeSpec) -> Result<(), ModelError> {
        let positive = |x: f64| x.is_finite() && x > 0.0;
        if !positive(rope.base) {
            return self.refuse(format!("rope {i} has base {}", rope.base));
        }
        let sound = match rope.scaling {
            RopeScaling::None => true,
            RopeScaling::Linear { factor } => positive(factor),
            RopeScaling::Yarn { factor, original_context, beta_fast, beta_slow, attention_factor } => {
                [factor, original_context, beta_fast, beta_slow, attention_factor].into_iter().all(positive)
            }
        };
        if !sound {
            return self.refuse(format!("rope {i} has scaling {:?}", rope.scaling));
        }
        if !rope.factors.is_empty()
            && (rope.factors.len() != rope.dims / 2 || !rope.factors.iter().all(|f| positive((*f).into())))
        {
            return self.refuse(format!("rope_freqs must be {} positive factors", rope.dims / 2));
        }
        Ok(())
    }

    fn attention(&self, l: usize, a: &AttentionSpec, ropes: &[RopeSpec]) -> Result<(), ModelError> {
        let limits = SpecLimits::DEFAULT;
        self.count(&format!("head_count of layer {l}"), a.n_heads, limits.heads)?;
        self.count(&format!("head_count_kv of layer {l}"), a.n_kv_heads, limits.heads)?;
        self.count(&format!("key_length of layer {l}"), a.head_dim, limits.head_dim)?;
        self.count(&format!("all heads of layer {l}"), a.n_heads * a.head_dim, limits.width)?;
        self.multiple(l, "query", a.n_heads, a.n_kv_heads)?;
        if let Some(window) = a.window {
            self.count(&format!("sliding_window of layer {l}"), window, limits.context)?;
        }
        if a.output_gate && a.qkv_bias {
            return self
                .refuse(format!("layer {l} has a gated output and query biases: that cannot be run yet"));
        }
        if !(a.scale.is_finite() && a.scale > 0.0) {
            return self.refuse(format!("layer {l} scales its scores by {}", a.scale));
        }
        let Some(rope) = ropes.get(a.rope) else {
            return self.refuse(format!("layer {l} refers to rope {}, which is not there", a.rope));
        };
        if rope.dims == 0 || !rope.dims.is_multiple_of(2) || rope.dims > a.head_dim {
            return self.refuse(format!(
                "rope dimension_count is {}, not an even number up to the head's {}",
                rope.dims, a.head_dim
            ));
        }
        Ok(())
    }

    fn delta_net(&self, l: usize, d: &DeltaNetSpec) -> Result<(), ModelError> {
        let limits = SpecLimits::DEFAULT;
        let DeltaShape { n_k_heads, n_v_heads, head_k_dim, head_v_dim, .. } = d.shape;
        self.count(&format!("key heads (ssm.group_count) of layer {l}"), n_k_heads, limits.heads)?;
        self.count(&format!("value heads (ssm.time_step_rank) of layer {l}"), n_v_heads, limits.heads)?;
        self.count(&format!("key length (ssm.state_size) of layer {l}"), head_k_dim, limits.head_dim)?;
        self.count(&format!("value length of layer {l}"), head_v_dim, limits.head_dim)?;
        self.count(&format!("ssm.conv_kernel of layer {l}"), d.conv_taps, limits.conv_taps)?;
        self.count(&format!("all heads of layer {l}"), d.shape.channels(), limits.width)?;
        self.multiple(l, "value", n_v_heads, n_k_heads)
    }
}

impl ModelSpec {
    /// The Gated DeltaNet layers.
    pub(crate) fn delta_nets(&self) -> impl Iterator<Item = &DeltaNetSpec> {
        self.layers.iter().filter_map(|layer| match &layer.mixer {
            Mixer::DeltaNet(delta_net) => Some(delta_net),
            Mixer::Attention(_) => None,
        })
    }

    /// Refuses a cache type that the heads of a layer do not fit, before anything is allocated.
    pub fn check_cache(&self, kv: KvType) -> Result<(), ModelError> {
        for (layer, spec) in self.layers.iter().enumerate() {
            let Mixer::Attention(AttentionSpec { head_dim, .. }) = spec.mixer else { continue };
            if !head_dim.is_multiple_of(kv.block()) {
                let fit: Vec<_> = KvType::ALL
                    .iter()
                    .filter(|other| head_dim.is_multiple_of(other.block()))
                    .map(|kv| kv.name())
                    .collect();
                let (kv, block, fit) = (kv.name(), kv.block(), fit.join(", "));
                return Err(ModelError::Cache { layer, head_dim, kv, block, fit });
            }
        }
        Ok(())
    }

    /// Checks every number that a file controls.
    pub fn validate(&self) -> Result<(), ModelError> {
        let (limits, check) = (SpecLimits::DEFAULT, Check { arch: &self.arch });
        check.count("block_count", self.layers.len(), limits.layers)?;
        check.count("embedding_length", self.hidden, limits.width)?;
        check.count("context_length", self.context_length, limits.context)?;
        if !(self.norm_eps.is_finite() && self.norm_eps > 0.0) {
            return check.refuse(format!("the norm's epsilon is {}, not a positive number", self.norm_eps));
        }
        for (i, rope) in self.ropes.iter().enumerate() {
            check.rope(i, rope)?;
        }
        for (l, layer) in self.layers.iter().enumerate() {
            match &layer.mixer {
                Mixer::Attention(attention) => check.attention(l, attention, &self.ropes)?,
                Mixer::DeltaNet(delta_net) => check.delta_net(l, delta_net)?,
            }
            let FeedForward::Dense(dense) = &layer.feed_forward;
            check.count(&format!("feed_forward_length of layer {l}"), dense.width, limits.width)?;
        }
        Ok(())
    }
}
