//! Canonical scalar mathematics: conversions, the rule-3 reduction and the elementary functions.
//!
//! These functions are the definition (docs/arithmetic.md); `vector` holds the same steps over [`crate::isa::Isa`].
//! Nothing here calls the standard library's transcendentals, whose bits differ between platforms.

/// An IEEE half float, widened exactly.
#[inline(always)]
pub fn f16_to_f32(bits: u16) -> f32 {
    half::f16::from_bits(bits).to_f32_const()
}

/// Rounded to an IEEE half float, ties to even; overflow gives infinity, NaN stays NaN.
#[inline(always)]
pub fn f32_to_f16(x: f32) -> u16 {
    half::f16::from_f32_const(x).to_bits()
}

/// A bfloat16, widened exactly.
#[inline(always)]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// `2^n` for n in -126..=127.
#[inline(always)]
pub fn exp2i(n: i32) -> f32 {
    f32::from_bits(((n + 127) << 23) as u32)
}

/// Rule 3's tree over sixteen partials: i + (i+8), then +4, then +2, then evens + odds.
#[inline(always)]
pub fn tree_sum(partials: &[f32; 16]) -> f32 {
    let mut v = *partials;
    for width in [8, 4, 2, 1] {
        for i in 0..width {
            v[i] += v[i + width];
        }
    }
    v[0]
}

/// Rule 3: element i goes to partial i mod 16 as `partial = step(element, partial)`; then the tree.
#[inline(always)]
pub fn reduce(x: &[f32], step: impl Fn(f32, f32) -> f32) -> f32 {
    let mut partials = [0.0; 16];
    for (i, &v) in x.iter().enumerate() {
        partials[i % 16] = step(v, partials[i % 16]);
    }
    tree_sum(&partials)
}

/// Sum of x by rule 3.
pub fn sum(x: &[f32]) -> f32 {
    reduce(x, |v, p| p + v)
}

/// Sum of squares of x by rule 3.
pub fn sum_of_squares(x: &[f32]) -> f32 {
    reduce(x, |v, p| v.mul_add(v, p))
}

/// Below this e^x is zero, above [`EXP_MAX`] infinite.
pub(crate) const EXP_MIN: f32 = -104.0;
pub(crate) const EXP_MAX: f32 = 89.0;
pub(crate) const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// ln 2 as the sum of two floats (Cody and Waite).
pub(crate) const LN2_HI: f32 = std::f32::consts::LN_2;
pub(crate) const LN2_LO: f32 = -1.904_654_3e-9;
/// 1/k! for k = 7 down to 2: the truncation error on |r| <= ln2/2 is below 6e-9.
pub(crate) const EXP_POLY: [f32; 6] = [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5];

/// e^x: `n = round(x log2 e)`, `r = x - n ln2` by two fma, Taylor in r by Horner, times `2^(n>>1)` and `2^(n-(n>>1))`
/// (two factors, so that subnormal results come out right). NaN gives NaN.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    let x = if EXP_MIN > x { EXP_MIN } else { x };
    let x = if EXP_MAX < x { EXP_MAX } else { x };
    let n = (x * LOG2_E).round_ties_even();
    let r = (-n).mul_add(LN2_HI, x);
    let r = (-n).mul_add(LN2_LO, r);
    let mut p = EXP_POLY[0];
    for c in &EXP_POLY[1..] {
        p = p.mul_add(r, *c);
    }
    let y = p.mul_add(r * r, r) + 1.0;
    let n = n as i32;
    let half = n >> 1;
    y * exp2i(half) * exp2i(n - half)
}

/// x / (1 + e^-x)
#[inline(always)]
pub fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

/// 1 / (1 + e^-x)
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// ln(1 + e^x), and x itself above 20, where the two are the same float.
#[inline]
pub fn softplus(x: f32) -> f32 {
    if x > 20.0 { x } else { libm::log1pf(exp(x)) }
}

pub(crate) const GELU_CUBIC: f32 = 0.044_715;
/// 2 sqrt(2/pi)
pub(crate) const GELU_SCALE: f32 = 1.595_769_2;

/// GELU in its tanh form, `0.5 x (1 + tanh(u))` with `u = sqrt(2/pi) (x + 0.044715 x^3)`, written as x / (1 + e^(-2u)):
/// the same function, and no argument overflows it.
#[inline(always)]
pub fn gelu_tanh(x: f32) -> f32 {
    let cubic = (x * x).mul_add(GELU_CUBIC * x, x);
    x / (1.0 + exp(-(cubic * GELU_SCALE)))
}

/// tanh(x) as `1 - 2 / (e^(2x) + 1)`, for soft caps; near zero, where that cancels, it is wrong by at most 1e-7 absolute.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    1.0 - 2.0 / (exp(x + x) + 1.0)
}
