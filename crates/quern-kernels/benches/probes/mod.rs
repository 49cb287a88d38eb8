//! What this machine can do at most, on one thread, measured.

#![allow(unsafe_code)]

use quern_platform::AlignedBytes;
use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Instant;

/// Limits of one thread.
pub(crate) struct Limits {
    /// Bytes a second, read in order from memory that no cache holds.
    pub(crate) read: f64,
    /// f32 multiply-adds a second.
    pub(crate) fma: f64,
    /// Multiply-adds a second of unsigned with signed bytes into sums of sixteen or 32 bits.
    pub(crate) byte_macs: f64,
}

impl Limits {
    /// Measured once; said once.
    pub(crate) fn get() -> &'static Limits {
        static LIMITS: OnceLock<Limits> = OnceLock::new();
        LIMITS.get_or_init(|| {
            let limits = Limits { read: read(), fma: fma(), byte_macs: byte_macs() };
            println!(
                "limits of one thread: {:.1} GB/s read, {:.1} G fma/s, {:.1} G byte multiply-adds/s\n",
                limits.read / 1e9,
                limits.fma / 1e9,
                limits.byte_macs / 1e9
            );
            limits
        })
    }
}

/// The most units a second in 30 runs.
fn most(units: f64, mut run: impl FnMut()) -> f64 {
    (0..30).fold(0.0, |most, _| {
        let start = Instant::now();
        run();
        f64::max(most, units / start.elapsed().as_secs_f64())
    })
}

fn read() -> f64 {
    let Ok(mut memory) = AlignedBytes::zeroed(256 << 20) else { return f64::NAN };
    memory.as_mut_slice().fill(1);
    let words: &[u64] = memory.typed();
    most(memory.len() as f64, || {
        let mut sums = [0u64; 16];
        for line in words.as_chunks::<16>().0 {
            for (sum, word) in sums.iter_mut().zip(line) {
                *sum ^= word;
            }
        }
        black_box(sums);
    })
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::hint::black_box;

    /// Rounds of the loops below.
    pub(super) const ROUNDS: usize = 100_000;

    /// Twelve chains of fma.
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn fma() {
        let (a, b) = (_mm256_set1_ps(black_box(0.5)), _mm256_set1_ps(black_box(0.25)));
        let mut sums = [_mm256_setzero_ps(); 12];
        for _ in 0..ROUNDS {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(a, *sum, b);
            }
        }
        black_box(sums);
    }

    /// Eight chains, each a multiply-add of bytes and an addition, as a tile has them.
    #[target_feature(enable = "avx2")]
    pub(super) fn byte_macs() {
        let (mut w, x) =
            ([_mm256_set1_epi8(black_box(1)); 2], [1, 2, 3, 4].map(|x| _mm256_set1_epi8(black_box(x))));
        let mut sums = [_mm256_setzero_si256(); 8];
        for _ in 0..ROUNDS {
            for turn in 0..4 {
                for (i, sum) in sums.iter_mut().enumerate() {
                    *sum = _mm256_add_epi16(*sum, _mm256_maddubs_epi16(w[i % 2], x[i / 2]));
                }
                // Products that stay the same would be taken out of the loop.
                w = w.map(|w| _mm256_xor_si256(w, x[turn]));
            }
        }
        black_box(sums);
    }
}

#[cfg(target_arch = "x86_64")]
fn fma() -> f64 {
    if !(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")) {
        return f64::NAN;
    }
    // SAFETY: the features are there.
    most((12 * 8 * x86::ROUNDS) as f64, || unsafe { x86::fma() })
}

#[cfg(target_arch = "x86_64")]
fn byte_macs() -> f64 {
    if !is_x86_feature_detected!("avx2") {
        return f64::NAN;
    }
    // SAFETY: the feature is there.
    most((4 * 8 * 32 * x86::ROUNDS) as f64, || unsafe { x86::byte_macs() })
}

#[cfg(not(target_arch = "x86_64"))]
fn fma() -> f64 {
    f64::NAN
}

#[cfg(not(target_arch = "x86_64"))]
fn byte_macs() -> f64 {
    f64::NAN
}
