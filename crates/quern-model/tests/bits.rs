//! The same bits whatever the threads, the prefill chunks and the instruction set; and the bits of record.
//!
//! A hash covers the logits of the last sixteen positions, which every position before them has a part in. A change to one of these hashes is a change
//! of the arithmetic: it needs a new NUMERICS and a reason in docs/arithmetic.md.

#![allow(clippy::unwrap_used)]

mod common;

use common::{GEMMA3, Run, SMOLLM2, fixture, load, run_ids, test_model};
use quern_backend::{KvType, NUMERICS};
use quern_cpu::ActivationMode;
use quern_kernels::isa::Level;
use std::path::Path;

/// FNV-1a over the bits of the logits that count.
fn hash(path: &Path, run: Run, ids: &[u32]) -> u64 {
    let model = load(path, run);
    let counts = |position: usize| position + 16 >= ids.len();
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut rows = 0;
    run_ids(&model, run, ids, counts, |_, logits| {
        rows += 1;
        for byte in logits.iter().flat_map(|x| x.to_bits().to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    });
    assert_eq!(rows, 16);
    hash
}

fn ids(n: usize, n_vocab: u32) -> Vec<u32> {
    (0..n as u32).map(|i| (i * 7919 + 13) % n_vocab).collect()
}

/// Set where all ways would take hours, as on an emulated machine: the first alone answers to the bits of record.
const FIRST_WAY_ONLY: &str = "QUERN_BITS_FIRST_WAY_ONLY";

/// Every way to run must give `expected`.
fn check(path: &Path, base: Run, ids: &[u32], expected: u64) {
    assert_eq!(NUMERICS, 2, "a new version of the arithmetic needs new hashes");
    let mut runs = vec![base];
    runs.extend([1, 3, 7].map(|threads| Run { threads, ..base }));
    runs.extend([1, 7, 64].map(|chunk| Run { chunk, ..base }));
    runs.extend(
        Level::available().into_iter().filter(|l| *l != base.level).map(|level| Run { level, ..base }),
    );
    if std::env::var_os(FIRST_WAY_ONLY).is_some_and(|value| !value.is_empty()) {
        println!("NOT RUN: {} more ways to run {}: {FIRST_WAY_ONLY} is set", runs.len() - 1, path.display());
        runs.truncate(1);
    }
    let timed = |run: &Run| {
        let started = std::time::Instant::now();
        let got = hash(path, *run, ids);
        println!("{got:#018x} after {:.1?}: {run:?}", started.elapsed());
        got
    };
    let hashes: Vec<u64> = runs.iter().map(timed).collect();
    for (run, got) in runs.iter().zip(&hashes) {
        assert_eq!(*got, hashes[0], "{run:?} differs from {base:?}");
    }
    assert_eq!(
        hashes[0], expected,
        "all ways agree, and the bits of record are others: now {:#018x}",
        hashes[0]
    );
}

fn real(name: &str, activations: ActivationMode, expected: u64) {
    let base = Run { activations, kv: KvType::F16, ..Run::default() };
    check(&test_model(name), base, &ids(1500, 49_152), expected);
}

#[test]
fn smollm2_q8() {
    real(SMOLLM2, ActivationMode::Q8, 0x79c4_9794_18d1_4704);
}

#[test]
fn smollm2_f32() {
    real(SMOLLM2, ActivationMode::F32, 0xa92e_84bd_7963_2f26);
}

#[test]
fn gemma3_q8() {
    real(GEMMA3, ActivationMode::Q8, 0xf5be_a0a1_cdc0_686c);
}

#[test]
fn gemma3_f32() {
    real(GEMMA3, ActivationMode::F32, 0x0492_c34c_20b6_52fb);
}

/// The tiny models have no heads of a multiple of 32.
fn real_q8_0_cache(name: &str, expected: u64) {
    let base = Run { activations: ActivationMode::Q8, kv: KvType::Q8_0, ..Run::default() };
    check(&test_model(name), base, &ids(1500, 49_152), expected);
}

#[test]
fn smollm2_q8_0_cache() {
    real_q8_0_cache(SMOLLM2, 0x468a_8dce_ad8f_ccdc);
}

#[test]
fn gemma3_q8_0_cache() {
    real_q8_0_cache(GEMMA3, 0xeb62_0752_0140_0e01);
}

/// Small models in both modes: every format, widths and row counts that are no multiple of sixteen.
fn tiny(name: &str, n_vocab: u32, expected: [u64; 2]) {
    for (activations, expected) in [ActivationMode::Q8, ActivationMode::F32].into_iter().zip(expected) {
        let base = Run { activations, kv: KvType::F16, ..Run::default() };
        check(&fixture(&format!("tiny/{name}.gguf")), base, &ids(300, n_vocab), expected);
    }
}

#[test]
fn odd_widths() {
    // Float weights take f32 activations in either mode.
    tiny("llama-full", 229, [0xc409_085e_abf1_1e21, 0xc409_085e_abf1_1e21]);
}

#[test]
fn recurrent_layers() {
    tiny("qwen35", 127, [0xbb1e_4bef_f21a_0a37, 0xbb1e_4bef_f21a_0a37]);
    tiny("qwen35-keys", 127, [0x9a45_a691_a09c_14b0, 0x9a45_a691_a09c_14b0]);
}

#[test]
fn every_format() {
    tiny("quant-32", 261, [0xe03d_0fc2_3de6_1301, 0x1992_e437_7c46_217a]);
    tiny("quant-256", 261, [0xddcf_03f5_5a5e_258e, 0x8ffb_609b_6f82_6507]);
    tiny("quant-other", 131, [0xc526_2bdb_c8b2_6bf4, 0xf38c_e31a_304d_f9b7]);
}
