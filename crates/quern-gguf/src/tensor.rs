//! Tensor types, as sizes, and the entry of one tensor in the directory.
//!
//! A type stores values in blocks of `block_len` consecutive values of one row, `bytes_per_block` bytes each.
//! What the bytes mean is not known here.

use std::fmt;

macro_rules! tensor_types {
    ($($variant:ident = $id:literal, $name:literal, $block_len:literal, $bytes:literal;)*) => {
        /// How the values of a tensor are stored.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum TensorType {
            $(
                #[doc = concat!("`", $name, "`: ", $bytes, " bytes for ", $block_len, " values.")]
                $variant,
            )*
        }

        impl TensorType {
            /// Every type, by ascending id.
            pub const ALL: &[TensorType] = &[$(TensorType::$variant),*];

            /// The type that a file means by `id`.
            pub fn from_id(id: u32) -> Option<Self> {
                match id {
                    $($id => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The number that stands for the type in files.
            pub fn id(self) -> u32 {
                match self {
                    $(Self::$variant => $id,)*
                }
            }

            /// The name as ggml prints it: `Q4_K`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Values in a block.
            pub const fn block_len(self) -> u64 {
                match self {
                    $(Self::$variant => $block_len,)*
                }
            }

            /// Bytes that a block takes.
            pub const fn bytes_per_block(self) -> u64 {
                match self {
                    $(Self::$variant => $bytes,)*
                }
            }
        }
    };
}

// Ids 4, 5, 31 to 33 and 36 to 38 belonged to types that ggml has removed.
tensor_types! {
    F32 = 0, "F32", 1, 4;
    F16 = 1, "F16", 1, 2;
    Q4_0 = 2, "Q4_0", 32, 18;
    Q4_1 = 3, "Q4_1", 32, 20;
    Q5_0 = 6, "Q5_0", 32, 22;
    Q5_1 = 7, "Q5_1", 32, 24;
    Q8_0 = 8, "Q8_0", 32, 34;
    Q8_1 = 9, "Q8_1", 32, 36;
    Q2K = 10, "Q2_K", 256, 84;
    Q3K = 11, "Q3_K", 256, 110;
    Q4K = 12, "Q4_K", 256, 144;
    Q5K = 13, "Q5_K", 256, 176;
    Q6K = 14, "Q6_K", 256, 210;
    Q8K = 15, "Q8_K", 256, 292;
    IQ2XXS = 16, "IQ2_XXS", 256, 66;
    IQ2XS = 17, "IQ2_XS", 256, 74;
    IQ3XXS = 18, "IQ3_XXS", 256, 98;
    IQ1S = 19, "IQ1_S", 256, 50;
    IQ4NL = 20, "IQ4_NL", 32, 18;
    IQ3S = 21, "IQ3_S", 256, 110;
    IQ2S = 22, "IQ2_S", 256, 82;
    IQ4XS = 23, "IQ4_XS", 256, 136;
    I8 = 24, "I8", 1, 1;
    I16 = 25, "I16", 1, 2;
    I32 = 26, "I32", 1, 4;
    I64 = 27, "I64", 1, 8;
    F64 = 28, "F64", 1, 8;
    IQ1M = 29, "IQ1_M", 256, 56;
    BF16 = 30, "BF16", 1, 2;
    TQ1_0 = 34, "TQ1_0", 256, 54;
    TQ2_0 = 35, "TQ2_0", 256, 66;
    MXFP4 = 39, "MXFP4", 32, 17;
    NVFP4 = 40, "NVFP4", 64, 36;
}

impl TensorType {
    /// The type that [`TensorType::name`] calls `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|ty| ty.name() == name)
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One tensor of a file: name, shape, type, and where its bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Unique in the container.
    pub name: String,
    /// One to four dimensions in GGUF order: `dims[0]` is the row length, the direction of consecutive values.
    pub dims: Vec<u64>,
    /// How the values are stored.
    pub ty: TensorType,
    /// Distance of the first byte from the start of the file that holds it, or of the memory.
    pub offset: u64,
    /// Bytes that all values together take.
    pub n_bytes: u64,
    /// Which of the container's parts holds the bytes.
    pub(crate) part: u32,
}

impl TensorInfo {
    /// Values in the tensor.
    pub fn n_elements(&self) -> u64 {
        self.dims.iter().product()
    }

    /// Values in a row.
    pub fn row_len(&self) -> u64 {
        self.dims[0]
    }

    /// Rows in the tensor.
    pub fn n_rows(&self) -> u64 {
        self.dims[1..].iter().product()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table as the `gguf` Python package has it: `id name values-per-block bytes-per-block` a line.
    const PUBLISHED: &str = include_str!("../tests/fixtures/tensor_types.txt");

    /// Types that the package knows and this reader refuses by id.
    const NOT_READ: [&str; 1] = ["Q1_0"];

    /// The package still counts two `f32` scales a block here. ggml itself (`block_q8_1` in `ggml-common.h`, held
    /// by a static assertion) has two halves, so 4 + 32 bytes.
    const STALE: (&str, u64, u64) = ("Q8_1", 40, 36);

    #[test]
    fn the_table_is_the_published_one() {
        let rows: Vec<_> = PUBLISHED.lines().filter(|line| !line.starts_with('#')).collect();
        let mut seen = 0;
        for row in rows {
            let fields: Vec<&str> = row.split(' ').collect();
            let (id, name): (u32, _) = (fields[0].parse().unwrap(), fields[1]);
            let (block_len, bytes): (u64, u64) = (fields[2].parse().unwrap(), fields[3].parse().unwrap());
            let Some(ty) = TensorType::from_id(id) else {
                assert!(NOT_READ.contains(&name), "{name} is missing");
                continue;
            };
            let bytes = if (name, bytes) == (STALE.0, STALE.1) { STALE.2 } else { bytes };
            seen += 1;
            assert_eq!((ty.id(), ty.name()), (id, name));
            assert_eq!((ty.block_len(), ty.bytes_per_block()), (block_len, bytes), "{name}");
            assert_eq!(TensorType::from_name(name), Some(ty));
        }
        assert_eq!(seen, TensorType::ALL.len());
    }

    #[test]
    fn removed_and_unknown_ids_are_no_types() {
        for id in [4, 5, 31, 32, 33, 36, 37, 38, 43, u32::MAX] {
            assert_eq!(TensorType::from_id(id), None);
        }
        assert_eq!(TensorType::from_name("Q4_KK"), None);
    }

    #[test]
    fn rows_are_counted_without_the_first_dimension() {
        let info = TensorInfo {
            name: "x".to_owned(),
            dims: vec![8, 3, 2],
            ty: TensorType::F32,
            offset: 0,
            n_bytes: 192,
            part: 0,
        };
        assert_eq!((info.n_elements(), info.row_len(), info.n_rows()), (48, 8, 6));
    }
}
