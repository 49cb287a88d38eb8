//! Split sets: opened by any part, and refused as soon as one part does not fit.

mod common;

use std::path::{Path, PathBuf};

use common::{ARRAY, Builder, F32, STRING, array, string};
use quern_gguf::{Gguf, GgufWriter, Limits};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/split").join(name)
}

/// `cpp` was split by llama.cpp's tool, `py` by the `gguf` package, and `whole.gguf` is what both were made of.
#[test]
fn any_part_opens_the_whole_model() {
    let whole = Gguf::open(fixture("whole.gguf")).unwrap();
    for (stem, count) in [("cpp", 3), ("py", 4)] {
        let part = |i: usize| fixture(&format!("{stem}-{i:05}-of-{count:05}.gguf"));
        let files: Vec<PathBuf> = (1..=count).map(part).collect();
        for path in &files {
            let set = Gguf::open(path).unwrap();
            assert_eq!((set.path(), set.version(), set.alignment()), (path.as_path(), 3, 32));
            assert_eq!(set.files().collect::<Vec<_>>(), files);
            let len = files.iter().map(|path| path.metadata().unwrap().len()).sum::<u64>();
            assert_eq!(set.file_len(), len);
            assert_eq!(set.tensors().len(), 5);
            for (ours, theirs) in set.tensors().iter().zip(whole.tensors()) {
                assert_eq!((&ours.name, &ours.dims, ours.ty), (&theirs.name, &theirs.dims, theirs.ty));
                assert_eq!(set.tensor(&ours.name), Some(ours));
                assert_eq!(set.data(ours), whole.data(theirs), "{}", ours.name);
                assert_eq!(&*set.shared(ours), whole.data(theirs));
                assert!(set.is_mapped(ours));
            }

            // R51: written as one file, without the keys of the set, it is the file that was split.
            let own = set.metadata().iter().filter(|(key, _)| !key.starts_with("split."));
            let mut merged = GgufWriter::new();
            merged.entries(own);
            for tensor in set.tensors() {
                merged.tensor(&tensor.name, &tensor.dims, tensor.ty, set.data(tensor));
            }
            let mut bytes = Vec::new();
            merged.write(&mut bytes).unwrap();
            assert!(bytes == std::fs::read(fixture("whole.gguf")).unwrap());
        }
    }
}

/// A set of parts in a folder of its own.
struct Set {
    folder: tempfile::TempDir,
    count: usize,
}

impl Set {
    fn path(&self, part: usize) -> PathBuf {
        self.folder.path().join(format!("m-{part:05}-of-{:05}.gguf", self.count))
    }

    fn write(&self, part: usize, file: &Builder) {
        std::fs::write(self.path(part), file.build()).expect("is written");
    }

    /// Opens the set by each part, and expects the same refusal, about the file `at`.
    #[track_caller]
    fn refused(&self, at: usize, part: &str) {
        for named in (1..=self.count).filter(|&named| self.path(named).exists()) {
            let said = Gguf::open(self.path(named)).expect_err(part).to_string();
            assert!(said.starts_with(&format!("{}: ", self.path(at).display())), "{said}");
            assert!(said.contains(part), "{said:?} lacks {part:?}");
            assert!(said.len() < 1000 && !said.contains(|c: char| c.is_control()), "{said:?}");
        }
    }
}

/// Part `number` of `count`, with the keys of a set of `n_tensors` in all.
fn part(number: u16, count: u16, n_tensors: i32) -> Builder {
    Builder::new()
        .key("split.no", 2, &(number - 1).to_le_bytes())
        .key("split.count", 2, &count.to_le_bytes())
        .key("split.tensors.count", 5, &n_tensors.to_le_bytes())
}

fn with_tensor(file: Builder, name: &str) -> Builder {
    file.tensor(name, &[8], F32, &[1; 32])
}

/// A good set of three parts, with one tensor each.
fn set() -> Set {
    let set = Set { folder: tempfile::tempdir().expect("a folder"), count: 3 };
    set.write(1, &with_tensor(part(1, 3, 3).key("general.architecture", STRING, &string("a")), "a"));
    set.write(2, &with_tensor(part(2, 3, 3), "b"));
    set.write(3, &with_tensor(part(3, 3, 3), "c"));
    set
}

#[test]
fn a_missing_part_is_named_with_its_full_path() {
    let set = set();
    assert!(Gguf::open(set.path(2)).is_ok());
    std::fs::remove_file(set.path(2)).unwrap();
    set.refused(2, "part 2 of 3 is missing: put all parts into one folder, or download it again");
    std::fs::remove_file(set.path(1)).unwrap();
    set.refused(1, "part 1 of 3 is missing and 1 more: put all parts");
    assert!(set.path(1).is_absolute());
    std::fs::create_dir(set.path(1)).unwrap();
    std::fs::write(set.path(2), b"").unwrap();
    let said = Gguf::open(set.path(3)).unwrap_err().to_string();
    assert!(said.contains("m-00001-of-00003.gguf: this is a directory"), "{said}");
}

#[test]
fn a_part_under_another_name_is_refused() {
    let swapped = set();
    let other = swapped.folder.path().join("other");
    std::fs::rename(swapped.path(2), &other).unwrap();
    std::fs::rename(swapped.path(3), swapped.path(2)).unwrap();
    std::fs::rename(&other, swapped.path(3)).unwrap();
    let renamed = "by its name this is part 2 of 3, but its metadata says part 3 of 3";
    let said = Gguf::open(swapped.path(1)).unwrap_err().to_string();
    assert!(said.contains("m-00002-of-00003.gguf: by its name") && said.contains(renamed), "{said}");
    assert!(Gguf::open(swapped.path(2)).unwrap_err().to_string().contains(renamed));

    let set = set();
    let nameless = set.folder.path().join("model.gguf");
    std::fs::copy(set.path(2), &nameless).unwrap();
    let said = Gguf::open(&nameless).unwrap_err().to_string();
    assert!(
        said.contains("says that this is part 2 of 3") && said.contains("call it NAME-00002-of-00003.gguf"),
        "{said}"
    );

    // A whole model that is called a part, and a part of a larger set.
    set.write(2, &with_tensor(Builder::new(), "b"));
    set.write(3, &with_tensor(part(3, 4, 3), "c"));
    let said = |i| Gguf::open(set.path(i)).unwrap_err().to_string();
    assert!(
        said(2).contains("by its name this is part 2 of 3, but its metadata does not say that it is a part")
    );
    assert!(said(3).contains("this is part 3 of 3, but its metadata says part 3 of 4"));
    let single = set.folder.path().join("m-00001-of-00001.gguf");
    std::fs::write(&single, part(1, 1, 0).build()).unwrap();
    assert!(Gguf::open(&single).is_ok());
    std::fs::write(&single, Builder::new().build()).unwrap();
    assert!(Gguf::open(&single).is_ok());
}

#[test]
fn hostile_numbers_are_refused() {
    let set = set();
    for (key, ty, value, said) in [
        ("split.no", 5, &(-1i32).to_le_bytes()[..], "\"split.no\" is i32 -1"),
        ("split.no", 10, &u64::MAX.to_le_bytes()[..], "metadata says part 18446744073709551615 of 3"),
        ("split.count", STRING, &string("3")[..], "\"split.count\" is the string \"3\""),
        ("split.count", 10, &u64::MAX.to_le_bytes()[..], "part 2 of 18446744073709551615"),
        ("split.count", 2, &[0, 0], "does not say that it is a part"),
        ("split.tensors.count", ARRAY, &array(2, 0, &[])[..], "is an array of 0 u16 values"),
        ("split.tensors.count", 11, &i64::MIN.to_le_bytes()[..], "is i64 -9223372036854775808"),
        ("split.tensors.count", 10, &u64::MAX.to_le_bytes()[..], "declares 18446744073709551615 tensors"),
    ] {
        let mut file = Builder::new();
        for (other, ty, value) in [
            ("split.no", 2, &[1, 0][..]),
            ("split.count", 2, &[3, 0]),
            ("split.tensors.count", 4, &[3, 0, 0, 0]),
        ] {
            if other != key {
                file = file.key(other, ty, value);
            }
        }
        set.write(2, &with_tensor(file.clone().key(key, ty, value), "b"));
        set.refused(2, said);
        if key != "split.count" {
            set.write(2, &with_tensor(file, "b"));
            set.refused(2, &format!("metadata key \"{key}\" is missing"));
        }
    }
}

#[test]
fn the_parts_hold_as_many_tensors_as_they_say() {
    let set = set();
    set.write(3, &part(3, 3, 3));
    set.refused(1, "this part declares 3 tensors in the whole set, but its parts hold 2");
    set.write(3, &with_tensor(with_tensor(part(3, 3, 3), "c"), "d"));
    set.refused(1, "declares 3 tensors in the whole set, but its parts hold 4");
    set.write(3, &with_tensor(part(3, 3, 4), "c"));
    set.refused(3, "declares 4 tensors in the whole set, but its parts hold 3");
    // The limit holds for all parts together.
    set.write(3, &with_tensor(part(3, 3, 3), "c"));
    let limits = Limits { tensors: 2, ..Limits::DEFAULT };
    let said = Gguf::open_with(set.path(1), &limits).unwrap_err().to_string();
    assert!(said.contains("declares 3 tensors, more than the limit of 2"), "{said}");
}

#[test]
fn a_tensor_lies_in_one_part_only() {
    let set = set();
    set.write(3, &with_tensor(part(3, 3, 3), "a"));
    set.refused(3, "tensor \"a\" is in this part and in ");
    let said = Gguf::open(set.path(2)).unwrap_err().to_string();
    assert!(said.contains("m-00001-of-00003.gguf as well"), "{said}");
}

#[test]
fn parts_of_another_model_are_refused() {
    let set = set();
    let architecture =
        |name: &str| with_tensor(part(3, 3, 3).key("general.architecture", STRING, &string(name)), "c");
    set.write(3, &architecture("a"));
    assert!(Gguf::open(set.path(1)).is_ok());
    set.write(3, &architecture("b"));
    set.refused(
        3,
        "\"general.architecture\" is the string \"b\", but the first part of the set has the string \"a\"",
    );
    set.write(3, &with_tensor(part(3, 3, 3).u32("x", 1), "c"));
    set.refused(3, "metadata key \"x\" is u32 1, but the first part of the set does not have it");

    // NaN is the same as itself; each file is aligned as it says.
    let nan = f32::NAN.to_le_bytes();
    set.write(1, &with_tensor(part(1, 3, 3).key("x", 6, &nan), "a"));
    let aligned = Builder { alignment: 64, ..part(3, 3, 3).key("x", 6, &nan).u32("general.alignment", 64) };
    set.write(3, &with_tensor(aligned, "c"));
    assert_eq!(Gguf::open(set.path(2)).unwrap().alignment(), 32);
    set.write(3, &with_tensor(part(3, 3, 3).key("x", 6, &f32::to_le_bytes(-f32::NAN)), "c"));
    set.refused(3, "metadata key \"x\" is f32 NaN");
}

#[test]
fn a_damaged_part_is_named() {
    let set = set();
    let mut file = with_tensor(part(3, 3, 3), "c").build();
    file.truncate(file.len() - 1);
    std::fs::write(set.path(3), &file).unwrap();
    let said = Gguf::open(set.path(1)).unwrap_err().to_string();
    assert!(said.starts_with(&set.path(3).display().to_string()) && said.contains("truncated"), "{said}");
}

#[test]
fn r51_a_part_is_not_written_as_a_whole() {
    let set = Gguf::open(fixture("cpp-00001-of-00003.gguf")).unwrap();
    let mut writer = GgufWriter::new();
    writer.entries(set.metadata().iter());
    let said = writer.write(&mut Vec::new()).unwrap_err().to_string();
    assert!(said.contains("leave the keys of a set out of a file that stands alone"), "{said}");
    // What could not be opened under its name is not written there.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new-00001-of-00002.gguf");
    let said = GgufWriter::new().write_file(&path).unwrap_err().to_string();
    assert!(said.contains("give it a name without these numbers") && !path.exists(), "{said}");
}
