//! Containers that are put together: from memory, from mapped files, and from both.

mod common;

use std::path::{Path, PathBuf};

use common::rewriter;
use quern_gguf::{AssembledTensor, Gguf, Metadata, SharedBytes, TensorInfo, TensorType, Value};

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sample.gguf")
}

fn copy_of_metadata(file: &Gguf) -> Metadata {
    let entries = file.metadata().iter().map(|(key, value)| (key.to_owned(), value.clone()));
    Metadata::from_entries("copy", entries).expect("the keys are unique")
}

fn copy_of_tensors(file: &Gguf, bytes: impl Fn(usize, &TensorInfo) -> SharedBytes) -> Vec<AssembledTensor> {
    let copy = |(i, t): (usize, &TensorInfo)| AssembledTensor {
        name: t.name.clone(),
        dims: t.dims.clone(),
        ty: t.ty,
        bytes: bytes(i, t),
    };
    file.tensors().iter().enumerate().map(copy).collect()
}

/// The sample was written by the `gguf` package, and so its bytes are what an assembled copy must give.
#[test]
fn a_copy_of_memory_and_mapped_ranges_is_the_file() {
    let file = Gguf::open(sample()).unwrap();
    let mixed = copy_of_tensors(&file, |i, tensor| match i % 2 {
        0 => file.shared(tensor),
        _ => file.data(tensor).to_vec().into(),
    });
    let copy = Gguf::assemble("a/folder", copy_of_metadata(&file), mixed).unwrap();
    assert_eq!((copy.path(), copy.version(), copy.alignment()), (Path::new("a/folder"), 3, 64));
    assert_eq!(copy.files().collect::<Vec<_>>(), [sample()]);
    assert_eq!(copy.tensors().len(), 32);
    for (i, (ours, theirs)) in copy.tensors().iter().zip(file.tensors()).enumerate() {
        assert_eq!((&ours.name, &ours.dims, ours.ty), (&theirs.name, &theirs.dims, theirs.ty));
        assert_eq!(copy.tensor(&ours.name), Some(ours));
        assert_eq!(copy.data(ours), file.data(theirs));
        // Mapped ranges are not copied.
        let same = std::ptr::eq(copy.data(ours), file.data(theirs));
        assert_eq!((copy.is_mapped(ours), same), (i % 2 == 0, i % 2 == 0));
    }
    // The map outlives the container that made it.
    drop(file);
    let mut written = Vec::new();
    rewriter(&copy).write(&mut written).unwrap();
    assert!(written == std::fs::read(sample()).unwrap());
    // Messages about metadata name the new path.
    let said = copy.metadata().str("missing").unwrap_err().to_string();
    assert_eq!(said, "a/folder: metadata key \"missing\" is missing");
}

#[test]
fn memory_is_not_called_mapped() {
    let file = Gguf::from_bytes(std::fs::read(sample()).unwrap()).unwrap();
    assert!(file.tensors().iter().all(|tensor| !file.is_mapped(tensor) && !file.shared(tensor).is_mapped()));
    assert_eq!(file.files().count(), 0);
}

fn tensor(name: &str, dims: &[u64], n: usize) -> AssembledTensor {
    let bytes = vec![0; n].into();
    AssembledTensor { name: name.to_owned(), dims: dims.to_vec(), ty: TensorType::F16, bytes }
}

fn metadata(entries: &[(&str, Value)]) -> Metadata {
    Metadata::from_entries("x", entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())))
        .expect("unique")
}

#[test]
fn what_a_file_could_not_hold_cannot_be_assembled() {
    let refused = |tensors: Vec<AssembledTensor>, part: &str| {
        let said = Gguf::assemble("m", metadata(&[]), tensors).expect_err(part).to_string();
        assert!(said.starts_with("m: ") && said.contains(part), "{said:?} lacks {part:?}");
    };
    refused(
        vec![tensor("a", &[2], 4), tensor("b", &[1], 2), tensor("a", &[1], 2)],
        "tensor \"a\" occurs twice",
    );
    refused(vec![tensor("a", &[2], 3)], "tensor \"a\" takes 4 bytes, but 3 were given");
    refused(vec![tensor("a", &[2], 5)], "tensor \"a\" takes 4 bytes, but 5 were given");
    refused(vec![tensor("a", &[], 2)], "has 0 dimensions");
    refused(vec![tensor("a", &[1; 5], 2)], "has 5 dimensions");
    refused(vec![tensor("a", &[0], 0)], "none can be zero");
    refused(vec![tensor("a", &[1 << 63, 2], 0)], "overflows 64 bits");
    refused(vec![tensor("a", &[1], 2), tensor("", &[1], 2)], "the name of tensor number 1 is empty");
    refused(vec![tensor(&"n".repeat(1025), &[1], 2)], "is 1025 bytes long");
    refused(vec![tensor("a", &[1], 2); (1 << 18) + 1], "declares 262145 tensors");

    let with = |entries: &[(&str, Value)]| Gguf::assemble("m", metadata(entries), Vec::new());
    let part = [("split.count", Value::U16(3)), ("split.no", Value::U16(0))];
    let said = with(&part).unwrap_err().to_string();
    assert!(said.contains("part 1 of a model split into 3 files"), "{said}");
    assert!(with(&[("general.alignment", Value::U32(3))]).is_err());
    assert!(with(&[("general.alignment", Value::U32(8))]).is_ok_and(|file| file.alignment() == 8));

    let twice = ["a", "b", "a"].map(|key| (key.to_owned(), Value::Bool(true)));
    let said = Metadata::from_entries("folder/config.json", twice).unwrap_err().to_string();
    assert_eq!(said, "folder/config.json: metadata key \"a\" occurs twice");
}
