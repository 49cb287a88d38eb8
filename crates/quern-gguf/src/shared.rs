//! Bytes that several owners hold: ranges of mapped files, or memory.

use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

use crate::map::Bytes;

/// A range of bytes, shared by reference count and read-only: a part of a mapped file, or memory. A clone is
/// another handle to the same bytes; a file stays mapped as long as one handle to any part of it lives.
///
/// Made from a `Vec<u8>`, or handed out by whoever mapped a file.
#[derive(Debug, Clone)]
pub struct SharedBytes {
    pub(crate) bytes: Arc<Bytes>,
    pub(crate) start: usize,
    len: usize,
}

impl SharedBytes {
    /// A range of the bytes; panics if it is not inside them.
    pub(crate) fn range(bytes: &Arc<Bytes>, range: Range<usize>) -> SharedBytes {
        assert!(range.start <= range.end && range.end <= bytes.len(), "{range:?} of {} bytes", bytes.len());
        SharedBytes { bytes: bytes.clone(), start: range.start, len: range.end - range.start }
    }

    /// Whether the bytes are those of a mapped file, whose pages the system can drop and read again.
    pub fn is_mapped(&self) -> bool {
        self.bytes.path().is_some()
    }

    /// The mapped file; `None` for memory.
    pub fn path(&self) -> Option<&Path> {
        self.bytes.path()
    }
}

impl From<Vec<u8>> for SharedBytes {
    fn from(bytes: Vec<u8>) -> SharedBytes {
        let len = bytes.len();
        SharedBytes { bytes: Arc::new(Bytes::Owned(bytes)), start: 0, len }
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}
