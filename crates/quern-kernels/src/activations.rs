//! Activations as the linear kernels read them: int8 blocks (rule 1) and f32 (rule 2), both in tiles of up to four
//! tokens whose values lie side by side, so that a kernel broadcasts from one stream.

use crate::isa::{Isa, Kernel, Level};
use crate::pool::Pool;
use crate::shared::Shared;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Tokens in a full tile. The last tile of a batch has what is left.
pub const TILE_TOKENS: usize = 4;

/// Values that share one scale.
pub const BLOCK_K: usize = 32;

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
    /// Per tile [cols/32][tokens]: sum of the block's codes.
    s: Vec<i32>,
    /// Per tile [cols/16][tokens]
    s16: Vec<i32>,
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
    s: &'a [i32],
    s16: &'a [i32],
}

impl<'a> QuantTile<'a> {
    /// The eight steps of a block.
    #[inline(always)]
    pub(crate) fn q<const T: usize>(&self, block: usize) -> &'a [[i32; T]] {
        self.q[8 * T * block..8 * T * (block + 1)].as_chunks().0
    }
    /// The scales of a block.
    #[inline(always)]
    pub(crate) fn d<const T: usize>(&self, block: usize) -> &'a [f32] {
        &self.d[T * block..T * (block + 1)]
    }
    /// The code sums of a block.
    #[inline(always)]
    pub(crate) fn s<const T: usize>(&self, block: usize) -> &'a [i32] {
        &self.s[T * block..T * (block + 1)]
    }
    /// The code sums of the two halves of a block.
    #[inline(always)]
    pub(crate) fn s16<const T: usize>(&self, block: usize) -> &'a [[i32; T]] {
        self.s16[2 * T * block..2 * T * (block + 1)].as_chunks().0
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
            self.s.resize(rows * cols / 32, 0);
            self.s16.resize(rows * cols / 16, 0);
        }
        if forms.float {
            self.x.resize(rows * cols, 0.0);
        }
        let broken = AtomicUsize::new(usize::MAX);
        let (q, d, s, s16) = (
            Shared::new(&mut self.q),
            Shared::new(&mut self.d),
            Shared::new(&mut self.s),
            Shared::new(&mut self.s16),
        );
        let floats = Shared::new(&mut self.x);
        let n_tiles = rows.div_ceil(TILE_TOKENS);
        pool.run(n_tiles, &|_, tile| {
            let first = tile * TILE_TOKENS;
            let tokens = TILE_TOKENS.min(rows - first);
            let rows_of_tile = &x[first * cols..(first + tokens) * cols];
            if forms.quantized {
                let part = |n: usize| (first * n, tokens * n);
                let ((q0, qn), (d0, dn), (s0, sn)) = (part(cols / 4), part(cols / 32), part(cols / 16));
                // SAFETY: tiles do not overlap, and each is taken by one chunk.
                let tile = unsafe {
                    Quantize {
                        x: rows_of_tile,
                        cols,
                        q: q.slice(q0, qn),
                        d: d.slice(d0, dn),
                        s: s.slice(d0, dn),
                        s16: s16.slice(s0, sn),
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
                s: &self.s[part(self.cols / 32)],
                s16: &self.s16[part(self.cols / 16)],
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
    s: &'a mut [i32],
    s16: &'a mut [i32],
}

impl Kernel for Quantize<'_> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> Option<usize> {
        let tokens = self.x.len() / self.cols;
        let mut broken = None;
        for (t, row) in self.x.chunks_exact(self.cols).enumerate() {
            for (b, block) in row.as_chunks::<BLOCK_K>().0.iter().enumerate() {
                let halves = block.as_chunks::<16>().0;
                let v = [isa.load(&halves[0]), isa.load(&halves[1])];
                if !(isa.all_finite(v[0]) && isa.all_finite(v[1])) {
                    broken = broken.or(Some(t));
                }
                let amax = isa.reduce_max(isa.max(isa.abs(v[0]), isa.abs(v[1])));
                let (d, id) = block_scale(amax);
                let mut codes = [[0i8; 16]; 2];
                for half in 0..2 {
                    let q = isa.round_i32(isa.mul(v[half], isa.splat(id)));
                    isa.store_i8(q, &mut codes[half]);
                    self.s16[(2 * b + half) * tokens + t] = isa.reduce_add_i32(q);
                }
                for (step, four) in codes.as_flattened().as_chunks::<4>().0.iter().enumerate() {
                    self.q[(8 * b + step) * tokens + t] = i32::from_le_bytes(four.map(|q| q as u8));
                }
                self.d[b * tokens + t] = d;
                self.s[b * tokens + t] = self.s16[2 * b * tokens + t] + self.s16[(2 * b + 1) * tokens + t];
            }
        }
        broken
    }
}

/// The scale of a block and its reciprocal: `d = amax / 127`, `1/d`. Where the reciprocal overflows (amax zero, or below
/// about 4e-37) the whole block counts as zero.
#[inline(always)]
fn block_scale(amax: f32) -> (f32, f32) {
    let d = amax / 127.0;
    let id = 1.0 / d;
    if id.is_finite() { (d, id) } else { (0.0, 0.0) }
}

/// One quantised row in the plain order: what the definition of a dot reads.
pub struct QuantizedRow {
    q: Vec<i8>,
    d: Vec<f32>,
}

impl QuantizedRow {
    /// Quantises finite values, a multiple of 32 of them (rule 1, written out).
    pub fn new(x: &[f32]) -> QuantizedRow {
        let mut row = QuantizedRow { q: Vec::new(), d: Vec::new() };
        for block in x.chunks_exact(BLOCK_K) {
            let amax = block.iter().fold(0.0, |m: f32, v| m.max(v.abs()));
            let (d, id) = block_scale(amax);
            row.d.push(d);
            row.q.extend(block.iter().map(|v| (v * id).round_ties_even() as i8));
        }
        row
    }

    /// Codes, scale and code sum of a block of 32.
    pub fn block(&self, index: usize) -> (&[i8], f32, i32) {
        let q = &self.q[BLOCK_K * index..BLOCK_K * (index + 1)];
        (q, self.d[index], q.iter().map(|&q| i32::from(q)).sum())
    }
}
