//! Q2_K: 256 weights in sixteen sub-blocks of 16, `w = d sc q - dmin m` with q in 0..=3 and four-bit sc, m.
//!
//! Block, 84 bytes: 16 bytes of sc (low nibble) and m (high), 64 bytes of codes, d f16, dmin f16. Each half of 128
//! weights takes 32 code bytes; bit pair g of byte l is weight l + 32 g.
//! In memory 3.1 bits a weight, for 2.6 in the file: sc and m take a byte each.

use super::blocks::*;
use quern_gguf::TensorType;

pub(super) struct Q2K;

impl Blocks for Q2K {
    const TYPE: TensorType = TensorType::Q2K;
    const BITS: usize = 2;
    const VALUES: Values = Values::Unsigned;
    const SUBS: usize = 2;
    const MINS: Option<usize> = Some(2);

    fn codes(block: &[u8], part: usize) -> [u8; 32] {
        fields(&block[16 + 32 * (part / 4)..], 2, part % 4)
    }

    fn scales(block: &[u8], part: usize) -> PartScales {
        let bytes = [block[2 * part], block[2 * part + 1]];
        PartScales {
            m: negated(u16_at(block, 82)),
            sub: bytes.map(|b| (b & 15) as i8),
            min: bytes.map(|b| b >> 4),
            ..PartScales::float(u16_at(block, 80))
        }
    }
}
