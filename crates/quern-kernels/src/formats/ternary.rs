//! TQ1_0 and TQ2_0: 256 weights, `w = d (q - 1)`.
//!
//! TQ2_0: q in 0..=3. Block, 66 bytes: 64 bytes of codes as in Q2_K, d f16.
//! TQ1_0: q in 0..=2, base three. Block, 54 bytes: 48 bytes of five digits, 4 bytes of four, d f16. Digit g of a byte,
//! first digit highest, is `(byte 3^g mod 256) 3 / 256`, rounded down. Weight k is digit k / 32 of byte k % 32 below
//! 160; digit (k - 160) / 16 of byte 32 + k % 16 below 240; else digit (k - 240) / 4 of byte 48 + k % 4.
//! Both pack to two bits a code, so TQ1_0 grows from 1.7 to 2.1 bits a weight.

use super::blocks::*;
use quern_gguf::TensorType;

pub(super) struct Tq1_0;
pub(super) struct Tq2_0;

/// The base-three digit of weight k.
fn digit(block: &[u8], k: usize) -> u8 {
    let (byte, g) = match k {
        0..160 => (k % 32, k / 32),
        160..240 => (32 + k % 16, (k - 160) / 16),
        _ => (48 + k % 4, (k - 240) / 4),
    };
    let rest = block[byte].wrapping_mul([1, 3, 9, 27, 81][g]);
    ((u16::from(rest) * 3) >> 8) as u8
}

impl Blocks for Tq1_0 {
    const TYPE: TensorType = TensorType::TQ1_0;
    const BITS: usize = 2;
    const VALUES: Values = Values::Offset(0);

    fn codes(block: &[u8], part: usize) -> [u8; 32] {
        std::array::from_fn(|k| digit(block, 32 * part + k))
    }

    fn scales(block: &[u8], _part: usize) -> PartScales {
        PartScales::float(u16_at(block, 52))
    }
}

impl Blocks for Tq2_0 {
    const TYPE: TensorType = TensorType::TQ2_0;
    const BITS: usize = 2;
    const VALUES: Values = Values::Offset(0);

    fn codes(block: &[u8], part: usize) -> [u8; 32] {
        fields(&block[32 * (part / 4)..], 2, part % 4)
    }

    fn scales(block: &[u8], _part: usize) -> PartScales {
        PartScales::float(u16_at(block, 64))
    }
}
