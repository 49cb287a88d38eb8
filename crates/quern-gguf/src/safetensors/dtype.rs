//! The number types of safetensors files.

use std::fmt;

use crate::tensor::TensorType;

macro_rules! dtypes {
    ($($variant:ident = $name:literal, $bits:literal, $ty:expr;)*) => {
        /// How a safetensors file stores the values of a tensor: every type that the format's publisher lists.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(non_camel_case_types)]
        pub enum Dtype {
            $(#[doc = concat!("`", $name, "`: ", $bits, " bits a value.")] $variant,)*
        }

        impl Dtype {
            /// Every type.
            pub const ALL: &[Dtype] = &[$(Dtype::$variant),*];

            /// The name in files.
            pub fn name(self) -> &'static str {
                match self {
                    $(Dtype::$variant => $name,)*
                }
            }

            /// Bits that a value takes.
            pub fn bits(self) -> u64 {
                match self {
                    $(Dtype::$variant => $bits,)*
                }
            }

            /// The type of GGUF that stores values in the same bytes, if there is one.
            pub fn tensor_type(self) -> Option<TensorType> {
                match self {
                    $(Dtype::$variant => $ty,)*
                }
            }
        }
    };
}

dtypes! {
    Bool = "BOOL", 8, None;
    F4 = "F4", 4, None;
    F6_E2M3 = "F6_E2M3", 6, None;
    F6_E3M2 = "F6_E3M2", 6, None;
    U8 = "U8", 8, None;
    I8 = "I8", 8, Some(TensorType::I8);
    F8_E5M2 = "F8_E5M2", 8, None;
    F8_E4M3 = "F8_E4M3", 8, None;
    F8_E8M0 = "F8_E8M0", 8, None;
    F8_E4M3Fnuz = "F8_E4M3FNUZ", 8, None;
    F8_E5M2Fnuz = "F8_E5M2FNUZ", 8, None;
    I16 = "I16", 16, Some(TensorType::I16);
    U16 = "U16", 16, None;
    F16 = "F16", 16, Some(TensorType::F16);
    BF16 = "BF16", 16, Some(TensorType::BF16);
    I32 = "I32", 32, Some(TensorType::I32);
    U32 = "U32", 32, None;
    F32 = "F32", 32, Some(TensorType::F32);
    C64 = "C64", 64, None;
    F64 = "F64", 64, Some(TensorType::F64);
    I64 = "I64", 64, Some(TensorType::I64);
    U64 = "U64", 64, None;
}

impl Dtype {
    /// The type that [`Dtype::name`] calls `name`.
    pub fn from_name(name: &str) -> Option<Dtype> {
        Self::ALL.iter().copied().find(|dtype| dtype.name() == name)
    }

    /// Bytes that a tensor of that shape takes; `None` if they are not whole or overflow 64 bits.
    pub(crate) fn size(self, shape: &[u64]) -> Option<u64> {
        let n_elements = shape.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim))?;
        let bits = n_elements.checked_mul(self.bits())?;
        bits.is_multiple_of(8).then_some(bits / 8)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
