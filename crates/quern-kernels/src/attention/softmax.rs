//! The softmax of a chunk, and how chunks merge.

use super::rows::Chunk;
use super::{AttendShape, BLOCK_ROWS};
use crate::isa::{Isa, Kernel};
use crate::kv::{PAGE_POSITIONS, TILE_KEYS};
use crate::vector;
use std::ops::Range;

/// Maximum and denominator of each row of a block. A denominator of zero: no key so far.
pub(super) struct Softmax {
    pub(super) m: [f32; BLOCK_ROWS],
    pub(super) l: [f32; BLOCK_ROWS],
}

impl Default for Softmax {
    fn default() -> Self {
        Softmax { m: [0.0; BLOCK_ROWS], l: [0.0; BLOCK_ROWS] }
    }
}

/// What the outputs of the chunks before, and of the chunk, are multiplied by.
pub(super) struct Turn {
    a: [f32; BLOCK_ROWS],
    b: [f32; BLOCK_ROWS],
}

impl Default for Turn {
    fn default() -> Self {
        Turn { a: [0.0; BLOCK_ROWS], b: [0.0; BLOCK_ROWS] }
    }
}

impl Turn {
    /// Merges a vector of a chunk's outputs into that of the chunks before it, which begins at -0: `fma(-0, 0, x)` is x
    /// to the bit, whatever x.
    #[inline(always)]
    pub(super) fn outputs<I: Isa>(&self, isa: I, row: usize, o: &mut [f32; 16], chunk: I::F) {
        let (a, b) = (isa.splat(self.a[row]), isa.splat(self.b[row]));
        isa.store(isa.fma(isa.load(o), a, isa.mul(chunk, b)), o);
    }
}

/// Merges a chunk into the chunks before it; rows that see none of it stay as they are.
pub(super) struct Merge<'a> {
    pub(super) running: &'a mut Softmax,
    pub(super) chunk: &'a Softmax,
    pub(super) rows: usize,
}

impl Kernel for Merge<'_> {
    type Output = Turn;

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> Turn {
        let Merge { running, chunk, rows } = self;
        let mut turn = Turn::default();
        for i in 0..rows.div_ceil(16) {
            let (mut m, mut l) = ([0.0; 16], [0.0; 16]);
            let (old, new) = (isa.load(&running.m.as_chunks().0[i]), isa.load(&chunk.m.as_chunks().0[i]));
            let max = isa.max(old, new);
            let a = vector::exp(isa, isa.sub(old, max));
            let b = vector::exp(isa, isa.sub(new, max));
            let added = isa.mul(isa.load(&chunk.l.as_chunks().0[i]), b);
            isa.store(isa.fma(isa.load(&running.l.as_chunks().0[i]), a, added), &mut l);
            isa.store(max, &mut m);
            isa.store(a, &mut turn.a.as_chunks_mut().0[i]);
            isa.store(b, &mut turn.b.as_chunks_mut().0[i]);
            for (lane, row) in (16 * i..16 * (i + 1)).enumerate() {
                if chunk.l[row] == 0.0 {
                    continue;
                }
                if running.l[row] == 0.0 {
                    // The first chunk of a row: 0 times the outputs before it, which are -0, and 1 times its own.
                    (turn.a[row], turn.b[row]) = (0.0, 1.0);
                    (running.m[row], running.l[row]) = (chunk.m[row], chunk.l[row]);
                } else {
                    (running.m[row], running.l[row]) = (m[lane], l[lane]);
                }
            }
        }
        turn
    }
}

/// The softmax of each row over the keys it sees, from dots: leaves the exponents in their place, and zero elsewhere in
/// their tiles.
pub(super) struct Exponents<'a> {
    pub(super) shape: &'a AttendShape,
    pub(super) chunk: &'a Chunk,
    pub(super) scores: &'a mut [[f32; PAGE_POSITIONS]],
}

impl Kernel for Exponents<'_> {
    type Output = Softmax;

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> Softmax {
        let mut softmax = Softmax::default();
        for (row, scores) in self.scores.iter_mut().enumerate() {
            let keys = &self.chunk.seen[row];
            if !keys.is_empty() {
                let first = keys.start / TILE_KEYS;
                let tiles = &mut scores.as_chunks_mut::<TILE_KEYS>().0[first..keys.end.div_ceil(TILE_KEYS)];
                let keys = keys.start - first * TILE_KEYS..keys.end - first * TILE_KEYS;
                (softmax.m[row], softmax.l[row]) = exponents(isa, self.shape, tiles, keys);
            }
        }
        softmax
    }
}

/// The same of a row: `keys` are from the middle of the first tile to the middle of the last. Gives the maximum and the
/// denominator.
#[inline(always)]
fn exponents<I: Isa>(
    isa: I,
    shape: &AttendShape,
    tiles: &mut [[f32; TILE_KEYS]],
    keys: Range<usize>,
) -> (f32, f32) {
    let mut scale = isa.splat(shape.scale);
    if let Some(cap) = shape.softcap {
        let cap = isa.splat(cap);
        for tile in &mut *tiles {
            let s = isa.mul(isa.load(tile), scale);
            isa.store(isa.mul(cap, vector::tanh(isa, isa.div(s, cap))), tile);
        }
        scale = isa.splat(1.0);
    }
    let mut max = isa.splat(f32::NEG_INFINITY);
    for (tile, start) in tiles.iter_mut().zip((0..).step_by(TILE_KEYS)) {
        let mut s = isa.mul(isa.load(tile), scale);
        if start < keys.start || start + TILE_KEYS > keys.end {
            s = isa.keep_lanes(s, keys.start.saturating_sub(start), keys.end - start, f32::NEG_INFINITY);
        }
        max = isa.max(s, max);
        isa.store(s, tile);
    }
    let max = isa.reduce_max(max);
    let m = isa.splat(max);
    let mut l = isa.splat(0.0);
    for tile in tiles {
        // Minus infinity gives +0, which changes no bit of a sum that is never negative.
        let p = vector::exp(isa, isa.sub(isa.load(tile), m));
        l = isa.add(l, p);
        isa.store(p, tile);
    }
    (max, isa.reduce_add(l))
}
