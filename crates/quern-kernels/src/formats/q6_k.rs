//! Q6_K: 256 weights in sixteen sub-blocks of 16, `w = d sc (q - 32)` with q in 0..=63 and signed eight-bit sc.
//!
//! Block, 210 bytes: 128 bytes of low nibbles, 64 bytes of upper bit pairs, 16 sc, d f16. Each half of 128 weights
//! takes 64 nibble bytes and 32 pair bytes; within it weight l + 32 g has nibble byte l + 32 (g % 2), half g / 2, and
//! bit pair g of pair byte l.
//! Packed, 3360 bytes a unit: for each 32 k 256 of nibble steps and 128 of bit pairs (pair s % 4 of plane s / 4 belongs
//! to step s); sc of each sub-block for sixteen rows (16 bytes each), then d of sixteen rows.
//! A pair of products is at most 2 * 63 * 127; with the offset taken off, the four steps of a sub-block sum to at most
//! 8 * 32 * 127, which an i16 holds. sc times an activation sub-scale is at most 128 * 64, and the sum of 32 products
//! with both at most 32 * 32 * 127 * 8192, which an i32 holds.

use super::*;

pub(super) struct Q6K;

const SUB_BLOCKS: usize = 16;
const OFFSET: i32 = 32;
/// Code bytes of 32 k.
const PART_BYTES: usize = NIBBLE_BYTES + 128;
/// Where the d of sixteen rows start.
const D_AT: usize = 16 * SUB_BLOCKS;

/// The 32 codes of part `part`.
fn codes(block: &[u8], part: usize) -> [u8; 32] {
    let (half, group) = (part / 4, part % 4);
    let nibbles = &block[64 * half + 32 * (group % 2)..];
    let pairs = &block[128 + 32 * half..];
    std::array::from_fn(|l| ((nibbles[l] >> (4 * (group / 2))) & 15) | ((pairs[l] >> (2 * group)) & 3) << 4)
}

fn scale(block: &[u8], sub: usize) -> i32 {
    i32::from(block[192 + sub] as i8)
}

/// Codes of steps 2j and 2j+1 of one part.
#[inline(always)]
fn load_steps<I: Isa>(isa: I, part: &[u8], j: usize) -> [I::B; 2] {
    let [lo, hi] = load_nibbles(isa, part, j);
    let plane = isa.load_bytes(&part.as_chunks::<64>().0[4 + j / 2]);
    let pair = |step: usize| isa.shift_mask(plane, 2 * (step % 4) as i32 - 4, 48);
    [isa.or_bytes(lo, pair(2 * j)), isa.or_bytes(hi, pair(2 * j + 1))]
}

impl Format for Q6K {
    const TYPE: TensorType = TensorType::Q6K;
    const UNIT_K: usize = 256;
    const CODE_BYTES: usize = 8 * PART_BYTES;
    const SCALE_BYTES: usize = D_AT + 32;

    fn decode(block: &[u8], out: &mut [f32]) {
        let d = f16_at(block, 208);
        for (part, out) in out.chunks_exact_mut(32).enumerate() {
            for (k, (out, q)) in out.iter_mut().zip(codes(block, part)).enumerate() {
                *out = d * scale(block, 2 * part + k / 16) as f32 * (i32::from(q) - OFFSET) as f32;
            }
        }
    }

    fn pack(blocks: &[&[u8]; STRIP_ROWS], out: &mut [u8], scales: &mut [u8]) {
        for (row, block) in blocks.iter().enumerate().filter(|(_, b)| !b.is_empty()) {
            for (part, out) in out.chunks_exact_mut(PART_BYTES).enumerate() {
                let codes = codes(block, part);
                pack_nibbles(row, &codes, out);
                for (k, code) in codes.iter().enumerate() {
                    let step = k / 4;
                    out[NIBBLE_BYTES + 64 * (step / 4) + 4 * row + k % 4] |= (code >> 4) << (2 * (step % 4));
                }
            }
            for sub in 0..SUB_BLOCKS {
                scales[16 * sub + row] = block[192 + sub];
            }
            put_u16(&mut scales[D_AT..], row, u16_at(block, 208));
        }
    }

    #[inline(always)]
    fn widen<I: Isa>(isa: I, codes: &[u8], scales: &[u8], part: usize, out: &mut [[f32; 16]; WIDEN_K]) {
        let (d, offset) = (load_f16s(isa, &scales[D_AT..]), isa.splat(OFFSET as f32));
        let part_codes = &codes[part * PART_BYTES..(part + 1) * PART_BYTES];
        for j in 0..4 {
            let sc = isa.to_f32(isa.load_i8(bytes16(scales, 2 * part + j / 2)));
            let scale = isa.mul(d, sc);
            for (half, step) in load_steps(isa, part_codes, j).into_iter().enumerate() {
                widen_steps(isa, step, 8 * j + 4 * half, out, |q| isa.mul(scale, isa.sub(q, offset)));
            }
        }
    }
}

impl IntegerFormat for Q6K {
    fn dot(block: &[u8], x: &QuantizedRow, index: usize, mut acc: f32) -> f32 {
        let d = f16_at(block, 208);
        for part in 0..8 {
            let x = x.block(8 * index + part);
            let codes = codes(block, part).into_iter().enumerate();
            let isum = x.dot(codes.map(|(k, w)| scale(block, 2 * part + k / 16) * (i32::from(w) - OFFSET)));
            acc = (d * x.d).mul_add(isum as f32, acc);
        }
        acc
    }

    #[inline(always)]
    fn mac<I: Isa, const T: usize>(
        isa: I,
        codes: &[u8],
        scales: &[u8],
        x: QuantTile<'_>,
        unit: usize,
        acc: &mut [I::F; T],
    ) {
        let d = load_f16s(isa, &scales[D_AT..]);
        for part in 0..8 {
            let block = 8 * unit + part;
            let part_codes = &codes[part * PART_BYTES..(part + 1) * PART_BYTES];
            let mut isum = [isa.splat_i32(0); T];
            for half in 0..2 {
                let steps =
                    [load_steps(isa, part_codes, 2 * half), load_steps(isa, part_codes, 2 * half + 1)];
                let start = start_half::<I, T>(isa, x, 2 * block + half, OFFSET.ilog2());
                let sums = mac_half(isa, steps, x, 2 * block + half, start);
                let sc = isa.scales_i8(bytes16(scales, 2 * part + half));
                let sub = x.sub::<T>(2 * block + half);
                for t in 0..T {
                    let scales = isa.mul_scales(sc, isa.splat_scale(sub[t]));
                    isum[t] = isa.flush(isum[t], sums[t], scales);
                }
            }
            add_block(isa, d, isum, x, block, acc);
        }
    }
}
