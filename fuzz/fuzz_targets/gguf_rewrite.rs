//! What opens as a GGUF file is written; what is written opens again, is equal, and is written to the same bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quern_gguf::{Gguf, GgufWriter};

fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = Gguf::from_bytes(bytes.to_vec()) else { return };
    let written = rewrite(&file);
    let again = Gguf::from_bytes(written.clone()).expect("what is written opens");
    assert!(again.metadata().iter().map(|(key, _)| key).eq(file.metadata().iter().map(|(key, _)| key)));
    assert_eq!(again.alignment(), file.alignment());
    assert_eq!(again.tensors().len(), file.tensors().len());
    for (a, b) in again.tensors().iter().zip(file.tensors()) {
        assert_eq!((&a.name, &a.dims, a.ty), (&b.name, &b.dims, b.ty));
        assert_eq!(again.data(a), file.data(b));
    }
    // Equal values are written equally, not-a-numbers included.
    assert_eq!(rewrite(&again), written);
});

fn rewrite(file: &Gguf) -> Vec<u8> {
    let mut writer = GgufWriter::new();
    writer.entries(file.metadata().iter());
    for tensor in file.tensors() {
        writer.tensor(&tensor.name, &tensor.dims, tensor.ty, file.data(tensor));
    }
    let mut written = Vec::new();
    let len = writer.write(&mut written).expect("what opens is written");
    assert_eq!(len, written.len() as u64);
    written
}
