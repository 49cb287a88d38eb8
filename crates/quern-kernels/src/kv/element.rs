//! How a cache holds its values: each element type with its exact decode.

use crate::isa::Isa;
use crate::math;

/// Values of a row that are narrowed together, and share a scale where the type has scales.
pub(crate) const BLOCK: usize = 32;

/// An element type of a cache.
pub(crate) trait Element: Copy + Default + Send + Sync {
    /// Whether a block has a scale, an f16.
    const SCALED: bool;
    /// Whether to ask for memory before it is read; floats are mostly scratch.
    const AHEAD: bool;
    /// Takes up to a block of floats, rounded; gives the bits of its scale, zero where there is none.
    fn narrow(x: &[f32], out: &mut [Self; BLOCK]) -> u16;
    /// Sixteen elements, widened exactly; `scale` counts where there are scales.
    fn load<I: Isa>(isa: I, p: &[Self; 16], scale: I::F) -> I::F;
}

impl Element for f32 {
    const SCALED: bool = false;
    const AHEAD: bool = false;

    #[inline(always)]
    fn narrow(x: &[f32], out: &mut [f32; BLOCK]) -> u16 {
        out[..x.len()].copy_from_slice(x);
        0
    }
    #[inline(always)]
    fn load<I: Isa>(isa: I, p: &[f32; 16], _: I::F) -> I::F {
        isa.load(p)
    }
}

impl Element for u16 {
    const SCALED: bool = false;
    const AHEAD: bool = true;

    #[inline(always)]
    fn narrow(x: &[f32], out: &mut [u16; BLOCK]) -> u16 {
        for (out, x) in out.iter_mut().zip(x) {
            *out = math::f32_to_f16(*x);
        }
        0
    }
    #[inline(always)]
    fn load<I: Isa>(isa: I, p: &[u16; 16], _: I::F) -> I::F {
        isa.load_f16(p)
    }
}

/// q8_0, as ggml's reference quantiser rounds it.
impl Element for i8 {
    const SCALED: bool = true;
    const AHEAD: bool = true;

    #[inline(always)]
    fn narrow(x: &[f32], out: &mut [i8; BLOCK]) -> u16 {
        let (scale, codes) = quantize_q8_0(x);
        *out = codes;
        scale
    }
    #[inline(always)]
    fn load<I: Isa>(isa: I, p: &[i8; 16], scale: I::F) -> I::F {
        // SAFETY: i8 and u8 have the same layout.
        let p = unsafe { &*std::ptr::from_ref(p).cast::<[u8; 16]>() };
        isa.mul(isa.to_f32(isa.load_i8(p)), scale)
    }
}

/// Up to 32 values as a block of q8_0: the bits of its scale `d = amax / 127`, an f16, and codes `round(x * (1 / d))` by
/// the d before it was rounded, halves away from zero. The block stands for d times the codes. A NaN makes the scale NaN,
/// so that it is not lost.
pub fn quantize_q8_0(x: &[f32]) -> (u16, [i8; BLOCK]) {
    let mut amax = 0.0f32;
    for x in x {
        amax = if amax.is_nan() || x.abs() <= amax { amax } else { x.abs() };
    }
    let d = amax / 127.0;
    let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
    let mut codes = [0; BLOCK];
    for (code, x) in codes.iter_mut().zip(x) {
        *code = (x * inverse).round() as i8;
    }
    (math::f32_to_f16(d), codes)
}
