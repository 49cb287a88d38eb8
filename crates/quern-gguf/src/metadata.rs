//! Metadata by key, read as the type that the caller needs.
//!
//! Each getter comes twice: `opt_x` gives `None` if the key is absent, `x` refuses that. A key that is there
//! with a value of the wrong kind is always refused, never treated as absent: a default in its place would
//! change what the model computes. Writers disagree about integer widths, so any integer type is read as any
//! other that can hold the value, and either floating-point type as `f32`.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use crate::error::{Fault, GgufError};
use crate::text::NameIndex;
use crate::value::{Array, StringArray, Value};

/// The metadata of a file, in file order.
#[derive(Debug, Clone)]
pub struct Metadata {
    /// For messages.
    path: PathBuf,
    entries: Vec<(String, Value)>,
    names: NameIndex,
}

/// Two getters for one type: `$opt` reads with `$read`, `$plain` also refuses absence.
macro_rules! getters {
    ($($opt:ident, $plain:ident -> $t:ty, $what:literal, $read:expr;)*) => {
        $(
            #[doc = concat!("The value of `key` as ", $what, "; `None` if the key is absent.")]
            pub fn $opt(&self, key: &str) -> Result<Option<$t>, GgufError> {
                $read(self, key).map_err(|fault| self.refusal(fault))
            }

            #[doc = concat!("The value of `key` as ", $what, "; an error if the key is absent.")]
            pub fn $plain(&self, key: &str) -> Result<$t, GgufError> {
                self.$opt(key)?.ok_or_else(|| self.refusal(Fault::MissingKey { key: key.to_owned() }))
            }
        )*
    };
}

/// Getters for one layer of many.
macro_rules! indexed_getters {
    ($($name:ident -> $t:ty, $what:literal;)*) => {
        $(
            #[doc = concat!("The value of `key` for layer `index` of `n` as ", $what, "; `None` if the key is absent.")]
            ///
            /// The key holds either one value for all layers or an array of exactly `n` (R47).
            ///
            /// # Panics
            /// If `index` is not below `n`.
            pub fn $name(&self, key: &str, index: usize, n: usize) -> Result<Option<$t>, GgufError> {
                self.scalar_at(key, index, n).map_err(|fault| self.refusal(fault))
            }
        )*
    };
}

impl Metadata {
    /// Metadata in the given order; an error if a key occurs twice. `path` is what messages name as its file.
    pub fn from_entries(
        path: impl Into<PathBuf>,
        entries: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<Metadata, GgufError> {
        let path = path.into();
        let entries = entries.into_iter().collect();
        Self::new(entries, &path).map_err(|fault| fault.in_file(path))
    }

    pub(crate) fn new(entries: Vec<(String, Value)>, path: &Path) -> Result<Metadata, Fault> {
        match NameIndex::new(entries.len(), |i| &entries[i].0) {
            Ok(names) => Ok(Metadata { path: path.to_path_buf(), entries, names }),
            Err(i) => Err(Fault::DuplicateKey { key: entries[i].0.clone() }),
        }
    }

    /// The same, with another path in messages.
    pub(crate) fn at(self, path: &Path) -> Metadata {
        Metadata { path: path.to_path_buf(), ..self }
    }

    /// Keys in the file.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the file has no metadata.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All keys and values, in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The value of `key` as the file types it.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.names.find(key, |i| &self.entries[i].0).map(|i| &self.entries[i].1)
    }

    getters! {
        opt_str, str -> &str, "a string", Self::string;
        opt_u32, u32 -> u32, "a `u32`", Self::scalar;
        opt_u64, u64 -> u64, "a `u64`", Self::scalar;
        opt_i32, i32 -> i32, "an `i32`", Self::scalar;
        opt_f32, f32 -> f32, "an `f32`", Self::scalar;
        opt_bool, bool -> bool, "a boolean", Self::scalar;
        opt_strings, strings -> &StringArray, "an array of strings", Self::string_array;
        opt_u32s, u32s -> Cow<'_, [u32]>, "an array of `u32`", Self::scalars;
        opt_i32s, i32s -> Cow<'_, [i32]>, "an array of `i32`", Self::scalars;
        opt_f32s, f32s -> Cow<'_, [f32]>, "an array of `f32`", Self::scalars;
        opt_bools, bools -> Cow<'_, [bool]>, "an array of booleans", Self::scalars;
    }

    indexed_getters! {
        opt_u32_at -> u32, "a `u32`";
        opt_f32_at -> f32, "an `f32`";
        opt_bool_at -> bool, "a boolean";
    }

    fn refusal(&self, fault: Fault) -> GgufError {
        fault.in_file(&self.path)
    }

    fn string(&self, key: &str) -> Result<Option<&str>, Fault> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Str(string)) => Ok(Some(string)),
            Some(other) => Err(wrong_type(key, other, "a string")),
        }
    }

    fn string_array(&self, key: &str) -> Result<Option<&StringArray>, Fault> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(Array::Str(strings))) => Ok(Some(strings)),
            Some(other) => Err(wrong_type(key, other, "an array of strings")),
        }
    }

    pub(crate) fn scalar<T: Scalar>(&self, key: &str) -> Result<Option<T>, Fault> {
        let read = |value| T::from_value(value).ok_or_else(|| wrong_type(key, value, T::WANTED));
        self.get(key).map(read).transpose()
    }

    fn scalars<T: Scalar>(&self, key: &str) -> Result<Option<Cow<'_, [T]>>, Fault> {
        let array = match self.get(key) {
            None => return Ok(None),
            Some(Value::Array(array)) => array,
            Some(other) => return Err(wrong_type(key, other, "an array")),
        };
        if let Some(slice) = T::slice(array) {
            return Ok(Some(Cow::Borrowed(slice)));
        }
        let elements: Result<Vec<T>, Fault> = (0..array.len()).map(|i| element(key, array, i)).collect();
        elements.map(|elements| Some(Cow::Owned(elements)))
    }

    fn scalar_at<T: Scalar>(&self, key: &str, index: usize, n: usize) -> Result<Option<T>, Fault> {
        assert!(index < n, "index {index} of {n}");
        match self.get(key) {
            Some(Value::Array(array)) if array.len() == n => element(key, array, index).map(Some),
            Some(value @ Value::Array(_)) => {
                Err(Fault::WrongLength { key: key.to_owned(), found: value.to_string(), wanted: n })
            }
            _ => self.scalar(key),
        }
    }
}

fn wrong_type(key: &str, found: &Value, wanted: &'static str) -> Fault {
    Fault::WrongType { key: key.to_owned(), found: found.to_string(), wanted }
}

fn element<T: Scalar>(key: &str, array: &Array, index: usize) -> Result<T, Fault> {
    let value = array.scalar(index);
    value.as_ref().and_then(T::from_value).ok_or_else(|| Fault::WrongElement {
        key: key.to_owned(),
        index,
        found: value.map_or_else(|| array.element_type().name().to_owned(), |value| value.to_string()),
        wanted: T::WANTED,
    })
}

/// What a number or boolean of the file can be read as.
pub(crate) trait Scalar: Copy {
    /// For messages.
    const WANTED: &'static str;

    /// The value, if its type and size allow.
    fn from_value(value: &Value) -> Option<Self>;

    /// The elements as they are, if the array is of this very type.
    fn slice(array: &Array) -> Option<&[Self]>;
}

macro_rules! scalars {
    ($($t:ty, $variant:ident, $wanted:literal, $from:expr;)*) => {
        $(impl Scalar for $t {
            const WANTED: &'static str = $wanted;

            fn from_value(value: &Value) -> Option<Self> {
                $from(value)
            }

            fn slice(array: &Array) -> Option<&[Self]> {
                match array {
                    Array::$variant(elements) => Some(elements),
                    _ => None,
                }
            }
        })*
    };
}

scalars! {
    u32, U32, "an integer from 0 to 4294967295", integer;
    u64, U64, "an integer of at least 0", integer;
    i32, I32, "an integer of 32 bits", integer;
    f32, F32, "a floating-point number of 32 bits", float;
    bool, Bool, "a boolean", boolean;
}

fn integer<T: TryFrom<i128>>(value: &Value) -> Option<T> {
    let wide: i128 = match *value {
        Value::U8(v) => v.into(),
        Value::I8(v) => v.into(),
        Value::U16(v) => v.into(),
        Value::I16(v) => v.into(),
        Value::U32(v) => v.into(),
        Value::I32(v) => v.into(),
        Value::U64(v) => v.into(),
        Value::I64(v) => v.into(),
        Value::F32(_) | Value::F64(_) | Value::Bool(_) | Value::Str(_) | Value::Array(_) => return None,
    };
    T::try_from(wide).ok()
}

/// An `f64` is rounded to the nearest `f32`; one too large for that is refused rather than made infinite.
fn float(value: &Value) -> Option<f32> {
    match *value {
        Value::F32(v) => Some(v),
        Value::F64(v) => Some(v as f32).filter(|narrow| narrow.is_finite() || !v.is_finite()),
        _ => None,
    }
}

fn boolean(value: &Value) -> Option<bool> {
    match *value {
        Value::Bool(v) => Some(v),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(entries: Vec<(&str, Value)>) -> Metadata {
        let entries = entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Metadata::new(entries, Path::new("m.gguf")).unwrap()
    }

    fn said<T: std::fmt::Debug>(result: Result<T, GgufError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn any_integer_type_is_read_if_it_fits() {
        let all = metadata(vec![
            ("u8", Value::U8(200)),
            ("i16", Value::I16(7)),
            ("i64", Value::I64(u32::MAX.into())),
            ("big", Value::U64(1 << 32)),
            ("negative", Value::I32(-5)),
        ]);
        assert_eq!(all.u32("u8").unwrap(), 200);
        assert_eq!(all.u32("i16").unwrap(), 7);
        assert_eq!(all.opt_u32("i64").unwrap(), Some(u32::MAX));
        assert_eq!(all.u64("big").unwrap(), 1 << 32);
        assert_eq!(all.i32("negative").unwrap(), -5);
        assert_eq!(
            said(all.u32("big")),
            "m.gguf: metadata key \"big\" is u64 4294967296, but an integer from 0 to 4294967295 is needed"
        );
        // R44: a negative count is refused with its value, in the optional form as well.
        assert!(said(all.opt_u32("negative")).contains("\"negative\" is i32 -5, but an integer from 0"));
        assert!(said(all.u64("negative")).contains("i32 -5"));
    }

    #[test]
    fn absent_keys_are_none_or_refused() {
        let none = metadata(vec![]);
        assert_eq!(none.opt_str("a").unwrap(), None);
        assert_eq!(none.opt_u32_at("a", 0, 1).unwrap(), None);
        assert!(none.opt_f32s("a").unwrap().is_none());
        assert_eq!(said(none.str("a.b")), "m.gguf: metadata key \"a.b\" is missing");
    }

    #[test]
    fn a_value_of_another_kind_is_never_treated_as_absent() {
        let odd = metadata(vec![
            ("string", Value::Str("12".to_owned())),
            ("float", Value::F32(1.0)),
            ("int", Value::U8(1)),
            ("strings", Value::Array(Array::Str(StringArray::with_capacity(0)))),
        ]);
        assert!(said(odd.opt_u32("string")).contains("is the string \"12\""));
        assert!(said(odd.opt_u32("float")).contains("is f32 1.0"));
        assert!(said(odd.opt_f32("int")).contains("floating-point"));
        assert!(said(odd.opt_bool("int")).contains("a boolean"));
        assert!(said(odd.opt_str("int")).contains("a string"));
        assert!(said(odd.opt_strings("int")).contains("an array of strings"));
        assert!(said(odd.opt_f32s("float")).contains("an array"));
        // R47: an array where one value was expected is not 0.
        assert!(said(odd.opt_u32("strings")).contains("an array of 0 string values"));
    }

    #[test]
    fn floats_are_narrowed_but_never_to_infinity() {
        let floats = metadata(vec![
            ("f64", Value::F64(0.1)),
            ("huge", Value::F64(1e300)),
            ("infinite", Value::F64(f64::INFINITY)),
            ("array", Value::Array(Array::F64(vec![0.5, 1e300]))),
        ]);
        assert_eq!(floats.f32("f64").unwrap(), 0.1f32);
        assert_eq!(floats.f32("infinite").unwrap(), f32::INFINITY);
        assert!(said(floats.f32("huge")).contains("is f64 1e300"));
        assert!(said(floats.f32s("array")).contains("has f64 1e300 at index 1"));
    }

    #[test]
    fn arrays_are_borrowed_or_converted() {
        let arrays = metadata(vec![
            ("same", Value::Array(Array::I32(vec![1, -2]))),
            ("other", Value::Array(Array::U8(vec![1, 2]))),
            ("negative", Value::Array(Array::I64(vec![1, 2, -3]))),
            (
                "strings",
                Value::Array(Array::Str({
                    let mut strings = StringArray::with_capacity(1);
                    strings.push(b"x");
                    strings
                })),
            ),
        ]);
        assert!(matches!(arrays.i32s("same").unwrap(), Cow::Borrowed([1, -2])));
        assert_eq!(*arrays.i32s("other").unwrap(), [1, 2]);
        assert!(said(arrays.u32s("negative")).contains("has i64 -3 at index 2, but an integer from 0"));
        assert!(said(arrays.u32s("strings")).contains("has string at index 0"));
        assert_eq!(arrays.strings("strings").unwrap().get(0), b"x");
    }

    #[test]
    fn r47_indexed_getters_read_one_value_or_an_array_of_n() {
        let layers = metadata(vec![
            ("one", Value::U32(64)),
            ("each", Value::Array(Array::I32(vec![3, 0, -1]))),
            ("pattern", Value::Array(Array::Bool(vec![true, false]))),
            ("scale", Value::Array(Array::F32(vec![0.5, 2.0]))),
            ("nested", Value::Array(Array::Array(vec![Array::U8(vec![1])]))),
        ]);
        assert_eq!(layers.opt_u32_at("one", 2, 3).unwrap(), Some(64));
        assert_eq!(layers.opt_u32_at("each", 0, 3).unwrap(), Some(3));
        assert_eq!(layers.opt_u32_at("each", 1, 3).unwrap(), Some(0));
        assert!(said(layers.opt_u32_at("each", 2, 3)).contains("has i32 -1 at index 2"));
        assert!(
            said(layers.opt_u32_at("each", 0, 4)).contains("3 i32 values, but one value or an array of 4")
        );
        assert!(said(layers.opt_u32_at("each", 0, 2)).contains("or an array of 2 values is needed"));
        assert_eq!(layers.opt_bool_at("pattern", 1, 2).unwrap(), Some(false));
        assert_eq!(layers.opt_f32_at("scale", 1, 2).unwrap(), Some(2.0));
        assert!(said(layers.opt_u32_at("nested", 0, 1)).contains("has array at index 0"));
    }
}
