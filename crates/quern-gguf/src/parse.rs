//! From bytes to a checked header: magic, version, metadata, directory.

use std::path::Path;

use crate::directory::{Directory, Layout};
use crate::error::Fault;
use crate::limits::Limits;
use crate::metadata::Metadata;
use crate::reader::{Reader, What};
use crate::sniff::looks_like;
use crate::value::{Array, StringArray, Value, ValueType};

pub(crate) const MAGIC: &[u8] = b"GGUF";
pub(crate) const ALIGNMENT_KEY: &str = "general.alignment";
const DEFAULT_ALIGNMENT: u64 = 32;

/// Everything that a header says.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) version: u32,
    pub(crate) alignment: u64,
    pub(crate) metadata: Metadata,
    pub(crate) directory: Directory,
}

/// Reads the header of a file of `file_len` bytes from its `start`: the whole file, or at least the header.
pub(crate) fn parse(start: &[u8], file_len: u64, path: &Path, limits: &Limits) -> Result<Parsed, Fault> {
    if start.is_empty() {
        return Err(Fault::Empty);
    }
    if !start.starts_with(MAGIC) && !MAGIC.starts_with(start) {
        return Err(Fault::NotGguf { looks_like: looks_like(start) });
    }
    let mut reader = Reader::new(start, file_len, limits.header_bytes);
    reader.take(MAGIC.len() as u64, What::Header("the magic number"))?;
    let version = version(&mut reader)?;
    let n_tensors = count(&mut reader, "tensors", limits.tensors)?;
    let n_keys = count(&mut reader, "metadata keys", limits.keys)?;

    let metadata = Values { reader: &mut reader, limits, nested_arrays: 0 }.metadata(n_keys, path)?;
    let alignment = alignment(&metadata, limits)?;

    let layout = Layout { n_tensors, alignment, file_len, name_len: limits.name_len };
    let directory = Directory::read(&mut reader, &layout)?;
    Ok(Parsed { version, alignment, metadata, directory })
}

fn version(reader: &mut Reader<'_>) -> Result<u32, Fault> {
    match reader.number::<u32>(What::Header("the version"))? {
        version @ (2 | 3) => Ok(version),
        1 => Err(Fault::Version1),
        // No version will ever be a multiple of 65,536: its bytes are the other way round.
        version if version != 0 && version & 0xffff == 0 => {
            Err(Fault::BigEndian { version: version.swap_bytes() })
        }
        version => Err(Fault::UnknownVersion { version }),
    }
}

fn count(reader: &mut Reader<'_>, what: &'static str, limit: u64) -> Result<u64, Fault> {
    match reader.number::<u64>(What::Header("the counts of tensors and metadata keys"))? {
        found if found > limit => Err(Fault::TooMany { what, found, limit }),
        found => Ok(found),
    }
}

pub(crate) fn alignment(metadata: &Metadata, limits: &Limits) -> Result<u64, Fault> {
    let value = metadata.scalar::<u64>(ALIGNMENT_KEY)?.unwrap_or(DEFAULT_ALIGNMENT);
    if value.is_power_of_two() && value <= limits.alignment {
        Ok(value)
    } else {
        Err(Fault::Alignment { value, limit: limits.alignment })
    }
}

/// Reads the metadata section.
struct Values<'r, 'a> {
    reader: &'r mut Reader<'a>,
    limits: &'r Limits,
    /// How many arrays inside arrays there were so far.
    nested_arrays: u64,
}

impl<'a> Values<'_, 'a> {
    fn metadata(&mut self, n_keys: u64, path: &Path) -> Result<Metadata, Fault> {
        /// A key's length and one byte, a type, and a value of one byte.
        const MIN_ENTRY: u64 = 8 + 1 + 4 + 1;
        let mut entries = Vec::with_capacity(n_keys.min(self.reader.left() / MIN_ENTRY) as usize);
        for i in 0..n_keys {
            let key: &'a str = self.reader.name(self.limits.key_len, What::Key(i))?;
            let ty = self.value_type(key)?;
            entries.push((key.to_owned(), self.value(key, ty)?));
        }
        Metadata::new(entries, path)
    }

    fn value_type(&mut self, key: &str) -> Result<ValueType, Fault> {
        let id = self.reader.number(What::Value(key))?;
        ValueType::from_id(id).ok_or_else(|| Fault::UnknownValueType { key: key.to_owned(), id })
    }

    fn value(&mut self, key: &str, ty: ValueType) -> Result<Value, Fault> {
        let what = What::Value(key);
        let reader = &mut *self.reader;
        Ok(match ty {
            ValueType::U8 => Value::U8(reader.number(what)?),
            ValueType::I8 => Value::I8(reader.number(what)?),
            ValueType::U16 => Value::U16(reader.number(what)?),
            ValueType::I16 => Value::I16(reader.number(what)?),
            ValueType::U32 => Value::U32(reader.number(what)?),
            ValueType::I32 => Value::I32(reader.number(what)?),
            ValueType::U64 => Value::U64(reader.number(what)?),
            ValueType::I64 => Value::I64(reader.number(what)?),
            ValueType::F32 => Value::F32(reader.number(what)?),
            ValueType::F64 => Value::F64(reader.number(what)?),
            ValueType::Bool => Value::Bool(boolean(key, reader.number(what)?)?),
            ValueType::Str => Value::Str(reader.text(self.limits.string_len, what)?.to_owned()),
            ValueType::Array => Value::Array(self.array(key, 1)?),
        })
    }

    fn array(&mut self, key: &str, depth: u32) -> Result<Array, Fault> {
        let what = What::Value(key);
        let element = self.value_type(key)?;
        let reader = &mut *self.reader;
        let len = reader.number::<u64>(what)?;
        let left = reader.left();
        if len > left / element.min_bytes() {
            let fault = Fault::ArrayTooLong { key: key.to_owned(), element: element.name(), len, left };
            return Err(reader.too_short(what, fault));
        }
        Ok(match element {
            ValueType::U8 => Array::U8(reader.numbers(len, what)?),
            ValueType::I8 => Array::I8(reader.numbers(len, what)?),
            ValueType::U16 => Array::U16(reader.numbers(len, what)?),
            ValueType::I16 => Array::I16(reader.numbers(len, what)?),
            ValueType::U32 => Array::U32(reader.numbers(len, what)?),
            ValueType::I32 => Array::I32(reader.numbers(len, what)?),
            ValueType::U64 => Array::U64(reader.numbers(len, what)?),
            ValueType::I64 => Array::I64(reader.numbers(len, what)?),
            ValueType::F32 => Array::F32(reader.numbers(len, what)?),
            ValueType::F64 => Array::F64(reader.numbers(len, what)?),
            ValueType::Bool => {
                let bytes = reader.take(len, what)?;
                Array::Bool(bytes.iter().map(|&byte| boolean(key, byte)).collect::<Result<_, _>>()?)
            }
            ValueType::Str => Array::Str(self.strings(key, len)?),
            ValueType::Array => Array::Array(self.arrays(key, len, depth)?),
        })
    }

    fn strings(&mut self, key: &str, len: u64) -> Result<StringArray, Fault> {
        let mut strings = StringArray::with_capacity(len as usize);
        for _ in 0..len {
            strings.push(self.reader.string(self.limits.string_len, What::Value(key))?);
        }
        strings.shrink();
        Ok(strings)
    }

    fn arrays(&mut self, key: &str, len: u64, depth: u32) -> Result<Vec<Array>, Fault> {
        if depth >= self.limits.array_depth {
            return Err(Fault::ArrayTooDeep { key: key.to_owned(), limit: self.limits.array_depth });
        }
        self.nested_arrays = self.nested_arrays.saturating_add(len);
        if self.nested_arrays > self.limits.nested_arrays {
            let (found, limit) = (self.nested_arrays, self.limits.nested_arrays);
            return Err(Fault::TooMany { what: "nested arrays", found, limit });
        }
        (0..len).map(|_| self.array(key, depth + 1)).collect()
    }
}

fn boolean(key: &str, byte: u8) -> Result<bool, Fault> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(Fault::BadBool { key: key.to_owned(), value }),
    }
}
