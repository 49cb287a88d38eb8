//! Ids for texts that tokenizers differ on, held against those of other programs (scripts/fixtures/tokenizer_golden.py).

use quern_tokenizer::{EncodeOptions, Segment, TokenKind, Tokenizer, Vocab, from_vocab};

use crate::support::{GEMMA3, SMOLLM2, decode, load, plain, trusted};

fn agrees(tokenizer: &dyn Tokenizer, golden: &str) {
    let golden: serde_json::Value = serde_json::from_str(golden).expect("JSON");
    let cases = golden.as_array().expect("a list of cases");
    assert!(cases.len() > 90, "a whole set");
    let ids = |value: &serde_json::Value| -> Vec<u32> {
        let ids = value.as_array().expect("a list of ids").iter();
        ids.map(|id| id.as_u64().and_then(|id| id.try_into().ok()).expect("an id")).collect()
    };
    for case in cases {
        let text = case["text"].as_str().expect("a text");
        assert_eq!(plain(tokenizer, text), ids(&case["plain"]), "plain {text:?}");
        assert_eq!(trusted(tokenizer, text), ids(&case["trusted"]), "trusted {text:?}");
    }
}

/// G29, G30: byte-level BPE with single digits.
#[test]
fn smollm2() {
    agrees(&*load(SMOLLM2), include_str!("../golden/smollm2.json"));
}

/// G29, G30: score-BPE without a space prefix.
#[test]
fn gemma3() {
    agrees(&*load(GEMMA3), include_str!("../golden/gemma3.json"));
}

const BERT: &str = "vocab/ggml-vocab-bert-bge.gguf";
const XLM: &str = "vocab/ggml-vocab-nomic-bert-moe.gguf";

/// WordPiece, by the publisher's implementation.
#[test]
fn bert_bge() {
    let tokenizer = load(BERT);
    agrees(&*tokenizer, include_str!("../golden/bert_bge.json"));
    assert_eq!(
        decode(&*tokenizer, &plain(&*tokenizer, "Unaffable, no?")),
        " una ffable , no ?".replace(" ffable", "ffable")
    );
}

/// Unigram with a charsmap, by llama.cpp.
#[test]
fn nomic_bert_moe() {
    let tokenizer = load(XLM);
    agrees(&*tokenizer, include_str!("../golden/nomic_bert_moe.json"));
    assert_eq!(decode(&*tokenizer, &plain(&*tokenizer, "  Ａ b\u{301}  c ")), " A b\u{301} c");
}

/// RWKV's greedy match, by llama.cpp.
#[test]
fn rwkv() {
    let tokens: Vec<String> =
        serde_json::from_str(include_str!("../golden/rwkv_tokens.json")).expect("a list of strings");
    let mut kinds = vec![TokenKind::Normal; tokens.len()];
    kinds[0] = TokenKind::Control;
    let vocab = Vocab {
        model: "rwkv",
        tokens: tokens.iter().map(String::as_bytes).collect(),
        kinds: Some(kinds),
        ..Vocab::default()
    };
    let tokenizer = from_vocab(&vocab).expect("nothing wrong with it");
    agrees(&*tokenizer, include_str!("../golden/rwkv.json"));
    let text = "any \\ text\n\n, 日本 \u{1F600}é\0";
    assert_eq!(decode(&*tokenizer, &plain(&*tokenizer, text)), text);
}

/// llama.cpp: `llama-tokenize -p "hi"` of each file.
#[test]
fn each_kind_frames_a_text_in_its_own_way() {
    let framed = |file| load(file).encode(&[Segment::Plain("hi")], EncodeOptions { add_special: true });
    assert_eq!(framed(BERT), [101, 7632, 102]);
    assert_eq!(framed(XLM), [0, 1274, 2]);
}
