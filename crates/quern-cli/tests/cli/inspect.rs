//! `quern inspect`.

use crate::common::{DEMO, GEMMA3, model, quern, test_data, text, tiny};

/// Figures of the publishers' config.json and model cards, and of the gguf package's reader.
#[test]
fn the_demo_model_is_what_its_publisher_says() {
    let json = quern(&["inspect", &model(DEMO), "--json"]).json();
    assert_eq!(
        (&json["file"]["bytes"], &json["file"]["architecture"]),
        (&98_362_432.into(), &"llama".into())
    );
    assert_eq!(json["weights"]["parameters"], 134_515_008_u64);
    assert_eq!(json["weights"]["tensors"], 272);
    let held: u64 =
        json["weights"]["types"].as_object().unwrap().values().map(|t| t["tensors"].as_u64().unwrap()).sum();
    assert_eq!(held, 272);
    let blocks = json["model"]["blocks"].as_array().unwrap();
    assert_eq!(blocks.len(), 1);
    assert_eq!((&blocks[0]["first"], &blocks[0]["last"]), (&0.into(), &29.into()));
    assert!(blocks[0]["block"].as_str().unwrap().contains(
        "attention 9 heads, 3 KV heads, head_dim 64, rope 100000; feed-forward 1536 SwiGLU; norms before"
    ));
    let attention = serde_json::json!({ "heads": 9, "kv_heads": 3, "head_dim": 64, "window": null });
    assert_eq!(blocks[0]["attention"], attention);
    assert_eq!(blocks[0]["feed_forward"], serde_json::json!({ "width": 1536, "gate": "SwiGLU" }));
    let held =
        |types: &serde_json::Value, ty: &str| (types[ty]["tensors"].clone(), types[ty]["bytes"].clone());
    assert_eq!(held(&blocks[0]["types"], "Q4_1"), (210.into(), 66_355_200.into()));
    assert_eq!(held(&blocks[0]["types"], "F32"), (60.into(), 138_240.into()));
    assert_eq!(held(&json["model"]["outside"], "Q8_0"), (1.into(), 30_081_024.into()));
    assert_eq!(json["tokenizer"]["special"]["eos"], serde_json::json!({ "id": 2, "token": "<|im_end|>" }));
    assert_eq!(json["chat_template"]["origin"], "file");
}

#[test]
fn layers_that_differ_stand_apart() {
    let gemma = model(GEMMA3);
    let page = quern(&["inspect", &gemma]).done();
    for part in [
        "layers 0-4: attention 4 heads, 1 KV heads, head_dim 256, window 512, q and k normed, rope 10000; feed-forward 2048 GeGLU",
        "layer 5: attention 4 heads, 1 KV heads, head_dim 256, q and k normed, rope 1000000; feed-forward 2048 GeGLU",
        "F32 30 tensors 61.4 kB, Q5_0 22 tensors 12.1 MB, Q8_0 3 tensors 522.2 kB, Q4_K 7 tensors 3.3 MB, Q6_K 3",
        "outside the layers: F32 1 tensors 2.6 kB, Q8_0 1 tensors 178.3 MB",
        "the built-in \"gemma\"",
        "Gemma 3 270m",
        "bos  2 \"<bos>\", added to texts",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert_eq!(quern(&["inspect", &gemma, "--json"]).json()["model"]["blocks"].as_array().unwrap().len(), 6);
}

/// Every vocabulary of llama.cpp's suite can be looked at, those of unknown kinds too; none can be run.
#[test]
fn what_cannot_be_run_is_shown_and_says_why() {
    let folder = test_data("vocab/ggml-vocab-llama-bpe.gguf");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder.parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "gguf") {
            continue;
        }
        seen += 1;
        let json = quern(&["inspect", &text(&path), "--json"]).json();
        assert!(json["model"]["error"].is_string(), "{}: {json}", path.display());
        assert!(json["tokenizer"]["tokens"].is_u64() || json["tokenizer"]["error"].is_string());
        assert_eq!(json["weights"]["tensors"], 0);
    }
    assert!(seen > 10, "{seen}");
    let page = quern(&["inspect", &tiny("llama-full.gguf")]).done();
    assert!(page.contains("tokenizer     none") && page.contains("layers"), "{page}");
}
