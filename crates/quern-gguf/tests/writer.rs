//! Files that are written: the same bytes as other writers make, and nothing that would not open.

mod common;

use std::io::Read;
use std::path::{Path, PathBuf};

use common::{rewriter, small_file};
use quern_gguf::{Array, Gguf, GgufError, GgufWriter, StringArray, TensorType, Value};

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn test_data(path: &str) -> PathBuf {
    let folder =
        std::env::var_os("QUERN_TEST_DATA").map_or_else(|| repository(".cache/test-data"), PathBuf::from);
    folder.join(path)
}

fn ggufs_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "gguf")).collect();
    paths.sort();
    paths
}

/// Reads the file, writes it, and compares the two.
#[track_caller]
fn rewrites_to_the_same_bytes(path: &Path) {
    let file = Gguf::open(path).expect("opens");
    let mut written = Vec::new();
    let len = rewriter(&file).write(&mut written).expect("is written");
    assert_eq!(len, written.len() as u64);
    let original = std::fs::read(path).expect("reads");
    let differs = original.iter().zip(&written).position(|(a, b)| a != b);
    assert_eq!((differs, written.len()), (None, original.len()), "{}", path.display());
}

/// The sample has every value type, every tensor type and an alignment of 64; the Python package `gguf` wrote it.
#[test]
fn the_sample_is_rewritten_to_the_bytes_of_the_gguf_package() {
    rewrites_to_the_same_bytes(&repository("crates/quern-gguf/tests/fixtures/sample.gguf"));
}

#[test]
fn models_of_the_gguf_package_are_rewritten_to_the_same_bytes() {
    let files = ggufs_in(&repository("fixtures/tiny"));
    assert!(files.len() >= 12, "{files:?}");
    files.iter().for_each(|path| rewrites_to_the_same_bytes(path));
}

/// Files of version 3 only: what is written has no other version.
#[test]
fn vocabularies_of_llama_cpp_are_rewritten_to_the_same_bytes() {
    let files = ggufs_in(&test_data("vocab"));
    let version = |path: &Path| Gguf::open(path).unwrap().version();
    let (new, old): (Vec<_>, Vec<_>) = files.iter().partition(|path| version(path) == 3);
    assert!(new.len() >= 10, "{new:?}, {old:?}");
    new.iter().for_each(|path| rewrites_to_the_same_bytes(path));
}

#[test]
fn a_streamed_tensor_is_written_as_one_from_a_slice() {
    let bytes: Vec<u8> = (0..4 * 50_000u32).map(|i| (i % 251) as u8).collect();
    let mut slices = GgufWriter::new();
    slices.tensor("a", &[50_000], TensorType::F32, &bytes).tensor("b", &[4], TensorType::I8, &[1; 4]);
    let mut streams = GgufWriter::new();
    // A reader that gives a few bytes at a time.
    let dribble = bytes
        .chunks(999)
        .fold(Box::new(std::io::empty()) as Box<dyn Read>, |all, chunk| Box::new(all.chain(chunk)));
    streams.tensor_from("a", &[50_000], TensorType::F32, dribble).tensor_from(
        "b",
        &[4],
        TensorType::I8,
        &[1u8; 4][..],
    );
    let (mut a, mut b) = (Vec::new(), Vec::new());
    slices.write(&mut a).unwrap();
    streams.write(&mut b).unwrap();
    assert_eq!(a, b);
    assert_eq!(Gguf::from_bytes(a).unwrap().tensors().len(), 2);
}

#[track_caller]
fn refused(writer: GgufWriter<'_>, part: &str) {
    let mut out = Vec::new();
    let said = writer.write(&mut out).expect_err(part).to_string();
    assert!(said.starts_with("(output): ") && said.contains(part), "{said:?} lacks {part:?}");
    assert!(out.is_empty(), "{} bytes were written before the refusal", out.len());
}

#[test]
fn what_would_not_open_is_not_written() {
    let one = Value::U32(1);
    let entries = |list: &[(&'static str, &'static Value)]| {
        let mut writer = GgufWriter::new();
        writer.entries(list.iter().copied());
        writer
    };
    static ONE: Value = Value::U32(1);
    static THREE: Value = Value::U32(3);
    static NEGATIVE: Value = Value::I8(-32);
    refused(entries(&[("a", &ONE), ("b", &ONE), ("a", &THREE)]), "metadata key \"a\" occurs twice");
    refused(entries(&[("", &ONE)]), "metadata key number 0 is empty");
    refused(entries(&[("general.alignment", &THREE)]), "\"general.alignment\" is 3: a power of two");
    refused(entries(&[("general.alignment", &NEGATIVE)]), "is i8 -32");
    refused(entries(&[("split.count", &THREE)]), "split");

    let long = "k".repeat(65_536);
    let mut writer = GgufWriter::new();
    writer.entry(&long, &one);
    refused(writer, "key number 0 is 65536 bytes long");

    let keys: Vec<String> = (0..65_537).map(|i| i.to_string()).collect();
    let mut writer = GgufWriter::new();
    writer.entries(keys.iter().map(|key| (key.as_str(), &one)));
    refused(writer, "declares 65537 metadata keys, more than the limit");

    let text = Value::Str("x".repeat((16 << 20) + 1));
    let mut writer = GgufWriter::new();
    writer.entry("x", &text);
    refused(writer, "is 16777217 bytes long, more than the limit of 16777216");

    let tokens: StringArray = std::iter::repeat_n("x".repeat(1 << 20), 257).collect();
    let tokens = Value::Array(Array::Str(tokens));
    let mut writer = GgufWriter::new();
    writer.entry("x", &tokens);
    refused(writer, "the header reaches past the limit of 268435456 bytes");

    let nested = (0..4).fold(Array::U8(vec![1]), |inner, _| Array::Array(vec![inner]));
    let nested = Value::Array(nested);
    let mut writer = GgufWriter::new();
    writer.entry("x", &nested);
    refused(writer, "nests arrays deeper than 4");

    let wide = Value::Array(Array::Array(vec![Array::U8(Vec::new()); 70_000]));
    let mut writer = GgufWriter::new();
    writer.entry("x", &wide);
    refused(writer, "declares 70000 nested arrays");
}

#[test]
fn tensors_that_would_not_open_are_not_written() {
    let tensor = |name: &'static str, dims: &[u64], ty, bytes: &'static [u8]| {
        let mut writer = GgufWriter::new();
        writer.tensor("first", &[1], TensorType::I8, &[0]).tensor(name, dims, ty, bytes);
        writer
    };
    let f32s = |dims: &[u64], bytes| tensor("w", dims, TensorType::F32, bytes);
    refused(tensor("first", &[1], TensorType::I8, &[0]), "tensor \"first\" occurs twice");
    refused(tensor("", &[1], TensorType::I8, &[0]), "the name of tensor number 1 is empty");
    let long = "n".repeat(1025);
    let mut writer = GgufWriter::new();
    writer.tensor(&long, &[1], TensorType::I8, &[0]);
    refused(writer, "is 1025 bytes long");
    refused(f32s(&[], &[]), "tensor \"w\" has 0 dimensions");
    refused(f32s(&[1; 5], &[0; 4]), "has 5 dimensions");
    refused(f32s(&[4, 0], &[]), "has the dimensions [4, 0]: none can be zero");
    refused(f32s(&[1 << 32, 1 << 32], &[]), "its size overflows 64 bits");
    refused(tensor("w", &[33], TensorType::Q4_0, &[0; 18]), "rows of 33 values");
    refused(f32s(&[2], &[0; 7]), "tensor \"w\" takes 8 bytes, but 7 were given");
    refused(f32s(&[2], &[0; 9]), "tensor \"w\" takes 8 bytes, but 9 were given");

    let mut writer = GgufWriter::new();
    for name in ["a", "b", "c"] {
        writer.tensor_from(name, &[1 << 61], TensorType::F32, std::io::empty());
    }
    refused(writer, "overflows 64 bits");
}

/// Gives some bytes and then an error.
struct Broken(usize);

impl Read for Broken {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.0.min(buffer.len());
        self.0 -= n;
        if n == 0 { Err(std::io::Error::other("the disk is gone")) } else { Ok(n) }
    }
}

#[test]
fn a_file_appears_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let names =
        || -> Vec<_> { std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect() };
    let small = Gguf::from_bytes(small_file()).unwrap();
    rewriter(&small).write_file(&path).unwrap();
    let before = std::fs::read(&path).unwrap();
    assert_eq!(names(), ["model.gguf"]);

    let stream = |reader: Box<dyn Read>| {
        let mut writer = GgufWriter::new();
        writer.tensor_from("w", &[100], TensorType::F32, reader);
        writer.write_file(&path).unwrap_err().to_string()
    };
    let cases: [(Box<dyn Read>, &str); 4] = [
        (Box::new(Broken(50)), "tensor \"w\" could not be read from its source: the disk is gone"),
        (Box::new(Broken(400)), "could not be read from its source"),
        (Box::new(std::io::repeat(1).take(399)), "tensor \"w\" takes 400 bytes, but 399 were given"),
        (Box::new(std::io::repeat(1)), "tensor \"w\" takes 400 bytes, but its source gives more"),
    ];
    for (reader, part) in cases {
        let said = stream(reader);
        assert!(said.contains("model.gguf: ") && said.contains(part), "{said:?} lacks {part:?}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
        assert_eq!(names(), ["model.gguf"]);
    }

    // A file is replaced under the feet of those who read it, and they keep what they had.
    let mapped = Gguf::open(&path).unwrap();
    let mut writer = rewriter(&mapped);
    writer.tensor("new", &[1], TensorType::I8, &[5]);
    writer.write_file(&path).unwrap();
    assert!(mapped.tensor("new").is_none());
    assert_eq!(mapped.data(&mapped.tensors()[0]), small.data(&small.tensors()[0]));
    assert_eq!(Gguf::open(&path).unwrap().tensors().len(), small.tensors().len() + 1);

    let nowhere = folder.path().join("missing/model.gguf");
    let error = GgufWriter::new().write_file(&nowhere).unwrap_err();
    assert!(matches!(error, GgufError::Io { action: "create", .. }), "{error}");
    let onto_folder = folder.path().join("folder.gguf");
    std::fs::create_dir(&onto_folder).unwrap();
    let error = GgufWriter::new().write_file(&onto_folder).unwrap_err();
    assert!(matches!(error, GgufError::Io { action: "replace", .. }), "{error}");
    assert_eq!(names().len(), 2);
}
