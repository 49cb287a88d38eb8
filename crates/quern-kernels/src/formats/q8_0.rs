//! Q8_0: 32 weights, `w = d q` with q in -128..=127.
//!
//! Block, 34 bytes: d f16, 32 codes.

use super::blocks::*;
use quern_gguf::TensorType;

pub(super) struct Q8_0;

impl Blocks for Q8_0 {
    const TYPE: TensorType = TensorType::Q8_0;
    const BITS: usize = 8;
    const VALUES: Values = Values::Signed;

    fn codes(block: &[u8], _part: usize) -> [u8; 32] {
        fields(&block[2..], 8, 0)
    }

    fn scales(block: &[u8], _part: usize) -> PartScales {
        PartScales::float(u16_at(block, 0))
    }
}
