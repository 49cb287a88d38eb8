//! A file that the Python package `gguf` wrote, against what it was asked to write.

use std::path::Path;

use quern_gguf::{Array, Gguf, Value};
use serde_json::{Value as Json, json};

const SAMPLE: &[u8] = include_bytes!("fixtures/sample.gguf");

fn description() -> Json {
    serde_json::from_str(include_str!("fixtures/sample.json")).expect("the description is JSON")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The value as the description has it.
fn shown(value: &Value) -> Json {
    match value {
        Value::U8(v) => json!(v),
        Value::I8(v) => json!(v),
        Value::U16(v) => json!(v),
        Value::I16(v) => json!(v),
        Value::U32(v) => json!(v),
        Value::I32(v) => json!(v),
        Value::U64(v) => json!(v),
        Value::I64(v) => json!(v),
        Value::F32(v) => json!(v.to_bits()),
        Value::F64(v) => json!(v.to_bits()),
        Value::Bool(v) => json!(v),
        Value::Str(v) => json!(v),
        Value::Array(v) => shown_array(v),
    }
}

fn shown_array(array: &Array) -> Json {
    let values: Vec<Json> = match array {
        Array::U8(v) => v.iter().map(|v| json!(v)).collect(),
        Array::I8(v) => v.iter().map(|v| json!(v)).collect(),
        Array::U16(v) => v.iter().map(|v| json!(v)).collect(),
        Array::I16(v) => v.iter().map(|v| json!(v)).collect(),
        Array::U32(v) => v.iter().map(|v| json!(v)).collect(),
        Array::I32(v) => v.iter().map(|v| json!(v)).collect(),
        Array::U64(v) => v.iter().map(|v| json!(v)).collect(),
        Array::I64(v) => v.iter().map(|v| json!(v)).collect(),
        Array::F32(v) => v.iter().map(|v| json!(v.to_bits())).collect(),
        Array::F64(v) => v.iter().map(|v| json!(v.to_bits())).collect(),
        Array::Bool(v) => v.iter().map(|v| json!(v)).collect(),
        Array::Str(v) => v.iter().map(|v| json!(hex(v))).collect(),
        Array::Array(v) => v.iter().map(shown_array).collect(),
    };
    assert_eq!(values.len(), array.len());
    json!({ "array": array.element_type().name(), "values": values })
}

#[test]
fn every_metadata_value_is_what_was_written() {
    let wanted = description();
    let file = Gguf::from_bytes(SAMPLE.to_vec()).unwrap();
    let found: Vec<Json> = file
        .metadata()
        .iter()
        .map(|(key, v)| json!({ "key": key, "type": v.value_type().name(), "value": shown(v) }))
        .collect();
    let wanted = wanted["metadata"].as_array().unwrap();
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(wanted) {
        assert_eq!(found, wanted);
    }
    // Each of the 13 types occurs, alone and in arrays.
    for by in ["/type", "/value/array"] {
        let mut types: Vec<_> = found.iter().filter_map(|v| v.pointer(by)?.as_str()).collect();
        types.sort_unstable();
        types.dedup();
        assert_eq!(types.len(), 13, "{by}");
    }
}

#[test]
fn every_tensor_is_where_and_what_was_written() {
    let wanted = description();
    let file = Gguf::from_bytes(SAMPLE.to_vec()).unwrap();
    assert_eq!((file.version(), file.alignment()), (3, 64));
    let found: Vec<Json> = file
        .tensors()
        .iter()
        .map(|tensor| {
            json!({
                "name": tensor.name, "dims": tensor.dims, "type": tensor.ty.name(), "offset": tensor.offset,
                "n_bytes": tensor.n_bytes, "data": hex(file.data(tensor)),
            })
        })
        .collect();
    let wanted = wanted["tensors"].as_array().unwrap();
    assert_eq!((found.len(), wanted.len()), (32, 32));
    for (found, wanted) in found.iter().zip(wanted) {
        assert_eq!(found, wanted);
    }
    let tensor = file.tensor("tensor.F32").unwrap();
    assert_eq!((tensor.row_len(), tensor.n_rows(), tensor.n_elements()), (5, 6, 30));
}

#[test]
fn a_mapped_file_reads_as_one_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sample.gguf");
    std::fs::write(&path, SAMPLE).unwrap();
    let mapped = Gguf::open(&path).unwrap();
    assert_eq!((mapped.path(), mapped.file_len()), (path.as_path(), SAMPLE.len() as u64));

    let owned = Gguf::from_bytes(SAMPLE.to_vec()).unwrap();
    assert_eq!(owned.path(), Path::new("(memory)"));
    assert!(mapped.metadata().iter().eq(owned.metadata().iter()));
    assert_eq!(mapped.tensors(), owned.tensors());
    for (a, b) in mapped.tensors().iter().zip(owned.tensors()) {
        assert_eq!(mapped.data(a), owned.data(b));
    }
}
