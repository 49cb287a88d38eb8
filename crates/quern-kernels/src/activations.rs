//! Activations as the linear kernels read them: int8 blocks (rule 1) and f32 (rule 2), both in tiles of a few tokens
//! whose values lie side by side, so that a kernel broadcasts from one stream.
//!
//! An int8 block has one float scale and an integer sub-scale for each half. Halves of sixteen keep about half the
//! rounding error of blocks of thirty-two (one large value spoils fewer neighbours), and an integer sub-scale costs less
//! than a second float scale: it rides on the widening that every product sum takes anyway.

use crate::isa::{Isa, Kernel, Level};
use crate::pool::Pool;
use crate::shared::Shared;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Tokens in a full tile of int8 activations. The last tile of a batch has what is left.
pub const TILE_TOKENS: usize = 4;

/// Tokens in a full tile of f32 activations: twelve sums of eight lanes cover the latency of two fma a cycle.
pub const FLOAT_TILE_TOKENS: usize = 6;

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

/// Rows of an [`XPart`].
const PART_ROWS: usize = 17;

/// What a part of 32 k takes of the activations of `T` tokens: [`XRow`] says which row is what.
///
/// Everything that a multiply-add wants lies in one stream, a word for each token, ready to be broadcast.
pub(crate) type XPart<const T: usize> = [[i32; T]; PART_ROWS];

/// A row of an [`XPart`]. A part holds either bytes or pairs.
#[derive(Clone, Copy)]
pub(crate) struct XRow(usize);

#[allow(non_upper_case_globals)]
impl XRow {
    /// Bytes: four codes, first in the low byte.
    pub(crate) const fn codes(step: usize) -> XRow {
        XRow(step)
    }
    /// Bytes: the sub-scale of a half, twice, as i16.
    pub(crate) const fn sub(half: usize) -> XRow {
        XRow(8 + half)
    }
    /// Bytes: minus the sums of a half's codes at k mod 4 in {0, 1} (low sixteen bits) and in {2, 3}.
    pub(crate) const fn minus_pairs(half: usize) -> XRow {
        XRow(10 + half)
    }
    /// Bytes, f32: the sum of a half's values, as its codes give them.
    pub(crate) const fn half_sum(half: usize) -> XRow {
        XRow(12 + half)
    }
    /// Bytes, f32: the sum of the part's values, as its codes give them.
    pub(crate) const Sum: XRow = XRow(14);
    /// Bytes: minus the sum of the part's codes times their sub-scales.
    pub(crate) const MinusSum: XRow = XRow(15);
    /// Pairs: two codes times their sub-scale, as i16, first in the low half.
    pub(crate) const fn pair(step: usize) -> XRow {
        XRow(step)
    }
    /// Both, f32: the part's scale.
    pub(crate) const Scale: XRow = XRow(16);
}

/// Rows by name.
pub(crate) trait Rows<const T: usize> {
    /// The words of the tokens.
    fn row(&self, row: XRow) -> &[i32; T];
}

impl<const T: usize> Rows<T> for XPart<T> {
    #[inline(always)]
    fn row(&self, row: XRow) -> &[i32; T] {
        &self[row.0]
    }
}

/// Where the words of `tokens` tokens of int8 activations lie, from token `first` on, which begins a tile.
fn words(first: usize, tokens: usize, cols: usize) -> Range<usize> {
    let words = cols / BLOCK_K * PART_ROWS;
    first * words..(first + tokens) * words
}

/// What a linear layer multiplies by. Buffers are kept from call to call.
#[derive(Default)]
pub struct Activations {
    rows: usize,
    cols: usize,
    forms: Forms,
    /// Per tile [cols / 32][PART_ROWS][tokens], as the pairs.
    bytes: Vec<i32>,
    pairs: Vec<i32>,
    /// Per tile [cols][tokens]
    x: Vec<f32>,
}

/// Int8 activations of up to a block of tokens.
#[derive(Clone, Copy)]
pub struct QuantBlock<'a> {
    words: &'a [i32],
    tokens: usize,
    /// Parts of a row.
    n_parts: usize,
    /// The parts that are meant.
    first_part: usize,
    parts: usize,
}

/// Int8 activations of a tile.
#[derive(Clone, Copy)]
pub(crate) struct QuantTile<'a> {
    /// First token, within the block.
    pub(crate) first: usize,
    pub(crate) tokens: usize,
    words: &'a [i32],
}

impl<'a> QuantBlock<'a> {
    /// The same with `parts` parts of each row, from `first_part`.
    pub(crate) fn parts(self, first_part: usize, parts: usize) -> QuantBlock<'a> {
        QuantBlock { first_part, parts, ..self }
    }

    /// The parts of the one token there is.
    #[inline(always)]
    pub(crate) fn only_token(self) -> &'a [XPart<1>] {
        debug_assert_eq!(self.tokens, 1);
        self.words.as_chunks::<1>().0.as_chunks::<PART_ROWS>().0
    }

    #[inline(always)]
    pub(crate) fn tiles(self) -> impl Iterator<Item = QuantTile<'a>> {
        let row_words = self.n_parts * PART_ROWS;
        (0..self.tokens).step_by(TILE_TOKENS).map(move |first| {
            let tokens = TILE_TOKENS.min(self.tokens - first);
            let start = first * row_words + self.first_part * PART_ROWS * tokens;
            QuantTile { first, tokens, words: &self.words[start..start + self.parts * PART_ROWS * tokens] }
        })
    }
}

impl<'a> QuantTile<'a> {
    /// Its parts; `T` is its number of tokens.
    #[inline(always)]
    pub(crate) fn parts<const T: usize>(self) -> &'a [XPart<T>] {
        self.words.as_chunks::<T>().0.as_chunks::<PART_ROWS>().0
    }
}

/// f32 activations of up to a block of tokens.
#[derive(Clone, Copy)]
pub struct FloatBlock<'a> {
    x: &'a [f32],
    tokens: usize,
    cols: usize,
    first_col: usize,
    n_cols: usize,
}

/// f32 activations of a tile.
#[derive(Clone, Copy)]
pub(crate) struct FloatTile<'a> {
    /// First token, within the block.
    pub(crate) first: usize,
    pub(crate) tokens: usize,
    x: &'a [f32],
}

impl<'a> FloatBlock<'a> {
    /// The same with `n_cols` columns from `first_col`.
    pub(crate) fn cols(self, first_col: usize, n_cols: usize) -> FloatBlock<'a> {
        FloatBlock { first_col, n_cols, ..self }
    }

    #[inline(always)]
    pub(crate) fn tiles(self) -> impl Iterator<Item = FloatTile<'a>> {
        (0..self.tokens).step_by(FLOAT_TILE_TOKENS).map(move |first| {
            let tokens = FLOAT_TILE_TOKENS.min(self.tokens - first);
            let start = first * self.cols + self.first_col * tokens;
            FloatTile { first, tokens, x: &self.x[start..start + self.n_cols * tokens] }
        })
    }
}

impl<'a> FloatTile<'a> {
    /// Its values by column; `T` is its number of tokens.
    #[inline(always)]
    pub(crate) fn x<const T: usize>(self) -> &'a [[f32; T]] {
        self.x.as_chunks::<T>().0
    }
}

/// Which forms of the activations a set of weights needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forms {
    /// Int8 blocks, codes as bytes.
    pub bytes: bool,
    /// Int8 blocks, codes times their sub-scales as pairs of i16.
    pub pairs: bool,
    /// f32.
    pub float: bool,
}

impl Forms {
    /// Both sets.
    pub fn and(self, other: Forms) -> Forms {
        Forms {
            bytes: self.bytes | other.bytes,
            pairs: self.pairs | other.pairs,
            float: self.float | other.float,
        }
    }
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
        self.forms
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
        (self.rows, self.cols, self.forms) = (rows, cols, forms);
        let int8 = forms.bytes || forms.pairs;
        if int8 {
            assert!(
                cols.is_multiple_of(BLOCK_K),
                "int8 activations need a multiple of {BLOCK_K} columns, not {cols}"
            );
        }
        let n_words = words(0, rows, cols).end;
        self.bytes.resize(if forms.bytes { n_words } else { 0 }, 0);
        self.pairs.resize(if forms.pairs { n_words } else { 0 }, 0);
        if forms.float {
            self.x.resize(rows * cols, 0.0);
        }
        let broken = AtomicUsize::new(usize::MAX);
        let (bytes, pairs) = (Shared::new(&mut self.bytes), Shared::new(&mut self.pairs));
        let floats = Shared::new(&mut self.x);
        let quant_tiles = if int8 { rows.div_ceil(TILE_TOKENS) } else { 0 };
        let float_tiles = if forms.float { rows.div_ceil(FLOAT_TILE_TOKENS) } else { 0 };
        pool.run(quant_tiles + float_tiles, &|_, tile| {
            if tile < quant_tiles {
                let first = tile * TILE_TOKENS;
                let tokens = TILE_TOKENS.min(rows - first);
                let range = |held: bool| if held { words(first, tokens, cols) } else { 0..0 };
                let (in_bytes, in_pairs) = (range(forms.bytes), range(forms.pairs));
                // SAFETY: tiles do not overlap, and each is taken by one chunk.
                let tile = unsafe {
                    Quantize {
                        x: &x[first * cols..(first + tokens) * cols],
                        cols,
                        bytes: bytes.slice(in_bytes.start, in_bytes.len()),
                        pairs: pairs.slice(in_pairs.start, in_pairs.len()),
                    }
                };
                if let Some(row) = level.run(tile) {
                    broken.fetch_min(first + row, Ordering::Relaxed);
                }
            } else {
                let first = (tile - quant_tiles) * FLOAT_TILE_TOKENS;
                let tokens = FLOAT_TILE_TOKENS.min(rows - first);
                // SAFETY: tiles do not overlap, and each is taken by one chunk.
                let out = unsafe { floats.slice(first * cols, tokens * cols) };
                for (t, row) in x[first * cols..(first + tokens) * cols].chunks_exact(cols).enumerate() {
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

    /// Int8 blocks of the tokens `tokens`, which begin a tile.
    pub(crate) fn quant(&self, pairs: bool, tokens: Range<usize>) -> QuantBlock<'_> {
        let held = if pairs { &self.pairs } else { &self.bytes };
        let n_parts = self.cols / BLOCK_K;
        QuantBlock {
            words: &held[words(tokens.start, tokens.len(), self.cols)],
            tokens: tokens.len(),
            n_parts,
            first_part: 0,
            parts: n_parts,
        }
    }

    /// f32 of the tokens `tokens`, which begin a tile.
    pub(crate) fn float(&self, tokens: Range<usize>) -> FloatBlock<'_> {
        FloatBlock {
            x: &self.x[tokens.start * self.cols..tokens.end * self.cols],
            tokens: tokens.len(),
            cols: self.cols,
            first_col: 0,
            n_cols: self.cols,
        }
    }
}

/// Quantises the rows of one tile; gives the first row that is not finite. A form that is not wanted is empty.
struct Quantize<'a> {
    x: &'a [f32],
    cols: usize,
    bytes: &'a mut [i32],
    pairs: &'a mut [i32],
}

impl Kernel for Quantize<'_> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> Option<usize> {
        let tokens = self.x.len() / self.cols;
        let part_words = PART_ROWS * tokens;
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
                let mut sums = [[0; 2]; 2];
                for half in 0..2 {
                    let q = isa.round_i32(isa.mul(v[half], isa.splat(scales.inverse[half])));
                    isa.store_i8(q, &mut codes[half]);
                    sums[half] = isa.pair_sums(q);
                }
                if !self.bytes.is_empty() {
                    let part = &mut self.bytes[part_words * b..part_words * (b + 1)];
                    let mut put = |row: XRow, word: i32| part[row.0 * tokens + t] = word;
                    for (step, four) in codes.as_flattened().as_chunks::<4>().0.iter().enumerate() {
                        put(XRow::codes(step), i32::from_le_bytes(four.map(|q| q as u8)));
                    }
                    let mut sum = 0;
                    for half in 0..2 {
                        let [low, high] = sums[half];
                        let own = scales.sub[half] * (low + high);
                        sum += own;
                        put(XRow::sub(half), two_i16(scales.sub[half], scales.sub[half]));
                        put(XRow::minus_pairs(half), two_i16(-low, -high));
                        put(XRow::half_sum(half), (scales.d * own as f32).to_bits() as i32);
                    }
                    put(XRow::Sum, (scales.d * sum as f32).to_bits() as i32);
                    put(XRow::MinusSum, -sum);
                    put(XRow::Scale, scales.d.to_bits() as i32);
                }
                if !self.pairs.is_empty() {
                    let part = &mut self.pairs[part_words * b..part_words * (b + 1)];
                    for (step, two) in codes.as_flattened().as_chunks::<2>().0.iter().enumerate() {
                        let sub = scales.sub[step / 8];
                        let word = two_i16(sub * i32::from(two[0]), sub * i32::from(two[1]));
                        part[XRow::pair(step).0 * tokens + t] = word;
                    }
                    part[XRow::Scale.0 * tokens + t] = scales.d.to_bits() as i32;
                }
            }
        }
        broken
    }
}

/// Two numbers that fit an i16, the first in the low half.
#[inline(always)]
fn two_i16(low: i32, high: i32) -> i32 {
    (low & 0xffff) | high << 16
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
