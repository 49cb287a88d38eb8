//! Gated DeltaNet layers: their weights, their buffers, and their part of the forward pass.
//!
//! Yang et al. 2024, "Gated Delta Networks"; reference: `Qwen3_5GatedDeltaNet` in `modeling_qwen3_5.py` of transformers.

use crate::forward::Rows;
use crate::load::{Binder, Linear};
use crate::spec::DeltaNetSpec;
use crate::state::States;
use crate::{ModelError, ModelSpec};
use quern_backend::{Activation, Backend, DeltaRows};

/// The weights of a Gated DeltaNet layer.
pub(crate) struct DeltaNet<B: Backend> {
    /// Queries, keys and values in one.
    pub(crate) qkv: Linear<B>,
    /// The gate of the output.
    pub(crate) z: Linear<B>,
    pub(crate) alpha: Linear<B>,
    pub(crate) beta: Linear<B>,
    pub(crate) output: Linear<B>,
    /// [taps, channels]
    conv: B::Buf,
    /// [n_v_heads], negative.
    a: B::Buf,
    /// [n_v_heads]
    dt_bias: B::Buf,
    /// [head_v_dim]
    norm: B::Buf,
}

/// Buffers of a batch, shared by all layers of the kind.
pub(crate) struct DeltaBuffers<B: Backend> {
    /// [rows, channels], before the convolution and after it.
    qkv: [B::Buf; 2],
    /// [rows, n_v_heads]
    alpha: B::Buf,
    beta: B::Buf,
    /// [rows, n_v_heads, head_v_dim]
    z: B::Buf,
    read: B::Buf,
    normed: B::Buf,
    gated: B::Buf,
}

impl<B: Backend> DeltaBuffers<B> {
    /// Buffers for the widest of the layers; none where no layer needs them.
    pub(crate) fn new(backend: &B, spec: &ModelSpec, rows: usize) -> Option<DeltaBuffers<B>> {
        spec.delta_nets().next()?;
        let alloc = |cols: fn(&DeltaNetSpec) -> usize| {
            backend.alloc(rows * spec.delta_nets().map(cols).max().unwrap_or(0))
        };
        let channels = || alloc(|d| d.shape.channels());
        let heads = || alloc(|d| d.shape.n_v_heads);
        let values = || alloc(DeltaNetSpec::value_dim);
        Some(DeltaBuffers {
            qkv: [channels(), channels()],
            alpha: heads(),
            beta: heads(),
            z: values(),
            read: values(),
            normed: values(),
            gated: values(),
        })
    }
}

impl<B: Backend> DeltaNet<B> {
    /// Binds a layer's weights.
    pub(crate) fn bind(
        binder: &mut Binder<'_, B>,
        name: &dyn Fn(&str) -> String,
        spec: &DeltaNetSpec,
        hidden: usize,
    ) -> Result<DeltaNet<B>, ModelError> {
        let (shape, conv, values) = (spec.shape, spec.conv(), spec.value_dim());
        Ok(DeltaNet {
            qkv: binder.linear(&name("attn_qkv"), shape.channels(), hidden, false)?,
            z: binder.linear(&name("attn_gate"), values, hidden, false)?,
            alpha: binder.linear(&name("ssm_alpha"), shape.n_v_heads, hidden, false)?,
            beta: binder.linear(&name("ssm_beta"), shape.n_v_heads, hidden, false)?,
            output: binder.linear(&name("ssm_out"), hidden, values, false)?,
            // A file has a channel's taps together; lanes are channels.
            conv: binder.transposed(&name("ssm_conv1d.weight"), conv.channels, conv.taps)?,
            a: binder.vector(&name("ssm_a"), shape.n_v_heads)?,
            dt_bias: binder.vector(&name("ssm_dt.bias"), shape.n_v_heads)?,
            norm: binder.vector(&name("ssm_norm.weight"), shape.head_v_dim)?,
        })
    }

    /// Its linear layers.
    pub(crate) fn linears(&self) -> [&Linear<B>; 5] {
        [&self.qkv, &self.z, &self.alpha, &self.beta, &self.output]
    }
}

/// A layer at work on a batch.
pub(crate) struct DeltaPass<'a, B: Backend> {
    pub(crate) backend: &'a B,
    /// Index of the layer.
    pub(crate) layer: usize,
    pub(crate) spec: &'a DeltaNetSpec,
    pub(crate) weights: &'a DeltaNet<B>,
    pub(crate) rows: usize,
    pub(crate) norm_eps: f32,
}

impl<B: Backend> DeltaPass<'_, B> {
    /// `out = W_o (norm(delta(silu(conv(W_qkv h)))) * silu(W_z h))` of the normed rows `h`, each segment through its state.
    pub(crate) fn run(
        &self,
        buffers: &mut DeltaBuffers<B>,
        h: &B::Buf,
        out: &mut B::Buf,
        segments: &[Rows],
        states: &mut States<B>,
    ) -> Result<(), ModelError> {
        let in_layer = |source| ModelError::Layer { layer: self.layer, source };
        let (backend, weights, shape) = (self.backend, self.weights, self.spec.shape);
        let [projected, qkv] = &mut buffers.qkv;
        let mut products = [
            weights.qkv.product(projected),
            weights.z.product(&mut buffers.z),
            weights.alpha.product(&mut buffers.alpha),
            weights.beta.product(&mut buffers.beta),
        ];
        backend.linear(h, self.rows, &mut products).map_err(in_layer)?;
        backend.delta_gates(&mut buffers.alpha, &mut buffers.beta, &weights.a, &weights.dt_bias, self.rows);
        for segment in segments {
            let state = states.get_mut(segment.seq)?.layers[self.layer].recurrent_mut();
            let rows = segment.first_row..segment.first_row + segment.positions.len();
            backend.short_conv(
                qkv,
                projected,
                &weights.conv,
                &mut state.conv,
                self.spec.conv(),
                rows.clone(),
            );
            let inputs = DeltaRows { qkv: &mut *qkv, decay: &buffers.alpha, rate: &buffers.beta };
            backend.delta_rule(&mut buffers.read, inputs, &mut state.state, shape, rows);
        }
        let heads = self.rows * shape.n_v_heads;
        backend.rms_norm(&mut buffers.normed, &buffers.read, &weights.norm, heads, self.norm_eps);
        let len = self.rows * self.spec.value_dim();
        backend.act_mul(Activation::Silu, &mut buffers.gated, &buffers.z, &buffers.normed, len);
        backend.linear(&buffers.gated, self.rows, &mut [weights.output.product(out)]).map_err(in_layer)
    }
}
