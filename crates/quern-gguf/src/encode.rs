//! Values as files store them: the other direction of `parse`.

use crate::value::{Array, StringArray, Value};

/// Appends a key with its value's type and the value.
pub(crate) fn entry(out: &mut Vec<u8>, key: &str, value: &Value) {
    string(out, key.as_bytes());
    out.extend(value.value_type().id().to_le_bytes());
    self::value(out, value);
}

/// Appends a string: its length, then its bytes.
pub(crate) fn string(out: &mut Vec<u8>, string: &[u8]) {
    out.extend((string.len() as u64).to_le_bytes());
    out.extend(string);
}

/// Appends a value without its type.
pub(crate) fn value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::U8(v) => out.push(*v),
        Value::I8(v) => out.extend(v.to_le_bytes()),
        Value::U16(v) => out.extend(v.to_le_bytes()),
        Value::I16(v) => out.extend(v.to_le_bytes()),
        Value::U32(v) => out.extend(v.to_le_bytes()),
        Value::I32(v) => out.extend(v.to_le_bytes()),
        Value::U64(v) => out.extend(v.to_le_bytes()),
        Value::I64(v) => out.extend(v.to_le_bytes()),
        Value::F32(v) => out.extend(v.to_le_bytes()),
        Value::F64(v) => out.extend(v.to_le_bytes()),
        Value::Bool(v) => out.push(u8::from(*v)),
        Value::Str(v) => string(out, v.as_bytes()),
        Value::Array(v) => array(out, v),
    }
}

fn array(out: &mut Vec<u8>, array: &Array) {
    out.extend(array.element_type().id().to_le_bytes());
    out.extend((array.len() as u64).to_le_bytes());
    match array {
        Array::U8(v) => out.extend(v),
        Array::I8(v) => out.extend(v.iter().map(|&v| v as u8)),
        Array::U16(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::I16(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::U32(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::I32(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::U64(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::I64(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::F32(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::F64(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::Bool(v) => out.extend(v.iter().map(|&v| u8::from(v))),
        Array::Str(v) => strings(out, v),
        Array::Array(v) => v.iter().for_each(|inner| self::array(out, inner)),
    }
}

/// Whether two values are the same to the last bit: unlike `==`, which no NaN passes.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    let bytes = |v| {
        let mut out = Vec::new();
        value(&mut out, v);
        out
    };
    a == b || (a.value_type() == b.value_type() && bytes(a) == bytes(b))
}

fn strings(out: &mut Vec<u8>, strings: &StringArray) {
    strings.iter().for_each(|s| string(out, s));
}
