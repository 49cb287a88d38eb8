//! Hints about memory ranges, mostly mapped model files: read ahead, and let go of what has been copied.
//!
//! Hints work on whole pages. Reading hints reach outwards to the pages that the range touches; releasing reaches
//! inwards, so that a neighbour's page is never dropped. Where the system has no such call, hints do nothing.
#![allow(unsafe_code)]

use crate::PlatformError;

/// Says that a range will be read once, front to back.
///
/// # Errors
/// [`PlatformError::Advice`] where the system refuses; the range can be used all the same.
pub fn advise_sequential(range: &[u8]) -> Result<(), PlatformError> {
    imp::advise(range, imp::Hint::Sequential)
        .map_err(|source| PlatformError::Advice { bytes: range.len(), source })
}

/// Says that a range will be needed soon, so that reading it in may start now.
///
/// # Errors
/// [`PlatformError::Advice`] where the system refuses; the range can be used all the same.
pub fn advise_willneed(range: &[u8]) -> Result<(), PlatformError> {
    imp::advise(range, imp::Hint::WillNeed)
        .map_err(|source| PlatformError::Advice { bytes: range.len(), source })
}

/// Takes the whole pages inside a mapped-file range out of this process's memory and returns how many bytes that is.
/// The content stays what it was: a later read brings the page back from the file. Returns 0 where the system cannot
/// show that this is so (anything but Linux with `/proc`).
///
/// The call checks with the kernel that every page is backed by a file (or shared), because dropping a private page
/// would turn it into zeros.
///
/// # Errors
/// [`PlatformError::NotFileBacked`] where some page is private memory; nothing is released then.
/// [`PlatformError::Advice`] where the system refuses.
pub fn release_pages(range: &[u8]) -> Result<usize, PlatformError> {
    imp::release(range)
}

#[cfg(unix)]
mod imp {
    use crate::PlatformError;
    use std::io;

    #[derive(Clone, Copy)]
    pub(super) enum Hint {
        Sequential,
        WillNeed,
    }

    pub(super) fn advise(range: &[u8], hint: Hint) -> io::Result<()> {
        let advice = match hint {
            Hint::Sequential => libc::MADV_SEQUENTIAL,
            Hint::WillNeed => libc::MADV_WILLNEED,
        };
        let start = range.as_ptr().addr() / page_size() * page_size();
        let len = range.as_ptr().addr() + range.len() - start;
        if range.is_empty() {
            return Ok(());
        }
        // SAFETY: neither hint changes any content, whatever is mapped there; the kernel checks the range itself.
        let rc = unsafe { libc::madvise(std::ptr::without_provenance_mut(start), len, advice) };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    pub(super) fn page_size() -> usize {
        // SAFETY: sysconf only returns a number.
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
    }

    /// The whole pages inside the range, as page numbers.
    #[cfg(target_os = "linux")]
    fn pages_inside(range: &[u8]) -> std::ops::Range<usize> {
        let start = range.as_ptr().addr();
        start.div_ceil(page_size())..(start + range.len()) / page_size()
    }

    #[cfg(target_os = "linux")]
    pub(super) fn release(range: &[u8]) -> Result<usize, PlatformError> {
        let pages = pages_inside(range);
        if pages.is_empty() {
            return Ok(0);
        }
        match all_file_backed(pages.clone()) {
            Ok(true) => {}
            Ok(false) => return Err(PlatformError::NotFileBacked { bytes: range.len() }),
            Err(_) => return Ok(0),
        }
        let (start, len) = (pages.start * page_size(), pages.len() * page_size());
        // SAFETY: the pages lie inside a borrowed slice, so they are mapped and nobody writes them, and the kernel has
        // just said that each is a file page, a shared page or not present: dropping them changes no content.
        let rc = unsafe { libc::madvise(std::ptr::without_provenance_mut(start), len, libc::MADV_DONTNEED) };
        if rc == 0 {
            Ok(len)
        } else {
            Err(PlatformError::Advice { bytes: range.len(), source: io::Error::last_os_error() })
        }
    }

    /// Reads `/proc/self/pagemap`: one u64 per page, bit 63 present, bit 62 swapped, bit 61 file page or shared.
    #[cfg(target_os = "linux")]
    fn all_file_backed(pages: std::ops::Range<usize>) -> io::Result<bool> {
        use std::os::unix::fs::FileExt;

        const ENTRY: usize = size_of::<u64>();
        const BATCH: usize = 4096;
        let map = std::fs::File::open("/proc/self/pagemap")?;
        let mut buffer = vec![0u8; BATCH.min(pages.len()) * ENTRY];
        for first in pages.clone().step_by(BATCH) {
            let bytes = &mut buffer[..BATCH.min(pages.end - first) * ENTRY];
            map.read_exact_at(bytes, (first * ENTRY) as u64)?;
            let (entries, _) = bytes.as_chunks::<ENTRY>();
            let safe = |entry: &[u8; ENTRY]| {
                let entry = u64::from_ne_bytes(*entry);
                let (present, swapped, file) =
                    (entry >> 63 & 1 == 1, entry >> 62 & 1 == 1, entry >> 61 & 1 == 1);
                file || !(present || swapped)
            };
            if !entries.iter().all(safe) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn release(_range: &[u8]) -> Result<usize, PlatformError> {
        Ok(0)
    }
}

#[cfg(not(unix))]
mod imp {
    use crate::PlatformError;
    use std::io;

    #[derive(Clone, Copy)]
    pub(super) enum Hint {
        Sequential,
        WillNeed,
    }

    pub(super) fn advise(_range: &[u8], _hint: Hint) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn release(_range: &[u8]) -> Result<usize, PlatformError> {
        Ok(0)
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use crate::AlignedBytes;
    use std::os::fd::AsRawFd;

    /// A private read-only map of a file of `len` bytes of 7.
    struct Mapped {
        ptr: *mut libc::c_void,
        len: usize,
    }

    impl Mapped {
        fn new(len: usize) -> Mapped {
            let mut file = tempfile::tempfile().unwrap();
            std::io::Write::write_all(&mut file, &vec![7; len]).unwrap();
            // SAFETY: a fresh mapping of a file that nobody else knows.
            let ptr = unsafe {
                libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0)
            };
            assert_ne!(ptr, libc::MAP_FAILED);
            Mapped { ptr, len }
        }

        fn bytes(&self) -> &[u8] {
            // SAFETY: the mapping is `len` readable bytes until drop.
            unsafe { std::slice::from_raw_parts(self.ptr.cast(), self.len) }
        }

        fn resident_pages(&self) -> usize {
            let mut smap = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let at = smap.find(&format!("{:x}-", self.ptr.addr())).expect("the map is listed");
            smap.drain(..at);
            let rss = smap.lines().find_map(|l| l.strip_prefix("Rss:")).unwrap();
            rss.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024 / imp::page_size()
        }
    }

    impl Drop for Mapped {
        fn drop(&mut self) {
            // SAFETY: the mapping is ours and no borrow of it is left.
            unsafe { libc::munmap(self.ptr, self.len) };
        }
    }

    #[test]
    fn releasing_file_pages_keeps_the_content() {
        let page = imp::page_size();
        let map = Mapped::new(8 * page);
        let sum = |m: &Mapped| m.bytes().iter().map(|&b| usize::from(b)).sum::<usize>();
        assert_eq!(sum(&map), 7 * 8 * page);
        assert_eq!(map.resident_pages(), 8);
        // Two pages are touched only in part and stay.
        assert_eq!(release_pages(&map.bytes()[1..8 * page - 1]).unwrap(), 6 * page);
        assert_eq!(map.resident_pages(), 2);
        assert_eq!(sum(&map), 7 * 8 * page);
    }

    #[test]
    fn private_memory_is_refused_and_kept() {
        let mut bytes = AlignedBytes::zeroed(4 << 20).unwrap();
        bytes.as_mut_slice().fill(9);
        assert!(matches!(release_pages(bytes.as_slice()), Err(PlatformError::NotFileBacked { .. })));
        assert!(bytes.as_slice().iter().all(|&b| b == 9));
    }

    #[test]
    fn ranges_smaller_than_a_page_release_nothing() {
        let map = Mapped::new(2 * imp::page_size());
        assert_eq!(release_pages(&map.bytes()[..imp::page_size() - 1]).unwrap(), 0);
        assert_eq!(release_pages(&map.bytes()[1..imp::page_size() + 1]).unwrap(), 0);
        assert_eq!(release_pages(&[]).unwrap(), 0);
    }

    #[test]
    fn reading_hints_accept_any_range() {
        let map = Mapped::new(3 * imp::page_size());
        for range in [map.bytes(), &map.bytes()[5..6], &map.bytes()[..0], &[]] {
            advise_sequential(range).unwrap();
            advise_willneed(range).unwrap();
        }
        assert!(map.bytes().iter().all(|&b| b == 7));
    }
}
