//! Reads GGUF files (versions 2 and 3, little-endian): every metadata type, and a tensor directory that is
//! checked in full before anyone sees it. [`GgufWriter`] writes version 3, and nothing that would not open again.
//!
//! The file is mapped, not read: opening a model touches its header alone, and [`Gguf::data`] hands out slices
//! of the map. A file is untrusted input. Whatever it declares (counts, lengths, offsets, shapes) is checked
//! against [`Limits`] and against the bytes that are really there, so that after [`Gguf::open`] a caller can
//! rely on it: names are unique, every tensor lies inside the file, and no two overlap. What does not hold is
//! refused with a sentence that names the key or tensor; nothing is repaired.
//!
//! Deliberately absent: arithmetic (the number formats are sizes here, no more), the meaning of any metadata
//! key beyond `general.alignment` and `split.count`, big-endian files and split sets.

mod directory;
mod encode;
mod error;
mod limits;
mod map;
mod metadata;
mod parse;
mod reader;
mod sniff;
mod tensor;
mod text;
mod value;
mod writer;

use std::path::{Path, PathBuf};

pub use error::{Fault, GgufError, TensorFault};
pub use limits::Limits;
pub use metadata::Metadata;
pub use tensor::{TensorInfo, TensorType};
pub use value::{Array, StringArray, Value, ValueType};
pub use writer::GgufWriter;

use map::Bytes;
use parse::Parsed;

/// The path reported by a [`Gguf`] that was made from bytes in memory.
const MEMORY: &str = "(memory)";

/// An open GGUF file: its metadata, its tensor directory and a view of the tensors' bytes.
#[derive(Debug)]
pub struct Gguf {
    path: PathBuf,
    bytes: Bytes,
    parsed: Parsed,
}

impl Gguf {
    /// Maps the file and checks all of its header.
    pub fn open(path: impl AsRef<Path>) -> Result<Gguf, GgufError> {
        Self::open_with(path, &Limits::DEFAULT)
    }

    /// [`Gguf::open`] under other limits than the default ones.
    pub fn open_with(path: impl AsRef<Path>, limits: &Limits) -> Result<Gguf, GgufError> {
        let path = path.as_ref();
        Self::new(path.to_path_buf(), Bytes::map(path)?, limits)
    }

    /// Reads a file that is already in memory, through the same checks.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Gguf, GgufError> {
        Self::from_bytes_with(bytes, &Limits::DEFAULT)
    }

    /// [`Gguf::from_bytes`] under other limits than the default ones.
    pub fn from_bytes_with(bytes: Vec<u8>, limits: &Limits) -> Result<Gguf, GgufError> {
        Self::new(PathBuf::from(MEMORY), Bytes::Owned(bytes), limits)
    }

    fn new(path: PathBuf, bytes: Bytes, limits: &Limits) -> Result<Gguf, GgufError> {
        match parse::parse(&bytes, bytes.len() as u64, &path, limits) {
            Ok(parsed) => Ok(Gguf { path, bytes, parsed }),
            Err(fault) => Err(GgufError::File { path, fault: Box::new(fault) }),
        }
    }

    /// Where the file was opened; `(memory)` if it never was one.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The container's version: 2 or 3. The two differ in no way that a reader of little-endian files can see.
    pub fn version(&self) -> u32 {
        self.parsed.version
    }

    /// What every tensor's distance from the start of the data section is a multiple of.
    pub fn alignment(&self) -> u64 {
        self.parsed.alignment
    }

    /// Length of the file in bytes.
    pub fn file_len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The metadata, in file order.
    pub fn metadata(&self) -> &Metadata {
        &self.parsed.metadata
    }

    /// All tensors, in file order. A file that holds a vocabulary only has none.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.parsed.directory.tensors
    }

    /// The tensor of that name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.parsed.directory.find(name)
    }

    /// The bytes of one of this file's tensors, as they lie in the file.
    ///
    /// Their address is aligned as the file's alignment and the map make it, and to nothing for
    /// [`Gguf::from_bytes`]: read multi-byte values with the `from_le_bytes` functions or unaligned loads.
    ///
    /// # Panics
    /// If `tensor` comes from another file and reaches past the end of this one.
    pub fn data(&self, tensor: &TensorInfo) -> &[u8] {
        let start = tensor.offset as usize;
        &self.bytes[start..start + tensor.n_bytes as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_can_be_shared_between_threads() {
        fn shareable<T: Send + Sync>() {}
        shareable::<Gguf>();
        shareable::<GgufError>();
    }
}
