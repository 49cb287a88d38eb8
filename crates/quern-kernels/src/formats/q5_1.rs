//! Q5_1: 32 weights, `w = d q + m` with q in 0..=31.
//!
//! Block, 24 bytes: d f16, m f16, then fifth bits and nibbles as in Q5_0.

use super::blocks::*;
use super::q5_0::codes_of_five;
use quern_gguf::TensorType;

pub(super) struct Q5_1;

impl Blocks for Q5_1 {
    const TYPE: TensorType = TensorType::Q5_1;
    const BITS: usize = 5;
    const VALUES: Values = Values::Unsigned;
    const MINS: Option<usize> = Some(0);

    fn codes(block: &[u8], _part: usize) -> [u8; 32] {
        codes_of_five(&block[4..])
    }

    fn scales(block: &[u8], _part: usize) -> PartScales {
        PartScales { m: u16_at(block, 2), ..PartScales::float(u16_at(block, 0)) }
    }
}
