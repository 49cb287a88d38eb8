//! Why a file is refused, in sentences.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::safetensors::{Dtype, SafetensorsFault};
use crate::tensor::TensorType;
use crate::text::quote;

/// Why a GGUF file could not be opened, or one of its metadata values not be read as asked.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    /// The operating system refused.
    #[error("{}: cannot {action} the file: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What could not be done to it: `open`, `map`, `write` and the like.
        action: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// The file holds what it should not, or lacks what it should hold.
    #[error("{}: {fault}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: Box<Fault>,
    },
}

impl GgufError {
    /// What is wrong with the file, if it could be read at all.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            GgufError::Io { .. } => None,
            GgufError::File { fault, .. } => Some(fault),
        }
    }
}

/// What is wrong with a file. Strings that come from the file are kept as they are and printed escaped.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Fault {
    #[error("this is a directory: name the .gguf file in it")]
    Directory,
    #[error("this is not a regular file, so it cannot be mapped")]
    NotRegular,
    #[error("the file is empty: download it again")]
    Empty,
    #[error("this is not a GGUF file: it {looks_like}")]
    NotGguf { looks_like: String },
    #[error(
        "this is a big-endian GGUF file (version {version}), and only little-endian ones are read: \
         convert it with gguf_convert_endian.py from llama.cpp"
    )]
    BigEndian { version: u32 },
    #[error("GGUF version 1 was replaced in 2023 and is not read: convert the model again")]
    Version1,
    #[error("GGUF version {version} is unknown: versions 2 and 3 are read")]
    UnknownVersion { version: u32 },

    #[error(
        "the file ends inside {what}: {needed} bytes are needed at byte {at}, but the file is {file_len} bytes \
         long; it is truncated, download it again"
    )]
    Truncated { what: String, at: u64, needed: u64, file_len: u64 },
    #[error("the header reaches past the limit of {limit} bytes inside {what}")]
    HeaderTooLong { what: String, limit: u64 },
    #[error("the file declares {found} {what}, more than the limit of {limit}")]
    TooMany { what: &'static str, found: u64, limit: u64 },
    #[error("{what} is {found} bytes long, more than the limit of {limit}")]
    TooLong { what: String, found: u64, limit: u64 },
    #[error("{what} is empty")]
    EmptyName { what: String },
    #[error("{what} is not valid UTF-8: {}", quote(bytes))]
    NotUtf8 { what: String, bytes: Vec<u8> },

    #[error("metadata key {} occurs twice", quote(key))]
    DuplicateKey { key: String },
    #[error("metadata key {} has the unknown value type {id} (known are 0 to 12)", quote(key))]
    UnknownValueType { key: String, id: u32 },
    #[error("metadata key {} holds the byte {value} as a boolean: only 0 and 1 are", quote(key))]
    BadBool { key: String, value: u8 },
    #[error(
        "metadata key {} declares an array of {len} {element} values, which the {left} bytes left of the file \
         cannot hold: it is truncated or damaged, download it again",
        quote(key)
    )]
    ArrayTooLong { key: String, element: &'static str, len: u64, left: u64 },
    #[error("metadata key {} nests arrays deeper than {limit}", quote(key))]
    ArrayTooDeep { key: String, limit: u32 },

    #[error("metadata key {} is missing", quote(key))]
    MissingKey { key: String },
    #[error("metadata key {} is {found}, but {wanted} is needed", quote(key))]
    WrongType { key: String, wanted: &'static str, found: String },
    #[error("metadata key {} has {found} at index {index}, but {wanted} is needed", quote(key))]
    WrongElement { key: String, index: usize, found: String, wanted: &'static str },
    #[error("metadata key {} is {found}, but one value or an array of {wanted} values is needed", quote(key))]
    WrongLength { key: String, found: String, wanted: usize },

    #[error("metadata key \"general.alignment\" is {value}: a power of two from 1 to {limit} is needed")]
    Alignment { value: u64, limit: u64 },
    #[error(
        "this is part {part} of a model split into {count} files, by its key \"split.count\": open a set by the \
         path of any of its files, and leave the keys of a set out of a file that stands alone"
    )]
    SplitSet { part: u64, count: u64 },
    #[error("{}", part_name(*name, *inside))]
    PartName { name: Option<PartOf>, inside: Option<PartOf> },
    #[error(
        "{of} is missing{}: put all parts into one folder, or download it again",
        if *more > 0 { format!(" and {more} more") } else { String::new() }
    )]
    MissingPart { of: PartOf, more: usize },
    #[error(
        "this part declares {declared} tensors in the whole set, but its parts hold {total}: one is damaged or \
         belongs to another set, download them again"
    )]
    PartTensors { declared: u64, total: u64 },
    #[error(
        "metadata key {} is {found}, but the first part of the set {wanted}: this part belongs to another model",
        quote(key)
    )]
    PartMetadata { key: String, found: String, wanted: String },
    #[error(
        "tensor {} is in this part and in {} as well: one of them belongs to another set",
        quote(name),
        other.display()
    )]
    TensorInTwoParts { name: String, other: PathBuf },

    #[error(transparent)]
    Safetensors(#[from] SafetensorsFault),

    #[error("tensor {} occurs twice", quote(name))]
    DuplicateTensor { name: String },
    #[error("tensor {} {fault}", quote(name))]
    Tensor { name: String, fault: TensorFault },
}

impl Fault {
    pub(crate) fn in_file(self, path: impl Into<PathBuf>) -> GgufError {
        GgufError::File { path: path.into(), fault: Box::new(self) }
    }
}

/// Which file of a split set: `part` counts from 1 to `count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct PartOf {
    pub part: u64,
    pub count: u64,
}

impl fmt::Display for PartOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "part {} of {}", self.part, self.count)
    }
}

fn part_name(name: Option<PartOf>, inside: Option<PartOf>) -> String {
    match (name, inside) {
        (Some(name), Some(inside)) => format!(
            "by its name this is {name}, but its metadata says {inside}: it was renamed, or belongs to another set"
        ),
        (Some(name), None) => format!(
            "by its name this is {name}, but its metadata does not say that it is a part of a set: if it is a whole \
             model, give it a name without these numbers"
        ),
        (None, Some(PartOf { part, count })) => format!(
            "its metadata says that this is part {part} of {count}, and the others cannot be found without its \
             name: call it NAME-{part:05}-of-{count:05}.gguf as it was"
        ),
        (None, None) => unreachable!("a name and metadata that agree"),
    }
}

/// What is wrong with one tensor of a file.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum TensorFault {
    #[error("has {n} dimensions: 1 to 4 are possible")]
    DimCount { n: u32 },
    #[error("has the dimensions {dims:?}: none can be zero")]
    ZeroDim { dims: Vec<u64> },
    #[error("has the dimensions {dims:?}: its size overflows 64 bits")]
    TooLarge { dims: Vec<u64> },
    #[error("has the unknown type {id}: this version cannot read it")]
    UnknownType { id: u32 },
    #[error("has rows of {row_len} values, but {ty} stores them in blocks of {}", ty.block_len())]
    PartialBlock { row_len: u64, ty: TensorType },
    #[error("takes {needed} bytes, but {found} were given")]
    WrongSize { needed: u64, found: u64 },
    #[error("is stored as {dtype}, for which there is no tensor type here: convert the model to BF16")]
    NoTensorType { dtype: Dtype },
    #[error("has the unknown type {}: this version cannot read it", quote(name))]
    UnknownDtype { name: String },
    #[error("has {n} dimensions, more than the limit of {limit}")]
    Rank { n: usize, limit: usize },
    #[error(
        "has the shape {shape:?}: its values of {dtype} are no whole number of bytes, or overflow 64 bits"
    )]
    NoSize { shape: Vec<u64>, dtype: Dtype },
    #[error("lies from byte {start} of the data to byte {end}, which is before it")]
    Backwards { start: u64, end: u64 },
    #[error("starts at byte {start}, where byte {due} was due: the format leaves no gaps")]
    Hole { start: u64, due: u64 },
    #[error("takes {needed} bytes, but its source gives more")]
    TooMuch { needed: u64 },
    #[error("could not be read from its source: {0}")]
    Source(io::Error),
    #[error("lies at offset {offset}, which is not a multiple of the file's alignment of {alignment}")]
    Misaligned { offset: u64, alignment: u64 },
    #[error("ends at byte {end}, but the file is {file_len} bytes long: it is truncated, download it again")]
    PastEnd { end: u64, file_len: u64 },
    #[error("starts at byte {start}, inside tensor {}, which ends at byte {other_end}", quote(other))]
    Overlap { start: u64, other: String, other_end: u64 },
    #[error(
        "starts at byte {start}, {} bytes after the end of {after}: that is more than padding, so the file \
         stores {ty} in a layout that is not known here",
        start - end
    )]
    Gap { start: u64, end: u64, after: String, ty: TensorType },
}
