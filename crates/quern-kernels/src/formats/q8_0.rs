//! Q8_0: 32 weights, `w = d q` with q in -128..=127.
//!
//! Block, 34 bytes: d f16, 32 codes. Packed, 544 bytes a unit: 512 of steps; d of sixteen rows.
//! Signed times signed: the ISA's `dot_i8` flushes every step, since a pair alone nearly fills an i16.

use super::*;

pub(super) struct Q8_0;

impl Format for Q8_0 {
    const TYPE: TensorType = TensorType::Q8_0;
    const UNIT_K: usize = 32;
    const CODE_BYTES: usize = 512;
    const SCALE_BYTES: usize = 32;

    fn decode(block: &[u8], out: &mut [f32]) {
        let d = f16_at(block, 0);
        for (out, q) in out.iter_mut().zip(&block[2..]) {
            *out = d * f32::from(*q as i8);
        }
    }

    fn pack(blocks: &[&[u8]; STRIP_ROWS], out: &mut [u8], scales: &mut [u8]) {
        for (row, block) in blocks.iter().enumerate().filter(|(_, b)| !b.is_empty()) {
            for (step, four) in block[2..].chunks_exact(4).enumerate() {
                out[64 * step + 4 * row..][..4].copy_from_slice(four);
            }
            put_u16(scales, row, u16_at(block, 0));
        }
    }

    #[inline(always)]
    fn widen<I: Isa>(isa: I, codes: &[u8], scales: &[u8], _part: usize, out: &mut [[f32; 16]; WIDEN_K]) {
        let d = load_f16s(isa, scales);
        for (step, bytes) in codes.as_chunks::<64>().0.iter().enumerate() {
            let step_codes = isa.load_bytes(bytes);
            for j in 0..4 {
                let q = isa.to_f32(isa.byte_i8(step_codes, j as u32));
                isa.store(isa.mul(d, q), &mut out[4 * step + j]);
            }
        }
    }
}

impl IntegerFormat for Q8_0 {
    fn dot(block: &[u8], x: &QuantizedRow, index: usize, acc: f32) -> f32 {
        let x = x.block(index);
        let isum = x.dot(block[2..].iter().map(|w| i32::from(*w as i8)));
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
        let steps = codes.as_chunks::<64>().0;
        let mut isum = [isa.splat_i32(0); T];
        for half in 0..2 {
            let (q, sub) = (x.q::<T>(2 * unit + half), x.sub::<T>(2 * unit + half));
            for step in 0..4 {
                let w = isa.load_bytes(&steps[4 * half + step]);
                for t in 0..T {
                    isum[t] = isa.dot_i8(isum[t], w, q[step][t], isa.splat_scale(sub[t]));
                }
            }
        }
        add_block(isa, load_f16s(isa, scales), isum, x, unit, acc);
    }
}
