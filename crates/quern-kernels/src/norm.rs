//! RMS norm (rule 3) and the elementwise pieces between linear layers: gated activations, residuals, scales, soft caps.

use crate::isa::{Isa, Kernel, Level};
use crate::pool::Pool;
use crate::shared::Shared;
use crate::{math, vector};

/// Rows that one chunk of work takes at least: elements, not rows, decide.
const CHUNK_ELEMENTS: usize = 16 << 10;

/// Splits `len` elements in units of `unit` over the pool.
fn split(pool: &Pool, len: usize, unit: usize, body: &(dyn Fn(usize, usize) + Sync)) {
    let units = len / unit;
    let per_chunk = (CHUNK_ELEMENTS / unit.max(1)).max(1);
    pool.run(units.div_ceil(per_chunk), &|_, chunk| {
        let first = chunk * per_chunk;
        body(first * unit, per_chunk.min(units - first) * unit);
    });
}

/// Lanes of a row, the last vector filled up with zeros.
#[inline(always)]
fn padded(tail: &[f32]) -> [f32; 16] {
    let mut lanes = [0.0; 16];
    lanes[..tail.len()].copy_from_slice(tail);
    lanes
}

/// `out = x / sqrt(mean(x^2) + eps) * weight` for every row of `weight.len()` values (rule 3).
pub fn rms_norm(pool: &Pool, level: Level, out: &mut [f32], x: &[f32], weight: &[f32], eps: f32) {
    assert_eq!(out.len(), x.len(), "norm output");
    let shared = Shared::new(out);
    split(pool, x.len(), weight.len(), &|start, len| {
        // SAFETY: chunks do not overlap.
        let out = unsafe { shared.slice(start, len) };
        level.run(RmsNorm { out, x: &x[start..start + len], weight, eps });
    });
}

struct RmsNorm<'a> {
    out: &'a mut [f32],
    x: &'a [f32],
    weight: &'a [f32],
    eps: f32,
}

impl Kernel for RmsNorm<'_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let n = self.weight.len();
        let (weight, weight_tail) = self.weight.as_chunks::<16>();
        for (out, x) in self.out.chunks_exact_mut(n).zip(self.x.chunks_exact(n)) {
            let (x, x_tail) = x.as_chunks::<16>();
            let mut partials = isa.splat(0.0);
            for v in x {
                let v = isa.load(v);
                partials = isa.fma(v, v, partials);
            }
            // A zero lane adds +0 to a sum of squares, which changes no bit of it.
            let tail = isa.load(&padded(x_tail));
            partials = isa.fma(tail, tail, partials);
            let mean = isa.reduce_add(partials) / n as f32;
            let r = 1.0 / (mean + self.eps).sqrt();
            let (out, out_tail) = out.as_chunks_mut::<16>();
            for ((out, v), w) in out.iter_mut().zip(x).zip(weight) {
                isa.store(isa.mul(isa.mul(isa.load(v), isa.splat(r)), isa.load(w)), out);
            }
            for ((out, v), w) in out_tail.iter_mut().zip(x_tail).zip(weight_tail) {
                *out = (v * r) * w;
            }
        }
    }
}

/// The activation of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// x sigmoid(x)
    Silu,
    /// GELU by its tanh approximation.
    GeluTanh,
    /// The gate of an output: sigmoid(x) alone.
    Sigmoid,
}

/// `out = act(gate) * up` (rule 8).
pub fn act_mul(pool: &Pool, level: Level, activation: Activation, out: &mut [f32], gate: &[f32], up: &[f32]) {
    assert!(out.len() == gate.len() && out.len() == up.len(), "gated activation lengths");
    let shared = Shared::new(out);
    split(pool, gate.len(), 1, &|start, len| {
        // SAFETY: chunks do not overlap.
        let out = unsafe { shared.slice(start, len) };
        level.run(ActMul { out, gate: &gate[start..start + len], up: &up[start..start + len], activation });
    });
}

struct ActMul<'a> {
    out: &'a mut [f32],
    gate: &'a [f32],
    up: &'a [f32],
    activation: Activation,
}

impl Kernel for ActMul<'_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        match self.activation {
            Activation::Silu => self.apply(isa, |v| vector::silu(isa, v), math::silu),
            Activation::Sigmoid => self.apply(isa, |v| vector::sigmoid(isa, v), math::sigmoid),
            Activation::GeluTanh => self.apply(isa, |v| vector::gelu_tanh(isa, v), math::gelu_tanh),
        }
    }
}

impl ActMul<'_> {
    #[inline(always)]
    fn apply<I: Isa>(self, isa: I, act: impl Fn(I::F) -> I::F, act_scalar: impl Fn(f32) -> f32) {
        let (out, out_tail) = self.out.as_chunks_mut::<16>();
        let (gate, gate_tail) = self.gate.as_chunks::<16>();
        let (up, up_tail) = self.up.as_chunks::<16>();
        for ((out, g), u) in out.iter_mut().zip(gate).zip(up) {
            isa.store(isa.mul(act(isa.load(g)), isa.load(u)), out);
        }
        for ((out, g), u) in out_tail.iter_mut().zip(gate_tail).zip(up_tail) {
            *out = act_scalar(*g) * u;
        }
    }
}

/// `x += y`
pub fn add(pool: &Pool, x: &mut [f32], y: &[f32]) {
    assert_eq!(x.len(), y.len(), "residual lengths");
    let shared = Shared::new(x);
    split(pool, y.len(), 1, &|start, len| {
        // SAFETY: chunks do not overlap.
        let x = unsafe { shared.slice(start, len) };
        for (x, y) in x.iter_mut().zip(&y[start..]) {
            *x += y;
        }
    });
}

/// `x = cap tanh(x / cap)`
pub fn softcap(pool: &Pool, level: Level, x: &mut [f32], cap: f32) {
    let len = x.len();
    let shared = Shared::new(x);
    split(pool, len, 1, &|start, len| {
        // SAFETY: chunks do not overlap.
        let x = unsafe { shared.slice(start, len) };
        level.run(Softcap { x, cap });
    });
}

struct Softcap<'a> {
    x: &'a mut [f32],
    cap: f32,
}

impl Kernel for Softcap<'_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let (vectors, tail) = self.x.as_chunks_mut::<16>();
        let cap = isa.splat(self.cap);
        for v in vectors {
            isa.store(isa.mul(cap, vector::tanh(isa, isa.div(isa.load(v), cap))), v);
        }
        for v in tail {
            *v = self.cap * math::tanh(*v / self.cap);
        }
    }
}
