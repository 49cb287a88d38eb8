//! Damaged files: every cut and many changes, none of which may panic.

mod common;

use std::path::Path;

use common::{rewriter, small_file, walk};
use proptest::prelude::*;
use quern_gguf::{Gguf, Safetensors};

#[test]
fn the_small_file_is_whole() {
    let file = Gguf::from_bytes(small_file()).unwrap();
    assert_eq!(file.tensors().len(), 3);
    assert_eq!(file.metadata().len(), 5);
    let blocks = file.tensor("blk.0.ffn.weight").unwrap();
    assert_eq!(file.data(blocks), [2; 54]);
    assert!(walk(&file) > 0);
}

#[test]
fn r50_a_cut_at_every_byte_is_refused_as_a_cut() {
    let whole = small_file();
    for len in 0..whole.len() {
        let said = Gguf::from_bytes(whole[..len].to_vec()).unwrap_err().to_string();
        let wanted = if len == 0 { "the file is empty" } else { "it is truncated" };
        assert!(said.contains(wanted), "cut at {len}: {said}");
    }
}

#[test]
fn every_byte_set_to_its_extremes_is_read_or_refused() {
    let whole = small_file();
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut file = whole.clone();
            file[at] = value;
            if let Ok(file) = Gguf::from_bytes(file) {
                walk(&file);
            }
        }
    }
}

/// A fixture with some bytes changed.
fn damaged(name: &str, changes: &[(prop::sample::Index, u8)]) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let mut file = std::fs::read(path).expect("the fixture reads");
    for (at, value) in changes {
        let at = at.index(file.len());
        file[at] = *value;
    }
    file
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn changed_bytes_are_read_or_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in any::<prop::sample::Index>(),
        keep in any::<bool>(),
    ) {
        let mut file = small_file();
        for (at, value) in changes {
            let at = at.index(file.len());
            file[at] = value;
        }
        if !keep {
            file.truncate(cut.index(file.len()));
        }
        match Gguf::from_bytes(file) {
            Ok(file) => {
                let sum = walk(&file);
                // What opens is written, and what is written opens and says the same.
                let mut written = Vec::new();
                rewriter(&file).write(&mut written).unwrap();
                let again = Gguf::from_bytes(written.clone()).unwrap();
                prop_assert_eq!(walk(&again), sum);
                let mut twice = Vec::new();
                rewriter(&again).write(&mut twice).unwrap();
                prop_assert_eq!(twice, written);
            }
            Err(error) => prop_assert!(error.to_string().len() < 1000),
        }
    }

    #[test]
    fn changed_safetensors_are_read_or_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let file = damaged("safetensors/single.safetensors", &changes);
        match Safetensors::from_bytes(file) {
            Ok(model) => for tensor in model.tensors() {
                let n_elements = tensor.shape.iter().product::<u64>();
                prop_assert_eq!(tensor.bytes().len() as u64 * 8, n_elements * tensor.dtype.bits());
            },
            Err(error) => prop_assert!(error.to_string().len() < 1000),
        }
    }

    #[test]
    fn a_set_with_a_changed_part_is_read_or_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        part in 1..4usize,
        opened in 1..4usize,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let name = |part| format!("cpp-{part:05}-of-00003.gguf");
        for i in 1..4 {
            let changes = if i == part { changes.as_slice() } else { &[] };
            std::fs::write(folder.path().join(name(i)), damaged(&format!("split/{}", name(i)), changes)).unwrap();
        }
        match Gguf::open(folder.path().join(name(opened))) {
            Ok(set) => {
                walk(&set);
            }
            Err(error) => prop_assert!(error.to_string().len() < 1000),
        }
    }

    #[test]
    fn random_bytes_after_the_magic_are_read_or_refused(tail in prop::collection::vec(any::<u8>(), 0..300)) {
        let file = [b"GGUF\x03\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0", &tail[..]].concat();
        if let Ok(file) = Gguf::from_bytes(file) {
            walk(&file);
        }
    }
}
