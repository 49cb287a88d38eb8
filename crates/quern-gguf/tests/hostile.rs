//! Files that must be refused, and with which words.

mod common;

use common::{ARRAY, BOOL, Builder, F32, Q4_0, STRING, U32, array, string};
use quern_gguf::{Gguf, GgufError, Limits};

#[track_caller]
fn refused(file: Vec<u8>, part: &str) {
    refused_under(&Limits::DEFAULT, file, part);
}

#[track_caller]
fn refused_under(limits: &Limits, file: Vec<u8>, part: &str) {
    let said = Gguf::from_bytes_with(file, limits).expect_err(part).to_string();
    assert!(said.starts_with("(memory): "), "{said}");
    assert!(said.contains(part), "{said:?} lacks {part:?}");
    assert!(said.len() < 1000 && !said.contains(|c: char| c.is_control()), "{said:?}");
}

fn f32_tensor(n: u64) -> Builder {
    Builder::new().tensor("a", &[n], F32, &vec![0; 4 * n as usize])
}

#[test]
fn what_is_not_gguf_is_named() {
    refused(Vec::new(), "the file is empty");
    refused(b"<html><body>404".to_vec(), "not a GGUF file: it looks like a web page");
    refused(b"version https://git-lfs.github.com/spec/v1\n".to_vec(), "Git LFS pointer");
    refused(b"no".to_vec(), "starts with \"no\" instead of \"GGUF\"");
    refused(b"GG".to_vec(), "inside the magic number");
}

#[test]
fn versions_are_named() {
    let version = |version| Builder { version, ..Builder::new() }.build();
    refused(version(1), "GGUF version 1 was replaced");
    refused(version(0), "GGUF version 0 is unknown");
    refused(version(4), "GGUF version 4 is unknown");
    refused(version(3 << 24), "big-endian GGUF file (version 3)");
    refused(version(2 << 24), "big-endian GGUF file (version 2)");
    for good in [2, 3] {
        assert_eq!(Gguf::from_bytes(version(good)).unwrap().version(), good);
    }
}

#[test]
fn counts_beyond_the_limits_are_refused() {
    let tensors = Builder { n_tensors: Some(1 << 60), ..Builder::new() };
    refused(tensors.build(), "declares 1152921504606846976 tensors, more than the limit of 262144");
    let keys = Builder { n_keys: Some(u64::MAX), ..Builder::new() };
    refused(keys.build(), "declares 18446744073709551615 metadata keys, more than the limit of 65536");
    // Below the limit, and not there: nothing is reserved for what cannot be in the file.
    let keys = Builder { n_keys: Some(1 << 16), ..Builder::new() };
    refused(
        keys.build(),
        "inside metadata key number 0: 8 bytes are needed at byte 24, but the file is 24 bytes",
    );
    let tensors = Builder { n_tensors: Some(1 << 18), ..Builder::new() };
    refused(tensors.build(), "inside the name of tensor number 0");
}

#[test]
fn keys_are_unique_text() {
    let one = Builder::new().u32("x.y", 1);
    refused(one.clone().u32("z", 2).u32("x.y", 1).build(), "metadata key \"x.y\" occurs twice");
    refused(Builder::new().u32("", 1).build(), "metadata key number 0 is empty");
    refused(
        one.clone().key(b"a\xffb\0", U32, &[0; 4]).build(),
        r#"metadata key number 1 is not valid UTF-8: "a\xffb\0""#,
    );
    refused(one.clone().u32(&"k".repeat(65_536), 1).build(), "key number 1 is 65536 bytes long");
    refused(one.key("x", 13, &[0; 4]).build(), "metadata key \"x\" has the unknown value type 13");
}

#[test]
fn values_are_checked() {
    let value = |ty, bytes: &[u8]| Builder::new().key("x", ty, bytes).build();
    refused(value(BOOL, &[2]), "metadata key \"x\" holds the byte 2 as a boolean");
    refused(value(ARRAY, &array(BOOL, 2, &[1, 255])), "holds the byte 255 as a boolean");
    refused(value(STRING, &string(b"\xc3(")), "the value of metadata key \"x\" is not valid UTF-8");
    refused(
        value(STRING, &u64::MAX.to_le_bytes()),
        "is 18446744073709551615 bytes long, more than the limit",
    );
    refused(value(STRING, &1000u64.to_le_bytes()), "1000 bytes are needed at byte 45");
    refused(value(ARRAY, &array(13, 0, &[])), "unknown value type 13");
}

#[test]
fn r44_array_lengths_are_held_against_the_file() {
    let value = |bytes: &[u8]| Builder::new().key("x", ARRAY, bytes).build();
    for (element, name) in [(0, "u8"), (U32, "u32"), (12, "f64"), (STRING, "string"), (ARRAY, "array")] {
        for len in [u64::MAX, 1 << 61, 9] {
            refused(
                value(&array(element, len, &[0; 8])),
                &format!("an array of {len} {name} values, which the 8 bytes left"),
            );
        }
    }
    let inside = [string(b"ab"), 1000u64.to_le_bytes().to_vec()].concat();
    refused(value(&array(STRING, 2, &inside)), "the value of metadata key \"x\"");
}

#[test]
fn arrays_of_nothing_are_read() {
    // Of every type, alone and in an array; of an unknown one, refused as others are.
    let empty = |element| array(element, 0, &[]);
    let all: Vec<Vec<u8>> = (0..13).map(empty).collect();
    let nested = array(ARRAY, 13, &all.concat());
    let file = (0..13u32).fold(Builder::new(), |file, id| file.key(format!("x.{id}"), ARRAY, &empty(id)));
    let file = Gguf::from_bytes(file.key("nested", ARRAY, &nested).build()).unwrap();
    assert_eq!(file.metadata().len(), 14);
    assert!(
        file.metadata()
            .iter()
            .all(|(key, value)| key == "nested" || value.to_string().contains("array of 0"))
    );
    assert!(file.metadata().u32s("x.4").unwrap().is_empty());
    assert!(file.metadata().strings("x.8").unwrap().is_empty());
    refused(Builder::new().key("x", ARRAY, &array(ARRAY, 1, &empty(13))).build(), "unknown value type 13");
}

#[test]
fn lengths_and_offsets_that_wrap_are_refused() {
    let max = u64::MAX.to_le_bytes();
    let key = Builder { n_keys: Some(1), ..Builder::new() }.build();
    refused(
        [key, max.to_vec()].concat(),
        "metadata key number 0 is 18446744073709551615 bytes long, more than",
    );
    let name = Builder { n_tensors: Some(1), ..Builder::new() }.build();
    refused([name, max.to_vec()].concat(), "the name of tensor number 0 is 18446744073709551615 bytes long");
    let name = Builder { n_tensors: Some(1), ..Builder::new() }.build();
    let dims = [string("w"), u32::MAX.to_le_bytes().to_vec()].concat();
    refused([name, dims].concat(), "tensor \"w\" has 4294967295 dimensions");
    // The first offset wraps when the start of the data is added, the second when the size is.
    for offset in [!31, u64::MAX - 191] {
        let file = Builder::new().entry("w", &[8], F32, offset).data(&[0; 32]);
        refused(file.build(), "tensor \"w\" ends at byte 18446744073709551");
    }
}

#[test]
fn arrays_nest_to_a_bounded_depth() {
    let nested = |depth: usize| {
        let innermost = array(U32, 1, &[1, 0, 0, 0]);
        let value = (1..depth).fold(innermost, |inner, _| array(ARRAY, 1, &inner));
        Builder::new().key("x", ARRAY, &value).build()
    };
    assert!(Gguf::from_bytes(nested(4)).is_ok());
    refused(nested(5), "metadata key \"x\" nests arrays deeper than 4");
    refused(nested(20_000), "nests arrays deeper than 4");

    let wide = array(ARRAY, 70_000, &array(U32, 0, &[]).repeat(70_000));
    refused(Builder::new().key("x", ARRAY, &wide).build(), "declares 70000 nested arrays");
    // Counted over the file, not for each array.
    let half = array(ARRAY, 40_000, &array(U32, 0, &[]).repeat(40_000));
    let both = Builder::new().key("x", ARRAY, &half).key("y", ARRAY, &half);
    refused(both.build(), "declares 80000 nested arrays");
}

#[test]
fn r46_names_from_the_file_are_printed_bounded_and_escaped() {
    let bell = "\x1b]0;owned\x07".repeat(5000);
    refused(Builder::new().u32(&bell, 1).u32(&bell, 2).build(), "... (50000 bytes) occurs twice");
    refused(
        Builder::new().entry("a\n\0b", &[0], F32, 0).build(),
        r#"tensor "a\n\0b" has the dimensions [0]"#,
    );
    // A value that a typed getter does not want.
    let file = Builder::new().key("x", STRING, &string(&bell)).build();
    let said = Gguf::from_bytes(file).unwrap().metadata().u32("x").unwrap_err().to_string();
    assert!(said.len() < 700 && !said.contains('\x1b'), "{said:?}");
}

#[test]
fn alignment_is_a_power_of_two_in_bounds() {
    let alignment = |value: u32| Builder::new().u32("general.alignment", value).build();
    for bad in [0, 3, 48, 1 << 17, u32::MAX] {
        refused(alignment(bad), &format!("\"general.alignment\" is {bad}: a power of two"));
    }
    for good in [1, 8, 1 << 16] {
        assert_eq!(Gguf::from_bytes(alignment(good)).unwrap().alignment(), u64::from(good));
    }
    let text = Builder::new().key("general.alignment", STRING, &string("32")).build();
    refused(text, "\"general.alignment\" is the string \"32\"");
    let negative = Builder::new().key("general.alignment", 5, &(-32i32).to_le_bytes()).build();
    refused(negative, "is i32 -32");
}

#[test]
fn r51_one_part_of_a_split_set_is_refused() {
    let part = Builder::new().key("split.no", 2, &[1, 0]).key("split.count", 2, &[3, 0]);
    refused(part.build(), "this is part 2 of a model split into 3 files");
    let whole = Builder::new().key("split.no", 2, &[0, 0]).key("split.count", 2, &[1, 0]);
    assert!(Gguf::from_bytes(whole.build()).is_ok());
}

#[test]
fn shapes_are_checked() {
    let entry = |dims: &[u64], ty| Builder::new().entry("blk.0.w", dims, ty, 0).build();
    refused(entry(&[], F32), "tensor \"blk.0.w\" has 0 dimensions");
    refused(entry(&[1, 1, 1, 1, 1], F32), "has 5 dimensions");
    refused(entry(&[4, 0], F32), "has the dimensions [4, 0]: none can be zero");
    refused(entry(&[0, 1 << 63, 1 << 63], F32), "none can be zero");
    refused(entry(&[33], Q4_0), "rows of 33 values, but Q4_0 stores them in blocks of 32");
    // Whole blocks in the tensor are not enough: each row needs them.
    refused(entry(&[16, 2], Q4_0), "rows of 16 values");
    for dims in [&[1 << 32, 1 << 32][..], &[1 << 62], &[32, 1 << 61, 1 << 61], &[!31; 4]] {
        refused(entry(dims, F32), "its size overflows 64 bits");
    }
    // 2^64 values of half a byte and a bit.
    refused(entry(&[1 << 32, 1 << 32], Q4_0), "its size overflows 64 bits");
}

#[test]
fn r52_unknown_tensor_types_are_refused_with_their_id() {
    for id in [4, 31, 38, 41, u32::MAX] {
        let file = Builder::new().entry("blk.7.w", &[32], id, 0).build();
        refused(file, &format!("tensor \"blk.7.w\" has the unknown type {id}"));
    }
}

#[test]
fn names_of_tensors_are_unique_text() {
    let twice = f32_tensor(8).tensor("b", &[8], F32, &[0; 32]).tensor("a", &[8], F32, &[0; 32]);
    refused(twice.build(), "tensor \"a\" occurs twice");
    refused(Builder::new().entry("", &[8], F32, 0).build(), "the name of tensor number 0 is empty");
    refused(Builder::new().entry(b"\x80", &[8], F32, 0).build(), "tensor number 0 is not valid UTF-8");
    refused(Builder::new().entry("n".repeat(1025), &[8], F32, 0).build(), "is 1025 bytes long");
}

#[test]
fn r50_a_truncated_file_is_called_truncated() {
    let mut file = f32_tensor(100).build();
    file.truncate(file.len() - 1);
    let (end, len) = (file.len() + 1, file.len());
    refused(
        file,
        &format!("tensor \"a\" ends at byte {end}, but the file is {len} bytes long: it is truncated"),
    );
    // Cut inside an array of metadata, where a length check fails first.
    let tokens = array(STRING, 1000, &string("token").repeat(1000));
    let mut file = Builder::new().key("tokens", ARRAY, &tokens).build();
    file.truncate(2000);
    refused(file, "truncated");
}

#[test]
fn tensors_lie_apart_and_without_gaps() {
    let at = |offset| {
        Builder::new().entry("a", &[8], F32, 0).entry("b", &[8], F32, offset).data(&[0; 256]).build()
    };
    refused(at(0), "tensor \"b\" starts at byte 96, inside tensor \"a\", which ends at byte 128");
    refused(at(8), "tensor \"b\" lies at offset 8, which is not a multiple of the file's alignment of 32");
    refused(at(64), "tensor \"b\" starts at byte 160, 32 bytes after the end of tensor \"a\"");
    refused(at(!31), "it is truncated");
    assert!(Gguf::from_bytes(at(32)).is_ok());
    // The directory may list tensors in another order than they lie in.
    let reversed = Builder::new().entry("b", &[8], F32, 32).entry("a", &[8], F32, 0).data(&[7; 64]);
    let file = Gguf::from_bytes(reversed.build()).unwrap();
    assert_eq!(file.tensors().iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["b", "a"]);
    assert_eq!(file.tensor("b").unwrap().offset - file.tensor("a").unwrap().offset, 32);
    let late = Builder::new().entry("a", &[8], F32, 32).data(&[0; 64]);
    refused(late.build(), "32 bytes after the end of the header");
}

#[test]
fn r12_blocks_of_another_size_than_the_types_show_as_gaps() {
    // A fork writes NVFP4, 36 bytes for 64 values, in 40: 16 blocks take 640 bytes and not 576.
    const NVFP4: u32 = 40;
    let fork = Builder::new().tensor("a", &[64, 16], NVFP4, &[0; 640]).tensor("b", &[8], F32, &[0; 32]);
    refused(
        fork.build(),
        "64 bytes after the end of tensor \"a\": that is more than padding, so the file stores NVFP4",
    );
    let plain = Builder::new().tensor("a", &[64, 16], NVFP4, &[0; 576]).tensor("b", &[8], F32, &[0; 32]);
    assert!(Gguf::from_bytes(plain.build()).is_ok());
}

#[test]
fn a_vocabulary_alone_is_a_file() {
    let file = Gguf::from_bytes(Builder::new().u32("x", 1).build()).unwrap();
    assert!(file.tensors().is_empty());
    assert_eq!(file.tensor("x"), None);
    assert_eq!(file.metadata().u32("x").unwrap(), 1);
}

#[test]
fn the_header_has_a_limit_of_its_own() {
    let small = Limits { header_bytes: 1000, ..Limits::DEFAULT };
    let file =
        Builder::new().key("x", ARRAY, &array(U32, 500, &[0; 2000])).tensor("a", &[8], F32, &[0; 32]).build();
    refused_under(
        &small,
        file.clone(),
        "the header reaches past the limit of 1000 bytes inside the value of",
    );
    assert!(Gguf::from_bytes(file).is_ok());
    // Tensors do not count.
    let file = f32_tensor(10_000).build();
    assert!(Gguf::from_bytes_with(file, &small).is_ok());
}

#[test]
fn r45_many_names_are_checked_in_one_sort() {
    // Were duplicates or overlaps looked for pair by pair, this would take hours.
    const N: u64 = 200_000;
    let mut builder = Builder { alignment: 1, ..Builder::new() }.u32("general.alignment", 1);
    for i in 0..N {
        builder = builder.entry(format!("tensor.{:06}", (i * 7919) % N), &[1], F32, 4 * ((i * 104_729) % N));
    }
    let builder = builder.data(&vec![0; 4 * N as usize]);
    let file = Gguf::from_bytes(builder.build()).unwrap();
    assert_eq!(file.tensors().len() as u64, N);
    assert!(file.tensor("tensor.199999").is_some());

    let twice = builder.clone().entry("tensor.000007", &[1], F32, 4 * N).data(&[0; 4]);
    refused(twice.build(), "tensor \"tensor.000007\" occurs twice");
    let over = builder.entry("over", &[1], F32, 4 * (N - 1)).build();
    refused(over, "inside tensor");

    let keys = (0..60_000).fold(Builder::new(), |builder, i| builder.u32(&format!("key.{i}"), i));
    assert_eq!(Gguf::from_bytes(keys.build()).unwrap().metadata().u32("key.59999").unwrap(), 59_999);
    refused(keys.u32("key.30000", 0).build(), "metadata key \"key.30000\" occurs twice");
}

#[test]
fn paths_that_are_no_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let said = |path| Gguf::open(path).unwrap_err().to_string();
    let missing = dir.path().join("missing.gguf");
    assert!(matches!(Gguf::open(&missing).unwrap_err(), GgufError::Io { action: "open", .. }));
    assert!(said(missing.as_path()).contains("missing.gguf: cannot open the file: "));
    assert!(said(dir.path()).ends_with("this is a directory: name the .gguf file in it"));
    let empty = dir.path().join("empty.gguf");
    std::fs::write(&empty, b"").unwrap();
    assert!(said(empty.as_path()).ends_with("the file is empty: download it again"));
    #[cfg(unix)]
    assert!(said(std::path::Path::new("/dev/null")).contains("not a regular file"));
}
