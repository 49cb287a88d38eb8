//! Q4_K: 256 weights in eight sub-blocks of 32, `w = d sc q - dmin m` with q in 0..=15 and six-bit sc, m.
//!
//! Block, 144 bytes: d f16, dmin f16, 12 bytes of six-bit sc and m, 128 bytes of codes: each 32 bytes hold two
//! sub-blocks, low nibbles the even one.

use super::blocks::*;
use quern_gguf::TensorType;

pub(super) struct Q4K;

/// The scales of sub-block `i` as Q4_K and Q5_K hold them. The first four sc and m lie in six low bits; the others take
/// four bits from the third group of bytes and two from the top of the first two groups.
pub(super) fn six_bit_scales(block: &[u8], i: usize) -> PartScales {
    let s = &block[4..16];
    let (sc, m) = if i < 4 {
        (s[i] & 63, s[i + 4] & 63)
    } else {
        ((s[i + 4] & 15) | ((s[i - 4] >> 6) << 4), (s[i + 4] >> 4) | ((s[i] >> 6) << 4))
    };
    PartScales {
        m: negated(u16_at(block, 2)),
        sub: [sc as i8; 2],
        min: [m; 2],
        ..PartScales::float(u16_at(block, 0))
    }
}

impl Blocks for Q4K {
    const TYPE: TensorType = TensorType::Q4K;
    const BITS: usize = 4;
    const VALUES: Values = Values::Unsigned;
    const SUBS: usize = 1;
    const MINS: Option<usize> = Some(1);

    fn codes(block: &[u8], part: usize) -> [u8; 32] {
        fields(&block[16 + 32 * (part / 2)..], 4, part % 2)
    }

    fn scales(block: &[u8], part: usize) -> PartScales {
        six_bit_scales(block, part)
    }
}
