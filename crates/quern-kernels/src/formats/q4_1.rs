//! Q4_1: 32 weights, `w = d q + m` with q in 0..=15.
//!
//! Block, 20 bytes: d f16, m f16, 16 bytes of codes (low nibbles are k 0..16, high nibbles k 16..32).

use super::blocks::*;
use quern_gguf::TensorType;

pub(super) struct Q4_1;

impl Blocks for Q4_1 {
    const TYPE: TensorType = TensorType::Q4_1;
    const BITS: usize = 4;
    const VALUES: Values = Values::Unsigned;
    const MINS: Option<usize> = Some(0);

    fn codes(block: &[u8], _part: usize) -> [u8; 32] {
        split_nibbles(&block[4..])
    }

    fn scales(block: &[u8], _part: usize) -> PartScales {
        PartScales { m: u16_at(block, 2), ..PartScales::float(u16_at(block, 0)) }
    }
}
