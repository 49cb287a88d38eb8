//! What the tests of this crate share: fixtures, and running a model over token ids.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use quern_backend::{Backend, Batch, KvType, SeqId, Want};
use quern_cpu::{ActivationMode, CpuBackend, CpuOptions};
use quern_gguf::Gguf;
use quern_kernels::isa::Level;
use quern_model::{Model, States, Workspace, is_hugging_face, open_hugging_face};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

/// A model that scripts/fetch-models.sh brings.
pub fn test_model(name: &str) -> PathBuf {
    let dir = std::env::var_os("QUERN_TEST_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/test-data"), PathBuf::from);
    let path = dir.join("models").join(name);
    assert!(path.is_file(), "{} is missing: run scripts/fetch-models.sh", path.display());
    path
}

/// The two real models.
pub const SMOLLM2: &str = "smollm2-135m-instruct-q4_1.gguf";
pub const GEMMA3: &str = "gemma-3-270m-q4_k_m.gguf";

/// A float array of shape [rows, cols] as numpy saves it.
pub fn npy(path: &Path) -> (usize, usize, Vec<f32>) {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let header_len = u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
    let header = std::str::from_utf8(&bytes[10..10 + header_len]).unwrap();
    assert!(header.contains("'<f4'") && header.contains("'fortran_order': False"), "{header}");
    let shape = header.split_once("'shape': (").unwrap().1.split_once(')').unwrap().0;
    let dims: Vec<usize> = shape.split(',').filter_map(|d| d.trim().parse().ok()).collect();
    let values = bytes[10 + header_len..].as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    (dims[0], dims[1], values)
}

/// How a run is made.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub threads: usize,
    pub level: Level,
    pub activations: ActivationMode,
    pub kv: KvType,
    /// Tokens of a prefill batch.
    pub chunk: usize,
}

impl Default for Run {
    fn default() -> Run {
        Run {
            threads: 2,
            level: Level::detect().unwrap(),
            activations: ActivationMode::F32,
            kv: KvType::F32,
            chunk: 512,
        }
    }
}

pub fn backend(run: Run) -> Arc<CpuBackend> {
    let options =
        CpuOptions { threads: Some(run.threads), activations: run.activations, level: Some(run.level) };
    Arc::new(CpuBackend::new(&options).unwrap())
}

pub fn load(path: &Path, run: Run) -> Model<CpuBackend> {
    let file =
        if is_hugging_face(path) { open_hugging_face(path).unwrap() } else { Gguf::open(path).unwrap() };
    let file = Arc::new(file);
    Model::load(backend(run), &file, &mut |_, _| {}).unwrap()
}

pub const SEQ: SeqId = SeqId(1);

/// Runs ids in chunks and calls `sink` with each chunk's first position and its logits, for chunks that hold a position
/// that `wants`.
pub fn run_ids<B: Backend>(
    model: &Model<B>,
    run: Run,
    ids: &[u32],
    wants: impl Fn(usize) -> bool,
    mut sink: impl FnMut(usize, &[f32]),
) {
    let n_vocab = model.spec().n_vocab;
    let mut states = States::default();
    states.insert(SEQ, model.sequence(run.kv, ids.len()));
    let mut ws = Workspace::new(model, run.chunk.min(ids.len()));
    for (i, chunk) in ids.chunks(run.chunk).enumerate() {
        let first = i * run.chunk;
        let want = if (first..first + chunk.len()).any(&wants) { Want::All } else { Want::None };
        model.forward(&mut ws, &Batch::single(SEQ, chunk, first as u32, want), &mut states).unwrap();
        for (row, logits) in ws.logits(model).chunks_exact(n_vocab).enumerate() {
            if wants(first + row) {
                sink(first + row, logits);
            }
        }
    }
}

/// All logits.
pub fn logits(model: &Model<CpuBackend>, run: Run, ids: &[u32]) -> Vec<f32> {
    let mut all = Vec::new();
    run_ids(model, run, ids, |_| true, |_, row| all.extend_from_slice(row));
    all
}
