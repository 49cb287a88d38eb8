//! Hugging Face folders that are refused, each by name, and what becomes of their settings. That the ones that are read
//! give the publisher's logits is `oracle.rs`' business.

#![allow(clippy::unwrap_used)]

mod common;

use common::fixture;
use quern_model::{ModelSpec, is_hugging_face, open_hugging_face};
use serde_json::{Value, json};
use std::path::Path;

/// A copy of a fixture's folder with its configuration edited.
fn edited(name: &str, edit: impl FnOnce(&mut Value)) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(fixture(&format!("tiny/{name}"))).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    let config = folder.path().join("config.json");
    let mut json: Value = serde_json::from_slice(&std::fs::read(&config).unwrap()).unwrap();
    edit(&mut json);
    std::fs::write(config, json.to_string()).unwrap();
    folder
}

fn refusal(folder: &Path) -> String {
    let opened = open_hugging_face(folder).and_then(|file| ModelSpec::from_gguf(&file).map(|_| file));
    let message = opened.unwrap_err().to_string();
    assert_eq!(message.lines().count(), 1, "{message}");
    message
}

#[test]
fn what_cannot_be_honoured_is_refused_by_name() {
    for (name, field, value, expected) in [
        ("qwen3", "model_type", json!("mamba9"), "unknown architecture \"mamba9\""),
        ("qwen3", "model_type", json!(7), "has model_type = 7, not a string"),
        ("qwen3", "model_type", Value::Null, "has no model_type"),
        ("qwen3", "hidden_act", json!("relu"), "has hidden_act = \"relu\": it can be silu"),
        ("qwen3", "use_sliding_window", json!(true), "use_sliding_window"),
        ("mistral", "sliding_window", json!(4096), "has a sliding_window"),
        ("qwen3", "quantization_config", json!({"quant_method": "gptq"}), "quantization_config"),
        ("qwen3", "num_hidden_layers", json!(-2), "has num_hidden_layers = -2, not a count"),
        ("qwen3", "num_hidden_layers", json!(2000), "block_count is 2000"),
        ("qwen3", "hidden_size", Value::Null, "has no hidden_size"),
        ("qwen3", "rope_parameters", json!({"rope_type": "longrope"}), "rope scaling \"longrope\""),
        ("qwen3", "rope_parameters", json!({"rope_type": "linear"}), "linear rope scaling without a factor"),
        ("llama-full", "rope_parameters", json!({"rope_type": "llama3", "factor": 0.0}), "a positive factor"),
        ("gemma3-keys", "hidden_activation", json!("gelu"), "it can be gelu_pytorch_tanh"),
        ("gemma3-keys", "use_bidirectional_attention", json!(true), "use_bidirectional_attention"),
        ("gemma3-keys", "layer_types", json!(["full_attention"]), "has 1 flags for 4 layers"),
        ("qwen35", "linear_num_value_heads", json!(5), "5 value heads for 2 key heads"),
    ] {
        let folder = edited(name, |config| config[field] = value.clone());
        let message = refusal(folder.path());
        assert!(message.contains(expected), "{field} = {value}: {message}");
    }
}

#[test]
fn broken_folders_are_refused_by_file() {
    let folder = edited("qwen2", |_| {});
    let part = folder.path().join("model-00002-of-00004.safetensors");
    std::fs::remove_file(&part).unwrap();
    assert!(refusal(folder.path()).contains("model-00002-of-00004.safetensors"));

    let folder = edited("qwen3", |_| {});
    let config = folder.path().join("config.json");
    for (bytes, expected) in [("{", "is not JSON"), ("[]", "is not a JSON object")] {
        std::fs::write(&config, bytes).unwrap();
        assert!(refusal(folder.path()).contains(expected));
    }
    std::fs::remove_file(&config).unwrap();
    let message = refusal(folder.path());
    assert!(message.contains("config.json cannot be read"), "{message}");
    // An untied head that is not there must not quietly become the embedding.
    let folder = edited("qwen3", |config| config["tie_word_embeddings"] = json!(false));
    assert!(refusal(folder.path()).contains("lm_head.weight"));
}

#[test]
fn a_larger_models_text_part_is_read() {
    let folder = edited("qwen35", |config| {
        *config = json!({ "model_type": "qwen3_5", "text_config": config.clone() });
    });
    let file = open_hugging_face(folder.path()).unwrap();
    assert_eq!(file.metadata().str("general.architecture").unwrap(), "qwen35");
    assert_eq!(ModelSpec::from_gguf(&file).unwrap().layers.len(), 4);
}

#[test]
fn the_publishers_sampling_becomes_the_files() {
    let folder = edited("qwen3", |_| {});
    let settings = json!({ "temperature": 0.6, "top_k": 20, "top_p": 0.95, "repetition_penalty": 1.05 });
    std::fs::write(folder.path().join("generation_config.json"), settings.to_string()).unwrap();
    let file = open_hugging_face(folder.path()).unwrap();
    let metadata = file.metadata();
    assert_eq!(metadata.opt_f32("general.sampling.temp").unwrap(), Some(0.6));
    assert_eq!(metadata.opt_f32("general.sampling.penalty_repeat").unwrap(), Some(1.05));
    assert_eq!(metadata.opt_i32("general.sampling.top_k").unwrap(), Some(20));
}

#[test]
fn a_cap_that_is_null_is_none() {
    let folder = edited("gemma2", |config| {
        config["attn_logit_softcapping"] = json!(null);
        config.as_object_mut().unwrap().remove("final_logit_softcapping");
    });
    let spec = ModelSpec::from_gguf(&open_hugging_face(folder.path()).unwrap()).unwrap();
    let quern_model::Mixer::Attention(attention) = &spec.layers[0].mixer else { panic!("attends") };
    assert_eq!((attention.softcap, spec.final_softcap), (None, Some(30.0)));
}

#[test]
fn folders_and_safetensors_are_known_by_name() {
    assert!(is_hugging_face(&fixture("tiny/qwen3")));
    assert!(is_hugging_face(Path::new("x/model.safetensors")));
    assert!(is_hugging_face(Path::new("model.safetensors.index.json")));
    assert!(!is_hugging_face(Path::new("x/model.gguf")));
}
