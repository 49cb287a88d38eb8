//! IQ4_NL and IQ4_XS: four-bit codes that stand for the entries of one table.
//!
//! IQ4_NL: 32 weights, `w = d t[q]`. Block, 18 bytes, as Q4_0.
//! IQ4_XS: 256 weights in eight sub-blocks of 32, `w = d (sc - 32) t[q]` with six-bit sc. Block, 136 bytes: d f16, the
//! upper bit pairs of the eight sc as a little-endian u16, their nibbles (4 bytes), 16 bytes of codes a sub-block.

use super::blocks::*;
use quern_gguf::TensorType;

pub(super) struct Iq4Nl;
pub(super) struct Iq4Xs;

/// `kvalues_iq4nl` of ggml: steps that are finer near zero.
const VALUES: Values =
    Values::Table([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]);

impl Blocks for Iq4Nl {
    const TYPE: TensorType = TensorType::IQ4NL;
    const BITS: usize = 4;
    const VALUES: Values = VALUES;

    fn codes(block: &[u8], _part: usize) -> [u8; 32] {
        split_nibbles(&block[2..])
    }

    fn scales(block: &[u8], _part: usize) -> PartScales {
        PartScales::float(u16_at(block, 0))
    }
}

impl Blocks for Iq4Xs {
    const TYPE: TensorType = TensorType::IQ4XS;
    const BITS: usize = 4;
    const VALUES: Values = VALUES;
    const SUBS: usize = 1;

    fn codes(block: &[u8], part: usize) -> [u8; 32] {
        split_nibbles(&block[8 + 16 * part..])
    }

    fn scales(block: &[u8], part: usize) -> PartScales {
        let high = (u16_at(block, 2) >> (2 * part)) as u8 & 3;
        let sc = (nibble(&block[4..], part) | high << 4) as i8 - 32;
        PartScales { sub: [sc; 2], ..PartScales::float(u16_at(block, 0)) }
    }
}
