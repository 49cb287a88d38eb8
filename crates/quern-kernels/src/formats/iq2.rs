//! IQ2_XXS, IQ2_XS and IQ2_S: groups of eight magnitudes from a codebook, and their signs.
//!
//! `w = d (1/2 + sc) / 4 g s` with four-bit sc, g one of 8, 25, 43 and s a sign; as integers `w = d/8 (2 sc + 1) v`.
//! Where seven bits give eight signs, the eighth makes the number of minus signs even.
//! IQ2_XXS: sc for 32 weights. Block, 66 bytes: d f16, then for each 32 weights four index bytes and a little-endian
//! u32 with seven sign bits for each group and sc in the top four bits.
//! IQ2_XS: sc for 16 weights. Block, 74 bytes: d f16, a little-endian u16 for each group (nine index bits, seven of
//! signs), 8 bytes of sc, low nibbles first.
//! IQ2_S: sc for 16 weights. Block, 82 bytes: d f16, 32 bytes of low index bits, 32 bytes of signs (a bit a weight), 8
//! bytes with two upper index bits for each group, 8 bytes of sc, low nibbles first.
//!
//! In memory 4.3, 4.6 and 4.6 bits a weight, for 2.1, 2.3 and 2.6 in the file.

use super::blocks::*;
use super::grids;
use quern_gguf::TensorType;

pub(super) struct Iq2Xxs;
pub(super) struct Iq2Xs;
pub(super) struct Iq2S;

const EIGHTH: f32 = 0.125;

/// By magnitude, then sign.
const VALUES: Values = Values::Table([8, 25, 43, 0, -8, -25, -43, 0, 0, 0, 0, 0, 0, 0, 0, 0]);

/// Codes of four groups, each with its codebook index and its sign bits.
fn codes(grid: &[u8], group: impl Fn(usize) -> (u16, u8)) -> [u8; 32] {
    grids::eights(|g| {
        let (index, signs) = group(g);
        grids::signed(grids::eight(grid, index), signs, 2)
    })
}

/// Scales of two halves, four bits each.
fn scales(d: u16, sc: [u8; 2]) -> PartScales {
    PartScales { sub: sc.map(|sc| 2 * sc as i8 + 1), ..PartScales::float(d) }
}

impl Blocks for Iq2Xxs {
    const TYPE: TensorType = TensorType::IQ2XXS;
    const BITS: usize = 4;
    const VALUES: Values = VALUES;
    const FACTOR: f32 = EIGHTH;
    const SUBS: usize = 1;

    fn codes(block: &[u8], part: usize) -> [u8; 32] {
        let word = u32_at(block, 6 + 8 * part);
        codes(grids::IQ2_XXS, |g| (u16::from(block[2 + 8 * part + g]), grids::even_signs(word >> (7 * g))))
    }

    fn scales(block: &[u8], part: usize) -> PartScales {
        scales(u16_at(block, 0), [(u32_at(block, 6 + 8 * part) >> 28) as u8; 2])
    }
}

impl Blocks for Iq2Xs {
    const TYPE: TensorType = TensorType::IQ2XS;
    const BITS: usize = 4;
    const VALUES: Values = VALUES;
    const FACTOR: f32 = EIGHTH;
    const SUBS: usize = 2;

    fn codes(block: &[u8], part: usize) -> [u8; 32] {
        codes(grids::IQ2_XS, |g| {
            let word = u16_at(block, 2 + 8 * part + 2 * g);
            (word & 511, grids::even_signs(u32::from(word >> 9)))
        })
    }

    fn scales(block: &[u8], part: usize) -> PartScales {
        scales(u16_at(block, 0), [0, 1].map(|half| nibble(&block[66..], 2 * part + half)))
    }
}

impl Blocks for Iq2S {
    const TYPE: TensorType = TensorType::IQ2S;
    const BITS: usize = 4;
    const VALUES: Values = VALUES;
    const FACTOR: f32 = EIGHTH;
    const SUBS: usize = 2;

    fn codes(block: &[u8], part: usize) -> [u8; 32] {
        codes(grids::IQ2_S, |g| {
            let high = u16::from(block[66 + part] >> (2 * g) & 3);
            (u16::from(block[2 + 4 * part + g]) | high << 8, block[34 + 4 * part + g])
        })
    }

    fn scales(block: &[u8], part: usize) -> PartScales {
        scales(u16_at(block, 0), [0, 1].map(|half| nibble(&block[74..], 2 * part + half)))
    }
}
