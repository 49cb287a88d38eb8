//! Q3_K: 256 weights in sixteen sub-blocks of 16, `w = d (sc - 32) (q - 4)` with q in 0..=7 and six-bit sc.
//!
//! Block, 110 bytes: 32 bytes of third bits (bit p of byte l is weight l + 32 p), 64 bytes of bit pairs as in Q2_K,
//! 12 bytes of sc, d f16. The first eight sc bytes hold low nibbles: of sub-blocks 0..8 in their low halves, of 8..16
//! in their high ones; bit pair g of byte l of the last four holds the upper bits of sub-block l + 4 g.

use super::blocks::*;
use quern_gguf::TensorType;

pub(super) struct Q3K;

fn sub_scale(sc: &[u8], i: usize) -> i8 {
    let low = (sc[i % 8] >> (4 * (i / 8))) & 15;
    let high = (sc[8 + i % 4] >> (2 * (i / 4))) & 3;
    (low | high << 4) as i8 - 32
}

impl Blocks for Q3K {
    const TYPE: TensorType = TensorType::Q3K;
    const BITS: usize = 3;
    const VALUES: Values = Values::Offset(2);
    const SUBS: usize = 2;

    fn codes(block: &[u8], part: usize) -> [u8; 32] {
        join(fields(&block[32 + 32 * (part / 4)..], 2, part % 4), fields(block, 1, part), 2)
    }

    fn scales(block: &[u8], part: usize) -> PartScales {
        let sub = [0, 1].map(|half| sub_scale(&block[96..], 2 * part + half));
        PartScales { sub, ..PartScales::float(u16_at(block, 108)) }
    }
}
