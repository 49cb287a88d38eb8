//! Any bytes as a split set of two parts: refused with a short sentence about one of the files, or read in full. The
//! input is cut in two at its last line break; each half starts where a file's counts are.

#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use quern_gguf::Gguf;

/// In memory where the system has such a folder.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let shared = PathBuf::from("/dev/shm");
    let base = if shared.is_dir() { shared } else { std::env::temp_dir() };
    tempfile::tempdir_in(base).expect("a folder").keep()
});

fuzz_target!(|bytes: &[u8]| {
    let cut = bytes.iter().rposition(|&byte| byte == b'\n').unwrap_or(bytes.len());
    let (first, second) = (&bytes[..cut], bytes.get(cut + 1..).unwrap_or_default());
    let paths = ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"].map(|name| FOLDER.join(name));
    for (path, half) in paths.iter().zip([first, second]) {
        std::fs::write(path, [b"GGUF\x03\0\0\0", half].concat()).expect("is written");
    }
    match (Gguf::open(&paths[0]), Gguf::open(&paths[1])) {
        (Ok(set), Ok(same)) => {
            assert_eq!(set.tensors(), same.tensors());
            assert!(set.files().eq(paths.iter()));
            for tensor in set.tensors() {
                assert_eq!(set.tensor(&tensor.name), Some(tensor));
                assert_eq!(set.data(tensor).len() as u64, tensor.n_bytes);
            }
        }
        (Err(one), Err(other)) => {
            for said in [one.to_string(), other.to_string()] {
                assert!(said.len() < 1000 && !said.contains(|c: char| c.is_control()), "{said:?}");
            }
        }
        (one, other) => panic!("{:?}, {:?}", one.err(), other.err()),
    }
});
