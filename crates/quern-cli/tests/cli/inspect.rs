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
    assert!(blocks[0]["block"].as_str().unwrap().contains("attention 9 heads/3 kv x 64, rope 100000"));
    assert_eq!(json["tokenizer"]["special"]["eos"], serde_json::json!({ "id": 2, "token": "<|im_end|>" }));
    assert_eq!(json["chat_template"]["origin"], "file");
}

#[test]
fn layers_that_differ_stand_apart() {
    let gemma = model(GEMMA3);
    let page = quern(&["inspect", &gemma]).done();
    for part in [
        "layers 0-4: attention 4 heads/1 kv x 256, window 512, q and k normed, rope 10000; dense 2048",
        "layer 5: attention 4 heads/1 kv x 256, q and k normed, rope 1000000; dense 2048",
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
