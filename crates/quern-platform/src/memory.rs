//! Aligned, zeroed memory for weights, caches and scratch.
//!
//! Everything starts on a cache line, so a 64-byte tile never straddles two. From one huge page upwards the memory is
//! mapped on a huge-page boundary and the kernel is asked for huge pages: a decode step walks every weight once, and with
//! 4 KiB pages a good part of that walk is TLB misses. Mapped memory is not touched here, so the thread that first
//! writes a page decides which NUMA node it lives on.
//!
//! Deliberately absent: growing, freeing in part, and sub-allocation (a plan knows its sizes before it allocates).
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::io;
use std::num::NonZero;
use std::ptr::NonNull;

use crate::PlatformError;

/// Alignment of every allocation: a cache line, and the widest vector register.
const LINE: usize = 64;

/// Size and alignment of a huge page on x86-64 and on aarch64 with 4 KiB base pages.
const HUGE_PAGE: usize = 2 << 20;

/// Zeroed bytes on a 64-byte boundary (2 MiB when that large), freed on drop.
pub struct AlignedBytes {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: the struct owns its bytes and hands them out only through `&self` and `&mut self`.
unsafe impl Send for AlignedBytes {}
// SAFETY: as above; shared access is read-only.
unsafe impl Sync for AlignedBytes {}

impl AlignedBytes {
    /// Reserves `len` zeroed bytes.
    ///
    /// # Errors
    /// [`PlatformError::Allocate`] where the system has no room for them.
    pub fn zeroed(len: usize) -> Result<AlignedBytes, PlatformError> {
        let failed = |source| PlatformError::Allocate { bytes: len, source };
        if len == 0 {
            return Ok(AlignedBytes { ptr: NonNull::without_provenance(DANGLING), len });
        }
        let ptr = if is_mapped(len) {
            mapping::reserve(len).map_err(failed)?
        } else {
            from_heap(len).map_err(failed)?
        };
        Ok(AlignedBytes { ptr, len })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `ptr` is valid for `len` initialised bytes for as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }

    /// The bytes, writable.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }

    /// The bytes as numbers in native byte order; a remainder shorter than one number is left out.
    pub fn typed<T: Plain>(&self) -> &[T] {
        // SAFETY: the start is aligned to 64, which suits every `Plain` type, the length stays inside, and any bit
        // pattern is a value of a `Plain` type.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr().cast(), self.len / size_of::<T>()) }
    }

    /// The bytes as writable numbers in native byte order; a remainder shorter than one number is left out.
    pub fn typed_mut<T: Plain>(&mut self) -> &mut [T] {
        // SAFETY: as in `typed`, every `Plain` value is made of initialised bytes, and `&mut self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr().cast(), self.len / size_of::<T>()) }
    }
}

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        if self.len == 0 {
            return;
        }
        if is_mapped(self.len) {
            // SAFETY: `reserve(len)` made this mapping and nothing borrows it any more.
            unsafe { mapping::release(self.ptr, self.len) }
        } else {
            // SAFETY: `from_heap` allocated it with this layout, which was valid then.
            unsafe { dealloc(self.ptr.as_ptr(), Layout::from_size_align_unchecked(self.len, LINE)) }
        }
    }
}

impl fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBytes").field("len", &self.len).finish_non_exhaustive()
    }
}

/// The address of an empty allocation: aligned, and never read.
const DANGLING: NonZero<usize> = NonZero::new(LINE).expect("a line is not empty");

fn is_mapped(len: usize) -> bool {
    cfg!(unix) && len >= HUGE_PAGE
}

fn from_heap(len: usize) -> io::Result<NonNull<u8>> {
    let layout = Layout::from_size_align(len, LINE).map_err(|_| io::ErrorKind::OutOfMemory)?;
    // SAFETY: the layout is not empty; the caller handled zero.
    let ptr = unsafe { alloc_zeroed(layout) };
    NonNull::new(ptr).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

mod sealed {
    pub trait Sealed {}
}

/// Numbers for which every bit pattern is a value, with no padding and an alignment of at most 64.
pub trait Plain: sealed::Sealed + Copy + Send + Sync + 'static {}

macro_rules! plain {
    ($($number:ty),*) => { $(
        impl sealed::Sealed for $number {}
        impl Plain for $number {}
    )* };
}
plain!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

#[cfg(unix)]
mod mapping {
    use super::HUGE_PAGE;
    use std::io;
    use std::ptr::{NonNull, null_mut};

    /// Maps `len` bytes rounded up to whole huge pages. The rounding costs address space, not memory.
    pub(super) fn reserve(len: usize) -> io::Result<NonNull<u8>> {
        let size = len.checked_next_multiple_of(HUGE_PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        // A mapping starts on any page, so one more huge page leaves room to move to a boundary.
        let padded = size.checked_add(HUGE_PAGE).filter(|&n| isize::try_from(n).is_ok());
        let padded = padded.ok_or(io::ErrorKind::OutOfMemory)?;
        let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANON);
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches nothing of ours.
        let base = unsafe { libc::mmap(null_mut(), padded, prot, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = base.cast::<u8>();
        let head = base.align_offset(HUGE_PAGE);
        let start = base.wrapping_add(head);
        // SAFETY: head and tail are whole pages of the mapping just made, outside the part that is kept.
        unsafe {
            if head > 0 {
                libc::munmap(base.cast(), head);
            }
            if head < HUGE_PAGE {
                libc::munmap(start.wrapping_add(size).cast(), HUGE_PAGE - head);
            }
        }
        #[cfg(target_os = "linux")]
        // SAFETY: the range is ours; the advice changes no content. Kernels without huge pages refuse it, which is fine.
        unsafe {
            libc::madvise(start.cast(), size, libc::MADV_HUGEPAGE);
        }
        NonNull::new(start).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// # Safety
    /// `ptr` came from `reserve(len)` and is not used afterwards.
    pub(super) unsafe fn release(ptr: NonNull<u8>, len: usize) {
        // SAFETY: the caller owns the mapping, whose size is `len` rounded up as in `reserve`.
        unsafe { libc::munmap(ptr.as_ptr().cast(), len.next_multiple_of(HUGE_PAGE)) };
    }
}

#[cfg(not(unix))]
mod mapping {
    use std::io;
    use std::ptr::NonNull;

    pub(super) fn reserve(_len: usize) -> io::Result<NonNull<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// # Safety
    /// Never called: nothing is mapped on this system.
    pub(super) unsafe fn release(_ptr: NonNull<u8>, _len: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_aligned_zeroed_and_writable() {
        for len in [0, 1, 63, 64, 4097, HUGE_PAGE - 1, HUGE_PAGE, HUGE_PAGE + 1, 3 * HUGE_PAGE] {
            let mut bytes = AlignedBytes::zeroed(len).unwrap();
            let align = if is_mapped(len) { HUGE_PAGE } else { LINE };
            assert_eq!(bytes.as_slice().as_ptr().addr() % align, 0, "{len}");
            assert_eq!((bytes.len(), bytes.is_empty()), (len, len == 0));
            assert!(bytes.as_slice().iter().all(|&b| b == 0), "{len}");
            bytes.as_mut_slice().fill(0xa5);
            assert!(bytes.as_slice().iter().all(|&b| b == 0xa5), "{len}");
        }
    }

    #[test]
    fn typed_views_share_the_bytes() {
        let mut bytes = AlignedBytes::zeroed(11).unwrap();
        // IEEE 754: 1.0f32 is 0x3f800000.
        bytes.typed_mut::<f32>()[1] = 1.0;
        assert_eq!(bytes.typed::<u32>(), [0, 0x3f80_0000]);
        assert_eq!(bytes.as_slice()[4..8], 1.0f32.to_ne_bytes());
        assert_eq!(bytes.typed::<i8>().len(), 11);
        assert_eq!(bytes.typed::<u64>().len(), 1);
        assert!(AlignedBytes::zeroed(0).unwrap().typed::<f64>().is_empty());
    }

    #[test]
    fn impossible_sizes_are_refused_not_aborted() {
        for len in [usize::MAX, isize::MAX as usize, usize::MAX - HUGE_PAGE, 1 << 62] {
            let error = AlignedBytes::zeroed(len).unwrap_err();
            assert!(error.to_string().contains(&len.to_string()), "{error}");
        }
    }
}
