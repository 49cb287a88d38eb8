//! Q6_K: 256 weights in sixteen sub-blocks of 16, `w = d sc (q - 32)` with q in 0..=63 and signed eight-bit sc.
//!
//! Block, 210 bytes: 128 bytes of low nibbles, 64 bytes of upper bit pairs, 16 sc, d f16. Each half of 128 weights
//! takes 64 nibble bytes and 32 pair bytes; within it weight l + 32 g has nibble byte l + 32 (g % 2), half g / 2, and
//! bit pair g of pair byte l.

use super::blocks::*;
use quern_gguf::TensorType;

pub(super) struct Q6K;

impl Blocks for Q6K {
    const TYPE: TensorType = TensorType::Q6K;
    const BITS: usize = 6;
    const VALUES: Values = Values::Offset(5);
    const SUBS: usize = 2;

    fn codes(block: &[u8], part: usize) -> [u8; 32] {
        let (half, group) = (part / 4, part % 4);
        let nibbles = fields(&block[64 * half + 32 * (group % 2)..], 4, group / 2);
        join(nibbles, fields(&block[128 + 32 * half..], 2, group), 4)
    }

    fn scales(block: &[u8], part: usize) -> PartScales {
        let sub = [block[192 + 2 * part] as i8, block[193 + 2 * part] as i8];
        PartScales { sub, ..PartScales::float(u16_at(block, 208)) }
    }
}
