//! Recurrent mixers (rule 6): the short causal convolution and the gated delta rule.
//!
//! Both go through a sequence's rows in order, so that a prompt read in one batch and the same prompt read token by token
//! give the same bits. Their speed comes from the other axis: channels and state columns are lanes, and the columns that
//! a core works on stay in its cache over all rows of a batch.

use crate::isa::{Isa, Kernel, Level};
use crate::pool::Pool;
use crate::shared::Shared;
use crate::{math, vector};
use std::ops::Range;

/// Lanes of a vector, and columns of a slab.
const LANES: usize = 16;

/// The shape of a short convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvShape {
    /// Values in a row.
    pub channels: usize,
    /// Rows that one output sees, its own included.
    pub taps: usize,
}

impl ConvShape {
    /// Values of its state: the rows before.
    pub fn state_len(self) -> usize {
        (self.taps - 1) * self.channels
    }
}

/// `out = silu(sum_j weight[j] * x[row - (taps - 1) + j])` for rows `rows` of x = [.., channels], taps ascending by fma.
///
/// `weight` = [taps, channels]; `state` = [taps - 1, channels]: the inputs of the rows before, oldest first, and after
/// the call those before the next row.
pub fn short_conv(
    pool: &Pool,
    level: Level,
    shape: ConvShape,
    state: &mut [f32],
    weight: &[f32],
    x: &[f32],
    out: &mut [f32],
) {
    let ConvShape { channels, taps } = shape;
    assert!(x.len() == out.len() && x.len().is_multiple_of(channels), "convolution rows");
    assert!(weight.len() == taps * channels && state.len() == shape.state_len(), "convolution shape");
    let (out, state) = (Shared::new(out), Shared::new(state));
    pool.run(channels.div_ceil(LANES), &|_, block| {
        let first = block * LANES;
        let lanes = first..channels.min(first + LANES);
        level.run(ShortConv { shape, lanes, weight, x, out: &out, state: &state });
    });
}

struct ShortConv<'a> {
    shape: ConvShape,
    lanes: Range<usize>,
    weight: &'a [f32],
    x: &'a [f32],
    out: &'a Shared<'a, f32>,
    state: &'a Shared<'a, f32>,
}

impl ShortConv<'_> {
    /// This block's channels of a row of [.., channels], zeros behind the last one.
    #[inline(always)]
    fn load<I: Isa>(&self, isa: I, rows: &[f32], row: usize) -> I::F {
        let start = row * self.shape.channels;
        load_part(isa, &rows[start + self.lanes.start..start + self.lanes.end])
    }
}

impl Kernel for ShortConv<'_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let ConvShape { channels, taps } = self.shape;
        let (first, n) = (self.lanes.start, self.lanes.len());
        let rows = self.x.len() / channels;
        let before = |row: usize| {
            // SAFETY: these channels of the state belong to this block alone.
            unsafe { self.state.slice(row * channels + first, n) }
        };
        for row in 0..rows {
            let mut acc = isa.splat(0.0);
            for tap in 0..taps {
                let at = row + tap;
                let v = match at.checked_sub(taps - 1) {
                    Some(row) => self.load(isa, self.x, row),
                    None => load_part(isa, before(at)),
                };
                acc = isa.fma(self.load(isa, self.weight, tap), v, acc);
            }
            // SAFETY: these channels of the output belong to this block alone.
            store_part(isa, vector::silu(isa, acc), unsafe { self.out.slice(row * channels + first, n) });
        }
        // Oldest first: a row moves down before the one above it is overwritten.
        for kept in 0..taps - 1 {
            let v = match (rows + kept).checked_sub(taps - 1) {
                Some(row) => self.load(isa, self.x, row),
                None => load_part(isa, before(rows + kept)),
            };
            store_part(isa, v, before(kept));
        }
    }
}

/// Up to sixteen values, zeros behind them.
#[inline(always)]
fn load_part<I: Isa>(isa: I, part: &[f32]) -> I::F {
    match part.first_chunk::<LANES>() {
        Some(whole) => isa.load(whole),
        None => {
            let mut lanes = [0.0; LANES];
            lanes[..part.len()].copy_from_slice(part);
            isa.load(&lanes)
        }
    }
}

/// The lanes that there is room for.
#[inline(always)]
fn store_part<I: Isa>(isa: I, v: I::F, part: &mut [f32]) {
    match part.first_chunk_mut::<LANES>() {
        Some(whole) => isa.store(v, whole),
        None => {
            let mut lanes = [0.0; LANES];
            isa.store(v, &mut lanes);
            part.copy_from_slice(&lanes[..part.len()]);
        }
    }
}

/// Which key head a value head reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHeads {
    /// Value heads of one key head follow each other: v / (n_v_heads / n_k_heads) (Hugging Face files).
    Grouped,
    /// Key heads repeat: v mod n_k_heads (GGUF files).
    Tiled,
}

/// The shape of a gated delta rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaShape {
    /// Query and key heads.
    pub n_k_heads: usize,
    /// Value heads: a multiple of the key heads.
    pub n_v_heads: usize,
    /// Length of a query and of a key.
    pub head_k_dim: usize,
    /// Length of a value.
    pub head_v_dim: usize,
    /// Which key head a value head reads.
    pub key_heads: KeyHeads,
}

impl DeltaShape {
    /// Values in a row of queries, keys and values.
    pub fn channels(self) -> usize {
        2 * self.n_k_heads * self.head_k_dim + self.n_v_heads * self.head_v_dim
    }

    /// Slabs of sixteen state columns in a value head.
    fn slabs(self) -> usize {
        self.head_v_dim.div_ceil(LANES)
    }

    /// Values of its state: [n_v_heads, slabs of sixteen columns, head_k_dim, 16], absent columns zero.
    pub fn state_len(self) -> usize {
        self.n_v_heads * self.slabs() * self.head_k_dim * LANES
    }

    fn key_head(self, value_head: usize) -> usize {
        match self.key_heads {
            KeyHeads::Grouped => value_head / (self.n_v_heads / self.n_k_heads),
            KeyHeads::Tiled => value_head % self.n_k_heads,
        }
    }
}

/// Added to the sum of squares when queries and keys are normalised.
const L2_EPS: f32 = 1e-6;

/// Turns `alpha` and `beta` = [rows, n_v_heads] in place into what the delta rule multiplies by: the decay
/// `exp(a softplus(alpha + dt_bias))`, a negative, and the learning rate `sigmoid(beta)`.
pub fn delta_gates(alpha: &mut [f32], beta: &mut [f32], a: &[f32], dt_bias: &[f32]) {
    for row in alpha.chunks_exact_mut(a.len()) {
        for ((v, a), bias) in row.iter_mut().zip(a).zip(dt_bias) {
            *v = math::exp(a * math::softplus(*v + bias));
        }
    }
    beta.iter_mut().for_each(|v| *v = math::sigmoid(*v));
}

/// The inputs of a gated delta rule, all of the same rows.
#[derive(Clone, Copy)]
pub struct DeltaInputs<'a> {
    /// [rows, n_v_heads]: what the state is multiplied by.
    pub decay: &'a [f32],
    /// [rows, n_v_heads]: how much of the correction is written.
    pub rate: &'a [f32],
}

/// The gated delta rule (Yang et al. 2024, in its recurrent form) over successive rows of one sequence.
///
/// `qkv` = [rows, channels]: queries [n_k_heads, head_k_dim], keys alike, values [n_v_heads, head_v_dim]; queries and
/// keys are normalised in place first: `x * (1 / sqrt(sum x^2 + 1e-6))` (rule 3), queries times `1 / sqrt(head_k_dim)`.
/// Then for each value head, its state S = [head_k_dim, head_v_dim] and each row, k ascending by fma: `S = S * decay`,
/// `read = k S`, `S = S + k^T ((v - read) * rate)`, `out = q S`. `out` = [rows, n_v_heads, head_v_dim].
pub fn delta_rule(
    pool: &Pool,
    level: Level,
    shape: DeltaShape,
    state: &mut [f32],
    qkv: &mut [f32],
    inputs: DeltaInputs<'_>,
    out: &mut [f32],
) {
    let (channels, out_cols) = (shape.channels(), shape.n_v_heads * shape.head_v_dim);
    let rows = qkv.len() / channels;
    assert!(qkv.len() == rows * channels && out.len() == rows * out_cols, "delta rule rows");
    assert!(inputs.decay.len() == rows * shape.n_v_heads && inputs.rate.len() == inputs.decay.len(), "gates");
    assert_eq!(state.len(), shape.state_len(), "delta rule state");
    let query_scale = 1.0 / (shape.head_k_dim as f32).sqrt();
    let shared = Shared::new(qkv);
    pool.run(rows, &|_, row| {
        // SAFETY: rows do not overlap.
        let heads = unsafe { shared.slice(row * channels, 2 * shape.n_k_heads * shape.head_k_dim) };
        level.run(L2Norm { heads, shape, query_scale });
    });
    let (out, state) = (Shared::new(out), Shared::new(state));
    let (qkv, slab_len) = (&*qkv, shape.head_k_dim * LANES);
    pool.run(shape.n_v_heads * shape.slabs(), &|_, task| {
        // SAFETY: slabs do not overlap, and each is taken by one chunk.
        let slab = unsafe { state.slice(task * slab_len, slab_len) };
        let (head, slab_index) = (task / shape.slabs(), task % shape.slabs());
        level.run(DeltaSlab { shape, head, first: slab_index * LANES, qkv, inputs, slab, out: &out });
    });
}

struct L2Norm<'a> {
    /// Queries, then keys.
    heads: &'a mut [f32],
    shape: DeltaShape,
    query_scale: f32,
}

impl Kernel for L2Norm<'_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        for (i, head) in self.heads.chunks_exact_mut(self.shape.head_k_dim).enumerate() {
            let mut partials = isa.splat(0.0);
            for part in head.chunks(LANES) {
                let v = load_part(isa, part);
                partials = isa.fma(v, v, partials);
            }
            let r = 1.0 / (isa.reduce_add(partials) + L2_EPS).sqrt();
            let is_query = i < self.shape.n_k_heads;
            for part in head.chunks_mut(LANES) {
                let mut v = isa.mul(load_part(isa, part), isa.splat(r));
                if is_query {
                    v = isa.mul(v, isa.splat(self.query_scale));
                }
                store_part(isa, v, part);
            }
        }
    }
}

/// Sixteen state columns of one value head, over all rows.
struct DeltaSlab<'a> {
    shape: DeltaShape,
    head: usize,
    /// First column.
    first: usize,
    qkv: &'a [f32],
    inputs: DeltaInputs<'a>,
    /// [head_k_dim, 16]
    slab: &'a mut [f32],
    out: &'a Shared<'a, f32>,
}

impl Kernel for DeltaSlab<'_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let DeltaShape { n_k_heads, n_v_heads, head_k_dim, head_v_dim, .. } = self.shape;
        let keys = n_k_heads * head_k_dim;
        let q_at = self.shape.key_head(self.head) * head_k_dim;
        let (k_at, column) = (keys + q_at, self.head * head_v_dim + self.first);
        let n = LANES.min(head_v_dim - self.first);
        let slab = self.slab.as_chunks_mut::<LANES>().0;
        for (row, qkv) in self.qkv.chunks_exact(self.shape.channels()).enumerate() {
            let (q, k) = (&qkv[q_at..q_at + head_k_dim], &qkv[k_at..k_at + head_k_dim]);
            let v = load_part(isa, &qkv[2 * keys + column..][..n]);
            let gate = row * n_v_heads + self.head;
            let decay = isa.splat(self.inputs.decay[gate]);
            let mut read = isa.splat(0.0);
            for (s, k) in slab.iter_mut().zip(k) {
                let decayed = isa.mul(isa.load(s), decay);
                isa.store(decayed, s);
                read = isa.fma(isa.splat(*k), decayed, read);
            }
            let delta = isa.mul(isa.sub(v, read), isa.splat(self.inputs.rate[gate]));
            let mut y = isa.splat(0.0);
            for ((s, k), q) in slab.iter_mut().zip(k).zip(q) {
                let written = isa.fma(isa.splat(*k), delta, isa.load(s));
                isa.store(written, s);
                y = isa.fma(isa.splat(*q), written, y);
            }
            // SAFETY: these columns of the output belong to this slab alone.
            store_part(isa, y, unsafe { self.out.slice(row * n_v_heads * head_v_dim + column, n) });
        }
    }
}
