//! `quern caps`: what it says is what the loader does.

use crate::common::{quern, run, test_data, text};
use serde_json::Value;
use std::process::Command;

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|item| item["name"].as_str().or(item.as_str()).unwrap()).collect()
}

/// Every vocabulary of llama.cpp's suite is read, and caps names its kind.
#[test]
fn what_is_read_is_named() {
    let caps = quern(&["caps", "--json"]).json();
    let (models, pres) = (names(&caps["tokenizer_models"]), names(&caps["pretokenizers"]));
    let folder = test_data("vocab/ggml-vocab-llama-bpe.gguf");
    let mut read = 0;
    for entry in std::fs::read_dir(folder.parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "gguf") {
            continue;
        }
        let tokenizer = &quern(&["inspect", &text(&path), "--json"]).json()["tokenizer"];
        assert!(tokenizer["error"].is_null(), "{}: {tokenizer}", path.display());
        read += 1;
        assert!(models.contains(&tokenizer["model"].as_str().unwrap()), "{tokenizer}");
        let pre = tokenizer["pre"].as_str();
        let by_merges = tokenizer["model"] == "gpt2";
        assert!(!by_merges || pre.is_none_or(|pre| pres.contains(&pre)), "{tokenizer}");
    }
    assert!(read > 10, "{read} read");
    assert_eq!(names(&caps["kv"]), ["f16", "q8_0", "f32"]);
    for mode in names(&caps["activations"]) {
        assert!(
            quern(&["run", "no/such.gguf", "x", "--activations", mode]).refused().contains("no/such.gguf")
        );
    }
    for name in names(&caps["short_names"]) {
        assert!(quern(&["run", "nobody", "x"]).refused().contains(name));
    }
    let page = quern(&["caps"]).done();
    for word in ["llama", "gemma3", "Q4_K", "chatml", "smollm", "demo"] {
        assert!(page.contains(word), "{word}: {page}");
    }
    assert!(page.lines().all(|line| line.len() < 140), "{page}");
}

/// Which types have int8 kernels: llama.cpp, too, multiplies these with int8 activations, and floats with floats.
#[test]
fn types_and_instruction_sets() {
    let caps = quern(&["caps", "--json"]).json();
    for format in caps["tensor_types"].as_array().unwrap() {
        let is_float = ["F32", "F16", "BF16"].contains(&format["name"].as_str().unwrap());
        assert_eq!(format["int8_activations"], !is_float, "{format}");
    }
    assert_eq!(caps["isa"]["forced"], std::env::var_os("QUERN_ISA").is_some_and(|name| !name.is_empty()));
    let forced = |isa: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quern"));
        run(command.args(["caps", "--json"]).env("QUERN_ISA", isa), b"")
    };
    for isa in caps["isas"].as_array().unwrap() {
        let ran = forced(isa["name"].as_str().unwrap());
        match isa["available"].as_bool().unwrap() {
            true => assert_eq!(ran.json()["isa"], serde_json::json!({ "name": isa["name"], "forced": true })),
            false => assert!(ran.refused().contains("cannot run")),
        }
    }
    assert!(forced("sse9").refused().contains("sse9"));
}
