//! F32, F16 and BF16: every weight widens exactly, and rule 2 holds in either activation mode.
//!
//! Packed: sixteen rows of one k, one after the other, so that a matrix may have any number of columns.

use super::*;
use crate::math::{bf16_to_f32, f16_to_f32};

/// Copies one value of each row into a unit.
fn pack_values<const BYTES: usize>(blocks: &[&[u8]; STRIP_ROWS], out: &mut [u8]) {
    for (row, value) in blocks.iter().enumerate().filter(|(_, b)| !b.is_empty()) {
        out[BYTES * row..BYTES * (row + 1)].copy_from_slice(value);
    }
}

macro_rules! float_format {
    ($name:ident, $ty:expr, $bytes:literal, $decode:expr, |$isa:ident, $codes:ident| $load:expr) => {
        pub(super) struct $name;

        impl Format for $name {
            const TYPE: TensorType = $ty;
            const UNIT_K: usize = 1;
            const CODE_BYTES: usize = 16 * $bytes;
            const SCALE_BYTES: usize = 0;

            fn decode(block: &[u8], out: &mut [f32]) {
                out[0] = $decode(block);
            }

            fn pack(blocks: &[&[u8]; STRIP_ROWS], codes: &mut [u8], _scales: &mut [u8]) {
                pack_values::<$bytes>(blocks, codes);
            }

            #[inline(always)]
            fn widen<I: Isa>($isa: I, strip: Strip<'_>, first_k: usize, out: &mut [[f32; 16]]) {
                let codes = strip.codes.chunks_exact(Self::CODE_BYTES).skip(first_k);
                for (out, $codes) in out.iter_mut().zip(codes) {
                    $isa.store($load, out);
                }
            }
        }
    };
}

float_format!(
    F32,
    TensorType::F32,
    4,
    |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]),
    |isa, codes| {
        let four = codes.as_chunks::<4>().0.first_chunk::<16>();
        isa.load(&four.map_or([0.0; 16], |v| v.map(f32::from_le_bytes)))
    }
);
float_format!(F16, TensorType::F16, 2, |b: &[u8]| f16_to_f32(blocks::u16_at(b, 0)), |isa, codes| {
    isa.load_f16(&u16s(codes))
});
float_format!(Bf16, TensorType::BF16, 2, |b: &[u8]| bf16_to_f32(blocks::u16_at(b, 0)), |isa, codes| {
    isa.load_bf16(&u16s(codes))
});
