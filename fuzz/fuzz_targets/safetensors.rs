//! Any bytes as a safetensors file: refused with a short sentence, or read in full.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quern_gguf::Safetensors;

fuzz_target!(|file: &[u8]| {
    match Safetensors::from_bytes(file.to_vec()) {
        Ok(model) => {
            let mut total = 0;
            for tensor in model.tensors() {
                assert!(model.tensor(&tensor.name).is_some());
                let bits = tensor.shape.iter().product::<u64>() * tensor.dtype.bits();
                assert_eq!(tensor.bytes().len() as u64 * 8, bits);
                total += tensor.bytes().len();
                let _ = tensor.assembled("x").map_err(|error| error.to_string());
            }
            // Every byte after the header belongs to one tensor.
            let header = u64::from_le_bytes(*file.first_chunk().expect("eight bytes")) as usize;
            assert_eq!(8 + header + total, file.len());
        }
        Err(error) => {
            let said = error.to_string();
            assert!(said.len() < 1000 && !said.contains(|c: char| c.is_control()), "{said:?}");
        }
    }
});
