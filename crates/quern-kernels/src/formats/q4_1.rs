//! Q4_1: 32 weights, `w = d q + m` with q in 0..=15.
//!
//! Block, 20 bytes: d f16, m f16, 16 bytes of codes (low nibbles are k 0..16, high nibbles k 16..32).
//! Packed, 320 bytes a unit: 256 of nibble steps; d and m of sixteen rows.
//! A pair of products is at most 2 * 15 * 127, so the four steps of a half fit an i16 sum.

use super::*;

pub(super) struct Q4_1;

fn codes(block: &[u8]) -> [u8; 32] {
    std::array::from_fn(|k| (block[4 + k % 16] >> (4 * (k / 16))) & 15)
}

impl Format for Q4_1 {
    const TYPE: TensorType = TensorType::Q4_1;
    const UNIT_K: usize = 32;
    const CODE_BYTES: usize = NIBBLE_BYTES;
    const SCALE_BYTES: usize = 64;

    fn decode(block: &[u8], out: &mut [f32]) {
        let (d, m) = (f16_at(block, 0), f16_at(block, 2));
        for (out, q) in out.iter_mut().zip(codes(block)) {
            *out = d * f32::from(q) + m;
        }
    }

    fn pack(blocks: &[&[u8]; STRIP_ROWS], out: &mut [u8], scales: &mut [u8]) {
        for (row, block) in blocks.iter().enumerate().filter(|(_, b)| !b.is_empty()) {
            pack_nibbles(row, &codes(block), out);
            put_u16(scales, row, u16_at(block, 0));
            put_u16(&mut scales[32..], row, u16_at(block, 2));
        }
    }

    #[inline(always)]
    fn widen<I: Isa>(isa: I, codes: &[u8], scales: &[u8], _part: usize, out: &mut [[f32; 16]; WIDEN_K]) {
        let (d, m) = (load_f16s(isa, scales), load_f16s(isa, &scales[32..]));
        for j in 0..4 {
            for (half, step) in load_nibbles(isa, codes, j).into_iter().enumerate() {
                widen_steps(isa, step, 8 * j + 4 * half, out, |q| isa.add(isa.mul(d, q), m));
            }
        }
    }
}

impl IntegerFormat for Q4_1 {
    fn dot(block: &[u8], x: &QuantizedRow, index: usize, acc: f32) -> f32 {
        let (d, m) = (f16_at(block, 0), f16_at(block, 2));
        let x = x.block(index);
        let acc = (d * x.d).mul_add(x.dot(codes(block).map(i32::from)) as f32, acc);
        m.mul_add(x.sum(), acc)
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
        let mut isum = [isa.splat_i32(0); T];
        for half in 0..2 {
            let steps = [load_nibbles(isa, codes, 2 * half), load_nibbles(isa, codes, 2 * half + 1)];
            let sums = mac_half(isa, steps, x, 2 * unit + half, [isa.acc_zero(); T]);
            flush_half(isa, sums, x, 2 * unit + half, &mut isum);
        }
        let (d, m) = (load_f16s(isa, scales), load_f16s(isa, &scales[32..]));
        add_block(isa, d, isum, x, unit, acc);
        let dsum = x.dsum::<T>(unit);
        for t in 0..T {
            acc[t] = isa.fma(m, isa.splat(dsum[t]), acc[t]);
        }
    }
}
