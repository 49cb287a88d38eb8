//! Q4_0: 32 weights, `w = d (q - 8)` with q in 0..=15.
//!
//! Block, 18 bytes: d f16, 16 bytes of codes (low nibbles are k 0..16, high nibbles k 16..32).

use super::blocks::*;
use quern_gguf::TensorType;

pub(super) struct Q4_0;

impl Blocks for Q4_0 {
    const TYPE: TensorType = TensorType::Q4_0;
    const BITS: usize = 4;
    const VALUES: Values = Values::Offset(3);

    fn codes(block: &[u8], _part: usize) -> [u8; 32] {
        split_nibbles(&block[2..])
    }

    fn scales(block: &[u8], _part: usize) -> PartScales {
        PartScales::float(u16_at(block, 0))
    }
}
