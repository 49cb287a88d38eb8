//! What a file may ask for.

/// Upper bounds on everything that a file declares about itself. Lengths are checked against the bytes left in
/// the file as well, whichever is smaller; these bounds are what remains when a hostile file is also large.
///
/// Memory use follows: the header is copied once, so a load stays below [`header_bytes`](Self::header_bytes)
/// plus about 120 bytes per key, tensor and nested array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes from the start of the file to the end of the tensor directory. The largest vocabularies in use
    /// take about 16 MB. Values above 4 GiB act as 4 GiB.
    pub header_bytes: u64,
    /// Metadata keys.
    pub keys: u64,
    /// Tensors. Mixtures of experts that keep each expert apart come to about 60,000.
    pub tensors: u64,
    /// Bytes in a metadata key: what the GGUF specification allows.
    pub key_len: u64,
    /// Bytes in a tensor's name. The specification allows 64; some writers exceed it.
    pub name_len: u64,
    /// Bytes in one string value. Chat templates, the longest in use, stay below 100 KB.
    pub string_len: u64,
    /// Arrays that lie inside arrays, counted over the whole file.
    pub nested_arrays: u64,
    /// How deep arrays may nest; an array of numbers has depth 1.
    pub array_depth: u32,
    /// The largest `general.alignment`.
    pub alignment: u64,
}

impl Limits {
    /// The limits of [`Gguf::open`](crate::Gguf::open).
    pub const DEFAULT: Limits = Limits {
        header_bytes: 256 << 20,
        keys: 1 << 16,
        tensors: 1 << 18,
        key_len: (1 << 16) - 1,
        name_len: 1 << 10,
        string_len: 16 << 20,
        nested_arrays: 1 << 16,
        array_depth: 4,
        alignment: 64 << 10,
    };

    /// Dimensions of a tensor: part of the format, so not adjustable.
    pub const DIMS: u32 = 4;
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
