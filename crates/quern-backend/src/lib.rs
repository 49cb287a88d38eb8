//! The `Backend` trait and the plain data that crosses it: batches, shapes, contracts.
//!
//! The forward pass is written once, against this trait; the CPU, a GPU and a training tape are implementations of it.
//! Nothing here computes. Buffers are opaque and live on the device: only [`Backend::read`] brings values to the host,
//! and since an output is always a `&mut`, it can never alias an input.

mod batch;
mod tensor;

pub use batch::{Batch, Segment, SeqId, Want};
pub use quern_kernels::NUMERICS;
pub use quern_kernels::attention::{AttendSegment, AttendShape};
pub use quern_kernels::kv::{KvShape, KvType, PAGE_POSITIONS};
pub use quern_kernels::norm::Activation;
pub use quern_kernels::recurrent::{ConvShape, DeltaShape, KeyHeads};
pub use quern_kernels::rope::{RopePairs, RopeShape};
pub use tensor::{HostBytes, Tensor};

use std::borrow::Cow;
use std::ops::Range;

/// What a backend promises about its results.
#[derive(Clone, Debug, PartialEq)]
pub enum Contract {
    /// The canonical arithmetic of this version: the same bits on every machine.
    Exact {
        /// NUMERICS of docs/arithmetic.md.
        numerics: u32,
    },
    /// Close to it.
    Tolerance {
        /// Largest mean KL divergence from the canonical logits.
        mean_kl: f64,
    },
}

/// Why an operation or a weight was refused.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The tensor's type or shape cannot be computed with here.
    #[error("tensor {name}: {reason}")]
    Tensor {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// A row of activations holds an infinity or a NaN.
    #[error(
        "layer input is not finite at batch row {row}: the model file is broken, or its activations overflow"
    )]
    NonFinite {
        /// Row of the batch.
        row: usize,
    },
}

/// What a weight will be used for, which decides how it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightUse {
    /// Multiplied by.
    Linear,
    /// Rows looked up.
    Embedding,
    /// Both: a head tied to the embedding.
    Tied,
}

/// One product of a set that shares its input: `out = x W^T (* scale) (+ bias)`.
pub struct Product<'a, B: Backend> {
    /// [n_rows, n_cols]
    pub weight: &'a B::Weight,
    /// Multiplies each finished sum.
    pub scale: Option<f32>,
    /// [n_rows], added to each finished output.
    pub bias: Option<&'a B::Buf>,
    /// [rows, n_rows]
    pub out: &'a mut B::Buf,
}

/// A device that can run a model. All buffers are f32, row-major.
pub trait Backend: Send + Sync + Sized + 'static {
    /// Device memory.
    type Buf: Send + Sync;
    /// A weight matrix as the device holds it.
    type Weight: Send + Sync;
    /// 256 positions of one layer's keys and values.
    type Page: Send + Sync;

    /// What its results are worth.
    fn contract(&self) -> Contract;
    /// Its name, as reports print it.
    fn name(&self) -> String;

    /// Takes a weight matrix.
    fn weight(&self, tensor: &Tensor, uses: WeightUse) -> Result<Self::Weight, BackendError>;
    /// Bytes that a weight holds on the device, beside the mapped file.
    fn weight_bytes(&self, weight: &Self::Weight) -> usize;
    /// Zeroed memory for `len` values.
    fn alloc(&self, len: usize) -> Self::Buf;
    /// Values that a buffer has room for.
    fn capacity(&self, buf: &Self::Buf) -> usize;
    /// Overwrites the start of a buffer.
    fn write(&self, out: &mut Self::Buf, values: &[f32]);
    /// Brings values to the host.
    fn read<'a>(&self, buf: &'a Self::Buf, range: Range<usize>) -> Cow<'a, [f32]>;

    /// `out[i] = scale * weight[ids[i]]`
    fn embed(&self, out: &mut Self::Buf, weight: &Self::Weight, ids: &[u32], scale: f32);
    /// Several products of `rows` rows of x.
    fn linear(
        &self,
        x: &Self::Buf,
        rows: usize,
        products: &mut [Product<'_, Self>],
    ) -> Result<(), BackendError>;
    /// `out = rms_norm(x) * weight` for `rows` rows of as many values as the weight has.
    fn rms_norm(&self, out: &mut Self::Buf, x: &Self::Buf, weight: &Self::Buf, rows: usize, eps: f32);
    /// Turns x = [rows, n_heads, head_dim] in place; table = [rows, 2, dims/2].
    fn rope(&self, x: &mut Self::Buf, table: &Self::Buf, rows: usize, shape: RopeShape);
    /// `out = act(gate) * up` over `len` values.
    fn act_mul(
        &self,
        activation: Activation,
        out: &mut Self::Buf,
        gate: &Self::Buf,
        up: &Self::Buf,
        len: usize,
    );
    /// `x += y` over `len` values.
    fn add(&self, x: &mut Self::Buf, y: &Self::Buf, len: usize);
    /// `x = cap tanh(x / cap)` over `len` values.
    fn softcap(&self, x: &mut Self::Buf, cap: f32, len: usize);
    /// `out[i] = x[rows[i]]` for rows of `cols` values.
    fn gather(&self, out: &mut Self::Buf, x: &Self::Buf, rows: &[u32], cols: usize);

    /// `out = x` over `len` values.
    fn copy(&self, out: &mut Self::Buf, x: &Self::Buf, len: usize);
    /// Short causal convolution with SiLU of batch rows `rows` of x = [rows, channels], successive rows of the sequence
    /// whose `state` = [taps - 1, channels] it is; weight = [taps, channels].
    fn short_conv(
        &self,
        out: &mut Self::Buf,
        x: &Self::Buf,
        weight: &Self::Buf,
        state: &mut Self::Buf,
        shape: ConvShape,
        rows: Range<usize>,
    );
    /// `alpha = exp(a softplus(alpha + dt_bias))`, `beta = sigmoid(beta)` over [rows, n_v_heads].
    fn delta_gates(
        &self,
        alpha: &mut Self::Buf,
        beta: &mut Self::Buf,
        a: &Self::Buf,
        dt_bias: &Self::Buf,
        rows: usize,
    );
    /// The gated delta rule over batch rows `rows`, successive rows of the sequence whose `state` of
    /// [`DeltaShape::state_len`] values it is.
    fn delta_rule(
        &self,
        out: &mut Self::Buf,
        inputs: DeltaRows<'_, Self>,
        state: &mut Self::Buf,
        shape: DeltaShape,
        rows: Range<usize>,
    );

    /// An empty page.
    fn page(&self, shape: KvShape) -> Self::Page;
    /// A page of the same content.
    fn copy_page(&self, page: &Self::Page) -> Self::Page;
    /// Writes batch rows `rows` of k and v = [rows, n_kv_heads, head_dim] into successive slots from `slot`.
    fn store_kv(&self, page: &mut Self::Page, slot: usize, k: &Self::Buf, v: &Self::Buf, rows: Range<usize>);
    /// Attention of q = [rows, n_heads, head_dim] over the pages of each segment.
    fn attend(
        &self,
        out: &mut Self::Buf,
        q: &Self::Buf,
        shape: AttendShape,
        segments: &[AttendSegment<'_, Self::Page>],
    );

    /// `rms_norm` whose result is used only by `products`; a backend may fuse them.
    fn norm_linear(
        &self,
        scratch: &mut Self::Buf,
        x: &Self::Buf,
        norm: NormShape<'_, Self>,
        products: &mut [Product<'_, Self>],
    ) -> Result<(), BackendError> {
        self.rms_norm(scratch, x, norm.weight, norm.rows, norm.eps);
        self.linear(scratch, norm.rows, products)
    }
}

/// What a gated delta rule reads.
pub struct DeltaRows<'a, B: Backend> {
    /// [rows, channels]: queries, keys, values; queries and keys are normalised in place.
    pub qkv: &'a mut B::Buf,
    /// [rows, n_v_heads]: what the state is multiplied by.
    pub decay: &'a B::Buf,
    /// [rows, n_v_heads]: how much of the correction is written.
    pub rate: &'a B::Buf,
}

/// The norm in front of a fused linear.
pub struct NormShape<'a, B: Backend> {
    /// [cols]
    pub weight: &'a B::Buf,
    /// Rows of x.
    pub rows: usize,
    /// Added to the mean square.
    pub eps: f32,
}
