//! Q4_K: 256 weights in eight sub-blocks of 32, `w = d sc q - dmin m` with q in 0..=15 and six-bit sc, m.
//!
//! Block, 144 bytes: d f16, dmin f16, 12 bytes of six-bit sc and m, 128 bytes of codes: each 32 bytes hold two
//! sub-blocks, low nibbles the even one.
//! Packed, 2368 bytes a unit: eight times 256 of nibble steps; d and dmin of sixteen rows (64 bytes), then sc and m of
//! each sub-block for sixteen rows as bytes (32 bytes a sub-block).
//! A pair of products is at most 2 * 15 * 127, so the four steps of a half fit an i16 sum. d sc and dmin m are exact as
//! f32: eleven bits times six.

use super::*;

pub(super) struct Q4K;

const SUB_BLOCKS: usize = 8;

/// sc and m of sub-block `i`. The first four lie in six low bits; the others take four bits from the third group of
/// bytes and two from the top of the first two groups.
fn scale_min(block: &[u8], i: usize) -> (u8, u8) {
    let s = &block[4..16];
    if i < 4 {
        (s[i] & 63, s[i + 4] & 63)
    } else {
        ((s[i + 4] & 15) | ((s[i - 4] >> 6) << 4), (s[i + 4] >> 4) | ((s[i] >> 6) << 4))
    }
}

fn codes(block: &[u8], sub: usize) -> [u8; 32] {
    let bytes = &block[16 + 32 * (sub / 2)..];
    std::array::from_fn(|k| (bytes[k] >> (4 * (sub % 2))) & 15)
}

impl Format for Q4K {
    const TYPE: TensorType = TensorType::Q4K;
    const UNIT_K: usize = 256;
    const CODE_BYTES: usize = SUB_BLOCKS * NIBBLE_BYTES;
    const SCALE_BYTES: usize = 64 + SUB_BLOCKS * 32;

    fn decode(block: &[u8], out: &mut [f32]) {
        let (d, dmin) = (f16_at(block, 0), f16_at(block, 2));
        for (sub, out) in out.chunks_exact_mut(32).enumerate() {
            let (sc, m) = scale_min(block, sub);
            let (scale, min) = (d * f32::from(sc), dmin * f32::from(m));
            for (out, q) in out.iter_mut().zip(codes(block, sub)) {
                *out = scale * f32::from(q) - min;
            }
        }
    }

    fn pack(blocks: &[&[u8]; STRIP_ROWS], out: &mut [u8], scales: &mut [u8]) {
        for (row, block) in blocks.iter().enumerate().filter(|(_, b)| !b.is_empty()) {
            put_u16(scales, row, u16_at(block, 0));
            put_u16(&mut scales[32..], row, u16_at(block, 2));
            for sub in 0..SUB_BLOCKS {
                pack_nibbles(row, &codes(block, sub), &mut out[sub * NIBBLE_BYTES..]);
                let (sc, m) = scale_min(block, sub);
                scales[64 + 32 * sub + row] = sc;
                scales[64 + 32 * sub + 16 + row] = m;
            }
        }
    }

    #[inline(always)]
    fn widen<I: Isa>(isa: I, codes: &[u8], scales: &[u8], part: usize, out: &mut [[f32; 16]; WIDEN_K]) {
        let (d, dmin) = (load_f16s(isa, scales), load_f16s(isa, &scales[32..]));
        let scale = isa.mul(d, isa.to_f32(isa.load_u8(bytes16(scales, 4 + 2 * part))));
        let min = isa.mul(dmin, isa.to_f32(isa.load_u8(bytes16(scales, 5 + 2 * part))));
        for j in 0..4 {
            for (half, step) in load_nibbles(isa, codes, 4 * part + j).into_iter().enumerate() {
                widen_steps(isa, step, 8 * j + 4 * half, out, |q| isa.sub(isa.mul(scale, q), min));
            }
        }
    }
}

impl IntegerFormat for Q4K {
    fn dot(block: &[u8], x: &QuantizedRow, index: usize, mut acc: f32) -> f32 {
        let (d, dmin) = (f16_at(block, 0), f16_at(block, 2));
        for sub in 0..SUB_BLOCKS {
            let (sc, m) = scale_min(block, sub);
            let x = x.block(SUB_BLOCKS * index + sub);
            let isum = x.dot(codes(block, sub).map(i32::from));
            acc = (d * f32::from(sc) * x.d).mul_add(isum as f32, acc);
            acc = (-(dmin * f32::from(m))).mul_add(x.sum(), acc);
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
        let (d, dmin) = (load_f16s(isa, scales), load_f16s(isa, &scales[32..]));
        for sub in 0..SUB_BLOCKS {
            let block = SUB_BLOCKS * unit + sub;
            let mut isum = [isa.splat_i32(0); T];
            for half in 0..2 {
                let j = 4 * sub + 2 * half;
                let steps = [load_nibbles(isa, codes, j), load_nibbles(isa, codes, j + 1)];
                let sums = mac_half(isa, steps, x, 2 * block + half, [isa.acc_zero(); T]);
                flush_half(isa, sums, x, 2 * block + half, &mut isum);
            }
            let scale = isa.mul(d, isa.to_f32(isa.load_u8(bytes16(scales, 4 + 2 * sub))));
            let min = isa.mul(dmin, isa.to_f32(isa.load_u8(bytes16(scales, 5 + 2 * sub))));
            add_block(isa, scale, isum, x, block, acc);
            let dsum = x.dsum::<T>(block);
            for t in 0..T {
                acc[t] = isa.fnma(min, isa.splat(dsum[t]), acc[t]);
            }
        }
    }
}
