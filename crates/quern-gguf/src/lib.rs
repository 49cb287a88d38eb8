//! Reads GGUF files (versions 2 and 3, little-endian): every metadata type, and a tensor directory that is
//! checked in full before anyone sees it. [`GgufWriter`] writes version 3, and nothing that would not open again.
//!
//! A [`Gguf`] is a container: one file, a set of files that were split, or metadata and tensors that somebody
//! [assembled](Gguf::assemble). Files are mapped, not read: opening a model touches its header alone, and
//! [`Gguf::data`] hands out slices of the map. A file is untrusted input. Whatever it declares (counts, lengths,
//! offsets, shapes) is checked against [`Limits`] and against the bytes that are really there, so that after
//! [`Gguf::open`] a caller can rely on it: names are unique, every tensor lies inside its file, and no two overlap.
//! What does not hold is refused with a sentence that names the key or tensor; nothing is repaired.
//!
//! [`Safetensors`] reads the files of Hugging Face models in the same way, alone or with their index, and hands out
//! ranges of them from which a container can be assembled without a copy.
//!
//! Deliberately absent: arithmetic (the number formats are sizes here, no more), the meaning of any metadata
//! key beyond `general.alignment` and those that start with `split.`, and big-endian files.

mod container;
mod directory;
mod encode;
mod error;
mod limits;
mod map;
mod metadata;
mod parse;
mod reader;
mod safetensors;
mod shared;
mod sniff;
mod split;
mod tensor;
mod text;
mod value;
mod writer;

pub use container::{AssembledTensor, Gguf};
pub use error::{Fault, GgufError, PartOf, TensorFault};
pub use limits::Limits;
pub use metadata::Metadata;
pub use safetensors::{Dtype, SafeTensor, Safetensors, SafetensorsFault};
pub use shared::SharedBytes;
pub use tensor::{TensorInfo, TensorType};
pub use value::{Array, StringArray, Value, ValueType};
pub use writer::GgufWriter;
