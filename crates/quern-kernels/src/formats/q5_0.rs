//! Q5_0: 32 weights, `w = d (q - 16)` with q in 0..=31.
//!
//! Block, 22 bytes: d f16, the fifth bits of the 32 codes as a little-endian u32, 16 bytes of nibbles as in Q4_1.

use super::blocks::*;
use quern_gguf::TensorType;

pub(super) struct Q5_0;

/// Codes from the u32 of fifth bits and the nibbles behind it.
pub(super) fn codes_of_five(bytes: &[u8]) -> [u8; 32] {
    let fifth = u32_at(bytes, 0);
    join(split_nibbles(&bytes[4..]), std::array::from_fn(|k| (fifth >> k) as u8 & 1), 4)
}

impl Blocks for Q5_0 {
    const TYPE: TensorType = TensorType::Q5_0;
    const BITS: usize = 5;
    const VALUES: Values = Values::Offset(4);

    fn codes(block: &[u8], _part: usize) -> [u8; 32] {
        codes_of_five(&block[2..])
    }

    fn scales(block: &[u8], _part: usize) -> PartScales {
        PartScales::float(u16_at(block, 0))
    }
}
