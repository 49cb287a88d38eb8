//! Any text through a tokenizer of every kind: ids in range, plain text free of control tokens, and text that comes back
//! whole where bytes are tokens. The first byte chooses the tokenizer.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use quern_tokenizer::{
    EncodeOptions, Segment, SharedTokenizer, SpecialIds, TokenKind, Vocab, from_json, from_vocab,
};
use serde_json::{Value, json};

const CASES: &str = include_str!("../../crates/quern-tokenizer/tests/json/cases.json");
const RWKV: &str = include_str!("../../crates/quern-tokenizer/tests/golden/rwkv_tokens.json");
const PRE: [&str; 12] = [
    "default",
    "llama-bpe",
    "qwen2",
    "qwen35",
    "gpt-4o",
    "tekken",
    "deepseek-llm",
    "deepseek-v3",
    "kimi-k2",
    "superbpe",
    "tiny_aya",
    "afmoe",
];

/// Each tokenizer, and whether text comes back whole.
static TOKENIZERS: LazyLock<Vec<(SharedTokenizer, bool)>> = LazyLock::new(|| {
    let cases: Value = serde_json::from_str(CASES).expect("JSON");
    let file = |name: &str| {
        let case = &cases[name];
        let mut file = case["base"].as_str().map_or(json!({}), |base| cases[base]["tokenizer"].clone());
        for (key, part) in case["tokenizer"].as_object().expect("parts") {
            file[key] = part.clone();
        }
        file
    };
    let mut all = Vec::new();
    for name in cases.as_object().expect("cases").keys() {
        let tokenizer =
            from_json(file(name).to_string().as_bytes(), &SpecialIds::default()).expect("a good file");
        all.push((tokenizer, ["gpt2", "falcon", "odd_pattern"].contains(&name.as_str())));
    }

    let model = &file("gpt2")["model"];
    let mut tokens: Vec<(u64, &str)> = model["vocab"]
        .as_object()
        .expect("tokens")
        .iter()
        .map(|(t, id)| (id.as_u64().expect("an id"), t.as_str()))
        .collect();
    tokens.sort_unstable();
    let merge = |merge: &Value| match merge {
        Value::String(merge) => merge.clone(),
        pair => format!("{} {}", pair[0].as_str().expect("text"), pair[1].as_str().expect("text")),
    };
    let merges: Vec<String> = model["merges"].as_array().expect("merges").iter().map(merge).collect();
    for pre in PRE {
        let vocab = Vocab {
            model: "gpt2",
            pre: Some(pre),
            tokens: tokens.iter().map(|(_, token)| token.as_bytes()).collect(),
            merges: Some(merges.iter().map(String::as_bytes).collect()),
            ..Vocab::default()
        };
        all.push((from_vocab(&vocab).expect("a good vocabulary"), true));
    }

    let tokens: Vec<String> = serde_json::from_str(RWKV).expect("tokens");
    let vocab =
        Vocab { model: "rwkv", tokens: tokens.iter().map(String::as_bytes).collect(), ..Vocab::default() };
    all.push((from_vocab(&vocab).expect("a good vocabulary"), true));

    let mut tokens: Vec<String> =
        vec!["<unk>".into(), "a".into(), "▁".into(), "▁a".into(), "aa".into(), "▁▁".into()];
    let mut kinds = vec![TokenKind::Normal; tokens.len()];
    kinds[0] = TokenKind::Unknown;
    tokens.extend((0..=255u8).map(|byte| format!("<0x{byte:02X}>")));
    kinds.resize(tokens.len(), TokenKind::Byte);
    for model in ["llama", "t5", "bert"] {
        let vocab = Vocab {
            model,
            tokens: tokens.iter().map(String::as_bytes).collect(),
            kinds: Some(kinds.clone()),
            scores: Some((0..tokens.len()).map(|id| -(id as f32)).collect()),
            special: SpecialIds {
                unk: Some(0),
                add_bos: Some(false),
                add_eos: Some(false),
                add_sep: Some(false),
                ..SpecialIds::default()
            },
            ..Vocab::default()
        };
        all.push((from_vocab(&vocab).expect("a good vocabulary"), false));
    }
    all
});

fuzz_target!(|input: &[u8]| {
    let Some((&choice, text)) = input.split_first() else { return };
    let (tokenizer, whole) = &TOKENIZERS[usize::from(choice) % TOKENIZERS.len()];
    let text = String::from_utf8_lossy(text);
    let options = EncodeOptions::default();
    let ids = tokenizer.encode(&[Segment::Plain(&text)], options);
    let unk = tokenizer.special().unk;
    assert!(ids.iter().all(|&id| (id as usize) < tokenizer.n_vocab()));
    assert!(ids.iter().all(|&id| !tokenizer.is_control(id) || Some(id) == unk));
    let mut decoder = tokenizer.decoder();
    let mut back: String = ids.iter().map(|&id| decoder.push(id).to_owned()).collect();
    back.push_str(decoder.finish());
    assert!(!whole || back == text, "{text:?} came back as {back:?}");

    let middle = text.floor_char_boundary(text.len() / 2);
    let (left, right) = text.split_at(middle);
    tokenizer.encode(&[Segment::Trusted(left), Segment::Plain(right)], options);
});
