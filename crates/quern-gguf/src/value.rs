//! Metadata values, as the file types them.
//!
//! Nothing is converted here: a `u32` stays a `u32`. Reading a key as what a caller needs is the business of
//! [`Metadata`](crate::Metadata).

use std::fmt;

use crate::text::quote;

macro_rules! value_types {
    ($($variant:ident = $id:literal, $name:literal, $min_bytes:literal;)*) => {
        /// The type of a metadata value, or of the elements of an array.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ValueType {
            $(#[doc = concat!("`", $name, "`.")] $variant,)*
        }

        impl ValueType {
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

            /// The type's name, as messages print it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The fewest bytes that a value of the type takes in a file.
            pub(crate) fn min_bytes(self) -> u64 {
                match self {
                    $(Self::$variant => $min_bytes,)*
                }
            }
        }
    };
}

value_types! {
    U8 = 0, "u8", 1;
    I8 = 1, "i8", 1;
    U16 = 2, "u16", 2;
    I16 = 3, "i16", 2;
    U32 = 4, "u32", 4;
    I32 = 5, "i32", 4;
    F32 = 6, "f32", 4;
    Bool = 7, "bool", 1;
    Str = 8, "string", 8;
    Array = 9, "array", 12;
    U64 = 10, "u64", 8;
    I64 = 11, "i64", 8;
    F64 = 12, "f64", 8;
}

/// One metadata value.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    Str(String),
    Array(Array),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl Value {
    /// The type that the file gives the value.
    pub fn value_type(&self) -> ValueType {
        match self {
            Value::U8(_) => ValueType::U8,
            Value::I8(_) => ValueType::I8,
            Value::U16(_) => ValueType::U16,
            Value::I16(_) => ValueType::I16,
            Value::U32(_) => ValueType::U32,
            Value::I32(_) => ValueType::I32,
            Value::F32(_) => ValueType::F32,
            Value::Bool(_) => ValueType::Bool,
            Value::Str(_) => ValueType::Str,
            Value::Array(_) => ValueType::Array,
            Value::U64(_) => ValueType::U64,
            Value::I64(_) => ValueType::I64,
            Value::F64(_) => ValueType::F64,
        }
    }
}

/// Type and value, short and safe to print: `u32 30`, `the string "llama"`, `an array of 3 f32 values`.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.value_type().name();
        match self {
            Value::U8(v) => write!(f, "{name} {v}"),
            Value::I8(v) => write!(f, "{name} {v}"),
            Value::U16(v) => write!(f, "{name} {v}"),
            Value::I16(v) => write!(f, "{name} {v}"),
            Value::U32(v) => write!(f, "{name} {v}"),
            Value::I32(v) => write!(f, "{name} {v}"),
            Value::U64(v) => write!(f, "{name} {v}"),
            Value::I64(v) => write!(f, "{name} {v}"),
            Value::F32(v) => write!(f, "{name} {v:?}"),
            Value::F64(v) => write!(f, "{name} {v:?}"),
            Value::Bool(v) => write!(f, "{name} {v}"),
            Value::Str(v) => write!(f, "the string {}", quote(v)),
            Value::Array(v) => write!(f, "an array of {} {} values", v.len(), v.element_type().name()),
        }
    }
}

/// An array of values of one type.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    F32(Vec<f32>),
    Bool(Vec<bool>),
    Str(StringArray),
    /// Arrays in an array; each has an element type of its own.
    Array(Vec<Array>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
}

impl Array {
    /// Elements in the array.
    pub fn len(&self) -> usize {
        match self {
            Array::U8(v) => v.len(),
            Array::I8(v) => v.len(),
            Array::U16(v) => v.len(),
            Array::I16(v) => v.len(),
            Array::U32(v) => v.len(),
            Array::I32(v) => v.len(),
            Array::F32(v) => v.len(),
            Array::Bool(v) => v.len(),
            Array::Str(v) => v.len(),
            Array::Array(v) => v.len(),
            Array::U64(v) => v.len(),
            Array::I64(v) => v.len(),
            Array::F64(v) => v.len(),
        }
    }

    /// Whether the array has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type of the elements.
    pub fn element_type(&self) -> ValueType {
        match self {
            Array::U8(_) => ValueType::U8,
            Array::I8(_) => ValueType::I8,
            Array::U16(_) => ValueType::U16,
            Array::I16(_) => ValueType::I16,
            Array::U32(_) => ValueType::U32,
            Array::I32(_) => ValueType::I32,
            Array::F32(_) => ValueType::F32,
            Array::Bool(_) => ValueType::Bool,
            Array::Str(_) => ValueType::Str,
            Array::Array(_) => ValueType::Array,
            Array::U64(_) => ValueType::U64,
            Array::I64(_) => ValueType::I64,
            Array::F64(_) => ValueType::F64,
        }
    }

    /// Element `i`, if there is one and it is a number or a boolean.
    pub(crate) fn scalar(&self, i: usize) -> Option<Value> {
        match self {
            Array::U8(v) => v.get(i).copied().map(Value::U8),
            Array::I8(v) => v.get(i).copied().map(Value::I8),
            Array::U16(v) => v.get(i).copied().map(Value::U16),
            Array::I16(v) => v.get(i).copied().map(Value::I16),
            Array::U32(v) => v.get(i).copied().map(Value::U32),
            Array::I32(v) => v.get(i).copied().map(Value::I32),
            Array::F32(v) => v.get(i).copied().map(Value::F32),
            Array::Bool(v) => v.get(i).copied().map(Value::Bool),
            Array::U64(v) => v.get(i).copied().map(Value::U64),
            Array::I64(v) => v.get(i).copied().map(Value::I64),
            Array::F64(v) => v.get(i).copied().map(Value::F64),
            Array::Str(_) | Array::Array(_) => None,
        }
    }
}

/// Many strings in one piece of memory: vocabularies have hundreds of thousands.
///
/// Strings are kept as the file's bytes, because tokens of some published models are not valid UTF-8. Made from
/// any iterator over strings or bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StringArray {
    blob: Vec<u8>,
    /// Where each string ends in `blob`. Headers end below 4 GiB, so 32 bits are enough.
    ends: Vec<u32>,
}

impl StringArray {
    pub(crate) fn with_capacity(n: usize) -> StringArray {
        StringArray { blob: Vec::new(), ends: Vec::with_capacity(n) }
    }

    pub(crate) fn push(&mut self, string: &[u8]) {
        self.blob.extend_from_slice(string);
        self.ends.push(self.blob.len() as u32);
    }

    pub(crate) fn shrink(&mut self) {
        self.blob.shrink_to_fit();
    }

    /// Strings in the array.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the array has no strings.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The bytes of string `i`.
    ///
    /// # Panics
    /// If `i` is not below [`StringArray::len`].
    pub fn get(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.blob[start as usize..self.ends[i] as usize]
    }

    /// String `i` as text; `None` if it is not valid UTF-8.
    ///
    /// # Panics
    /// If `i` is not below [`StringArray::len`].
    pub fn get_str(&self, i: usize) -> Option<&str> {
        std::str::from_utf8(self.get(i)).ok()
    }

    /// The bytes of all strings, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|i| self.get(i))
    }
}

/// # Panics
/// If the strings take 4 GiB or more together: no file's header could hold them.
impl<S: AsRef<[u8]>> FromIterator<S> for StringArray {
    fn from_iter<I: IntoIterator<Item = S>>(strings: I) -> StringArray {
        let strings = strings.into_iter();
        let mut array = StringArray::with_capacity(strings.size_hint().0);
        for string in strings {
            array.push(string.as_ref());
            assert!(u32::try_from(array.blob.len()).is_ok(), "4 GiB of strings in one array");
        }
        array.shrink();
        array
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_come_back_as_they_went_in() {
        let strings: [&[u8]; 4] = [b"", b"ab", b"\xff\xfe", b""];
        let array: StringArray = strings.into_iter().collect();
        assert_eq!(array.iter().collect::<Vec<_>>(), strings);
        assert_eq!((array.len(), array.is_empty()), (4, false));
        assert_eq!((array.get_str(1), array.get_str(2)), (Some("ab"), None));
    }

    #[test]
    fn values_print_short() {
        assert_eq!(Value::U32(30).to_string(), "u32 30");
        assert_eq!(Value::F32(1e-6).to_string(), "f32 1e-6");
        assert_eq!(Value::Str("a\0".to_owned()).to_string(), "the string \"a\\0\"");
        assert_eq!(Value::Array(Array::I8(vec![1, 2])).to_string(), "an array of 2 i8 values");
    }
}
