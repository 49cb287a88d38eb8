//! The floating-point environment of a thread.
//!
//! The arithmetic contract needs round-to-nearest-even and gradual underflow. Both are per-thread register state that a
//! host program (audio and game libraries do) or a library built with fast-math start-up code may have changed, so
//! every thread that computes sets them, and a borrowed thread gets its own setting back.
//!
//! Deliberately absent: a way to choose any other mode.
#![allow(unsafe_code)]

use std::marker::PhantomData;

/// Holds the current thread in the canonical floating-point mode: ties to even, no flush-to-zero, subnormal inputs
/// honoured, exceptions masked. Dropping it puts back what was in force before.
#[derive(Debug)]
#[must_use = "the mode ends when the guard is dropped"]
pub struct FloatMode {
    before: u64,
    /// The register belongs to one thread, so the guard may not travel.
    not_send: PhantomData<*const ()>,
}

impl FloatMode {
    /// Enters the canonical mode on this thread. Costs one register read when the mode is already right.
    pub fn canonical() -> FloatMode {
        let before = control::read();
        if before & control::MODE_BITS != control::CANONICAL {
            control::write(before & !control::MODE_BITS | control::CANONICAL);
        }
        FloatMode { before, not_send: PhantomData }
    }

    /// Whether the thread was in the canonical mode before this guard.
    pub fn was_canonical(&self) -> bool {
        self.before & control::MODE_BITS == control::CANONICAL
    }
}

impl Drop for FloatMode {
    fn drop(&mut self) {
        if !self.was_canonical() {
            control::write(self.before);
        }
    }
}

/// MXCSR: exception flags 0-5 (sticky, left alone), DAZ 6, masks 7-12, rounding 13-14, FTZ 15.
#[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
mod control {
    use std::arch::asm;

    pub(super) const MODE_BITS: u64 = 0xffc0;
    pub(super) const CANONICAL: u64 = 0x1f80;

    pub(super) fn read() -> u64 {
        let mut mxcsr = 0u32;
        // SAFETY: stmxcsr stores four bytes to the local it is given; SSE is part of every x86 target of Rust std.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mxcsr, options(nostack, preserves_flags)) };
        u64::from(mxcsr)
    }

    pub(super) fn write(value: u64) {
        // The reserved upper half of the register must stay zero, and does: `value` came from `read`.
        let mxcsr = value as u32;
        // SAFETY: ldmxcsr loads four bytes from the local; the value is one the register held, with defined bits changed.
        unsafe {
            asm!("ldmxcsr [{}]", in(reg) &raw const mxcsr, options(nostack, readonly, preserves_flags))
        };
    }
}

/// FPCR: FIZ 0, AH 1, NEP 2, traps 8-12 and 15, EBF 13, FZ16 19, rounding 22-23, FZ 24, DN 25, AHP 26. All zero is the
/// IEEE default.
#[cfg(target_arch = "aarch64")]
mod control {
    use std::arch::asm;

    pub(super) const MODE_BITS: u64 = 0x07c8_bf07;
    pub(super) const CANONICAL: u64 = 0;

    pub(super) fn read() -> u64 {
        let fpcr: u64;
        // SAFETY: reading FPCR is allowed at every exception level and has no effect.
        unsafe { asm!("mrs {}, fpcr", out(reg) fpcr, options(nomem, nostack, preserves_flags)) };
        fpcr
    }

    pub(super) fn write(value: u64) {
        // SAFETY: writing FPCR is allowed at every exception level; the value is one it held, with mode bits changed.
        unsafe { asm!("msr fpcr, {}", in(reg) value, options(nostack, preserves_flags)) };
    }
}

/// Other architectures are taken to be in their default mode; their registers are left alone.
#[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64")))]
mod control {
    pub(super) const MODE_BITS: u64 = 0;
    pub(super) const CANONICAL: u64 = 0;

    pub(super) fn read() -> u64 {
        0
    }

    pub(super) fn write(_value: u64) {}
}

#[cfg(test)]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[cfg(target_arch = "x86_64")]
    const FLUSH: u64 = 1 << 15 | 1 << 6;
    #[cfg(target_arch = "x86_64")]
    const ROUND_UP: u64 = 2 << 13;
    #[cfg(target_arch = "aarch64")]
    const FLUSH: u64 = 1 << 24;
    #[cfg(target_arch = "aarch64")]
    const ROUND_UP: u64 = 1 << 22;

    fn half_of_smallest_normal() -> u32 {
        (black_box(f32::MIN_POSITIVE) * black_box(0.5)).to_bits()
    }

    /// 1 + 2^-24 is a tie: to even it stays 1, upwards it becomes the next float.
    fn tie() -> u32 {
        (black_box(1.0f32) + black_box(f32::from_bits(0x3380_0000))).to_bits()
    }

    #[test]
    fn subnormals_survive_a_thread_that_flushed_them() {
        std::thread::spawn(|| {
            control::write(control::CANONICAL | FLUSH);
            assert_eq!(half_of_smallest_normal(), 0, "the flush did not take, the test proves nothing");
            let mode = FloatMode::canonical();
            assert!(!mode.was_canonical());
            // IEEE 754 binary32: half of 2^-126 is the subnormal 2^-127.
            assert_eq!(half_of_smallest_normal(), 0x0040_0000);
            assert_eq!((black_box(f32::from_bits(1)) * black_box(2.0)).to_bits(), 2);
            drop(mode);
            assert_eq!(half_of_smallest_normal(), 0, "the host's own mode comes back");
        })
        .join()
        .expect("thread");
    }

    #[test]
    fn rounding_returns_to_nearest_even() {
        std::thread::spawn(|| {
            control::write(control::CANONICAL | ROUND_UP);
            assert_eq!(tie(), 0x3f80_0001, "the rounding mode did not take, the test proves nothing");
            let mode = FloatMode::canonical();
            assert_eq!(tie(), 0x3f80_0000);
            drop(mode);
            assert_eq!(tie(), 0x3f80_0001);
        })
        .join()
        .expect("thread");
    }

    #[test]
    fn a_fresh_thread_is_canonical_and_guards_nest() {
        let outer = FloatMode::canonical();
        assert!(outer.was_canonical());
        let inner = FloatMode::canonical();
        assert!(inner.was_canonical());
    }
}
