//! Any bytes as the index of a model in two good files: refused with a short sentence, or exactly those two.

#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use quern_gguf::Safetensors;

/// In memory where the system has such a folder.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let shared = PathBuf::from("/dev/shm");
    let base = if shared.is_dir() { shared } else { std::env::temp_dir() };
    let folder = tempfile::tempdir_in(base).expect("a folder").keep();
    for name in ["a", "b"] {
        let header = format!("{{\"{name}\":{{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}}}");
        let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[7]].concat();
        std::fs::write(folder.join(format!("{name}.safetensors")), file).expect("is written");
    }
    folder
});

fuzz_target!(|json: &[u8]| {
    let index = FOLDER.join("m.safetensors.index.json");
    std::fs::write(&index, json).expect("is written");
    match Safetensors::open(&index) {
        Ok(model) => {
            assert!((1..=2).contains(&model.tensors().len()));
            assert!(model.files().iter().all(|file| file.parent() == Some(&FOLDER)));
            assert!(model.tensors().iter().all(|tensor| **tensor.bytes() == [7]));
        }
        Err(error) => {
            let said = error.to_string();
            assert!(said.len() < 1000 && !said.contains(|c: char| c.is_control()), "{said:?}");
        }
    }
});
