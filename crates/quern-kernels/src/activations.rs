//! Activations as the linear kernels read them: int8 blocks (rule 1) and f32 (rule 2), both in tiles of up to four
//! tokens whose values lie side by side, so that a kernel broadcasts from one stream.
//!
//! An int8 block has one float scale and an integer sub-scale for each half. Halves of sixteen keep about half the
//! rounding error of blocks of thirty-two (one large value spoils fewer neighbours), and an integer sub-scale costs less
//! than a second float scale: it rides on the widening that every product sum takes anyway.

use crate::isa::{Isa, Kernel, Level};
use crate::pool::Pool;
use crate::shared::Shared;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Tokens in a full tile. The last tile of a batch has what is left.
pub const TILE_TOKENS: usize = 4;

/// Values that share one float scale.
pub const BLOCK_K: usize = 32;

/// Values that share one integer sub-scale.
pub const HALF_K: usize = 16;

/// Largest sub-scale: that of the half which holds the block's largest value.
pub const MAX_SUB_SCALE: i32 = 64;

/// Largest code in magnitude.
const MAX_CODE: f32 = 127.0;

/// A row holds an infinity or a NaN, which int8 cannot carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the activations of batch row {row} are not finite: the model or its input is broken, or it needs --activations f32 to tell where"
)]
pub struct NonFinite {
    /// Row of the batch.
    pub row: usize,
}

/// What a linear layer multiplies by. Buffers are kept from call to call.
#[derive(Default)]
pub struct Activations {
    rows: usize,
    cols: usize,
    quantized: bool,
    /// Per tile [cols/4][tokens]: four codes in an i32, first in the low byte.
    q: Vec<i32>,
    /// Per tile [cols/32][tokens]
    d: Vec<f32>,
    /// Per tile [cols/32][tokens]: the block's scale times the sum of its codes times their sub-scales.
    dsum: Vec<f32>,
    /// Per tile [cols/16][tokens]: sub-scales.
    sub: Vec<i32>,
    /// Per tile [cols/16][tokens]: sums of the codes at k mod 4 in {0, 1} (low sixteen bits) and in {2, 3}.
    pairs: Vec<i32>,
    float: bool,
    /// Per tile [cols][tokens]
    x: Vec<f32>,
}

/// Int8 activations of `tokens` rows.
#[derive(Clone, Copy)]
pub struct QuantTile<'a> {
    /// First row of the batch in this tile.
    pub(crate) first_row: usize,
    pub(crate) tokens: usize,
    q: &'a [i32],
    d: &'a [f32],
    dsum: &'a [f32],
    sub: &'a [i32],
    pairs: &'a [i32],
}

impl<'a> QuantTile<'a> {
    /// The four steps of a half block.
    #[inline(always)]
    pub(crate) fn q<const T: usize>(&self, half: usize) -> &'a [[i32; T]] {
        self.q[4 * T * half..4 * T * (half + 1)].as_chunks().0
    }
    /// The scales of a block.
    #[inline(always)]
    pub(crate) fn d<const T: usize>(&self, block: usize) -> &'a [f32] {
        &self.d[T * block..T * (block + 1)]
    }
    /// The sums of a block's values, as its codes give them.
    #[inline(always)]
    pub(crate) fn dsum<const T: usize>(&self, block: usize) -> &'a [f32] {
        &self.dsum[T * block..T * (block + 1)]
    }
    /// The sub-scales of a half block.
    #[inline(always)]
    pub(crate) fn sub<const T: usize>(&self, half: usize) -> &'a [i32] {
        &self.sub[T * half..T * (half + 1)]
    }
    /// The sums of a half block's values, as its codes give them.
    #[inline(always)]
    pub(crate) fn half_sums<const T: usize>(&self, half: usize) -> [f32; T] {
        let (d, sub, pairs) = (self.d::<T>(half / 2), self.sub::<T>(half), self.pairs::<T>(half));
        let mut sums = [0.0; T];
        for t in 0..T {
            sums[t] = d[t] * (sub[t] * (i32::from(pairs[t] as i16) + (pairs[t] >> 16))) as f32;
        }
        sums
    }
    /// The pair sums of a half block, as [`Isa::acc_start`] takes them.
    #[inline(always)]
    pub(crate) fn pairs<const T: usize>(&self, half: usize) -> &'a [i32] {
        &self.pairs[T * half..T * (half + 1)]
    }
}

/// f32 activations of `tokens` rows, [cols][tokens].
#[derive(Clone, Copy)]
pub struct FloatTile<'a> {
    pub(crate) first_row: usize,
    pub(crate) tokens: usize,
    pub(crate) x: &'a [f32],
}

/// Which forms of the activations a set of weights needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forms {
    /// Int8 blocks.
    pub quantized: bool,
    /// f32.
    pub float: bool,
}

impl Activations {
    /// Rows held.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns held.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Which forms are held.
    pub fn forms(&self) -> Forms {
        Forms { quantized: self.quantized, float: self.float }
    }

    /// Takes `x` = [rows, cols] in the asked forms. Int8 needs cols to be a multiple of 32.
    pub fn prepare(
        &mut self,
        pool: &Pool,
        level: Level,
        x: &[f32],
        cols: usize,
        forms: Forms,
    ) -> Result<(), NonFinite> {
        let rows = x.len() / cols;
        (self.rows, self.cols) = (rows, cols);
        (self.quantized, self.float) = (forms.quantized, forms.float);
        if forms.quantized {
            assert!(
                cols.is_multiple_of(BLOCK_K),
                "int8 activations need a multiple of {BLOCK_K} columns, not {cols}"
            );
            self.q.resize(rows * cols / 4, 0);
            self.d.resize(rows * cols / 32, 0.0);
            self.dsum.resize(rows * cols / 32, 0.0);
            self.sub.resize(rows * cols / 16, 0);
            self.pairs.resize(rows * cols / 16, 0);
        }
        if forms.float {
            self.x.resize(rows * cols, 0.0);
        }
        let broken = AtomicUsize::new(usize::MAX);
        let (q, d, dsum) = (Shared::new(&mut self.q), Shared::new(&mut self.d), Shared::new(&mut self.dsum));
        let (sub, pairs) = (Shared::new(&mut self.sub), Shared::new(&mut self.pairs));
        let floats = Shared::new(&mut self.x);
        let n_tiles = rows.div_ceil(TILE_TOKENS);
        pool.run(n_tiles, &|_, tile| {
            let first = tile * TILE_TOKENS;
            let tokens = TILE_TOKENS.min(rows - first);
            let rows_of_tile = &x[first * cols..(first + tokens) * cols];
            if forms.quantized {
                let part = |n: usize| (first * n, tokens * n);
                let ((q0, qn), (d0, dn), (h0, hn)) = (part(cols / 4), part(cols / 32), part(cols / 16));
                // SAFETY: tiles do not overlap, and each is taken by one chunk.
                let tile = unsafe {
                    Quantize {
                        x: rows_of_tile,
                        cols,
                        q: q.slice(q0, qn),
                        d: d.slice(d0, dn),
                        dsum: dsum.slice(d0, dn),
                        sub: sub.slice(h0, hn),
                        pairs: pairs.slice(h0, hn),
                    }
                };
                if let Some(row) = level.run(tile) {
                    broken.fetch_min(first + row, Ordering::Relaxed);
                }
            }
            if forms.float {
                // SAFETY: tiles do not overlap, and each is taken by one chunk.
                let out = unsafe { floats.slice(first * cols, tokens * cols) };
                for (t, row) in rows_of_tile.chunks_exact(cols).enumerate() {
                    for (out, v) in out[t..].iter_mut().step_by(tokens).zip(row) {
                        *out = *v;
                    }
                }
            }
        });
        match broken.into_inner() {
            usize::MAX => Ok(()),
            row => Err(NonFinite { row }),
        }
    }

    fn tiles(&self) -> impl Iterator<Item = (usize, usize)> {
        let rows = self.rows;
        (0..rows.div_ceil(TILE_TOKENS))
            .map(move |i| (i * TILE_TOKENS, TILE_TOKENS.min(rows - i * TILE_TOKENS)))
    }

    pub(crate) fn quant_tiles(&self) -> impl Iterator<Item = QuantTile<'_>> {
        self.tiles().map(|(first_row, tokens)| {
            let part = |n: usize| first_row * n..(first_row + tokens) * n;
            QuantTile {
                first_row,
                tokens,
                q: &self.q[part(self.cols / 4)],
                d: &self.d[part(self.cols / 32)],
                dsum: &self.dsum[part(self.cols / 32)],
                sub: &self.sub[part(self.cols / 16)],
                pairs: &self.pairs[part(self.cols / 16)],
            }
        })
    }

    pub(crate) fn float_tiles(&self) -> impl Iterator<Item = FloatTile<'_>> {
        self.tiles().map(|(first_row, tokens)| FloatTile {
            first_row,
            tokens,
            x: &self.x[first_row * self.cols..(first_row + tokens) * self.cols],
        })
    }
}

/// Quantises the rows of one tile; gives the first row that is not finite.
struct Quantize<'a> {
    x: &'a [f32],
    cols: usize,
    q: &'a mut [i32],
    d: &'a mut [f32],
    dsum: &'a mut [f32],
    sub: &'a mut [i32],
    pairs: &'a mut [i32],
}

impl Kernel for Quantize<'_> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> Option<usize> {
        let tokens = self.x.len() / self.cols;
        let mut broken = None;
        for (t, row) in self.x.chunks_exact(self.cols).enumerate() {
            for (b, block) in row.as_chunks::<BLOCK_K>().0.iter().enumerate() {
                let halves = block.as_chunks::<HALF_K>().0;
                let v = [isa.load(&halves[0]), isa.load(&halves[1])];
                if !(isa.all_finite(v[0]) && isa.all_finite(v[1])) {
                    broken = broken.or(Some(t));
                }
                let scales = block_scales([isa.reduce_max(isa.abs(v[0])), isa.reduce_max(isa.abs(v[1]))]);
                let mut codes = [[0i8; HALF_K]; 2];
                let mut sum = 0;
                for half in 0..2 {
                    let q = isa.round_i32(isa.mul(v[half], isa.splat(scales.inverse[half])));
                    isa.store_i8(q, &mut codes[half]);
                    let [low, high] = isa.pair_sums(q);
                    sum += scales.sub[half] * (low + high);
                    let at = (2 * b + half) * tokens + t;
                    self.sub[at] = scales.sub[half];
                    self.pairs[at] = (low & 0xffff) | (high << 16);
                }
                for (step, four) in codes.as_flattened().as_chunks::<4>().0.iter().enumerate() {
                    self.q[(8 * b + step) * tokens + t] = i32::from_le_bytes(four.map(|q| q as u8));
                }
                self.d[b * tokens + t] = scales.d;
                self.dsum[b * tokens + t] = scales.d * sum as f32;
            }
        }
        broken
    }
}

/// What turns a block into codes and back.
struct BlockScales {
    d: f32,
    sub: [i32; 2],
    /// `1 / (d * sub)`
    inverse: [f32; 2],
}

/// The scales of a block whose halves have these largest magnitudes (rule 1): `d = amax / (127 * 64)`, and for each
/// half the least sub-scale that covers it. Where `1/d` overflows (amax zero, or below about 2.4e-35) the whole block
/// counts as zero.
#[inline(always)]
fn block_scales(amax: [f32; 2]) -> BlockScales {
    let largest = if amax[0] > amax[1] { amax[0] } else { amax[1] };
    let d = largest / (MAX_CODE * MAX_SUB_SCALE as f32);
    if !(1.0 / d).is_finite() {
        return BlockScales { d: 0.0, sub: [1; 2], inverse: [0.0; 2] };
    }
    let sub = amax.map(|amax| ((amax / largest * MAX_SUB_SCALE as f32) as i32 + 1).min(MAX_SUB_SCALE));
    BlockScales { d, sub, inverse: sub.map(|sub| 1.0 / (d * sub as f32)) }
}

/// One quantised row in the plain order: what the definition of a dot reads.
pub struct QuantizedRow {
    q: Vec<i8>,
    d: Vec<f32>,
    sub: Vec<i32>,
}

impl QuantizedRow {
    /// Quantises finite values, a multiple of 32 of them (rule 1, written out).
    pub fn new(x: &[f32]) -> QuantizedRow {
        let mut row = QuantizedRow { q: Vec::new(), d: Vec::new(), sub: Vec::new() };
        for block in x.chunks_exact(BLOCK_K) {
            let halves = [&block[..HALF_K], &block[HALF_K..]];
            let scales = block_scales(halves.map(|half| half.iter().fold(0.0, |m: f32, v| m.max(v.abs()))));
            for (half, inverse) in halves.iter().zip(scales.inverse) {
                row.q.extend(half.iter().map(|v| (v * inverse).round_ties_even() as i8));
            }
            row.d.push(scales.d);
            row.sub.extend(scales.sub);
        }
        row
    }

    /// A block of 32.
    pub fn block(&self, index: usize) -> QuantizedBlock {
        let codes = &self.q[BLOCK_K * index..BLOCK_K * (index + 1)];
        QuantizedBlock {
            q: std::array::from_fn(|k| self.sub[2 * index + k / HALF_K] * i32::from(codes[k])),
            d: self.d[index],
        }
    }
}

/// A block of 32 activations: `x = d q`.
pub struct QuantizedBlock {
    /// Codes times their sub-scales.
    pub q: [i32; BLOCK_K],
    /// Scale.
    pub d: f32,
}

impl QuantizedBlock {
    /// The exact integer sum of a half's products with the integers that `weight` gives for each k of the block.
    pub fn half_dot(&self, half: usize, weight: impl Fn(usize) -> i32) -> i32 {
        (HALF_K * half..HALF_K * (half + 1)).map(|k| weight(k) * self.q[k]).sum()
    }

    /// The sum of a half's values.
    pub fn half_sum(&self, half: usize) -> f32 {
        self.d * self.q[HALF_K * half..HALF_K * (half + 1)].iter().sum::<i32>() as f32
    }

    /// The sum of the block's values.
    pub fn sum(&self) -> f32 {
        self.d * self.q.iter().sum::<i32>() as f32
    }
}
