//! Two models' ids for texts that tokenizers differ on, held against llama.cpp's (scripts/fixtures/tokenizer_golden.py).

use crate::support::{GEMMA3, SMOLLM2, load, plain, trusted};

fn agrees(model: &str, golden: &str) {
    let golden: serde_json::Value = serde_json::from_str(golden).expect("JSON");
    let cases = golden.as_array().expect("a list of cases");
    assert!(cases.len() > 90, "a whole set");
    let ids = |value: &serde_json::Value| -> Vec<u32> {
        let ids = value.as_array().expect("a list of ids").iter();
        ids.map(|id| id.as_u64().and_then(|id| id.try_into().ok()).expect("an id")).collect()
    };
    let tokenizer = load(model);
    for case in cases {
        let text = case["text"].as_str().expect("a text");
        assert_eq!(plain(&*tokenizer, text), ids(&case["plain"]), "plain {text:?}");
        assert_eq!(trusted(&*tokenizer, text), ids(&case["trusted"]), "trusted {text:?}");
    }
}

/// G29, G30: byte-level BPE with single digits.
#[test]
fn smollm2() {
    agrees(SMOLLM2, include_str!("../golden/smollm2.json"));
}

/// G29, G30: score-BPE without a space prefix.
#[test]
fn gemma3() {
    agrees(GEMMA3, include_str!("../golden/gemma3.json"));
}
