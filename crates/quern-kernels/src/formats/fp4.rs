//! MXFP4 and NVFP4: four-bit floats (e2m1) under small float scales. Twice an e2m1 is an integer, so `w = d/2 v`.
//!
//! MXFP4: 32 weights. Block, 17 bytes: the scale as e8m0, a power of two; 16 bytes of codes as in Q4_0. d/2 is
//! `2^(e - 128)`, which a bfloat16 holds, subnormals too. The OCP specification calls e = 255 NaN; ggml reads 2^127,
//! and so do we.
//! NVFP4: 64 weights in four sub-blocks of 16, each with a float scale of its own. Block, 36 bytes: four scales, 32
//! bytes of codes, 8 a sub-block (low nibbles are its first eight weights). A scale is e4m3 without its sign: bias 7,
//! subnormals below 2^-6; the top bit is not read. 0x7f, a NaN in e4m3, means 0, as in ggml, though 0xff means 480. Half
//! of a scale is a half float. The file's scale for a whole tensor is not in the blocks: it multiplies the finished
//! sum (`Product::scale`).
//! In memory 4.5 and 5 bits a weight, for 4.25 and 4.5 in the file.

use super::blocks::*;
use quern_gguf::TensorType;

pub(super) struct Mxfp4;
pub(super) struct Nvfp4;

/// Twice the e2m1 floats.
const VALUES: Values = Values::Table([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12]);

impl Blocks for Mxfp4 {
    const TYPE: TensorType = TensorType::MXFP4;
    const BITS: usize = 4;
    const VALUES: Values = VALUES;
    const BFLOAT: bool = true;

    fn codes(block: &[u8], _part: usize) -> [u8; 32] {
        split_nibbles(&block[1..])
    }

    fn scales(block: &[u8], _part: usize) -> PartScales {
        // bfloat16 has e8m0's exponents, seven bits up; below two halving leaves the normal numbers.
        let e = u16::from(block[0]);
        PartScales::float(if e < 2 { 0x20 << e } else { (e - 1) << 7 })
    }
}

/// Half of an unsigned e4m3, as the bits of a half float.
fn half_e4m3(x: u8) -> u16 {
    let (exponent, mantissa) = (u16::from(x >> 3 & 15), u16::from(x & 7));
    match (exponent, mantissa) {
        _ if x == 0x7f => 0,
        // Mantissa times 2^-10.
        (0, 0) => 0,
        (0, 1) => 5 << 10,
        (0, 2..=3) => 6 << 10 | (mantissa & 1) << 9,
        (0, _) => 7 << 10 | (mantissa & 3) << 8,
        // Half float's bias is 15; one less halves.
        _ => (exponent + 7) << 10 | mantissa << 7,
    }
}

impl Blocks for Nvfp4 {
    const TYPE: TensorType = TensorType::NVFP4;
    const BITS: usize = 4;
    const VALUES: Values = VALUES;
    const HALF_FLOATS: bool = true;

    fn codes(block: &[u8], part: usize) -> [u8; 32] {
        let bytes = &block[4 + 16 * part..];
        std::array::from_fn(|k| (bytes[8 * (k / 16) + k % 8] >> (4 * (k / 8 % 2))) & 15)
    }

    fn scales(block: &[u8], part: usize) -> PartScales {
        let d = [0, 1].map(|half| half_e4m3(block[2 * part + half]));
        PartScales { d, ..PartScales::default() }
    }
}
