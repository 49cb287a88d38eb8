//! Number formats: one file each, one line in [`FORMATS`].
//!
//! A format file holds the block layout, the exact decode of a block, the canonical scalar dot (the definition), and
//! the kernel over packed tiles, written once over [`Isa`].
//!
//! # Packed tiles
//! A matrix is packed at load into strips of sixteen rows. A strip is a row of units (sixteen rows x `UNIT_K`), their
//! codes first, their scales behind, so that both are read as plain streams. Codes go by steps of four k: sixty-four
//! bytes hold four k of each of the sixteen rows, row r at bytes 4r..4r+4, which is what one multiply-add of any
//! instruction set takes. Sub-byte codes share those bytes: the low nibble holds step 2j, the high nibble step 2j+1;
//! fifth and sixth bits lie in planes behind the nibbles.

mod float;
mod q4_1;
mod q4_k;
mod q5_0;
mod q6_k;
mod q8_0;

use crate::activations::{Activations, FloatTile, QuantTile, QuantizedRow};
use crate::isa::{Isa, Kernel, Level};
use crate::linear::StripOut;
use quern_gguf::TensorType;
use std::marker::PhantomData;

/// Rows in a strip.
pub const STRIP_ROWS: usize = 16;

/// k values that [`Format::widen`] decodes at once, at most.
pub const WIDEN_K: usize = 32;

/// A number format: how a GGUF block decodes, and how sixteen rows of blocks pack into a unit.
pub trait Format: 'static {
    /// The GGUF type.
    const TYPE: TensorType;
    /// k values per unit: the GGUF block length.
    const UNIT_K: usize;
    /// Code bytes of a unit, a multiple of 16.
    const CODE_BYTES: usize;
    /// Scale bytes of a unit.
    const SCALE_BYTES: usize;

    /// Decodes one GGUF block to `UNIT_K` floats, exactly or rounded once (docs/arithmetic.md, rule 2).
    fn decode(block: &[u8], out: &mut [f32]);

    /// Packs the blocks of sixteen rows (empty where the matrix has no such row) into a unit of zeroed bytes.
    fn pack(blocks: &[&[u8]; STRIP_ROWS], codes: &mut [u8], scales: &mut [u8]);

    /// Decodes part `part` of a unit (`min(UNIT_K, 32)` k values) to rows of sixteen lanes, the same values as `decode`.
    fn widen<I: Isa>(isa: I, codes: &[u8], scales: &[u8], part: usize, out: &mut [[f32; 16]; WIDEN_K]);
}

/// A format with integer codes, which takes int8 activations (rule 1).
pub trait IntegerFormat: Format {
    /// The definition: one GGUF block times the activations of block `index`, continuing the chain `acc`.
    fn dot(block: &[u8], x: &QuantizedRow, index: usize, acc: f32) -> f32;

    /// The same for sixteen rows and `T` tokens over one packed unit.
    fn mac<I: Isa, const T: usize>(
        isa: I,
        codes: &[u8],
        scales: &[u8],
        x: QuantTile<'_>,
        unit: usize,
        acc: &mut [I::F; T],
    );
}

/// A format as data: what the matrix code needs of it.
pub struct FormatOps {
    /// The GGUF type.
    pub ty: TensorType,
    /// k values per unit.
    pub unit_k: usize,
    /// Code bytes per unit.
    pub code_bytes: usize,
    /// Scale bytes per unit.
    pub scale_bytes: usize,
    pub(crate) decode: fn(&[u8], &mut [f32]),
    pub(crate) pack: fn(&[&[u8]; STRIP_ROWS], &mut [u8], &mut [u8]),
    pub(crate) float_strip: fn(Level, Strip<'_>, &Activations, &StripOut<'_>),
    /// None for float weights, which use f32 activations in either mode.
    pub(crate) integer: Option<IntegerOps>,
}

pub(crate) struct IntegerOps {
    pub(crate) dot: fn(&[u8], &QuantizedRow, usize, f32) -> f32,
    pub(crate) strip: fn(Level, Strip<'_>, &Activations, &StripOut<'_>),
}

/// The packed bytes of sixteen rows.
#[derive(Clone, Copy)]
pub struct Strip<'a> {
    /// Units' codes, one after the other.
    pub codes: &'a [u8],
    /// Units' scales, one after the other.
    pub scales: &'a [u8],
}

/// Every format that can be computed with.
pub static FORMATS: &[FormatOps] = &[
    FormatOps::float::<float::F32>(),
    FormatOps::float::<float::F16>(),
    FormatOps::float::<float::Bf16>(),
    FormatOps::integer::<q4_1::Q4_1>(),
    FormatOps::integer::<q5_0::Q5_0>(),
    FormatOps::integer::<q8_0::Q8_0>(),
    FormatOps::integer::<q4_k::Q4K>(),
    FormatOps::integer::<q6_k::Q6K>(),
];

/// The format of a GGUF type, if it can be computed with.
pub fn format(ty: TensorType) -> Option<&'static FormatOps> {
    FORMATS.iter().find(|f| f.ty == ty)
}

impl FormatOps {
    const fn float<F: Format>() -> FormatOps {
        FormatOps {
            ty: F::TYPE,
            unit_k: F::UNIT_K,
            code_bytes: F::CODE_BYTES,
            scale_bytes: F::SCALE_BYTES,
            decode: F::decode,
            pack: F::pack,
            float_strip: float_strip::<F>,
            integer: None,
        }
    }

    const fn integer<F: IntegerFormat>() -> FormatOps {
        FormatOps {
            integer: Some(IntegerOps { dot: F::dot, strip: quant_strip::<F> }),
            ..FormatOps::float::<F>()
        }
    }

    /// Bytes of one GGUF row of `n_cols` values.
    pub fn row_bytes(&self, n_cols: usize) -> usize {
        n_cols / self.unit_k * self.ty.bytes_per_block() as usize
    }

    /// Decodes a GGUF row to floats.
    pub fn decode_row(&self, row: &[u8], out: &mut [f32]) {
        let blocks = row.chunks_exact(self.ty.bytes_per_block() as usize);
        for (block, out) in blocks.zip(out.chunks_exact_mut(self.unit_k)) {
            (self.decode)(block, out);
        }
    }

    /// The canonical dot of a GGUF row with a quantised row (rule 1): the definition that packed kernels must equal.
    /// None for float weights.
    pub fn dot_row(&self, row: &[u8], x: &QuantizedRow) -> Option<f32> {
        let ops = self.integer.as_ref()?;
        let blocks = row.chunks_exact(self.ty.bytes_per_block() as usize);
        Some(blocks.enumerate().fold(0.0, |acc, (i, block)| (ops.dot)(block, x, i, acc)))
    }
}

/// Runs `$body` with `$T` bound to the number of tokens in a tile.
macro_rules! with_tokens {
    ($tokens:expr, $T:ident => $body:expr) => {
        match $tokens {
            1 => with_tokens!(@ 1, $T, $body),
            2 => with_tokens!(@ 2, $T, $body),
            3 => with_tokens!(@ 3, $T, $body),
            _ => with_tokens!(@ 4, $T, $body),
        }
    };
    (@ $n:literal, $T:ident, $body:expr) => {{
        const $T: usize = $n;
        $body
    }};
}

struct QuantStrip<'a, F> {
    strip: Strip<'a>,
    x: &'a Activations,
    out: &'a StripOut<'a>,
    format: PhantomData<F>,
}

impl<F: IntegerFormat> QuantStrip<'_, F> {
    #[inline(always)]
    fn tile<I: Isa, const T: usize>(&self, isa: I, x: QuantTile<'_>) {
        let mut acc = [isa.splat(0.0); T];
        let units =
            self.strip.codes.chunks_exact(F::CODE_BYTES).zip(self.strip.scales.chunks_exact(F::SCALE_BYTES));
        for (unit, (codes, scales)) in units.enumerate() {
            F::mac::<I, T>(isa, codes, scales, x, unit, &mut acc);
        }
        self.out.store(isa, x.first_row, &acc);
    }
}

impl<F: IntegerFormat> Kernel for QuantStrip<'_, F> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        for x in self.x.quant_tiles() {
            with_tokens!(x.tokens, T => self.tile::<I, T>(isa, x));
        }
    }
}

fn quant_strip<F: IntegerFormat>(level: Level, strip: Strip<'_>, x: &Activations, out: &StripOut<'_>) {
    level.run(QuantStrip::<F> { strip, x, out, format: PhantomData });
}

struct FloatStrip<'a, F> {
    strip: Strip<'a>,
    x: &'a Activations,
    out: &'a StripOut<'a>,
    format: PhantomData<F>,
}

impl<F: Format> FloatStrip<'_, F> {
    #[inline(always)]
    fn tile<I: Isa, const T: usize>(&self, isa: I, x: FloatTile<'_>) {
        let mut acc = [isa.splat(0.0); T];
        let mut wide = [[0.0; 16]; WIDEN_K];
        let part_k = F::UNIT_K.min(WIDEN_K);
        // chunks_exact refuses a length of zero: a format without scales hands every unit an empty slice.
        let scale_bytes = F::SCALE_BYTES;
        for (unit, codes) in self.strip.codes.chunks_exact(F::CODE_BYTES).enumerate() {
            let scales = &self.strip.scales[unit * scale_bytes..(unit + 1) * scale_bytes];
            for part in 0..F::UNIT_K / part_k {
                F::widen(isa, codes, scales, part, &mut wide);
                let k = unit * F::UNIT_K + part * part_k;
                let x = &x.x[k * T..(k + part_k) * T];
                for (w, x) in wide[..part_k].iter().zip(x.as_chunks::<T>().0) {
                    let w = isa.load(w);
                    for t in 0..T {
                        acc[t] = isa.fma(w, isa.splat(x[t]), acc[t]);
                    }
                }
            }
        }
        self.out.store(isa, x.first_row, &acc);
    }
}

impl<F: Format> Kernel for FloatStrip<'_, F> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        for x in self.x.float_tiles() {
            with_tokens!(x.tokens, T => self.tile::<I, T>(isa, x));
        }
    }
}

fn float_strip<F: Format>(level: Level, strip: Strip<'_>, x: &Activations, out: &StripOut<'_>) {
    level.run(FloatStrip::<F> { strip, x, out, format: PhantomData });
}

// Shared pieces of the block formats.

/// Bytes of the nibbles of sixteen rows x 32 k.
const NIBBLE_BYTES: usize = 256;

/// The half float at `offset` of a block.
#[inline(always)]
fn f16_at(block: &[u8], offset: usize) -> f32 {
    crate::math::f16_to_f32(u16_at(block, offset))
}

#[inline(always)]
fn u16_at(block: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes([block[offset], block[offset + 1]])
}

/// Writes the low four bits of sixteen rows' 32 codes as nibble steps.
fn pack_nibbles(row: usize, codes: &[u8; 32], out: &mut [u8]) {
    for (k, code) in codes.iter().enumerate() {
        let (step, i) = (k / 4, k % 4);
        out[64 * (step / 2) + 4 * row + i] |= (code & 15) << (4 * (step % 2));
    }
}

/// Loads nibble steps 2j and 2j+1.
#[inline(always)]
fn load_nibbles<I: Isa>(isa: I, codes: &[u8], j: usize) -> [I::B; 2] {
    let both = isa.load_bytes(&codes.as_chunks::<64>().0[j]);
    [isa.shift_mask(both, 0, 15), isa.shift_mask(both, 4, 15)]
}

/// Adds the products of a half block's codes (nibble pairs j = 0, 1 give its four steps) to each token's sums.
#[inline(always)]
fn mac_half<I: Isa, const T: usize>(
    isa: I,
    pairs: [[I::B; 2]; 2],
    x: QuantTile<'_>,
    half: usize,
    mut sums: [I::A; T],
) -> [I::A; T] {
    let q = x.q::<T>(half);
    for (j, [even, odd]) in pairs.into_iter().enumerate() {
        for t in 0..T {
            sums[t] = isa.acc_mac(sums[t], even, q[2 * j][t]);
            sums[t] = isa.acc_mac(sums[t], odd, q[2 * j + 1][t]);
        }
    }
    sums
}

/// Adds a half block's sums, times its activations' sub-scales, to each token's integer sum.
#[inline(always)]
fn flush_half<I: Isa, const T: usize>(
    isa: I,
    sums: [I::A; T],
    x: QuantTile<'_>,
    half: usize,
    isum: &mut [I::I; T],
) {
    let sub = x.sub::<T>(half);
    for t in 0..T {
        isum[t] = isa.flush(isum[t], sums[t], isa.splat_scale(sub[t]));
    }
}

/// Where each token's sums start when 2^`shift` is to come off every code.
#[inline(always)]
fn start_half<I: Isa, const T: usize>(isa: I, x: QuantTile<'_>, half: usize, shift: u32) -> [I::A; T] {
    let pairs = x.pairs::<T>(half);
    let mut sums = [isa.acc_zero(); T];
    for t in 0..T {
        sums[t] = isa.acc_start(pairs[t], shift);
    }
    sums
}

/// Continues each token's chain with a block's integer sum: `acc = fma(d * dx, isum, acc)`.
#[inline(always)]
fn add_block<I: Isa, const T: usize>(
    isa: I,
    d: I::F,
    isum: [I::I; T],
    x: QuantTile<'_>,
    block: usize,
    acc: &mut [I::F; T],
) {
    let dx = x.d::<T>(block);
    for t in 0..T {
        acc[t] = isa.fma(isa.mul(d, isa.splat(dx[t])), isa.to_f32(isum[t]), acc[t]);
    }
}

/// Writes half float `bits` of row `row` into a vector of sixteen.
#[inline(always)]
fn put_u16(out: &mut [u8], row: usize, bits: u16) {
    out[2 * row..2 * row + 2].copy_from_slice(&bits.to_le_bytes());
}

/// Sixteen half floats from the first 32 bytes.
#[inline(always)]
fn load_f16s<I: Isa>(isa: I, bytes: &[u8]) -> I::F {
    isa.load_f16(&u16s(bytes))
}

/// Sixteen u16 from the first 32 bytes, whatever their alignment.
#[inline(always)]
fn u16s(bytes: &[u8]) -> [u16; 16] {
    let pairs = bytes.as_chunks::<2>().0.first_chunk::<16>();
    pairs.map_or([0; 16], |pairs| pairs.map(u16::from_le_bytes))
}

/// Sixteen bytes, vector `index`.
#[inline(always)]
fn bytes16(bytes: &[u8], index: usize) -> &[u8; 16] {
    &bytes.as_chunks::<16>().0[index]
}

/// Decodes one step of unsigned codes through `value`, to k `first_k` and on.
#[inline(always)]
fn widen_steps<I: Isa>(
    isa: I,
    step: I::B,
    first_k: usize,
    out: &mut [[f32; 16]; WIDEN_K],
    value: impl Fn(I::F) -> I::F,
) {
    for j in 0..4 {
        let q = isa.to_f32(isa.byte_u8(step, j as u32));
        isa.store(value(q), &mut out[first_k + j]);
    }
}
