//! `ModelSpec`: what a model is made of, as plain data. One chokepoint validates it before anything is allocated.

use crate::ModelError;
use quern_backend::{Activation, RopePairs};

/// A model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSpec {
    /// Family, as `general.architecture` names it.
    pub arch: String,
    /// Rows of the embedding.
    pub n_vocab: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Positions the model was trained for.
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
    /// Positions.
    pub context: usize,
}

impl SpecLimits {
    /// The limits in force.
    pub const DEFAULT: SpecLimits =
        SpecLimits { layers: 1024, width: 1 << 20, heads: 1024, head_dim: 1024, context: 1 << 28 };
}

impl ModelSpec {
    /// Checks every number that a file controls.
    pub fn validate(&self) -> Result<(), ModelError> {
        let limits = SpecLimits::DEFAULT;
        let refuse = |reason: String| Err(ModelError::Spec { arch: self.arch.clone(), reason });
        let count = |what: &str, value: usize, most: usize| {
            if value == 0 || value > most {
                return refuse(format!("{what} is {value}, outside 1..={most}"));
            }
            Ok(())
        };
        count("block_count", self.layers.len(), limits.layers)?;
        count("embedding_length", self.hidden, limits.width)?;
        count("context_length", self.context_length, limits.context)?;
        if !(self.norm_eps.is_finite() && self.norm_eps > 0.0) {
            return refuse(format!("the norm's epsilon is {}, not a positive number", self.norm_eps));
        }
        for (i, rope) in self.ropes.iter().enumerate() {
            let positive = |x: f64| x.is_finite() && x > 0.0;
            if !positive(rope.base) {
                return refuse(format!("rope {i} has base {}", rope.base));
            }
            let sound = match rope.scaling {
                RopeScaling::None => true,
                RopeScaling::Linear { factor } => positive(factor),
                RopeScaling::Yarn { factor, original_context, beta_fast, beta_slow, attention_factor } => {
                    [factor, original_context, beta_fast, beta_slow, attention_factor]
                        .into_iter()
                        .all(positive)
                }
            };
            if !sound {
                return refuse(format!("rope {i} has scaling {:?}", rope.scaling));
            }
            if !rope.factors.is_empty()
                && (rope.factors.len() != rope.dims / 2
                    || !rope.factors.iter().all(|f| positive((*f).into())))
            {
                return refuse(format!("rope_freqs must be {} positive factors", rope.dims / 2));
            }
        }
        for (l, layer) in self.layers.iter().enumerate() {
            let Mixer::Attention(a) = &layer.mixer;
            count(&format!("head_count of layer {l}"), a.n_heads, limits.heads)?;
            count(&format!("head_count_kv of layer {l}"), a.n_kv_heads, limits.heads)?;
            count(&format!("key_length of layer {l}"), a.head_dim, limits.head_dim)?;
            count(&format!("all heads of layer {l}"), a.n_heads * a.head_dim, limits.width)?;
            if !a.n_heads.is_multiple_of(a.n_kv_heads) {
                return refuse(format!(
                    "layer {l} has {} query heads for {} key heads: not a multiple",
                    a.n_heads, a.n_kv_heads
                ));
            }
            if let Some(window) = a.window {
                count(&format!("sliding_window of layer {l}"), window, limits.context)?;
            }
            if !(a.scale.is_finite() && a.scale > 0.0) {
                return refuse(format!("layer {l} scales its scores by {}", a.scale));
            }
            let Some(rope) = self.ropes.get(a.rope) else {
                return refuse(format!("layer {l} refers to rope {}, which is not there", a.rope));
            };
            if rope.dims == 0 || !rope.dims.is_multiple_of(2) || rope.dims > a.head_dim {
                return refuse(format!(
                    "rope dimension_count is {}, not an even number up to the head's {}",
                    rope.dims, a.head_dim
                ));
            }
            let FeedForward::Dense(dense) = &layer.feed_forward;
            count(&format!("feed_forward_length of layer {l}"), dense.width, limits.width)?;
        }
        Ok(())
    }
}
