//! Safetensors files: what the publisher's packages wrote, and what must be refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use quern_gguf::{Dtype, Gguf, Limits, Metadata, Safetensors, TensorType, Value};
use serde_json::Value as Json;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/safetensors").join(name)
}

fn expected() -> Json {
    let text = std::fs::read_to_string(fixture("expected.json")).expect("reads");
    serde_json::from_str(&text).expect("the description is JSON")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[track_caller]
fn holds(model: &Safetensors, wanted: &Json) {
    let wanted = wanted.as_object().expect("an object");
    assert_eq!(model.tensors().len(), wanted.len());
    for (name, wanted) in wanted {
        let tensor = model.tensor(name).expect(name);
        assert_eq!(&tensor.name, name);
        let found = serde_json::json!({
            "dtype": tensor.dtype.name(), "shape": tensor.shape, "data": hex(tensor.bytes()),
        });
        assert_eq!(&found, wanted, "{name}");
        assert!(tensor.bytes().is_mapped());
    }
}

#[test]
fn a_file_of_the_publishers_package_is_read_as_written() {
    let wanted = expected();
    let model = Safetensors::open(fixture("single.safetensors")).unwrap();
    holds(&model, &wanted["single"]);
    let metadata: BTreeMap<&str, &str> = model.metadata().collect();
    assert_eq!(serde_json::json!(metadata), wanted["metadata"]);
    assert_eq!(model.files(), [fixture("single.safetensors")]);
    assert_eq!(model.tensor("scalar").map(|t| (t.shape.len(), t.bytes().len())), Some((0, 4)));
    assert_eq!(model.tensor("empty").map(|t| (t.shape.as_slice(), t.bytes().len())), Some((&[3, 0][..], 0)));

    let owned = Safetensors::from_bytes(std::fs::read(fixture("single.safetensors")).unwrap()).unwrap();
    assert_eq!((owned.path(), owned.files().len()), (Path::new("(memory)"), 0));
    for (a, b) in owned.tensors().iter().zip(model.tensors()) {
        assert_eq!((&a.name, &a.shape, a.dtype, &**a.bytes()), (&b.name, &b.shape, b.dtype, &**b.bytes()));
        assert!(!a.bytes().is_mapped());
    }
}

#[test]
fn index_folder_and_any_part_open_the_whole_model() {
    let wanted = expected();
    let names = ["", "model.safetensors.index.json"].map(str::to_owned);
    let parts = (1..=3).map(|i| format!("model-{i:05}-of-00003.safetensors"));
    let files: Vec<PathBuf> = parts.clone().map(|name| fixture("sharded").join(name)).collect();
    for name in names.into_iter().chain(parts) {
        let path = fixture("sharded").join(name);
        let model = Safetensors::open(&path).unwrap();
        holds(&model, &wanted["sharded"]);
        assert_eq!((model.path(), model.files()), (path.as_path(), files.as_slice()));
        assert_eq!(model.metadata().collect::<Vec<_>>(), [("format", "pt"); 3]);
    }
}

#[test]
fn tensors_become_those_of_a_container_without_a_copy() {
    let model = Safetensors::open(fixture("sharded")).unwrap();
    let metadata = [("general.architecture".to_owned(), Value::Str("x".to_owned()))];
    let metadata = Metadata::from_entries("x", metadata).unwrap();
    let renamed = |name: &str| name.replace("layers.", "blk.");
    let tensors = model.tensors().iter().map(|t| t.assembled(renamed(&t.name)).unwrap()).collect();
    let gguf = Gguf::assemble(model.path(), metadata, tensors).unwrap();
    assert_eq!(gguf.files().collect::<Vec<_>>(), model.files());
    for (ours, theirs) in gguf.tensors().iter().zip(model.tensors()) {
        assert_eq!((ours.name.as_str(), ours.ty), (renamed(&theirs.name).as_str(), TensorType::BF16));
        // GGUF lists the row length first.
        assert_eq!((ours.dims.as_slice(), theirs.shape.as_slice()), (&[6, 4][..], &[4, 6][..]));
        assert!(std::ptr::eq(gguf.data(ours), &**theirs.bytes()) && gguf.is_mapped(ours));
    }
}

#[test]
fn types_that_gguf_lacks_are_refused_when_asked_for() {
    let path = fixture("single.safetensors");
    let model = Safetensors::open(&path).unwrap();
    let said = model.tensor("one.F8_E4M3").unwrap().assembled("x").unwrap_err().to_string();
    let wanted = "tensor \"one.F8_E4M3\" is stored as F8_E4M3, for which there is no tensor type here";
    assert!(said.starts_with(&format!("{}: {wanted}", path.display())), "{said}");
    let has =
        |ty: &str| model.tensor(&format!("one.{ty}")).is_some_and(|tensor| tensor.tensor_type().is_ok());
    assert!(["F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64"].iter().all(|ty| has(ty)));
    assert!(["F8_E5M2", "BOOL", "U8", "U64"].iter().all(|ty| !has(ty)));
    for dtype in Dtype::ALL {
        assert_eq!(Dtype::from_name(dtype.name()), Some(*dtype));
        // A type of the same name, where there is one, stores a value in as many bytes.
        assert_eq!(dtype.tensor_type(), TensorType::from_name(dtype.name()));
        assert!(dtype.tensor_type().is_none_or(|ty| ty.bytes_per_block() * 8 == dtype.bits()));
    }
}

/// A file of a header and as many bytes of data.
fn file(header: &str, data: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![7; data]].concat()
}

fn entry(name: &str, dtype: &str, shape: &str, start: u64, end: u64) -> String {
    format!("\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":[{start},{end}]}}")
}

fn entries(list: &[String], data: usize) -> Vec<u8> {
    file(&format!("{{{}}}", list.join(",")), data)
}

#[track_caller]
fn refused(file: Vec<u8>, part: &str) {
    let said = Safetensors::from_bytes(file).expect_err(part).to_string();
    assert!(said.starts_with("(memory): ") && said.contains(part), "{said:?} lacks {part:?}");
    assert!(said.len() < 1000 && !said.contains(|c: char| c.is_control()), "{said:?}");
}

#[test]
fn the_start_of_a_file_is_checked() {
    assert_eq!(Safetensors::from_bytes(file("{}", 0)).unwrap().tensors().len(), 0);
    assert!(Safetensors::from_bytes(file("{}   ", 0)).is_ok());
    refused(Vec::new(), "the file is 0 bytes long, too short");
    refused(vec![0; 7], "the file is 7 bytes long, too short");
    refused([b"GGUF\x03\0\0\0".to_vec(), vec![0; 16]].concat(), "it is a GGUF file");
    refused(b"<!DOCTYPE html><html>".to_vec(), "looks like a web page");
    refused(file(" {}", 0), "not a safetensors file");
    refused(file("[]", 0), "not a safetensors file");
    let declares = |n: u64| [&n.to_le_bytes()[..], b"{}"].concat();
    refused(
        declares(u64::MAX),
        "declares a header of 18446744073709551615 bytes, more than the limit of 100000000",
    );
    refused(declares(100_000_001), "more than the limit");
    refused(declares(3), "declares a header of 3 bytes, but is 10 bytes long: it is truncated");
    refused(declares(0), "not the JSON that it should be");
    refused(declares(1), "EOF while parsing");
}

#[test]
fn the_header_is_json_of_one_form() {
    refused(file("{\"a\":1}", 0), "invalid type: integer `1`, expected struct Entry");
    refused(file("{\"a\":{}}", 0), "missing field `dtype`");
    refused(file("{} {}", 0), "trailing characters");
    refused(entries(&[entry("a", "U8", "[-1]", 0, 1)], 1), "invalid value: integer `-1`");
    refused(entries(&[entry("a", "U8", "[1.0]", 0, 1)], 1), "invalid type: floating point");
    refused(entries(&[entry("a", "U8", "[18446744073709551616]", 0, 1)], 1), "invalid type");
    let extra = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"\\u001b[31m\":0}}";
    refused(file(extra, 1), "unknown field");
    let twice = "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    refused(file(twice, 1), "duplicate field `dtype`");
    refused(file("{\"__metadata__\":{\"a\":1}}", 0), "expected a string");
    refused(file("{\"__metadata__\":{},\"__metadata__\":{}}", 0), "duplicate field `__metadata__`");
    refused(file(&format!("{{\"a\":{}", "[".repeat(100_000)), 0), "not the JSON");
    let deep = format!("{{\"a\":{{\"dtype\":\"U8\",\"shape\":{}", "[".repeat(100_000));
    refused(file(&deep, 0), "not the JSON");
    let mut bytes = entries(&[entry("a", "U8", "[1]", 0, 1)], 1);
    bytes[10] = 0xff;
    refused(bytes, "invalid unicode");
}

#[test]
fn names_and_shapes_are_checked() {
    let one = |dtype: &str, shape: &str, end| entries(&[entry("a", dtype, shape, 0, end)], end as usize);
    let list = [("a", 0), ("b", 1), ("a", 2)].map(|(name, at)| entry(name, "U8", "[1]", at, at + 1));
    refused(entries(&list, 3), "tensor \"a\" occurs twice");
    refused(entries(&[entry("", "U8", "[1]", 0, 1)], 1), "the name of tensor number 0 is empty");
    refused(entries(&[entry(&"n".repeat(1025), "U8", "[1]", 0, 1)], 1), "is 1025 bytes long");
    refused(one("F9", "[1]", 1), "tensor \"a\" has the unknown type \"F9\"");
    refused(one("f32", "[1]", 4), "has the unknown type \"f32\"");
    refused(one("F32", "[2,3]", 23), "tensor \"a\" takes 24 bytes, but 23 were given");
    refused(one("F32", "[0]", 4), "takes 0 bytes, but 4 were given");
    refused(one("F4", "[3]", 2), "no whole number of bytes");
    refused(one("U8", "[1,1,1,1,1,1,1,1,1]", 1), "has 9 dimensions, more than the limit of 8");
    refused(one("U8", "[4294967296,4294967296]", 0), "overflow 64 bits");
    refused(one("F64", "[2305843009213693952]", 0), "overflow 64 bits");
    assert!(Safetensors::from_bytes(one("F4", "[2,4]", 4)).is_ok());
    assert!(Safetensors::from_bytes(one("F32", "[]", 4)).is_ok());
}

#[test]
fn tensors_fill_the_file_without_overlap_or_gap() {
    let bytes = |name: &str, start, end: u64| {
        entry(name, "U8", &format!("[{}]", end.wrapping_sub(start)), start, end)
    };
    // The header may list them in any order, and empty ones lie anywhere between others.
    let good = [bytes("b", 3, 5), bytes("e", 3, 3), bytes("a", 0, 3), bytes("z", 5, 5)];
    let model = Safetensors::from_bytes(entries(&good, 5)).unwrap();
    assert_eq!(model.tensors().iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["b", "e", "a", "z"]);

    let at = |list: &[String]| 8 + format!("{{{}}}", list.join(",")).len();
    let overlap = [bytes("a", 0, 3), bytes("b", 2, 4)];
    let start = at(&overlap);
    let (inside, end) = (start + 2, start + 3);
    let said = format!("tensor \"b\" starts at byte {inside}, inside tensor \"a\", which ends at byte {end}");
    refused(entries(&overlap, 4), &said);
    refused(entries(&[bytes("a", 0, 3), bytes("b", 0, 3)], 3), "inside tensor \"a\"");
    refused(entries(&[bytes("a", 0, 3), bytes("e", 1, 1)], 3), "tensor \"e\" starts at byte");
    let hole = [bytes("a", 0, 2), bytes("b", 3, 4)];
    refused(
        entries(&hole, 4),
        &format!("tensor \"b\" starts at byte {}, where byte {} was due", at(&hole) + 3, at(&hole) + 2),
    );
    refused(entries(&[bytes("a", 1, 2)], 2), "the format leaves no gaps");
    refused(entries(&[bytes("a", 0, 2)], 5), "3 bytes after the last tensor belong to none");
    refused(file("{}", 1), "1 bytes after the last tensor");
    let cut = [bytes("a", 0, 9)];
    let len = at(&cut) + 8;
    refused(
        entries(&cut, 8),
        &format!("tensor \"a\" ends at byte {}, but the file is {len} bytes long", len + 1),
    );
    // Offsets that wrap.
    refused(
        entries(&[entry("a", "U8", "[1]", u64::MAX, 0)], 1),
        "lies from byte 18446744073709551615 of the data to byte 0",
    );
    refused(
        entries(&[entry("a", "U8", "[1]", u64::MAX - 1, u64::MAX)], 1),
        "ends at byte 18446744073709551615",
    );
    refused(entries(&[bytes("a", 0, u64::MAX)], 1), "overflow 64 bits");
    refused(entries(&[bytes("a", 0, 1 << 60)], 1), "ends at byte");
}

#[test]
fn every_cut_of_a_file_is_refused() {
    let whole = std::fs::read(fixture("single.safetensors")).unwrap();
    for len in 0..whole.len() {
        assert!(Safetensors::from_bytes(whole[..len].to_vec()).is_err(), "cut at {len}");
    }
}

/// A folder of two good files, and an index as told.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().expect("a folder"));
        for (i, name) in ["a", "b"].iter().enumerate() {
            folder.write(&part(i + 1), &entries(&[entry(name, "U8", "[1]", 0, 1)], 1));
        }
        folder.index(&[("a", &part(1)), ("b", &part(2))]);
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).expect("is written");
    }

    fn index(&self, weights: &[(&str, &str)]) {
        let list: Vec<String> = weights.iter().map(|(name, file)| format!("\"{name}\":\"{file}\"")).collect();
        let json = format!("{{\"metadata\":{{\"total_size\":2.0}},\"weight_map\":{{{}}}}}", list.join(","));
        self.write("m.safetensors.index.json", json.as_bytes());
    }

    /// Opens the folder and expects a refusal about the file `at`.
    #[track_caller]
    fn refused(&self, at: &str, part: &str) {
        let said = Safetensors::open(self.0.path()).expect_err(part).to_string();
        let at = if at.is_empty() { self.0.path().to_path_buf() } else { self.path(at) };
        assert!(
            said.starts_with(&format!("{}: ", at.display())) && said.contains(part),
            "{said:?} lacks {part:?}"
        );
        assert!(said.len() < 1000 && !said.contains(|c: char| c.is_control()), "{said:?}");
    }
}

fn part(i: usize) -> String {
    format!("m-{i:05}-of-00002.safetensors")
}

const INDEX: &str = "m.safetensors.index.json";

#[test]
fn an_index_and_its_files_hold_the_same_tensors() {
    let folder = Folder::new();
    let whole = Safetensors::open(folder.0.path()).unwrap();
    assert_eq!(whole.tensors().len(), 2);
    let [one, two] = [part(1), part(2)];
    folder.index(&[("a", &one), ("b", &two), ("c", &two), ("d", &two)]);
    folder.refused(&two, "tensor \"c\" is not in this file, where the index ");
    folder.index(&[("a", &two), ("b", &one)]);
    folder.refused(&one, "this file holds tensor \"a\", which the index ");
    folder.index(&[("a", &one)]);
    assert_eq!(Safetensors::open(folder.0.path()).unwrap().files().len(), 1);
    folder.write(&one, &entries(&[entry("a", "U8", "[1]", 0, 1), entry("x", "U8", "[1]", 1, 2)], 2));
    folder.refused(&one, "this file holds tensor \"x\"");
    folder.write(&one, &entries(&[0, 1].map(|at| entry("a", "U8", "[1]", at, at + 1)), 2));
    folder.refused(&one, "tensor \"a\" occurs twice");
    folder.index(&[("a", &one), ("b", &two), ("a", &two)]);
    folder.refused(INDEX, "tensor \"a\" occurs twice");
    let gone = ["m-00002-of-00003.safetensors", "m-00003-of-00003.safetensors"];
    folder.index(&[("a", &one), ("b", gone[0]), ("c", gone[1])]);
    folder.refused(gone[0], "this file is missing and 1 more: the index ");
    folder.write(gone[0], b"");
    folder.write(gone[1], b"");
    folder.write(&one, &entries(&[entry("a", "U8", "[1]", 0, 1)], 1));
    folder.refused(gone[0], "the file is empty");
}

#[test]
fn an_index_leads_nowhere_else() {
    let folder = Folder::new();
    for name in
        ["../m.safetensors", "/etc/x.safetensors", "a/b.safetensors", "c:m.safetensors", "..", "", "m.bin"]
    {
        folder.index(&[("a", name)]);
        folder.refused(INDEX, "only .safetensors files beside the index are read");
    }
    // R46: a name that would not print as itself, or not at all.
    for name in ["m\\n.safetensors", "\\u001b[31m.safetensors", "\\u202e.safetensors", &"m".repeat(300)] {
        folder.index(&[("a", name)]);
        folder.refused(INDEX, "only .safetensors files beside the index are read");
    }
    folder.index(&[("a", "x\\\\y.safetensors")]);
    folder.refused(INDEX, r#"tensor "a" is in "x\\y.safetensors""#);
    folder.index(&[]);
    folder.refused(INDEX, "the index lists no weights");
    for (json, part) in [
        ("{}", "missing field `weight_map`"),
        ("[", "the index is not the JSON that it should be"),
        ("{\"weight_map\":[]}", "invalid type: sequence"),
        ("{\"weight_map\":{\"a\":1}}", "expected a string"),
        ("{\"weight_map\":{},\"weight_map\":{}}", "duplicate field"),
    ] {
        folder.write(INDEX, json.as_bytes());
        folder.refused(INDEX, part);
    }
    let limits = Limits { header_bytes: 10, ..Limits::DEFAULT };
    folder.index(&[("a", &part(1))]);
    let said = Safetensors::open_with(folder.0.path(), &limits).unwrap_err().to_string();
    assert!(said.contains("bytes long, more than the limit of 10"), "{said}");
}

#[test]
fn a_folder_holds_one_model() {
    let folder = Folder::new();
    let index = folder.path(INDEX);
    let open = || Safetensors::open(folder.0.path()).map(|model| model.files().to_vec());
    std::fs::remove_file(&index).unwrap();
    let beside = format!("by its name this is part 1 of 2, and {} is not beside it", index.display());
    folder.refused(&part(1), &beside);
    assert!(
        Safetensors::open(folder.path(&part(3))).unwrap_err().to_string().contains("cannot open the file")
    );

    let good = entries(&[entry("a", "U8", "[1]", 0, 1)], 1);
    folder.write("adapter.safetensors", &good);
    assert_eq!(open().unwrap(), [folder.path("adapter.safetensors")]);
    folder.write("b.safetensors", &good);
    folder.refused(
        "",
        "this folder holds several models (\"adapter.safetensors\", \"b.safetensors\"): name the one",
    );
    folder.write("model.safetensors", &good);
    assert_eq!(open().unwrap(), [folder.path("model.safetensors")]);
    folder.write("model.safetensors.index.json", b"{}");
    folder.refused("", "several models (\"model.safetensors\", \"model.safetensors.index.json\")");

    let empty = tempfile::tempdir().unwrap();
    let said = Safetensors::open(empty.path()).unwrap_err().to_string();
    assert!(said.ends_with("this folder holds no .safetensors file"), "{said}");
    let missing = Safetensors::open(empty.path().join("missing")).unwrap_err().to_string();
    assert!(missing.contains("missing: cannot open the file"), "{missing}");
}
