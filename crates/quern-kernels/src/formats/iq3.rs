//! IQ3_XXS and IQ3_S: groups of four magnitudes from a codebook, and the signs of eight weights together.
//!
//! IQ3_XXS: `w = d (1/2 + sc) / 2 g s` with four-bit sc for 32 weights, g one of 4, 12, .. 52, 62 and s a sign; as
//! integers `w = d/4 (2 sc + 1) v`. Block, 98 bytes: d f16, 64 index bytes, then for each 32 weights a little-endian u32
//! as in IQ2_XXS.
//! IQ3_S: `w = d (2 sc + 1) g s`, g odd, at most 15. Block, 110 bytes: d f16, 64 bytes of low index bits, 8 bytes with a
//! ninth index bit for each group, 32 bytes of signs (a bit a weight), 4 bytes of sc, low nibbles first.
//!
//! In memory 4.3 bits a weight, for 3.1 and 3.4 in the file.

use super::blocks::*;
use super::grids;
use quern_gguf::TensorType;

pub(super) struct Iq3Xxs;
pub(super) struct Iq3S;

/// Codes of four times eight weights, each with two codebook indices and eight sign bits.
fn codes(grid: &[u8], eight: impl Fn(usize) -> ([u16; 2], u8)) -> [u8; 32] {
    grids::eights(|g| {
        let (indices, signs) = eight(g);
        let [low, high] = indices.map(|index| grids::four(grid, index));
        grids::signed(std::array::from_fn(|k| if k < 4 { low[k] } else { high[k - 4] }), signs, 3)
    })
}

impl Blocks for Iq3Xxs {
    const TYPE: TensorType = TensorType::IQ3XXS;
    const BITS: usize = 4;
    /// By magnitude, then sign.
    const VALUES: Values =
        Values::Table([4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62]);
    const FACTOR: f32 = 0.25;
    const SUBS: usize = 1;

    fn codes(block: &[u8], part: usize) -> [u8; 32] {
        let word = u32_at(block, 66 + 4 * part);
        codes(grids::IQ3_XXS, |g| {
            let at = 2 + 8 * part + 2 * g;
            ([block[at], block[at + 1]].map(u16::from), grids::even_signs(word >> (7 * g)))
        })
    }

    fn scales(block: &[u8], part: usize) -> PartScales {
        let sc = (u32_at(block, 66 + 4 * part) >> 28) as i8;
        PartScales { sub: [2 * sc + 1; 2], ..PartScales::float(u16_at(block, 0)) }
    }
}

impl Blocks for Iq3S {
    const TYPE: TensorType = TensorType::IQ3S;
    const BITS: usize = 4;
    /// By magnitude, then sign.
    const VALUES: Values = Values::Table([1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15]);
    const SUBS: usize = 1;

    fn codes(block: &[u8], part: usize) -> [u8; 32] {
        let ninth = u16::from(block[66 + part]);
        codes(grids::IQ3_S, |g| {
            let index = |i: usize| u16::from(block[2 + 8 * part + i]) | (ninth >> i & 1) << 8;
            ([index(2 * g), index(2 * g + 1)], block[74 + 4 * part + g])
        })
    }

    fn scales(block: &[u8], part: usize) -> PartScales {
        let sc = nibble(&block[106..], part) as i8;
        PartScales { sub: [2 * sc + 1; 2], ..PartScales::float(u16_at(block, 0)) }
    }
}
