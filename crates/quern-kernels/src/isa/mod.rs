//! The ISA layer: kernels are written once, generic over [`Isa`]; an instruction set is one file of primitives.
//!
//! Every vector is sixteen lanes wide, whatever the hardware: that is the width of the canonical reductions
//! (docs/arithmetic.md, rule 3) and of the packed weight tiles, so a kernel reads the same on every ISA and its
//! result cannot depend on the register width. AVX2 holds a vector in two registers, the scalar ISA in an array.
//!
//! A value of an ISA type is the proof that this CPU has it: the only way to get one is through [`Level`].
//! Kernels are structs that implement [`Kernel`]; [`Level::run`] enters them through one `#[target_feature]`
//! function per ISA, into which every `#[inline(always)]` primitive folds.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod scalar;

pub use scalar::Scalar;

/// Sixteen-lane primitives. All float operations round once, ties to even, with no flush to zero.
///
/// `max` and `min` follow x86: `max(a, b)` is `if a > b { a } else { b }`, so a NaN in `b` comes through and a
/// NaN in `a` does not.
pub trait Isa: Copy + Send + Sync + 'static {
    /// Sixteen f32.
    type F: Copy;
    /// Sixteen i32.
    type I: Copy;
    /// Sixty-four bytes: lane r holds bytes 4r..4r+4, four successive k of row r.
    type B: Copy;
    /// Block accumulator: partial sums of u8 x i8 products that must be flushed before they overflow.
    type A: Copy;
    /// Sixteen small integer scales, in the form that `flush` multiplies by.
    type S: Copy;

    /// All lanes `x`.
    fn splat(self, x: f32) -> Self::F;
    /// Sixteen f32 from memory.
    fn load(self, p: &[f32; 16]) -> Self::F;
    /// Sixteen f32 to memory.
    fn store(self, v: Self::F, p: &mut [f32; 16]);
    /// Sixteen IEEE half floats, widened exactly.
    fn load_f16(self, p: &[u16; 16]) -> Self::F;
    /// Sixteen bfloat16, widened exactly.
    fn load_bf16(self, p: &[u16; 16]) -> Self::F;
    /// Asks for the cache line at `p`, which may point anywhere.
    fn prefetch<T>(self, p: *const T) {
        let _ = p;
    }
    /// `a + b`
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a - b`
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b`
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a / b`
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`, rounded once.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `-(a * b) + c`, rounded once.
    fn fnma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `if a > b { a } else { b }`
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// `if a < b { a } else { b }`
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// Sign bit cleared.
    fn abs(self, a: Self::F) -> Self::F;
    /// Nearest integer, ties to even; lanes outside i32 are unspecified.
    fn round_i32(self, a: Self::F) -> Self::I;
    /// Exact up to 2^24, else rounded to nearest even.
    fn to_f32(self, a: Self::I) -> Self::F;
    /// `2^n` for n in -126..=127, by the exponent bits.
    fn exp2i(self, n: Self::I) -> Self::F;
    /// Lanes `lo..hi` of `v`; `fill` elsewhere.
    fn keep_lanes(self, v: Self::F, lo: usize, hi: usize, fill: f32) -> Self::F;
    /// The canonical tree of rule 3: i + (i+8), then +4, then +2, then evens + odds.
    fn reduce_add(self, v: Self::F) -> f32;
    /// Largest lane (no lane may be NaN for a defined result).
    fn reduce_max(self, v: Self::F) -> f32;
    /// Whether no lane is infinite or NaN.
    fn all_finite(self, v: Self::F) -> bool;

    /// All lanes `x`.
    fn splat_i32(self, x: i32) -> Self::I;
    /// `a + b`, wrapping.
    fn add_i32(self, a: Self::I, b: Self::I) -> Self::I;
    /// `a - b`, wrapping.
    fn sub_i32(self, a: Self::I, b: Self::I) -> Self::I;
    /// Low 32 bits of `a * b`.
    fn mul_i32(self, a: Self::I, b: Self::I) -> Self::I;
    /// `a << n`
    fn shl_i32(self, a: Self::I, n: u32) -> Self::I;
    /// `a >> n`, arithmetic.
    fn shr_i32(self, a: Self::I, n: u32) -> Self::I;
    /// Sums of the lanes i with i mod 4 in {0, 1}, and in {2, 3}, wrapping.
    fn pair_sums(self, a: Self::I) -> [i32; 2];
    /// Sixteen u8, widened.
    fn load_u8(self, p: &[u8; 16]) -> Self::I;
    /// Sixteen i8, widened.
    fn load_i8(self, p: &[u8; 16]) -> Self::I;
    /// The lanes as i8; they must fit.
    fn store_i8(self, v: Self::I, p: &mut [i8; 16]);

    /// Sixty-four bytes from memory.
    fn load_bytes(self, p: &[u8; 64]) -> Self::B;
    /// Sixty-four bytes to memory.
    fn store_bytes(self, b: Self::B, p: &mut [u8; 64]);
    /// Each byte shifted right by `right` (left where negative) and masked; `mask` must clear what a 16-bit
    /// shift would bring in from the neighbouring byte.
    fn shift_mask(self, b: Self::B, right: i32, mask: u8) -> Self::B;
    /// `a | b`
    fn or_bytes(self, a: Self::B, b: Self::B) -> Self::B;
    /// Each byte of `index`, all below 16, replaced by that entry of `table`.
    fn shuffle16(self, table: &[u8; 16], index: Self::B) -> Self::B;
    /// Byte `j` (0..4) of every lane, zero-extended.
    fn byte_u8(self, b: Self::B, j: u32) -> Self::I;
    /// Byte `j` (0..4) of every lane, sign-extended.
    fn byte_i8(self, b: Self::B, j: u32) -> Self::I;

    /// An empty block accumulator.
    fn acc_zero(self) -> Self::A;
    /// A block accumulator that begins at minus 2^`shift` times the x to come: `minus_pairs` holds minus the sums of the x
    /// at k mod 4 in {0, 1} in its low sixteen bits, in {2, 3} in its high ones. It takes a format's offset off its codes.
    fn acc_start(self, minus_pairs: i32, shift: u32) -> Self::A;
    /// The same accumulator. Where a compiler would spoil a kernel by moving steps past each other, this stops it.
    #[inline(always)]
    fn keep_order(self, acc: Self::A) -> Self::A {
        acc
    }
    /// As `keep_order`, for integer sums.
    #[inline(always)]
    fn keep_order_i32(self, sum: Self::I) -> Self::I {
        sum
    }
    /// Adds `sum_j w[4r+j] * x[j]` to lane r: w unsigned bytes, x four signed bytes as one i32.
    /// At a flush each pair's sum (j = 0,1 or 2,3) must fit an i16; on the way there it may wrap.
    fn acc_mac(self, acc: Self::A, w: Self::B, x: i32) -> Self::A;
    /// The lanes of the accumulator times a scale each, added to `sum`.
    fn flush(self, sum: Self::I, acc: Self::A, scales: Self::S) -> Self::I;
    /// All scales the i16 that `x` holds twice.
    fn splat_scale(self, x: i32) -> Self::S;
    /// Sixteen signed scales.
    fn scales_i8(self, p: &[u8; 16]) -> Self::S;
    /// Scales to memory.
    fn save_scales(self, s: Self::S, p: &mut [u8; 64]);
    /// Scales from memory, as `save_scales` left them.
    fn load_scales(self, p: &[u8; 64]) -> Self::S;
    /// `a * b`; the products must fit an i16.
    fn mul_scales(self, a: Self::S, b: Self::S) -> Self::S;
    /// Adds `scale * sum_j w[4r+j] * x[j]` to lane r: both signed; x must not be -128.
    fn dot_i8(self, acc: Self::I, w: Self::B, x: i32, scale: Self::S) -> Self::I;

    /// Signed bytes to pairs of i16: bytes 0 and 1 of every lane, then bytes 2 and 3.
    fn widen_pairs(self, b: Self::B) -> [Self::B; 2];
    /// The i16 of every lane times a scale each; the products must fit an i16.
    fn scale_pairs(self, pairs: Self::B, scales: Self::S) -> Self::B;
    /// Adds `w[2r] * x[0] + w[2r+1] * x[1]` to lane r: w pairs of i16, x two i16 as one i32.
    fn mac_pairs(self, sum: Self::I, w: Self::B, x: i32) -> Self::I;
}

/// A piece of work that can run on any ISA.
pub trait Kernel {
    /// What it gives back.
    type Output;
    /// The work. Mark the implementation `#[inline(always)]`, and every function it calls with vectors too.
    fn run<I: Isa>(self, isa: I) -> Self::Output;
}

/// An instruction set level that this CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(Set);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    Scalar,
    /// The scalar code compiled with the FMA instruction, which spares a library call per fma.
    #[cfg(target_arch = "x86_64")]
    ScalarFma,
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

/// The environment variable that forces a level by name.
pub const ISA_ENV: &str = "QUERN_ISA";

/// Why a level could not be had.
#[derive(Debug, thiserror::Error)]
pub enum IsaError {
    /// The name is not one of ours.
    #[error("unknown instruction set \"{0}\": the names are {1}")]
    Unknown(String, String),
    /// The CPU lacks it.
    #[error("this CPU cannot run the instruction set \"{0}\": it has {1}")]
    Missing(String, String),
}

/// Every level this build knows, best first, with the level where this CPU has it.
pub fn known() -> Vec<(&'static str, Option<Level>)> {
    vec![
        #[cfg(target_arch = "x86_64")]
        ("avx2", avx2::Avx2::detect().map(|_| Level(Set::Avx2))),
        ("scalar", Some(Level::scalar())),
    ]
}

impl Level {
    /// The levels this CPU has, best first.
    pub fn available() -> Vec<Level> {
        known().into_iter().filter_map(|(_, level)| level).collect()
    }

    /// The best level of this CPU, or the one that [`ISA_ENV`] names.
    pub fn detect() -> Result<Level, IsaError> {
        match std::env::var(ISA_ENV) {
            Ok(name) if !name.is_empty() => Level::by_name(&name),
            _ => Ok(Level::available().first().copied().unwrap_or(Level::scalar())),
        }
    }

    /// The plain Rust form, the definition of every other.
    pub fn scalar() -> Level {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("fma") {
            return Level(Set::ScalarFma);
        }
        Level(Set::Scalar)
    }

    /// The level called `name`.
    pub fn by_name(name: &str) -> Result<Level, IsaError> {
        let known = known();
        let list = |only: bool| {
            let names: Vec<_> = known.iter().filter(|(_, l)| l.is_some() || !only).map(|(n, _)| *n).collect();
            names.join(", ")
        };
        match known.iter().find(|(n, _)| *n == name) {
            Some((_, Some(level))) => Ok(*level),
            Some((_, None)) => Err(IsaError::Missing(name.into(), list(true))),
            None => Err(IsaError::Unknown(name.into(), list(false))),
        }
    }

    /// Its name, as [`ISA_ENV`] takes it.
    pub fn name(self) -> &'static str {
        match self.0 {
            Set::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Set::ScalarFma => "scalar",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => "avx2",
        }
    }

    /// Runs a kernel on this level.
    #[inline]
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.0 {
            Set::Scalar => kernel.run(Scalar::<{ scalar::FMA_EVERYWHERE }>),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `ScalarFma` is only made by `Level::scalar` after FMA was detected.
            Set::ScalarFma => unsafe { scalar::run_with_fma(kernel) },
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => avx2::run(kernel),
        }
    }
}
