//! The scalar ISA: plain Rust over arrays of sixteen. It is the definition that the other ISAs must equal.
//!
//! The primitives that loop over sixty-four bytes stay out of line: folded into every kernel of every format they would be
//! most of what the crate takes to compile.

use super::Isa;

/// Runs anywhere. `FMA` says that the code around it is compiled with the FMA instruction: then a fused multiply-add is
/// one instruction, and else a library call, which is kept out of line so that kernels do not swell with calls.
#[derive(Clone, Copy)]
pub struct Scalar<const FMA: bool>;

/// Whether every CPU this is compiled for has the FMA instruction; every aarch64 does.
pub(super) const FMA_EVERYWHERE: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));

#[inline(never)]
fn fma_by_call(a: &[f32; 16], b: &[f32; 16], c: &[f32; 16]) -> [f32; 16] {
    fma_lanes(a, b, c)
}

#[inline(always)]
fn fma_lanes(a: &[f32; 16], b: &[f32; 16], c: &[f32; 16]) -> [f32; 16] {
    let mut out = *c;
    for i in 0..16 {
        out[i] = a[i].mul_add(b[i], c[i]);
    }
    out
}

/// Enters a kernel with the FMA instruction at hand, so that `mul_add` is one instruction and not a call.
///
/// # Safety
/// The CPU must have FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "fma")]
pub(super) unsafe fn run_with_fma<K: super::Kernel>(kernel: K) -> K::Output {
    kernel.run(Scalar::<true>)
}

#[inline(always)]
fn map<T: Copy, U: Copy + Default>(a: [T; 16], f: impl Fn(T) -> U) -> [U; 16] {
    let mut out = [U::default(); 16];
    for i in 0..16 {
        out[i] = f(a[i]);
    }
    out
}

#[inline(always)]
fn zip<T: Copy + Default>(a: [T; 16], b: [T; 16], f: impl Fn(T, T) -> T) -> [T; 16] {
    let mut out = [T::default(); 16];
    for i in 0..16 {
        out[i] = f(a[i], b[i]);
    }
    out
}

impl<const FMA: bool> Isa for Scalar<FMA> {
    type F = [f32; 16];
    type I = [i32; 16];
    type B = [u8; 64];
    type A = [i32; 16];
    type S = [i32; 16];

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        [x; 16]
    }
    #[inline(always)]
    fn load(self, p: &[f32; 16]) -> Self::F {
        *p
    }
    #[inline(always)]
    fn store(self, v: Self::F, p: &mut [f32; 16]) {
        *p = v;
    }
    #[inline(never)]
    fn load_f16(self, p: &[u16; 16]) -> Self::F {
        map(*p, crate::math::f16_to_f32)
    }
    #[inline(always)]
    fn load_bf16(self, p: &[u16; 16]) -> Self::F {
        map(*p, crate::math::bf16_to_f32)
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        if FMA { fma_lanes(&a, &b, &c) } else { fma_by_call(&a, &b, &c) }
    }
    #[inline(always)]
    fn fnma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        self.fma(map(a, |x| -x), b, c)
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn abs(self, a: Self::F) -> Self::F {
        map(a, f32::abs)
    }
    #[inline(always)]
    fn round_i32(self, a: Self::F) -> Self::I {
        map(a, |x| x.round_ties_even() as i32)
    }
    #[inline(always)]
    fn to_f32(self, a: Self::I) -> Self::F {
        map(a, |x| x as f32)
    }
    #[inline(always)]
    fn exp2i(self, n: Self::I) -> Self::F {
        map(n, crate::math::exp2i)
    }
    #[inline(always)]
    fn keep_lanes(self, mut v: Self::F, lo: usize, hi: usize, fill: f32) -> Self::F {
        for (i, x) in v.iter_mut().enumerate() {
            if i < lo || i >= hi {
                *x = fill;
            }
        }
        v
    }
    #[inline(always)]
    fn reduce_add(self, v: Self::F) -> f32 {
        crate::math::tree_sum(&v)
    }
    #[inline(always)]
    fn reduce_max(self, v: Self::F) -> f32 {
        v.iter().copied().fold(v[0], |m, x| if x > m { x } else { m })
    }
    #[inline(always)]
    fn all_finite(self, v: Self::F) -> bool {
        v.iter().all(|x| x.is_finite())
    }

    #[inline(always)]
    fn splat_i32(self, x: i32) -> Self::I {
        [x; 16]
    }
    #[inline(always)]
    fn add_i32(self, a: Self::I, b: Self::I) -> Self::I {
        zip(a, b, i32::wrapping_add)
    }
    #[inline(always)]
    fn sub_i32(self, a: Self::I, b: Self::I) -> Self::I {
        zip(a, b, i32::wrapping_sub)
    }
    #[inline(always)]
    fn mul_i32(self, a: Self::I, b: Self::I) -> Self::I {
        zip(a, b, i32::wrapping_mul)
    }
    #[inline(always)]
    fn shl_i32(self, a: Self::I, n: u32) -> Self::I {
        map(a, |x| x << n)
    }
    #[inline(always)]
    fn shr_i32(self, a: Self::I, n: u32) -> Self::I {
        map(a, |x| x >> n)
    }
    #[inline(always)]
    fn pair_sums(self, a: Self::I) -> [i32; 2] {
        a.as_chunks::<4>().0.iter().fold([0, 0], |[low, high], a| {
            [low.wrapping_add(a[0]).wrapping_add(a[1]), high.wrapping_add(a[2]).wrapping_add(a[3])]
        })
    }
    #[inline(always)]
    fn load_u8(self, p: &[u8; 16]) -> Self::I {
        map(*p, i32::from)
    }
    #[inline(always)]
    fn load_i8(self, p: &[u8; 16]) -> Self::I {
        map(*p, |x| i32::from(x as i8))
    }
    #[inline(always)]
    fn store_i8(self, v: Self::I, p: &mut [i8; 16]) {
        *p = map(v, |x| x as i8);
    }

    #[inline(always)]
    fn load_bytes(self, p: &[u8; 64]) -> Self::B {
        *p
    }
    #[inline(always)]
    fn store_bytes(self, b: Self::B, p: &mut [u8; 64]) {
        *p = b;
    }
    #[inline(never)]
    fn shift_mask(self, mut b: Self::B, right: i32, mask: u8) -> Self::B {
        for x in &mut b {
            *x = if right >= 0 { *x >> right } else { *x << -right } & mask;
        }
        b
    }
    #[inline(never)]
    fn or_bytes(self, mut a: Self::B, b: Self::B) -> Self::B {
        for i in 0..64 {
            a[i] |= b[i];
        }
        a
    }
    #[inline(never)]
    fn shuffle16(self, table: &[u8; 16], mut index: Self::B) -> Self::B {
        for x in &mut index {
            *x = table[usize::from(*x & 15)];
        }
        index
    }
    #[inline(never)]
    fn byte_u8(self, b: Self::B, j: u32) -> Self::I {
        let mut out = [0; 16];
        for r in 0..16 {
            out[r] = i32::from(b[4 * r + j as usize]);
        }
        out
    }
    #[inline(always)]
    fn byte_i8(self, b: Self::B, j: u32) -> Self::I {
        map(self.byte_u8(b, j), |x| i32::from(x as u8 as i8))
    }

    #[inline(always)]
    fn acc_zero(self) -> Self::A {
        [0; 16]
    }
    #[inline(always)]
    fn acc_start(self, minus_pairs: i32, shift: u32) -> Self::A {
        [(i32::from(minus_pairs as i16) + (minus_pairs >> 16)) << shift; 16]
    }
    #[inline(never)]
    fn acc_mac(self, mut acc: Self::A, w: Self::B, x: i32) -> Self::A {
        let x = x.to_le_bytes();
        for r in 0..16 {
            for j in 0..4 {
                acc[r] += i32::from(w[4 * r + j]) * i32::from(x[j] as i8);
            }
        }
        acc
    }
    #[inline(never)]
    fn flush(self, sum: Self::I, acc: Self::A, scales: Self::S) -> Self::I {
        self.add_i32(sum, self.mul_i32(acc, scales))
    }
    #[inline(always)]
    fn splat_scale(self, x: i32) -> Self::S {
        [x >> 16; 16]
    }
    #[inline(always)]
    fn scales_i8(self, p: &[u8; 16]) -> Self::S {
        self.load_i8(p)
    }
    #[inline(always)]
    fn save_scales(self, s: Self::S, p: &mut [u8; 64]) {
        for (p, s) in p.as_chunks_mut::<4>().0.iter_mut().zip(s) {
            *p = s.to_le_bytes();
        }
    }
    #[inline(always)]
    fn load_scales(self, p: &[u8; 64]) -> Self::S {
        let mut s = [0; 16];
        for (s, p) in s.iter_mut().zip(p.as_chunks::<4>().0) {
            *s = i32::from_le_bytes(*p);
        }
        s
    }
    #[inline(always)]
    fn mul_scales(self, a: Self::S, b: Self::S) -> Self::S {
        self.mul_i32(a, b)
    }
    #[inline(never)]
    fn dot_i8(self, acc: Self::I, w: Self::B, x: i32, scale: Self::S) -> Self::I {
        let x = x.to_le_bytes();
        let mut sum = [0; 16];
        for r in 0..16 {
            for j in 0..4 {
                sum[r] += i32::from(w[4 * r + j] as i8) * i32::from(x[j] as i8);
            }
        }
        self.flush(acc, sum, scale)
    }
    #[inline(never)]
    fn widen_pairs(self, b: Self::B) -> [Self::B; 2] {
        let mut out = [[0; 64]; 2];
        for (i, byte) in b.into_iter().enumerate() {
            let (row, j) = (i / 4, i % 4);
            let at = 4 * row + 2 * (j % 2);
            out[j / 2][at..at + 2].copy_from_slice(&i16::from(byte as i8).to_le_bytes());
        }
        out
    }
    #[inline(never)]
    fn scale_pairs(self, mut pairs: Self::B, scales: Self::S) -> Self::B {
        for (i, two) in pairs.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            *two = ((i32::from(i16::from_le_bytes(*two)) * scales[i / 2]) as i16).to_le_bytes();
        }
        pairs
    }
    #[inline(never)]
    fn mac_pairs(self, mut sum: Self::I, w: Self::B, x: i32) -> Self::I {
        let x = [i32::from(x as i16), x >> 16];
        for (i, two) in w.as_chunks::<2>().0.iter().enumerate() {
            sum[i / 2] += i32::from(i16::from_le_bytes(*two)) * x[i % 2];
        }
        sum
    }
}
