//! [`Gguf`]: metadata, a tensor directory, and the bytes behind it, wherever they lie.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::directory::{self, Directory};
use crate::error::{Fault, GgufError};
use crate::limits::Limits;
use crate::map::Bytes;
use crate::metadata::Metadata;
use crate::parse::{self, Parsed};
use crate::shared::SharedBytes;
use crate::split;
use crate::tensor::{TensorInfo, TensorType};

/// The path reported by a [`Gguf`] that was made from bytes in memory.
pub(crate) const MEMORY: &str = "(memory)";

/// The version of a container that no file gives one.
const ASSEMBLED_VERSION: u32 = 3;

/// An open GGUF container: its metadata, its tensor directory and a view of the tensors' bytes. It comes from one
/// file, from the files of a split set, or [from parts](Gguf::assemble).
#[derive(Debug)]
pub struct Gguf {
    path: PathBuf,
    /// What [`TensorInfo::part`] counts: the files of a set, or whatever an assembled container's tensors lie in.
    parts: Vec<Arc<Bytes>>,
    parsed: Parsed,
}

/// A tensor for [`Gguf::assemble`].
#[derive(Debug, Clone)]
pub struct AssembledTensor {
    /// Unique in the container.
    pub name: String,
    /// One to four dimensions in GGUF order: the row length first.
    pub dims: Vec<u64>,
    /// How the values are stored.
    pub ty: TensorType,
    /// Exactly the bytes that the shape takes.
    pub bytes: SharedBytes,
}

impl Gguf {
    /// Maps the file and checks all of its header. A file `NAME-00002-of-00003.gguf`, any part of a split set, opens
    /// the whole set: the files of that name beside it.
    pub fn open(path: impl AsRef<Path>) -> Result<Gguf, GgufError> {
        Self::open_with(path, &Limits::DEFAULT)
    }

    /// [`Gguf::open`] under other limits than the default ones. Of a split set, each file keeps to them, and so do
    /// the tensors of all files together.
    pub fn open_with(path: impl AsRef<Path>, limits: &Limits) -> Result<Gguf, GgufError> {
        let path = path.as_ref();
        let (parts, parsed) = split::open(path, limits)?;
        Ok(Gguf { path: path.to_path_buf(), parts, parsed })
    }

    /// Reads a file that is already in memory, through the same checks.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Gguf, GgufError> {
        Self::from_bytes_with(bytes, &Limits::DEFAULT)
    }

    /// [`Gguf::from_bytes`] under other limits than the default ones.
    pub fn from_bytes_with(bytes: Vec<u8>, limits: &Limits) -> Result<Gguf, GgufError> {
        let path = PathBuf::from(MEMORY);
        let parsed = parse::parse(&bytes, bytes.len() as u64, &path, limits)
            .and_then(|parsed| split::refuse_part(&parsed.metadata).map(|()| parsed));
        match parsed {
            Ok(parsed) => Ok(Gguf { path, parts: vec![Arc::new(Bytes::Owned(bytes))], parsed }),
            Err(fault) => Err(fault.in_file(path)),
        }
    }

    /// A container from metadata and tensors, whose bytes are memory or ranges of mapped files: nothing is copied.
    /// `path` is what the container reports as its own, and what messages name.
    ///
    /// Names and sizes are checked as those of a file are. [`Gguf::version`] is 3.
    ///
    /// # Errors
    /// [`Fault`]s that name the tensor or key: one that occurs twice, a shape that cannot be, bytes that are fewer
    /// or more than the shape takes, more tensors than [`Limits::DEFAULT`] allows.
    pub fn assemble(
        path: impl Into<PathBuf>,
        metadata: Metadata,
        tensors: Vec<AssembledTensor>,
    ) -> Result<Gguf, GgufError> {
        let path = path.into();
        let metadata = metadata.at(&path);
        match assemble(metadata, tensors, &Limits::DEFAULT) {
            Ok((parts, parsed)) => Ok(Gguf { path, parts, parsed }),
            Err(fault) => Err(fault.in_file(path)),
        }
    }

    /// Where the container was opened, for a split set the part that was named; `(memory)` if it never was a file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The files that hold the tensors, each once: one, or all those of a set, in the set's order. None for memory.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().filter_map(|part| part.path())
    }

    /// The container's version: 2 or 3. The two differ in no way that a reader of little-endian files can see.
    pub fn version(&self) -> u32 {
        self.parsed.version
    }

    /// What every tensor's distance from the start of the data section is a multiple of, in a file of its own or
    /// the first of a set.
    pub fn alignment(&self) -> u64 {
        self.parsed.alignment
    }

    /// Length in bytes of the file, or of all files and memory that the tensors lie in.
    pub fn file_len(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }

    /// The metadata, in file order; of a split set, the first part's.
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

    /// The bytes of one of this container's tensors, as they lie in the file.
    ///
    /// Their address is aligned as the file's alignment and the map make it, and to nothing for memory and
    /// safetensors: read multi-byte values with the `from_le_bytes` functions or unaligned loads.
    ///
    /// # Panics
    /// If `tensor` comes from another container and is not inside this one.
    pub fn data(&self, tensor: &TensorInfo) -> &[u8] {
        let start = tensor.offset as usize;
        &self.parts[tensor.part as usize][start..start + tensor.n_bytes as usize]
    }

    /// A handle to the bytes of one of this container's tensors that outlives the container; nothing is copied.
    ///
    /// # Panics
    /// As [`Gguf::data`].
    pub fn shared(&self, tensor: &TensorInfo) -> SharedBytes {
        let part = &self.parts[tensor.part as usize];
        let start = tensor.offset as usize;
        SharedBytes::range(part, start..start + tensor.n_bytes as usize)
    }

    /// Whether the bytes of one of this container's tensors are those of a mapped file, whose pages the system can
    /// drop and read again. Memory must never be dropped so.
    ///
    /// # Panics
    /// If `tensor` comes from a container of more parts.
    pub fn is_mapped(&self, tensor: &TensorInfo) -> bool {
        self.parts[tensor.part as usize].path().is_some()
    }
}

fn assemble(
    metadata: Metadata,
    tensors: Vec<AssembledTensor>,
    limits: &Limits,
) -> Result<(Vec<Arc<Bytes>>, Parsed), Fault> {
    split::refuse_part(&metadata)?;
    let alignment = parse::alignment(&metadata, limits)?;
    directory::check_count(tensors.len() as u64, limits)?;
    let mut parts: Vec<Arc<Bytes>> = Vec::new();
    let mut part_of: HashMap<*const Bytes, u32> = HashMap::new();
    let mut infos = Vec::with_capacity(tensors.len());
    for (i, AssembledTensor { name, dims, ty, bytes }) in tensors.into_iter().enumerate() {
        directory::check_name(&name, i as u64, limits)?;
        let n_bytes = match directory::size_of(&dims, ty, Some(bytes.len() as u64)) {
            Ok(n_bytes) => n_bytes,
            Err(fault) => return Err(Fault::Tensor { name, fault }),
        };
        let offset = bytes.start as u64;
        let part = *part_of.entry(Arc::as_ptr(&bytes.bytes)).or_insert_with(|| {
            parts.push(bytes.bytes);
            (parts.len() - 1) as u32
        });
        infos.push(TensorInfo { name, dims, ty, offset, n_bytes, part });
    }
    let directory = Directory::new(infos)?;
    Ok((parts, Parsed { version: ASSEMBLED_VERSION, alignment, metadata, directory }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_can_be_shared_between_threads() {
        fn shareable<T: Send + Sync>() {}
        shareable::<Gguf>();
        shareable::<GgufError>();
        shareable::<SharedBytes>();
    }
}
