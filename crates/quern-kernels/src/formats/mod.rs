//! Number formats: one file each, one line in [`FORMATS`].
//!
//! A file of a format with integer codes says as data where a block holds its codes and scales; [`blocks`] makes of it
//! the exact decode, the canonical scalar dot (the definition) and the packing, [`unpack`] what kernels read, written once
//! over [`Isa`]. A format that does not fit implements [`Format`] itself, as [`float`] does.
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
mod unpack;

use crate::activations::{QuantBlock, QuantizedRow, XPart};
use crate::isa::{Isa, Kernel, Level};
use crate::panel::Panel;
use crate::tiles::{self, Shape, TileKernel};
use quern_gguf::TensorType;
use std::marker::PhantomData;

/// Rows in a strip.
pub const STRIP_ROWS: usize = 16;

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
    /// Both are multiples of 32, but for the end of a row without blocks.
    fn widen<I: Isa>(isa: I, strip: Strip<'_>, first_k: usize, out: &mut [[f32; 16]]);
}

/// A format with integer codes, which takes int8 activations (rule 1).
pub(crate) trait IntegerFormat: Format {
    /// How a panel of it is multiplied.
    const SHAPE: Shape;

    /// The definition: one GGUF block times the activations of block `index`, continuing the chain `acc`.
    fn dot(block: &[u8], x: &QuantizedRow, index: usize, acc: f32) -> f32;

    /// Unpacks `parts` parts of 32 k of a strip.
    fn unpack<I: Isa>(isa: I, strip: Strip<'_>, first_part: usize, parts: usize, panel: &mut Panel);

    /// The products of a whole strip with one token.
    fn row<I: Isa>(isa: I, strip: Strip<'_>, x: &[XPart<1>]) -> [f32; 16];
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
    pub(crate) widen: fn(Level, Strip<'_>, usize, &mut [[f32; 16]]),
    /// None for float weights, which use f32 activations in either mode.
    pub(crate) integer: Option<IntegerOps>,
}

pub(crate) struct IntegerOps {
    pub(crate) dot: fn(&[u8], &QuantizedRow, usize, f32) -> f32,
    pub(crate) unpack: fn(Level, Strip<'_>, usize, usize, &mut Panel),
    pub(crate) row: fn(Level, Strip<'_>, QuantBlock<'_>) -> [f32; 16],
    pub(crate) tiles: TileKernel,
    /// Codes are too wide for sums of unsigned bytes in sixteen bits.
    pub(crate) wide: bool,
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
            integer: Some(IntegerOps {
                dot: F::dot,
                unpack: |level, strip, first_part, parts, panel| {
                    level.run(UnpackStrip::<F> { strip, first_part, parts, panel, format: PhantomData });
                },
                row: |level, strip, x| level.run(StripRow::<F> { strip, x, format: PhantomData }),
                tiles: tiles::kernel(F::SHAPE),
                wide: F::SHAPE.largest_byte.is_none(),
            }),
            ..FormatOps::float::<F>()
        }
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

struct UnpackStrip<'a, F> {
    strip: Strip<'a>,
    first_part: usize,
    parts: usize,
    panel: &'a mut Panel,
    format: PhantomData<F>,
}

impl<F: IntegerFormat> Kernel for UnpackStrip<'_, F> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        F::unpack(isa, self.strip, self.first_part, self.parts, self.panel);
    }
}

struct StripRow<'a, F> {
    strip: Strip<'a>,
    x: QuantBlock<'a>,
    format: PhantomData<F>,
}

impl<F: IntegerFormat> Kernel for StripRow<'_, F> {
    type Output = [f32; 16];
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> [f32; 16] {
        F::row(isa, self.strip, self.x.only_token())
    }
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
