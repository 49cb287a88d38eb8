//! Q5_0: 32 weights, `w = d (q - 16)` with q in 0..=31.
//!
//! Block, 22 bytes: d f16, the fifth bits of the 32 codes as a little-endian u32, 16 bytes of nibbles as in Q4_1.
//! Packed, 352 bytes a unit: 256 of nibble steps, 64 of fifth bits (bit s of a byte belongs to step s); d of sixteen rows.
//! A pair of products is at most 2 * 31 * 127; with the offset taken off, the four steps of a half sum to at most
//! 8 * 16 * 127, which an i16 holds.

use super::*;

pub(super) struct Q5_0;

const OFFSET: i32 = 16;

fn codes(block: &[u8]) -> [u8; 32] {
    let high = u32::from_le_bytes([block[2], block[3], block[4], block[5]]);
    std::array::from_fn(|k| ((block[6 + k % 16] >> (4 * (k / 16))) & 15) | ((high >> k) as u8 & 1) << 4)
}

/// Codes of steps 2j and 2j+1 with their fifth bits.
#[inline(always)]
fn load_steps<I: Isa>(isa: I, codes: &[u8], plane: I::B, j: usize) -> [I::B; 2] {
    let [lo, hi] = load_nibbles(isa, codes, j);
    let fifth = |step: usize| isa.shift_mask(plane, step as i32 - 4, 16);
    [isa.or_bytes(lo, fifth(2 * j)), isa.or_bytes(hi, fifth(2 * j + 1))]
}

#[inline(always)]
fn load_plane<I: Isa>(isa: I, codes: &[u8]) -> I::B {
    isa.load_bytes(&codes.as_chunks::<64>().0[4])
}

impl Format for Q5_0 {
    const TYPE: TensorType = TensorType::Q5_0;
    const UNIT_K: usize = 32;
    const CODE_BYTES: usize = NIBBLE_BYTES + 64;
    const SCALE_BYTES: usize = 32;

    fn decode(block: &[u8], out: &mut [f32]) {
        let d = f16_at(block, 0);
        for (out, q) in out.iter_mut().zip(codes(block)) {
            *out = d * (i32::from(q) - OFFSET) as f32;
        }
    }

    fn pack(blocks: &[&[u8]; STRIP_ROWS], out: &mut [u8], scales: &mut [u8]) {
        for (row, block) in blocks.iter().enumerate().filter(|(_, b)| !b.is_empty()) {
            let codes = codes(block);
            pack_nibbles(row, &codes, out);
            for (k, code) in codes.iter().enumerate() {
                out[NIBBLE_BYTES + 4 * row + k % 4] |= (code >> 4) << (k / 4);
            }
            put_u16(scales, row, u16_at(block, 0));
        }
    }

    #[inline(always)]
    fn widen<I: Isa>(isa: I, codes: &[u8], scales: &[u8], _part: usize, out: &mut [[f32; 16]; WIDEN_K]) {
        let (d, offset, plane) = (load_f16s(isa, scales), isa.splat(OFFSET as f32), load_plane(isa, codes));
        for j in 0..4 {
            for (half, step) in load_steps(isa, codes, plane, j).into_iter().enumerate() {
                widen_steps(isa, step, 8 * j + 4 * half, out, |q| isa.mul(d, isa.sub(q, offset)));
            }
        }
    }
}

impl IntegerFormat for Q5_0 {
    fn dot(block: &[u8], x: &QuantizedRow, index: usize, acc: f32) -> f32 {
        let x = x.block(index);
        let isum = x.dot(codes(block).map(|w| i32::from(w) - OFFSET));
        (f16_at(block, 0) * x.d).mul_add(isum as f32, acc)
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
        let plane = load_plane(isa, codes);
        let mut isum = [isa.splat_i32(0); T];
        for half in 0..2 {
            let steps =
                [load_steps(isa, codes, plane, 2 * half), load_steps(isa, codes, plane, 2 * half + 1)];
            let start = start_half::<I, T>(isa, x, 2 * unit + half, OFFSET.ilog2());
            let sums = mac_half(isa, steps, x, 2 * unit + half, start);
            flush_half(isa, sums, x, 2 * unit + half, &mut isum);
        }
        add_block(isa, load_f16s(isa, scales), isum, x, unit, acc);
    }
}
