//! IQ1_S and IQ1_M: groups of eight weights of -1, 0, 1 from a codebook, each group moved by 1/8 up or down.
//!
//! `w = d (2 sc + 1) (g + delta)` with three-bit sc and delta of 1/8 or -1/8. As integers: `w = d/8 (2 sc + 1) v` with
//! v = 8 g + 1 or 8 g - 1, which is exact.
//! IQ1_S: sc and delta for 32 weights. Block, 50 bytes: d f16, 32 bytes of low index bits, eight little-endian u16: for
//! each 32 weights the upper three index bits of four groups, sc in bits 12..15, the sign of delta in bit 15.
//! IQ1_M: sc for 16 weights, delta for a group. Block, 56 bytes: 32 bytes of low index bits, 16 bytes with a nibble for
//! each group (three upper index bits, the sign of delta), four little-endian u16 with four sc each in their low twelve
//! bits and a nibble of d (f16, lowest first) on top.
//!
//! In memory 4.3 and 4.6 bits a weight, for 1.6 and 1.8 in the file.

use super::blocks::*;
use super::grids;
use quern_gguf::TensorType;

pub(super) struct Iq1S;
pub(super) struct Iq1M;

const EIGHTH: f32 = 0.125;

/// By g + 1, then whether delta is negative.
const VALUES: Values = Values::Table([-7, 1, 9, 0, -9, -1, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0]);

/// Codes of four groups, each with its codebook index and whether its delta is negative.
fn codes(group: impl Fn(usize) -> (u16, bool)) -> [u8; 32] {
    grids::eights(|g| {
        let (index, negative) = group(g);
        grids::eight(grids::IQ1, index).map(|g| g | u8::from(negative) << 2)
    })
}

impl Blocks for Iq1S {
    const TYPE: TensorType = TensorType::IQ1S;
    const BITS: usize = 4;
    const VALUES: Values = VALUES;
    const FACTOR: f32 = EIGHTH;
    const SUBS: usize = 1;

    fn codes(block: &[u8], part: usize) -> [u8; 32] {
        let word = u16_at(block, 34 + 2 * part);
        codes(|g| (u16::from(block[2 + 4 * part + g]) | (word >> (3 * g) & 7) << 8, word >> 15 != 0))
    }

    fn scales(block: &[u8], part: usize) -> PartScales {
        let sc = (u16_at(block, 34 + 2 * part) >> 12 & 7) as i8;
        PartScales { sub: [2 * sc + 1; 2], ..PartScales::float(u16_at(block, 0)) }
    }
}

impl Blocks for Iq1M {
    const TYPE: TensorType = TensorType::IQ1M;
    const BITS: usize = 4;
    const VALUES: Values = VALUES;
    const FACTOR: f32 = EIGHTH;
    const SUBS: usize = 2;

    fn codes(block: &[u8], part: usize) -> [u8; 32] {
        codes(|g| {
            let high = nibble(&block[32..], 4 * part + g);
            (u16::from(block[4 * part + g]) | u16::from(high & 7) << 8, high & 8 != 0)
        })
    }

    fn scales(block: &[u8], part: usize) -> PartScales {
        let word = |i: usize| u16_at(block, 48 + 2 * i);
        let d = (0..4).fold(0, |d, i| d | (word(i) >> 12) << (4 * i));
        let sub = [0, 1].map(|half| {
            let i = 2 * part + half;
            2 * (word(i / 4) >> (3 * (i % 4)) & 7) as i8 + 1
        });
        PartScales { sub, ..PartScales::float(d) }
    }
}
