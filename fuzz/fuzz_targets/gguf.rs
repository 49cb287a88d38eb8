//! Any bytes as a GGUF file: refused with a short sentence, or read in full. Never a panic, never an allocation
//! out of proportion to the input.
//!
//! `crates/quern-gguf/tests/fixtures/sample.gguf` is a good seed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quern_gguf::{Array, Gguf, Metadata, TensorInfo};

fuzz_target!(|file: &[u8]| {
    match Gguf::from_bytes(file.to_vec()) {
        Ok(file) => {
            walk_metadata(file.metadata());
            walk_tensors(&file);
        }
        Err(error) => {
            let said = error.to_string();
            assert!(said.len() < 1000 && !said.contains(|c: char| c.is_control()), "{said:?}");
        }
    }
});

fn walk_metadata(metadata: &Metadata) {
    for (key, value) in metadata.iter() {
        assert!(metadata.get(key).is_some());
        assert!(value.to_string().len() < 1000);
        let _ = (metadata.str(key), metadata.bool(key), metadata.f32(key));
        let _ = (metadata.u32(key), metadata.u64(key), metadata.i32(key));
        let _ = (metadata.u32s(key), metadata.i32s(key), metadata.f32s(key), metadata.bools(key));
        let _ =
            (metadata.opt_u32_at(key, 1, 2), metadata.opt_f32_at(key, 1, 2), metadata.opt_bool_at(key, 1, 2));
        if let quern_gguf::Value::Array(Array::Str(strings)) = value {
            for i in 0..strings.len() {
                assert!(strings.get_str(i).is_none_or(|text| text.as_bytes() == strings.get(i)));
            }
        }
    }
}

fn walk_tensors(file: &Gguf) {
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for tensor in file.tensors() {
        let TensorInfo { name, ty, offset, n_bytes, .. } = tensor;
        assert_eq!(file.tensor(name), Some(tensor));
        assert_eq!(tensor.n_elements(), tensor.row_len() * tensor.n_rows());
        assert_eq!(tensor.n_elements() / ty.block_len() * ty.bytes_per_block(), *n_bytes);
        assert_eq!(file.data(tensor).len() as u64, *n_bytes);
        spans.push((*offset, offset + n_bytes));
    }
    spans.sort_unstable();
    assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0));
}
