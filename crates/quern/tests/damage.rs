//! Damaged copies of real models: whatever a file holds, opening it, reading its vocabulary, its chat template and its
//! architecture ends in an answer or in one sentence, never in a panic.
#![allow(clippy::unwrap_used)]
#![cfg(unix)]

use quern::{Error, Message, ModelFile, RenderOptions};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

fn model(name: &str) -> PathBuf {
    let folder = std::env::var_os("QUERN_TEST_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/test-data"), PathBuf::from);
    let path = folder.join("models").join(name);
    assert!(path.is_file(), "{} is missing: run scripts/fetch-models.sh", path.display());
    path
}

/// What every command does with a file before it touches a weight.
fn look(path: &Path) -> Result<(), Error> {
    let file = ModelFile::open(path.to_str().unwrap(), &mut ())?;
    let spec = file.spec().map(|_| ());
    if let Some(tokenizer) = file.opt_tokenizer()? {
        let template = file.template(&tokenizer)?;
        template.render(&[Message::user("Hi")], &RenderOptions::default())?;
    }
    spec
}

/// A copy of a model's header in front of a hole as large as its tensors.
struct Copy {
    path: PathBuf,
    file: File,
    header: Vec<u8>,
    len: u64,
    _folder: tempfile::TempDir,
}

impl Copy {
    fn new(name: &str) -> Copy {
        let original = model(name);
        let first = ModelFile::open(original.to_str().unwrap(), &mut ()).unwrap();
        let end = first.gguf().tensors().iter().map(|tensor| tensor.offset).min().unwrap();
        let mut header = vec![0; end as usize];
        File::open(&original).unwrap().read_exact(&mut header).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("damaged.gguf");
        let file = File::create(&path).unwrap();
        let copy = Copy { path, file, header, len: first.gguf().file_len(), _folder: folder };
        copy.restore();
        look(&copy.path).unwrap();
        copy
    }

    fn restore(&self) {
        self.file.set_len(0).unwrap();
        self.file.write_all_at(&self.header, 0).unwrap();
        self.file.set_len(self.len).unwrap();
    }

    /// How the file as it now is ends: accepted, or refused in one sentence.
    fn is_refused(&self, what: &str) -> bool {
        let looked = catch_unwind(AssertUnwindSafe(|| look(&self.path)));
        let Ok(looked) = looked else { panic!("{what}: a panic") };
        if let Err(error) = &looked {
            let message = error.to_string();
            assert!(error.is_refusal(), "{what}: {message}");
            assert!(message.lines().count() == 1 && message.len() < 1500, "{what}: {message:?}");
        }
        looked.is_err()
    }

    /// Spoils one byte in every `step`, each in turn; says how many of the copies were refused.
    fn spoil(&self, step: usize) -> usize {
        let mut refused = 0;
        for (i, place) in (0..self.header.len()).step_by(step).enumerate() {
            let spoiled = self.header[place] ^ [0xff, 0x01, 0x80][i % 3];
            self.file.write_all_at(&[spoiled], place as u64).unwrap();
            refused += usize::from(self.is_refused(&format!("byte {place} is {spoiled:#04x}")));
            self.file.write_all_at(&self.header[place..=place], place as u64).unwrap();
        }
        refused
    }

    /// Cuts the file at every `step`-th byte of the header; every cut must be refused.
    fn cut(&self, step: usize) {
        for end in (0..self.header.len()).step_by(step) {
            self.file.set_len(end as u64).unwrap();
            assert!(self.is_refused(&format!("cut at {end}")), "cut at {end} is accepted");
            self.restore();
        }
    }
}

/// R50, R46: every 4,096th byte of the header.
#[test]
fn r50_the_demo_model_spoiled_at_every_4096th_byte() {
    let copy = Copy::new("smollm2-135m-instruct-q4_1.gguf");
    assert!(copy.spoil(4096) > 50);
    copy.cut(4096);
}

/// The vocabulary of this one is so large that going through every 4,096th byte of it takes too long in a development
/// build, so every seventh of those is taken; the odd stride wanders through the layout.
const GEMMA_STEP: usize = 7 * 4096 + 1;

#[test]
fn r50_the_gemma_model_spoiled_at_a_sample_of_places() {
    let copy = Copy::new("gemma-3-270m-q4_k_m.gguf");
    assert!(copy.spoil(GEMMA_STEP) > 5);
    copy.cut(GEMMA_STEP);
}

/// Every byte of the first fields, where counts and lengths stand.
#[test]
fn r44_the_first_bytes_one_by_one() {
    let copy = Copy::new("smollm2-135m-instruct-q4_1.gguf");
    let mut refused = 0;
    for place in 0..256 {
        copy.file.write_all_at(&[copy.header[place] ^ 0x80], place as u64).unwrap();
        refused += usize::from(copy.is_refused(&format!("byte {place}")));
        copy.file.write_all_at(&copy.header[place..=place], place as u64).unwrap();
    }
    assert!(refused > 100, "{refused}");
}
