//! AVX2 + FMA + F16C: a sixteen-lane vector is two 256-bit registers, lanes 0..8 and 8..16.
//!
//! An intrinsic that is not inlined costs several times its work, and it is not where a function of the standard library
//! that takes a closure stands between it and the kernel (`array::map` and `array::from_fn` do): kernels loop instead.
//! tests/inlining.rs looks for such calls.

use super::{Isa, Kernel};
use std::arch::x86_64::*;

/// Proof that this CPU has AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

impl Avx2 {
    pub(super) fn detect() -> Option<Avx2> {
        let has = std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("fma")
            && std::arch::is_x86_feature_detected!("f16c");
        has.then_some(Avx2(()))
    }
}

/// Runs a kernel on AVX2.
#[inline]
pub(super) fn run<K: Kernel>(kernel: K) -> K::Output {
    #[target_feature(enable = "avx2,fma,f16c")]
    fn enter<K: Kernel>(kernel: K) -> K::Output {
        kernel.run(Avx2(()))
    }
    // SAFETY: `Level` holds `Set::Avx2` only after `Avx2::detect` said yes.
    unsafe { enter(kernel) }
}

type Pair<T> = [T; 2];

/// Each half through one intrinsic.
macro_rules! halves {
    ($f:ident, $($v:expr),+) => {
        // SAFETY: `self` proves the features; no memory is touched.
        unsafe { [$f($($v[0]),+), $f($($v[1]),+)] }
    };
}

/// Gives back what it takes, in registers, in the order of the program among all calls.
///
/// Left to itself the compiler makes trees of a tile's chains of sums and goes token by token, which takes the weights of all
/// steps at once: they are spilled and read back for each token.
#[inline]
#[target_feature(enable = "avx2")]
fn pin(mut v: Pair<__m256i>) -> Pair<__m256i> {
    // SAFETY: no instruction at all.
    unsafe {
        std::arch::asm!(
            "/* {0} {1} */",
            inout(ymm_reg) v[0],
            inout(ymm_reg) v[1],
            options(nomem, nostack, preserves_flags)
        );
    }
    v
}

#[inline(always)]
fn lane_indices() -> Pair<__m256i> {
    // SAFETY: only called from methods of `Avx2`.
    unsafe { [_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)] }
}

impl Isa for Avx2 {
    type F = Pair<__m256>;
    type I = Pair<__m256i>;
    type B = Pair<__m256i>;
    /// Sixteen-bit sums of pairs: two per row.
    type A = Pair<__m256i>;
    /// Sixteen-bit scales, each twice.
    type S = Pair<__m256i>;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        // SAFETY: `self` proves the features.
        unsafe { [_mm256_set1_ps(x); 2] }
    }
    #[inline(always)]
    fn load(self, p: &[f32; 16]) -> Self::F {
        // SAFETY: the reference covers both loads.
        unsafe { [_mm256_loadu_ps(p.as_ptr()), _mm256_loadu_ps(p.as_ptr().add(8))] }
    }
    #[inline(always)]
    fn store(self, v: Self::F, p: &mut [f32; 16]) {
        // SAFETY: the reference covers both stores.
        unsafe {
            _mm256_storeu_ps(p.as_mut_ptr(), v[0]);
            _mm256_storeu_ps(p.as_mut_ptr().add(8), v[1]);
        }
    }
    #[inline(always)]
    fn load_f16(self, p: &[u16; 16]) -> Self::F {
        // SAFETY: the reference covers both loads.
        unsafe {
            let p = p.as_ptr().cast::<__m128i>();
            [_mm256_cvtph_ps(_mm_loadu_si128(p)), _mm256_cvtph_ps(_mm_loadu_si128(p.add(1)))]
        }
    }
    #[inline(always)]
    fn load_bf16(self, p: &[u16; 16]) -> Self::F {
        // SAFETY: the reference covers both loads.
        unsafe {
            let p = p.as_ptr().cast::<__m128i>();
            let widen =
                |h| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(h))));
            [widen(p), widen(p.add(1))]
        }
    }
    #[inline(always)]
    fn prefetch<T>(self, p: *const T) {
        // SAFETY: a prefetch reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        halves!(_mm256_add_ps, a, b)
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        halves!(_mm256_sub_ps, a, b)
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        halves!(_mm256_mul_ps, a, b)
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        halves!(_mm256_div_ps, a, b)
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        halves!(_mm256_fmadd_ps, a, b, c)
    }
    #[inline(always)]
    fn fnma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        halves!(_mm256_fnmadd_ps, a, b, c)
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        halves!(_mm256_max_ps, a, b)
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        halves!(_mm256_min_ps, a, b)
    }
    #[inline(always)]
    fn abs(self, a: Self::F) -> Self::F {
        // SAFETY: `self` proves the features.
        let sign = unsafe { [_mm256_set1_ps(-0.0); 2] };
        halves!(_mm256_andnot_ps, sign, a)
    }
    #[inline(always)]
    fn round_i32(self, a: Self::F) -> Self::I {
        halves!(_mm256_cvtps_epi32, a)
    }
    #[inline(always)]
    fn to_f32(self, a: Self::I) -> Self::F {
        halves!(_mm256_cvtepi32_ps, a)
    }
    #[inline(always)]
    fn exp2i(self, n: Self::I) -> Self::F {
        // SAFETY: `self` proves the features.
        unsafe {
            let bias = _mm256_set1_epi32(127);
            let pow = |n| _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(n, bias)));
            [pow(n[0]), pow(n[1])]
        }
    }
    #[inline(always)]
    fn keep_lanes(self, v: Self::F, lo: usize, hi: usize, fill: f32) -> Self::F {
        let index = lane_indices();
        // SAFETY: `self` proves the features.
        unsafe {
            let below = _mm256_set1_epi32(lo as i32);
            let above = _mm256_set1_epi32(hi as i32);
            let fill = _mm256_set1_ps(fill);
            let keep = |v, i| {
                let inside = _mm256_andnot_si256(_mm256_cmpgt_epi32(below, i), _mm256_cmpgt_epi32(above, i));
                _mm256_blendv_ps(fill, v, _mm256_castsi256_ps(inside))
            };
            [keep(v[0], index[0]), keep(v[1], index[1])]
        }
    }
    #[inline(always)]
    fn reduce_add(self, v: Self::F) -> f32 {
        // SAFETY: `self` proves the features.
        unsafe {
            let v8 = _mm256_add_ps(v[0], v[1]);
            let v4 = _mm_add_ps(_mm256_castps256_ps128(v8), _mm256_extractf128_ps::<1>(v8));
            let v2 = _mm_add_ps(v4, _mm_movehl_ps(v4, v4));
            _mm_cvtss_f32(_mm_add_ss(v2, _mm_shuffle_ps::<1>(v2, v2)))
        }
    }
    #[inline(always)]
    fn reduce_max(self, v: Self::F) -> f32 {
        // SAFETY: `self` proves the features.
        unsafe {
            let v8 = _mm256_max_ps(v[0], v[1]);
            let v4 = _mm_max_ps(_mm256_castps256_ps128(v8), _mm256_extractf128_ps::<1>(v8));
            let v2 = _mm_max_ps(v4, _mm_movehl_ps(v4, v4));
            _mm_cvtss_f32(_mm_max_ss(v2, _mm_shuffle_ps::<1>(v2, v2)))
        }
    }
    #[inline(always)]
    fn all_finite(self, v: Self::F) -> bool {
        let a = self.abs(v);
        // SAFETY: `self` proves the features.
        unsafe {
            let top = _mm256_set1_ps(f32::MAX);
            let ok =
                _mm256_and_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(a[0], top), _mm256_cmp_ps::<_CMP_LE_OQ>(a[1], top));
            _mm256_movemask_ps(ok) == 0xff
        }
    }

    #[inline(always)]
    fn splat_i32(self, x: i32) -> Self::I {
        // SAFETY: `self` proves the features.
        unsafe { [_mm256_set1_epi32(x); 2] }
    }
    #[inline(always)]
    fn add_i32(self, a: Self::I, b: Self::I) -> Self::I {
        halves!(_mm256_add_epi32, a, b)
    }
    #[inline(always)]
    fn sub_i32(self, a: Self::I, b: Self::I) -> Self::I {
        halves!(_mm256_sub_epi32, a, b)
    }
    #[inline(always)]
    fn mul_i32(self, a: Self::I, b: Self::I) -> Self::I {
        halves!(_mm256_mullo_epi32, a, b)
    }
    #[inline(always)]
    fn shl_i32(self, a: Self::I, n: u32) -> Self::I {
        // SAFETY: `self` proves the features.
        unsafe {
            let n = _mm_cvtsi32_si128(n as i32);
            [_mm256_sll_epi32(a[0], n), _mm256_sll_epi32(a[1], n)]
        }
    }
    #[inline(always)]
    fn shr_i32(self, a: Self::I, n: u32) -> Self::I {
        // SAFETY: `self` proves the features.
        unsafe {
            let n = _mm_cvtsi32_si128(n as i32);
            [_mm256_sra_epi32(a[0], n), _mm256_sra_epi32(a[1], n)]
        }
    }
    #[inline(always)]
    fn pair_sums(self, a: Self::I) -> [i32; 2] {
        // SAFETY: `self` proves the features.
        unsafe {
            let v8 = _mm256_add_epi32(a[0], a[1]);
            let v4 = _mm_add_epi32(_mm256_castsi256_si128(v8), _mm256_extracti128_si256::<1>(v8));
            let pairs = _mm_hadd_epi32(v4, v4);
            [_mm_cvtsi128_si32(pairs), _mm_extract_epi32::<1>(pairs)]
        }
    }
    #[inline(always)]
    fn load_u8(self, p: &[u8; 16]) -> Self::I {
        // SAFETY: the reference covers the load.
        unsafe {
            let v = _mm_loadu_si128(p.as_ptr().cast());
            [_mm256_cvtepu8_epi32(v), _mm256_cvtepu8_epi32(_mm_srli_si128::<8>(v))]
        }
    }
    #[inline(always)]
    fn load_i8(self, p: &[u8; 16]) -> Self::I {
        // SAFETY: the reference covers the load.
        unsafe {
            let v = _mm_loadu_si128(p.as_ptr().cast());
            [_mm256_cvtepi8_epi32(v), _mm256_cvtepi8_epi32(_mm_srli_si128::<8>(v))]
        }
    }
    #[inline(always)]
    fn store_i8(self, v: Self::I, p: &mut [i8; 16]) {
        // SAFETY: the reference covers the store.
        unsafe {
            // packs works within 128-bit halves; the permutation puts the lanes back in order.
            let v16 = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(v[0], v[1]));
            let v8 = _mm_packs_epi16(_mm256_castsi256_si128(v16), _mm256_extracti128_si256::<1>(v16));
            _mm_storeu_si128(p.as_mut_ptr().cast(), v8);
        }
    }

    #[inline(always)]
    fn load_bytes(self, p: &[u8; 64]) -> Self::B {
        // SAFETY: the reference covers both loads.
        unsafe {
            let p = p.as_ptr().cast::<__m256i>();
            [_mm256_loadu_si256(p), _mm256_loadu_si256(p.add(1))]
        }
    }
    #[inline(always)]
    fn store_bytes(self, b: Self::B, p: &mut [u8; 64]) {
        // SAFETY: the reference covers both stores.
        unsafe {
            let p = p.as_mut_ptr().cast::<__m256i>();
            _mm256_storeu_si256(p, b[0]);
            _mm256_storeu_si256(p.add(1), b[1]);
        }
    }
    #[inline(always)]
    fn shift_mask(self, b: Self::B, right: i32, mask: u8) -> Self::B {
        // SAFETY: `self` proves the features.
        unsafe {
            let mask = _mm256_set1_epi8(mask as i8);
            let shift = |v| match right {
                0 => v,
                1.. => _mm256_srl_epi16(v, _mm_cvtsi32_si128(right)),
                _ => _mm256_sll_epi16(v, _mm_cvtsi32_si128(-right)),
            };
            [_mm256_and_si256(shift(b[0]), mask), _mm256_and_si256(shift(b[1]), mask)]
        }
    }
    #[inline(always)]
    fn or_bytes(self, a: Self::B, b: Self::B) -> Self::B {
        halves!(_mm256_or_si256, a, b)
    }
    #[inline(always)]
    fn shuffle16(self, table: &[u8; 16], index: Self::B) -> Self::B {
        // SAFETY: the reference covers the load.
        unsafe {
            let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
            [_mm256_shuffle_epi8(table, index[0]), _mm256_shuffle_epi8(table, index[1])]
        }
    }
    #[inline(always)]
    fn byte_u8(self, b: Self::B, j: u32) -> Self::I {
        // SAFETY: `self` proves the features.
        unsafe {
            let (n, low) = (_mm_cvtsi32_si128(8 * j as i32), _mm256_set1_epi32(0xff));
            [
                _mm256_and_si256(_mm256_srl_epi32(b[0], n), low),
                _mm256_and_si256(_mm256_srl_epi32(b[1], n), low),
            ]
        }
    }
    #[inline(always)]
    fn byte_i8(self, b: Self::B, j: u32) -> Self::I {
        // SAFETY: `self` proves the features.
        unsafe {
            let up = _mm_cvtsi32_si128(24 - 8 * j as i32);
            let byte = |v| _mm256_srai_epi32::<24>(_mm256_sll_epi32(v, up));
            [byte(b[0]), byte(b[1])]
        }
    }

    #[inline(always)]
    fn acc_zero(self) -> Self::A {
        // SAFETY: `self` proves the features.
        unsafe { [_mm256_setzero_si256(); 2] }
    }
    #[inline(always)]
    fn acc_start(self, minus_pairs: i32, shift: u32) -> Self::A {
        // SAFETY: `self` proves the features.
        unsafe { [_mm256_sll_epi16(_mm256_set1_epi32(minus_pairs), _mm_cvtsi32_si128(shift as i32)); 2] }
    }
    #[inline(always)]
    fn keep_order(self, acc: Self::A) -> Self::A {
        // SAFETY: `self` proves the features.
        unsafe { pin(acc) }
    }
    #[inline(always)]
    fn keep_order_i32(self, sum: Self::I) -> Self::I {
        // SAFETY: `self` proves the features.
        unsafe { pin(sum) }
    }
    #[inline(always)]
    fn acc_mac(self, acc: Self::A, w: Self::B, x: i32) -> Self::A {
        // SAFETY: `self` proves the features.
        unsafe {
            let x = _mm256_set1_epi32(x);
            [
                _mm256_add_epi16(acc[0], _mm256_maddubs_epi16(w[0], x)),
                _mm256_add_epi16(acc[1], _mm256_maddubs_epi16(w[1], x)),
            ]
        }
    }
    #[inline(always)]
    fn flush(self, sum: Self::I, acc: Self::A, scales: Self::S) -> Self::I {
        self.add_i32(sum, halves!(_mm256_madd_epi16, acc, scales))
    }
    #[inline(always)]
    fn splat_scale(self, x: i32) -> Self::S {
        // SAFETY: `self` proves the features.
        unsafe { [_mm256_set1_epi32(x); 2] }
    }
    #[inline(always)]
    fn scales_i8(self, p: &[u8; 16]) -> Self::S {
        // Each scale as i32, then copied into the upper sixteen bits, which are all ones where it is negative.
        // SAFETY: `self` proves the features.
        unsafe {
            let [low, high] = self.load_i8(p);
            [
                _mm256_blend_epi16::<0b1010_1010>(low, _mm256_slli_epi32::<16>(low)),
                _mm256_blend_epi16::<0b1010_1010>(high, _mm256_slli_epi32::<16>(high)),
            ]
        }
    }
    #[inline(always)]
    fn save_scales(self, s: Self::S, p: &mut [u8; 64]) {
        self.store_bytes(s, p);
    }
    #[inline(always)]
    fn load_scales(self, p: &[u8; 64]) -> Self::S {
        self.load_bytes(p)
    }
    #[inline(always)]
    fn mul_scales(self, a: Self::S, b: Self::S) -> Self::S {
        halves!(_mm256_mullo_epi16, a, b)
    }
    #[inline(always)]
    fn dot_i8(self, acc: Self::I, w: Self::B, x: i32, scale: Self::S) -> Self::I {
        // |w| * (x with w's sign): a pair is at most 2 * 128 * 127, which an i16 holds.
        // SAFETY: `self` proves the features.
        unsafe {
            let x = _mm256_set1_epi32(x);
            let dot = |acc, w, scale| {
                let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
                _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, scale))
            };
            [dot(acc[0], w[0], scale[0]), dot(acc[1], w[1], scale[1])]
        }
    }
    #[inline(always)]
    fn widen_pairs(self, b: Self::B) -> [Self::B; 2] {
        // Eight rows at a time: rows 0..4 and 4..8 widened, their even and their odd pairs taken together, which leaves the
        // rows in the order 0 1 4 5 2 3 6 7; the permutation of 64-bit pieces mends that.
        // SAFETY: `self` proves the features.
        unsafe {
            let half = |b: __m256i| {
                let low = _mm256_castsi256_ps(_mm256_cvtepi8_epi16(_mm256_castsi256_si128(b)));
                let high = _mm256_castsi256_ps(_mm256_cvtepi8_epi16(_mm256_extracti128_si256::<1>(b)));
                let even = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(low, high));
                let odd = _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(low, high));
                (
                    _mm256_permute4x64_epi64::<0b11_01_10_00>(even),
                    _mm256_permute4x64_epi64::<0b11_01_10_00>(odd),
                )
            };
            let ((even0, odd0), (even1, odd1)) = (half(b[0]), half(b[1]));
            [[even0, even1], [odd0, odd1]]
        }
    }
    #[inline(always)]
    fn scale_pairs(self, pairs: Self::B, scales: Self::S) -> Self::B {
        halves!(_mm256_mullo_epi16, pairs, scales)
    }
    #[inline(always)]
    fn mac_pairs(self, sum: Self::I, w: Self::B, x: i32) -> Self::I {
        // SAFETY: `self` proves the features.
        unsafe {
            let x = _mm256_set1_epi32(x);
            [
                _mm256_add_epi32(sum[0], _mm256_madd_epi16(w[0], x)),
                _mm256_add_epi32(sum[1], _mm256_madd_epi16(w[1], x)),
            ]
        }
    }
}
