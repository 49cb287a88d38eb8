//! Number formats: one file each, one line in [`FORMATS`].
//!
//! A file of a format with integer codes says as data where a block holds its codes and scales; [`blocks`] makes of it
//! the exact decode, the canonical scalar dot (the definition), the packing and the kernel over packed tiles, written
//! once over [`Isa`]. A format that does not fit implements [`Format`] itself, as [`float`] does.
//!
//! # Packed tiles
//! A matrix is packed at load into strips of sixteen rows. A strip is a row of units (sixteen rows x `UNIT_K`), their
//! codes first, their scales behind, so that both are read as plain streams. Codes go by steps of four k: sixty-four
//! bytes hold four k of each of the sixteen rows, row r at bytes 4r..4r+4, which is what one multiply-add of any
//! instruction set takes. Sub-byte codes share those bytes: the low nibble holds step 2j, the high nibble step 2j+1;
//! fifth and sixth bits lie in planes behind the nibbles.
//!
//! # What is absent
//! Q8_K and Q8_1 are activations of another engine and never in files; Q1_0 and Q2_0 (ids 41 and 42) have no type yet.
//! All are refused by name or id.

mod blocks;
mod float;
mod fp4;
mod grids;
mod iq1;
mod iq2;
mod iq3;
mod iq4;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;
mod ternary;

use crate::activations::{Activations, FloatTile, QuantTile, QuantizedRow};
use crate::isa::{Isa, Kernel, Level};
use crate::linear::StripOut;
use quern_gguf::TensorType;
use std::marker::PhantomData;

/// Rows in a strip.
pub const STRIP_ROWS: usize = 16;

/// k values that [`Format::widen`] decodes at once, at most.
const WIDEN_K: usize = 32;

/// [`Format::widen`] of one format.
type Widen = fn(Level, Strip<'_>, usize, &mut [[f32; 16]]);

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

    /// Decodes the `out.len()` k values from `first_k` of a strip to rows of sixteen lanes, the same values as `decode`.
    /// `first_k` is a multiple of [`WIDEN_K`]; fewer than that are asked for at the end of a row without blocks only.
    fn widen<I: Isa>(isa: I, strip: Strip<'_>, first_k: usize, out: &mut [[f32; 16]]);
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
    widen: Widen,
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
    FormatOps::integer::<q4_0::Q4_0>(),
    FormatOps::integer::<q4_1::Q4_1>(),
    FormatOps::integer::<q5_0::Q5_0>(),
    FormatOps::integer::<q5_1::Q5_1>(),
    FormatOps::integer::<q8_0::Q8_0>(),
    FormatOps::integer::<q2_k::Q2K>(),
    FormatOps::integer::<q3_k::Q3K>(),
    FormatOps::integer::<q4_k::Q4K>(),
    FormatOps::integer::<q5_k::Q5K>(),
    FormatOps::integer::<q6_k::Q6K>(),
    FormatOps::integer::<iq4::Iq4Nl>(),
    FormatOps::integer::<iq4::Iq4Xs>(),
    FormatOps::integer::<iq1::Iq1S>(),
    FormatOps::integer::<iq1::Iq1M>(),
    FormatOps::integer::<iq2::Iq2Xxs>(),
    FormatOps::integer::<iq2::Iq2Xs>(),
    FormatOps::integer::<iq2::Iq2S>(),
    FormatOps::integer::<iq3::Iq3Xxs>(),
    FormatOps::integer::<iq3::Iq3S>(),
    FormatOps::integer::<ternary::Tq1_0>(),
    FormatOps::integer::<ternary::Tq2_0>(),
    FormatOps::integer::<fp4::Mxfp4>(),
    FormatOps::integer::<fp4::Nvfp4>(),
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
            widen: |level, strip, first_k, out| {
                level.run(WidenStrip::<F> { strip, first_k, out, format: PhantomData });
            },
            integer: None,
        }
    }

    const fn integer<F: IntegerFormat>() -> FormatOps {
        FormatOps {
            integer: Some(IntegerOps { dot: F::dot, strip: quant_strip::<F> }),
            ..FormatOps::float::<F>()
        }
    }

    /// Multiplies a strip by f32 activations (rule 2).
    pub(crate) fn float_strip(&self, level: Level, strip: Strip<'_>, x: &Activations, out: &StripOut<'_>) {
        level.run(FloatStrip { level, widen: self.widen, strip, x, out });
    }

    /// Whether it has a dot with int8 activations; without, it is computed in f32 in every mode.
    pub fn takes_int8(&self) -> bool {
        self.integer.is_some()
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

struct WidenStrip<'a, F> {
    strip: Strip<'a>,
    first_k: usize,
    out: &'a mut [[f32; 16]],
    format: PhantomData<F>,
}

impl<F: Format> Kernel for WidenStrip<'_, F> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        F::widen(isa, self.strip, self.first_k, self.out);
    }
}

/// Rule 2 over a strip: the same kernel for every format, over weights decoded a few k at a time.
struct FloatStrip<'a> {
    level: Level,
    widen: Widen,
    strip: Strip<'a>,
    x: &'a Activations,
    out: &'a StripOut<'a>,
}

impl FloatStrip<'_> {
    #[inline(always)]
    fn tile<I: Isa, const T: usize>(&self, isa: I, x: FloatTile<'_>) {
        let mut acc = [isa.splat(0.0); T];
        let mut wide = [[0.0; 16]; WIDEN_K];
        for (part, x) in x.x.as_chunks::<T>().0.chunks(WIDEN_K).enumerate() {
            let wide = &mut wide[..x.len()];
            (self.widen)(self.level, self.strip, part * WIDEN_K, wide);
            for (w, x) in wide.iter().zip(x) {
                let w = isa.load(w);
                for t in 0..T {
                    acc[t] = isa.fma(w, isa.splat(x[t]), acc[t]);
                }
            }
        }
        self.out.store(isa, x.first_row, &acc);
    }
}

impl Kernel for FloatStrip<'_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        for x in self.x.float_tiles() {
            with_tokens!(x.tokens, T => self.tile::<I, T>(isa, x));
        }
    }
}

// Pieces of packed scales.

/// Writes the u16 `bits` of row `row` into a vector of sixteen.
#[inline(always)]
fn put_u16(out: &mut [u8], row: usize, bits: u16) {
    out[2 * row..2 * row + 2].copy_from_slice(&bits.to_le_bytes());
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
