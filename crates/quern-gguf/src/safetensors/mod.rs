//! [`Safetensors`]: the tensors of a `.safetensors` file, or of all files of an index.

mod dtype;
mod error;
mod header;
mod index;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use dtype::Dtype;
pub use error::SafetensorsFault;

use crate::container::{AssembledTensor, MEMORY};
use crate::error::{Fault, GgufError, TensorFault};
use crate::limits::Limits;
use crate::map::Bytes;
use crate::shared::SharedBytes;
use crate::tensor::TensorType;
use crate::text::NameIndex;
use header::File;

const EXTENSION: &str = ".safetensors";
const INDEX_EXTENSION: &str = ".safetensors.index.json";
/// What a folder's model is called unless it has one of another name alone.
const STANDARD_NAME: &str = "model";

/// Open safetensors: tensors of one file, or of all files that an index lists, mapped and checked as [`Gguf`] files
/// are: names are unique, sizes are those of shape and type, and the tensors fill each file without overlap or gap.
///
/// [`Gguf`]: crate::Gguf
#[derive(Debug)]
pub struct Safetensors {
    path: PathBuf,
    files: Vec<PathBuf>,
    metadata: Vec<(String, String)>,
    tensors: Vec<SafeTensor>,
    names: NameIndex,
}

/// One tensor of a safetensors file.
#[derive(Debug, Clone)]
pub struct SafeTensor {
    /// Unique in the model.
    pub name: String,
    /// Dimensions as the file has them, outermost first: the last is the row length. A single value has none.
    pub shape: Vec<u64>,
    /// How the values are stored.
    pub dtype: Dtype,
    bytes: SharedBytes,
}

impl SafeTensor {
    /// The bytes of the values, row by row, little-endian: a range of the mapped file, aligned to nothing.
    pub fn bytes(&self) -> &SharedBytes {
        &self.bytes
    }

    /// The type of GGUF that stores the values in the same bytes.
    ///
    /// # Errors
    /// [`TensorFault::NoTensorType`] for a type that GGUF does not have, such as `F8_E4M3`.
    pub fn tensor_type(&self) -> Result<TensorType, GgufError> {
        self.dtype.tensor_type().ok_or_else(|| {
            let fault = TensorFault::NoTensorType { dtype: self.dtype };
            let path = self.bytes.path().unwrap_or(Path::new(MEMORY));
            Fault::Tensor { name: self.name.clone(), fault }.in_file(path)
        })
    }

    /// The tensor under another name for [`Gguf::assemble`](crate::Gguf::assemble): the same bytes, and the
    /// dimensions in GGUF's order.
    ///
    /// # Errors
    /// As [`SafeTensor::tensor_type`].
    pub fn assembled(&self, name: impl Into<String>) -> Result<AssembledTensor, GgufError> {
        let (ty, dims) = (self.tensor_type()?, self.shape.iter().rev().copied().collect());
        Ok(AssembledTensor { name: name.into(), dims, ty, bytes: self.bytes.clone() })
    }
}

impl Safetensors {
    /// Maps and checks a `.safetensors` file, all files of a `.safetensors.index.json`, or whichever of the two a
    /// folder holds. A file `NAME-00001-of-00003.safetensors` opens all files of the index beside it.
    ///
    /// In a folder, `model.safetensors` and `model.safetensors.index.json` go before other names; a folder with
    /// several models is refused.
    pub fn open(path: impl AsRef<Path>) -> Result<Safetensors, GgufError> {
        Self::open_with(path, &Limits::DEFAULT)
    }

    /// [`Safetensors::open`] under other limits than the default ones. A header's limit is also the index's.
    pub fn open_with(path: impl AsRef<Path>, limits: &Limits) -> Result<Safetensors, GgufError> {
        let path = path.as_ref();
        let found = if path.is_dir() { index::find_in(path)? } else { path.to_path_buf() };
        let (files, opened) = index::open(&found, limits)?;
        Safetensors::new(path.to_path_buf(), files, opened)
    }

    /// Reads a `.safetensors` file that is already in memory, through the same checks.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Safetensors, GgufError> {
        let path = PathBuf::from(MEMORY);
        match header::read(&Arc::new(Bytes::Owned(bytes)), &Limits::DEFAULT) {
            Ok(file) => Safetensors::new(path, Vec::new(), vec![file]),
            Err(fault) => Err(fault.in_file(path)),
        }
    }

    fn new(path: PathBuf, files: Vec<PathBuf>, opened: Vec<File>) -> Result<Safetensors, GgufError> {
        let (mut metadata, mut tensors) = (Vec::new(), Vec::new());
        for file in opened {
            metadata.extend(file.metadata);
            tensors.extend(file.tensors);
        }
        match NameIndex::new(tensors.len(), |i| &tensors[i].name) {
            Ok(names) => Ok(Safetensors { path, files, metadata, tensors, names }),
            Err(i) => Err(Fault::DuplicateTensor { name: tensors[i].name.clone() }.in_file(path)),
        }
    }

    /// What was opened: a file, an index or a folder; `(memory)` if it never was a file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The files that hold the tensors, by name. None for memory.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The free text of the files' headers (`__metadata__`), file by file: a key may occur in several files.
    pub fn metadata(&self) -> impl Iterator<Item = (&str, &str)> {
        self.metadata.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// All tensors, file by file in the order of the headers.
    pub fn tensors(&self) -> &[SafeTensor] {
        &self.tensors
    }

    /// The tensor of that name.
    pub fn tensor(&self, name: &str) -> Option<&SafeTensor> {
        self.names.find(name, |i| &self.tensors[i].name).map(|i| &self.tensors[i])
    }
}
