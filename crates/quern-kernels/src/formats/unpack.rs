//! The packed form of the formats with integer codes, as kernels read it: into a panel for many tokens, straight from the
//! strip for one, or decoded to floats.

use super::blocks::{Blocks, Packed};
use super::*;
use crate::activations::XPart;
use crate::panel::Panel;
use crate::tiles::{self, Weights, byte_part, wide_part};

/// A part of a strip: 32 k of sixteen rows.
struct Part<'a, B> {
    codes: &'a [u8],
    /// Of its unit.
    scales: &'a [u8],
    /// Which part of its unit.
    index: usize,
    format: PhantomData<B>,
}

impl<'a, B: Blocks> Part<'a, B> {
    /// Part `part` of a strip, which is a row of such parts.
    #[inline(always)]
    fn of(strip: Strip<'a>, part: usize) -> Part<'a, B> {
        let (unit, index) = (part / Packed::<B>::PARTS, part % Packed::<B>::PARTS);
        Part {
            codes: &strip.codes[part * Packed::<B>::CODE_BYTES..][..Packed::<B>::CODE_BYTES],
            scales: &strip.scales[unit * B::SCALE_BYTES..][..B::SCALE_BYTES],
            index,
            format: PhantomData,
        }
    }

    /// Codes of a step, table entries looked up, as they are multiplied.
    #[inline(always)]
    fn step<I: Isa>(&self, isa: I, step: usize) -> I::B {
        let low = Packed::<B>::LOW;
        let mut codes = field(isa, self.codes, low, step, 0);
        if B::BITS > low {
            codes = isa.or_bytes(codes, field(isa, &self.codes[64 * low..], B::BITS - low, step, low));
        }
        match const { B::VALUES.table() } {
            Some(table) => isa.shuffle16(&table, codes),
            None => codes,
        }
    }

    /// The float scale of a half, with what belongs to it: all but 16-wide integer scales.
    #[inline(always)]
    fn scale<I: Isa>(&self, isa: I, half: usize) -> I::F {
        let d = float::<B, I>(isa, &self.scales[Packed::<B>::d_at(self.index, half)..]);
        let d = if B::FACTOR == 1.0 { d } else { isa.mul(d, isa.splat(B::FACTOR)) };
        if B::SUBS == 1 { isa.mul(d, isa.to_f32(isa.load_i8(self.int(0)))) } else { d }
    }

    /// The minimum of a half.
    #[inline(always)]
    fn minimum<I: Isa>(&self, isa: I, half: usize) -> I::F {
        let m = float::<B, I>(isa, &self.scales[32 * Packed::<B>::N_D..]);
        let index = match B::MINS {
            Some(2) => half,
            Some(1) => 0,
            _ => return m,
        };
        isa.mul(m, isa.to_f32(isa.load_u8(self.int(B::SUBS + index))))
    }

    /// Integer vector `index` of the part, sub then min.
    #[inline(always)]
    fn int(&self, index: usize) -> &'a [u8; 16] {
        &self.scales.as_chunks::<16>().0[Packed::<B>::int_at(self.index, index)]
    }
}

/// The bits of step `step` in a plane of `width` bits, as bits `up` and on of each byte.
#[inline(always)]
fn field<I: Isa>(isa: I, plane: &[u8], width: usize, step: usize, up: usize) -> I::B {
    let bytes = isa.load_bytes(&plane.as_chunks::<64>().0[step * width / 8]);
    let mask = ((1u16 << width) - 1) << up;
    isa.shift_mask(bytes, (step * width % 8) as i32 - up as i32, mask as u8)
}

#[inline(always)]
fn float<B: Blocks, I: Isa>(isa: I, bytes: &[u8]) -> I::F {
    if B::BFLOAT { isa.load_bf16(&u16s(bytes)) } else { isa.load_f16(&u16s(bytes)) }
}

impl<B: Blocks, I: Isa> Weights<I> for Part<'_, B> {
    const OFFSET: u8 = match Packed::<B>::SHAPE.largest_byte {
        Some(largest) => Packed::<B>::SHAPE.offset(largest),
        None => tiles::NONE,
    };
    const SUBS: bool = B::SUBS == 2;
    const HALF_FLOATS: bool = B::HALF_FLOATS;
    const MINS: usize = Packed::<B>::SHAPE.mins;

    #[inline(always)]
    fn codes(&self, isa: I, step: usize) -> I::B {
        self.step(isa, step)
    }
    #[inline(always)]
    fn offset(&self) -> u32 {
        Packed::<B>::OFFSET
    }
    #[inline(always)]
    fn sub(&self, isa: I, half: usize) -> I::S {
        isa.scales_i8(self.int(half))
    }
    #[inline(always)]
    fn d(&self, isa: I, half: usize) -> I::F {
        self.scale(isa, half)
    }
    #[inline(always)]
    fn min(&self, isa: I, half: usize) -> I::F {
        self.minimum(isa, half)
    }
}

/// Unpacks `parts` parts of a strip.
#[inline(always)]
pub(super) fn panel<B: Blocks, I: Isa>(
    isa: I,
    strip: Strip<'_>,
    first_part: usize,
    parts: usize,
    panel: &mut Panel,
) {
    let wide = Packed::<B>::SHAPE.largest_byte.is_none();
    panel.offset = Packed::<B>::OFFSET;
    for i in 0..parts {
        let part = Part::<B>::of(strip, first_part + i);
        for half in 0..if B::HALF_FLOATS { 2 } else { 1 } {
            isa.store(part.scale(isa, half), &mut panel.d[2 * i + half]);
        }
        for half in 0..Packed::<B>::SHAPE.mins {
            isa.store(part.minimum(isa, half), &mut panel.min[2 * i + half]);
        }
        if B::SUBS == 2 && !wide {
            for half in 0..2 {
                isa.save_scales(isa.scales_i8(part.int(half)), &mut panel.sub[2 * i + half]);
            }
        }
        for step in 0..8 {
            let w = part.step(isa, step);
            if wide {
                let pairs = isa.widen_pairs(w);
                for j in 0..2 {
                    let mut w = pairs[j];
                    if B::SUBS == 2 {
                        w = isa.scale_pairs(w, isa.scales_i8(part.int(step / 4)));
                    }
                    isa.store_bytes(w, &mut panel.codes[16 * i + 2 * step + j]);
                }
            } else {
                isa.store_bytes(w, &mut panel.codes[8 * i + step]);
            }
        }
    }
}

/// The products of a whole strip with one token.
#[inline(always)]
pub(super) fn row<B: Blocks, I: Isa>(isa: I, strip: Strip<'_>, x: &[XPart<1>]) -> [f32; 16] {
    let mut sums = [[0.0; 16]];
    for (i, x) in x.iter().enumerate() {
        let part = Part::<B>::of(strip, i);
        if Packed::<B>::SHAPE.largest_byte.is_some() {
            byte_part::<I, _, 1>(isa, &part, x, &mut sums);
        } else {
            wide_part::<I, _>(isa, &part, x, &mut sums);
        }
    }
    sums[0]
}

/// Decodes the parts of a strip from `first_part` on, as many as `out` holds.
#[inline(always)]
pub(super) fn widen<B: Blocks, I: Isa>(isa: I, strip: Strip<'_>, first_part: usize, out: &mut [[f32; 16]]) {
    for (i, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let part = Part::<B>::of(strip, first_part + i);
        for (step, out) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let half = step / 4;
            let mut scale = part.scale(isa, if B::HALF_FLOATS { half } else { 0 });
            if B::SUBS == 2 {
                scale = isa.mul(scale, isa.to_f32(isa.load_i8(part.int(half))));
            }
            let bytes = part.step(isa, step);
            for (j, out) in out.iter_mut().enumerate() {
                let v = match const { B::VALUES.unsigned() } {
                    None => isa.to_f32(isa.byte_i8(bytes, j as u32)),
                    Some(None) => isa.to_f32(isa.byte_u8(bytes, j as u32)),
                    Some(Some(n)) => {
                        isa.sub(isa.to_f32(isa.byte_u8(bytes, j as u32)), isa.splat((1u32 << n) as f32))
                    }
                };
                let mut w = isa.mul(scale, v);
                if B::MINS.is_some() {
                    w = isa.add(w, part.minimum(isa, half));
                }
                isa.store(w, out);
            }
        }
    }
}
