//! Q5_K: 256 weights in eight sub-blocks of 32, `w = d sc q - dmin m` with q in 0..=31 and six-bit sc, m.
//!
//! Block, 176 bytes: d, dmin, sc and m as in Q4_K; 32 bytes of fifth bits (bit p of byte l is weight l + 32 p); 128
//! bytes of nibbles as in Q4_K.

use super::blocks::*;
use super::q4_k::six_bit_scales;
use quern_gguf::TensorType;

pub(super) struct Q5K;

impl Blocks for Q5K {
    const TYPE: TensorType = TensorType::Q5K;
    const BITS: usize = 5;
    const VALUES: Values = Values::Unsigned;
    const SUBS: usize = 1;
    const MINS: Option<usize> = Some(1);

    fn codes(block: &[u8], part: usize) -> [u8; 32] {
        join(fields(&block[48 + 32 * (part / 2)..], 4, part % 2), fields(&block[16..], 1, part), 4)
    }

    fn scales(block: &[u8], part: usize) -> PartScales {
        six_bit_scales(block, part)
    }
}
