//! The elementary functions of [`crate::math`] over sixteen lanes: the same steps in the same order.

use crate::isa::Isa;
use crate::math::{EXP_MAX, EXP_MIN, EXP_POLY, GELU_CUBIC, GELU_SCALE, LN2_HI, LN2_LO, LOG2_E};

/// [`crate::math::exp`]
#[inline(always)]
pub fn exp<I: Isa>(isa: I, x: I::F) -> I::F {
    let x = isa.max(isa.splat(EXP_MIN), x);
    let x = isa.min(isa.splat(EXP_MAX), x);
    let n = isa.round_i32(isa.mul(x, isa.splat(LOG2_E)));
    let nf = isa.to_f32(n);
    let r = isa.fnma(nf, isa.splat(LN2_HI), x);
    let r = isa.fnma(nf, isa.splat(LN2_LO), r);
    let mut p = isa.splat(EXP_POLY[0]);
    for c in &EXP_POLY[1..] {
        p = isa.fma(p, r, isa.splat(*c));
    }
    let y = isa.add(isa.fma(p, isa.mul(r, r), r), isa.splat(1.0));
    let half = isa.shr_i32(n, 1);
    isa.mul(isa.mul(y, isa.exp2i(half)), isa.exp2i(isa.sub_i32(n, half)))
}

#[inline(always)]
fn x_over_one_plus_exp<I: Isa>(isa: I, x: I::F, e: I::F) -> I::F {
    isa.div(x, isa.add(isa.splat(1.0), exp(isa, isa.sub(isa.splat(0.0), e))))
}

/// [`crate::math::silu`]
#[inline(always)]
pub fn silu<I: Isa>(isa: I, x: I::F) -> I::F {
    x_over_one_plus_exp(isa, x, x)
}

/// [`crate::math::sigmoid`]
#[inline(always)]
pub fn sigmoid<I: Isa>(isa: I, x: I::F) -> I::F {
    x_over_one_plus_exp(isa, isa.splat(1.0), x)
}

/// [`crate::math::gelu_tanh`]
#[inline(always)]
pub fn gelu_tanh<I: Isa>(isa: I, x: I::F) -> I::F {
    let cubic = isa.fma(isa.mul(x, x), isa.mul(isa.splat(GELU_CUBIC), x), x);
    x_over_one_plus_exp(isa, x, isa.mul(cubic, isa.splat(GELU_SCALE)))
}

/// [`crate::math::tanh`]
#[inline(always)]
pub fn tanh<I: Isa>(isa: I, x: I::F) -> I::F {
    let e = exp(isa, isa.add(x, x));
    isa.sub(isa.splat(1.0), isa.div(isa.splat(2.0), isa.add(e, isa.splat(1.0))))
}
