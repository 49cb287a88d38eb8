//! Tiny random models against the publisher's own code: transformers in float32 (scripts/fixtures/tiny_models.py).

#![allow(clippy::unwrap_used)]

mod common;

use common::{Run, backend, fixture, logits, npy};
use quern_gguf::{AssembledTensor, Gguf, Metadata, TensorType, Value};
use quern_model::{Mixer, Model, ModelSpec, open_hugging_face};
use std::sync::Arc;

/// Every row within 1e-4 of its largest reference logit, and the same best token wherever the reference is sure.
fn check(name: &str) {
    check_file(name, Gguf::open(fixture(&format!("tiny/{name}.gguf"))).unwrap());
}

/// The same model as the folder that transformers saves.
fn check_folder(name: &str) {
    check_file(name, open_hugging_face(&fixture(&format!("tiny/{name}"))).unwrap());
}

fn check_file(name: &str, file: Gguf) {
    let ids = std::fs::read(fixture(&format!("tiny/{name}.ids.json"))).unwrap();
    let prompts: Vec<Vec<u32>> = serde_json::from_slice(&ids).unwrap();
    let (rows, n_vocab, reference) = npy(&fixture(&format!("tiny/{name}.logits.npy")));
    assert_eq!(rows, prompts.iter().map(Vec::len).sum::<usize>());
    let run = Run { chunk: 16, ..Run::default() };
    let model = Model::load(backend(run), &Arc::new(file), &mut |_, _| {}).unwrap();
    let ours: Vec<f32> = prompts.iter().flat_map(|ids| logits(&model, run, ids)).collect();
    assert_eq!(ours.len(), reference.len());
    let mut worst = 0.0f32;
    for (row, (ours, reference)) in ours.chunks(n_vocab).zip(reference.chunks(n_vocab)).enumerate() {
        let max = reference.iter().fold(0.0f32, |m, x| m.max(x.abs()));
        let delta = ours.iter().zip(reference).fold(0.0f32, |m, (a, b)| m.max((a - b).abs()));
        worst = worst.max(delta / max);
        assert!(delta <= 1e-4 * max, "{name} row {row}: max|delta| {delta} of max {max}");
        let best = |v: &[f32]| (0..v.len()).max_by(|&a, &b| v[a].total_cmp(&v[b])).unwrap();
        let range = max - reference.iter().copied().fold(f32::INFINITY, f32::min);
        let top = best(reference);
        let second = (0..n_vocab).filter(|&i| i != top).map(|i| reference[i]).fold(f32::MIN, f32::max);
        if reference[top] - second > 1e-3 * range {
            assert_eq!(best(ours), top, "{name} row {row}: argmax");
        }
    }
    println!("{name}: {rows} rows, worst max|delta|/max {worst:.2e}");
}

macro_rules! oracles {
    ($check:ident: $($test:ident $name:literal;)*) => {
        $(#[test] fn $test() { $check($name); })*
    };
}

oracles! {
    check_folder:
    // Llama 3's scaling, biases, a tied head that is stored nowhere.
    llama_folder "llama-full";
    gemma3_folder "gemma3-keys";
    gemma3_linear_folder "gemma3-linear";
    // In four files with an index.
    gemma2_folder "gemma2";
    mistral_folder "mistral";
    qwen2_folder "qwen2";
    qwen3_folder "qwen3";
    qwen35_folder "qwen35";
}

oracles! {
    check:
    llama_full "llama-full";
    llama_plain "llama-plain";
    llama_linear "llama-linear";
    llama_yarn "llama-yarn";
    llama_yarn_betas "llama-yarn-betas";
    gemma3_window "gemma3-window";
    gemma3_linear "gemma3-linear";
    gemma3_keys "gemma3-keys";
    // R22: the scale of the 62-layer model is by hidden/n_heads.
    gemma3_62_layers "gemma3-62-layers";
    gemma2 "gemma2";
    mistral "mistral";
    qwen2 "qwen2";
    qwen3 "qwen3";
    qwen35 "qwen35";
    qwen35_keys "qwen35-keys";
    // Every format, with the reference computed over the weights as the gguf package decodes them.
    quantised_blocks_of_32 "quant-32";
    quantised_blocks_of_256 "quant-256";
    every_other_quantised_format "quant-other";
    short_floats "short-floats";
}

/// The model layer sees no difference between a file and a container made of memory and ranges of a mapped file; and
/// what it lets go of after packing comes back, wherever it lies.
#[test]
fn an_assembled_container_is_the_model() {
    let name = "llama-full";
    let file = Gguf::open(fixture(&format!("tiny/{name}.gguf"))).unwrap();
    let entries = file.metadata().iter().map(|(key, value)| (key.to_owned(), value.clone()));
    let metadata = Metadata::from_entries("assembled", entries).unwrap();
    let tensors = file.tensors().iter().enumerate().map(|(i, t)| AssembledTensor {
        name: t.name.clone(),
        dims: t.dims.clone(),
        ty: t.ty,
        bytes: if i % 2 == 0 || t.name == "token_embd.weight" {
            file.data(t).to_vec().into()
        } else {
            file.shared(t)
        },
    });
    let assembled = Arc::new(Gguf::assemble("assembled", metadata, tensors.collect()).unwrap());
    let embedding = assembled.tensor("token_embd.weight").unwrap();
    assert!(!assembled.is_mapped(embedding));
    drop(Model::load(backend(Run::default()), &assembled, &mut |_, _| {}).unwrap());
    for tensor in file.tensors() {
        assert_eq!(assembled.data(assembled.tensor(&tensor.name).unwrap()), file.data(tensor));
    }
    check_file(name, Arc::into_inner(assembled).unwrap());
}

/// A tiny file's metadata and tensors, to be changed and put together again.
fn parts(name: &str) -> (Vec<(String, Value)>, Vec<AssembledTensor>) {
    let file = Gguf::open(fixture(&format!("tiny/{name}.gguf"))).unwrap();
    let entries = file.metadata().iter().map(|(key, value)| (key.to_owned(), value.clone()));
    let tensors = file.tensors().iter().map(|t| AssembledTensor {
        name: t.name.clone(),
        dims: t.dims.clone(),
        ty: t.ty,
        bytes: file.shared(t),
    });
    (entries.collect(), tensors.collect())
}

fn together(entries: Vec<(String, Value)>, tensors: Vec<AssembledTensor>) -> Gguf {
    Gguf::assemble("changed", Metadata::from_entries("changed", entries).unwrap(), tensors).unwrap()
}

fn refusal(file: Gguf) -> String {
    let loaded = Model::load(backend(Run::default()), &Arc::new(file), &mut |_, _| {});
    loaded.err().unwrap().to_string()
}

/// Layers behind the last that predict further tokens are left alone; tensors that nothing explains are not.
#[test]
fn layers_that_predict_further_tokens_are_not_run() {
    let with = |layer: usize, ahead: Option<u32>| {
        let (mut entries, mut tensors) = parts("qwen35");
        if let Some(ahead) = ahead {
            entries.push(("qwen35.nextn_predict_layers".into(), Value::U32(ahead)));
            let count = entries.iter_mut().find(|(key, _)| key == "qwen35.block_count").unwrap();
            count.1 = Value::U32(4 + ahead);
        }
        let norm = tensors.iter().find(|t| t.name == "output_norm.weight").unwrap().clone();
        tensors.push(AssembledTensor { name: format!("blk.{layer}.nextn.enorm.weight"), ..norm });
        together(entries, tensors)
    };
    check_file("qwen35", with(4, Some(1)));
    for (layer, ahead, expected) in [(4, None, "blk.4.nextn"), (5, Some(1), "blk.5.nextn")] {
        let refusal = refusal(with(layer, ahead));
        assert!(refusal.contains(expected), "{refusal}");
    }
}

/// The first files of Gemma 2 have no keys for what all models of the family share; the values are those of
/// `Gemma2Config` in transformers 5.24.0.
#[test]
fn what_gemma_2_does_not_say() {
    let (mut entries, tensors) = parts("gemma2");
    entries.retain(|(key, _)| !key.contains("softcapping") && !key.contains("sliding_window"));
    let spec = ModelSpec::from_gguf(&together(entries, tensors)).unwrap();
    let Mixer::Attention(first) = &spec.layers[0].mixer else { panic!("attends") };
    let Mixer::Attention(second) = &spec.layers[1].mixer else { panic!("attends") };
    assert_eq!((spec.final_softcap, first.softcap, second.softcap), (Some(30.0), Some(50.0), Some(50.0)));
    assert_eq!((first.window, second.window), (Some(4096), None));
}

/// Twice the weights under a scale of a half, as NVFP4 files bring scales: the same logits.
#[test]
fn a_scale_of_a_whole_tensor_multiplies_it() {
    let scaled = |name: &str, scale: &[f32]| {
        let (entries, mut tensors) = parts(name);
        let floats = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        let mut scales = Vec::new();
        for tensor in &mut tensors {
            let is_linear =
                tensor.dims.len() == 2 && !["token_embd", "conv1d"].iter().any(|n| tensor.name.contains(n));
            let Some(stem) = tensor.name.strip_suffix(".weight").filter(|_| is_linear) else { continue };
            assert_eq!(tensor.ty, TensorType::F32, "{}", tensor.name);
            let twice = tensor.bytes.as_chunks::<4>().0.iter().map(|four| 2.0 * f32::from_le_bytes(*four));
            for (part, values) in [("scale", scale), ("input_scale", &[7.0][..])] {
                scales.push(AssembledTensor {
                    name: format!("{stem}.{part}"),
                    dims: vec![values.len() as u64],
                    ty: TensorType::F32,
                    bytes: floats(values).into(),
                });
            }
            tensor.bytes = floats(&twice.collect::<Vec<_>>()).into();
        }
        assert!(scales.len() > 20, "{} scales", scales.len());
        tensors.extend(scales);
        together(entries, tensors)
    };
    check_file("qwen35", scaled("qwen35", &[0.5]));
    check_file("llama-full", scaled("llama-full", &[0.5]));
    for (wrong, expected) in [(&[0.5, 0.5][..], "[1]"), (&[f32::NAN], "a finite number")] {
        let refusal = refusal(scaled("qwen35", wrong));
        assert!(refusal.contains(".scale") && refusal.contains(expected), "{refusal}");
    }
}
