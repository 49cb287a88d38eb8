//! Overrides of the rotary embedding: bit for bit the files that say the same, which tests/oracle.rs holds against the
//! publishers' own code, and where no file says the same, against that code itself.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Run, backend, fixture, logits, npy};
use quern_gguf::{AssembledTensor, Gguf, Metadata, Value};
use quern_model::{Model, ModelError, ModelSpec, RopeOverrides, RopeReach};
use std::sync::Arc;

/// In several batches, so that positions count from the sequence's beginning.
fn chunked() -> Run {
    Run { chunk: 16, ..Run::default() }
}

fn tiny(name: &str) -> Gguf {
    Gguf::open(fixture(&format!("tiny/{name}.gguf"))).unwrap()
}

/// The file without the keys whose names hold `dropped`, and with others.
fn edited(name: &str, dropped: &str, added: &[(&str, Value)]) -> Gguf {
    let file = tiny(name);
    let replaced = |key: &str| added.iter().any(|(name, _)| *name == key);
    let entries = file.metadata().iter().filter(|(key, _)| !key.contains(dropped) && !replaced(key));
    let entries: Vec<_> = entries.map(|(key, value)| (key.to_owned(), value.clone())).collect();
    assert!(entries.len() < file.metadata().iter().count(), "{name} has no {dropped}");
    let added = added.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
    let metadata = Metadata::from_entries("edited", entries.into_iter().chain(added)).unwrap();
    let tensors = file.tensors().iter().map(|t| AssembledTensor {
        name: t.name.clone(),
        dims: t.dims.clone(),
        ty: t.ty,
        bytes: file.shared(t),
    });
    Gguf::assemble("edited", metadata, tensors.collect()).unwrap()
}

fn spec(file: &Gguf, overrides: &RopeOverrides) -> Result<ModelSpec, ModelError> {
    ModelSpec::from_gguf(file)?.with_rope(overrides)
}

/// The logits of both prompts, and the context.
fn run(name: &str, file: Gguf, overrides: &RopeOverrides) -> (Vec<f32>, usize) {
    let ids = std::fs::read(fixture(&format!("tiny/{name}.ids.json"))).unwrap();
    let prompts: Vec<Vec<u32>> = serde_json::from_slice(&ids).unwrap();
    let spec = spec(&file, overrides).unwrap();
    let run = chunked();
    let model = Model::load_as(backend(run), &Arc::new(file), spec, &mut |_, _| {}).unwrap();
    let logits = prompts.iter().flat_map(|ids| logits(&model, run, ids)).collect();
    (logits, model.spec().context_length)
}

fn reach(reach: RopeReach) -> RopeOverrides {
    RopeOverrides { reach: Some(reach), ..RopeOverrides::default() }
}

fn base(base: f32) -> RopeOverrides {
    RopeOverrides { base: Some(base), ..RopeOverrides::default() }
}

/// Bit for bit the file that declares it, and not what it is without.
#[test]
fn an_override_is_the_file_that_declares_it() {
    let trained = ("llama.context_length", Value::U32(300));
    for (name, dropped, added, overrides, context) in [
        ("llama-linear", ".rope.scaling.", vec![], reach(RopeReach::Linear(4.0)), 4 * 512),
        // The window's layers are not scaled.
        ("gemma3-linear", ".rope.scaling.", vec![], reach(RopeReach::Linear(8.0)), 8 * 512),
        ("llama-yarn", ".rope.scaling.", vec![trained], reach(RopeReach::Yarn(4.0)), 4 * 300),
        ("llama-plain", ".rope.freq_base", vec![], base(500_000.0), 512),
        ("qwen35", ".rope.freq_base", vec![], base(1e6), 512),
        // The window's layers keep their own base.
        (
            "gemma3-keys",
            "gemma3.rope.freq_base",
            vec![("gemma3.rope.freq_base_swa", Value::F32(700.0))],
            base(3e5),
            512,
        ),
        // A file's scaling works on another base.
        ("llama-linear", ".rope.freq_base", vec![], base(20_000.0), 512),
        ("llama-yarn", ".rope.freq_base", vec![], base(20_000.0), 1200),
        // Both at once.
        (
            "llama-linear",
            ".rope.",
            vec![("llama.rope.dimension_count", Value::U32(14))],
            RopeOverrides { base: Some(20_000.0), reach: Some(RopeReach::Linear(4.0)) },
            4 * 512,
        ),
    ] {
        let (declared, _) = run(name, tiny(name), &RopeOverrides::default());
        let (overridden, reached) = run(name, edited(name, dropped, &added), &overrides);
        assert!(overridden == declared, "{name} with {overrides:?} is another model");
        assert_eq!(reached, context, "{name}");
        let (without, _) = run(name, edited(name, dropped, &added), &RopeOverrides::default());
        assert!(without != declared, "{name} without {overrides:?} is the same model");
    }
}

/// transformers with its configuration's rotation changed (scripts/fixtures/tiny_models.py): a part of the head, layers
/// without a window alone, a base and a scale together.
#[test]
fn an_override_is_what_the_publishers_code_computes() {
    let both = RopeOverrides { base: Some(5000.0), reach: Some(RopeReach::Linear(2.0)) };
    for (name, label, overrides) in [
        ("qwen35", "yarn-8", reach(RopeReach::Yarn(8.0))),
        ("gemma3-window", "yarn-4", reach(RopeReach::Yarn(4.0))),
        ("gemma3-window", "linear-4", reach(RopeReach::Linear(4.0))),
        ("qwen2", "base-5000-linear-2", both),
    ] {
        let (_, n_vocab, reference) = npy(&fixture(&format!("tiny/{name}.{label}.logits.npy")));
        let (ours, _) = run(name, tiny(name), &overrides);
        assert_eq!(ours.len(), reference.len());
        let rows = ours.chunks(n_vocab).zip(reference.chunks(n_vocab));
        for (row, (ours, reference)) in rows.enumerate() {
            let max = reference.iter().fold(0.0f32, |m, x| m.max(x.abs()));
            let delta = ours.iter().zip(reference).fold(0.0f32, |m, (a, b)| m.max((a - b).abs()));
            assert!(delta <= 1e-4 * max, "{name} {label} row {row}: max|delta| {delta} of max {max}");
        }
    }
}

/// A rotation of a part of the head is scaled as a file's keys would.
#[test]
fn a_partial_rotation_is_scaled_too() {
    for (kind, overrides) in
        [("linear", reach(RopeReach::Linear(2.0))), ("yarn", reach(RopeReach::Yarn(2.0)))]
    {
        let keys = [
            ("qwen35.rope.scaling.type", Value::Str(kind.into())),
            ("qwen35.rope.scaling.factor", Value::F32(2.0)),
            ("general.name", Value::Str("qwen35".into())),
        ];
        let declared = run("qwen35", edited("qwen35", "general.name", &keys), &RopeOverrides::default());
        let overridden = run("qwen35", tiny("qwen35"), &overrides);
        assert!(overridden.0 == declared.0, "{kind}");
        assert_eq!((declared.1, overridden.1), (512, 1024));
    }
}

#[test]
fn what_a_file_says_of_itself_is_not_said_again() {
    let linear = reach(RopeReach::Linear(2.0));
    let yarn = reach(RopeReach::Yarn(2.0));
    for (name, overrides, parts) in [
        ("llama-linear", linear, ["rope_scale", "declares linear scaling by 4"]),
        ("llama-linear", yarn, ["yarn_factor", "declares linear scaling by 4"]),
        ("llama-yarn", yarn, ["yarn_factor", "declares yarn scaling by 4"]),
        ("gemma3-linear", linear, ["rope_scale", "declares linear scaling by 8"]),
        ("llama-full", linear, ["rope_scale", "rope_freqs"]),
        ("llama-full", base(1e4), ["rope_base", "rope_freqs"]),
        ("llama-plain", reach(RopeReach::Linear(0.5)), ["rope_scale is 0.5", "from 1 up"]),
        ("llama-plain", reach(RopeReach::Yarn(f32::NAN)), ["yarn_factor is NaN", "from 1 up"]),
        ("llama-plain", reach(RopeReach::Yarn(f32::INFINITY)), ["yarn_factor is inf", "from 1 up"]),
        ("llama-plain", reach(RopeReach::Linear(1e30)), ["context_length", "outside"]),
        ("llama-plain", base(1.0), ["rope_base is 1", "above 1"]),
        ("llama-plain", base(f32::NAN), ["rope_base is NaN", "above 1"]),
    ] {
        let refused = spec(&tiny(name), &overrides).unwrap_err().to_string();
        assert!(parts.iter().all(|part| refused.contains(part)), "{name} {overrides:?}: {refused}");
    }
    // A factor of one, which converters write, scales nothing.
    let one = [
        ("llama.rope.scaling.factor", Value::F32(1.0)),
        ("llama.rope.scaling.type", Value::Str("linear".into())),
    ];
    let file = edited("llama-linear", ".rope.scaling.", &one);
    assert_eq!(spec(&file, &linear).unwrap().context_length, 1024);
}
