//! llama.cpp's own tokenizer suites: for each vocabulary, strings and the ids that it expects.

use quern_tokenizer::{TokenKind, Vocab, from_vocab};

use crate::support::{Tiny, load, plain, test_data};

/// Between the strings of a suite.
const SEPARATOR: &str = "\n__ggml_vocab_test__\n";

fn agrees(vocab: &str) {
    let name = format!("vocab/ggml-vocab-{vocab}.gguf");
    let read = |suffix: &str| {
        std::fs::read_to_string(test_data(&format!("{name}{suffix}"))).expect("a suite is valid UTF-8")
    };
    let (strings, expected) = (read(".inp"), read(".out"));
    let strings = strings.strip_suffix(SEPARATOR).unwrap_or(&strings);
    let strings: Vec<&str> = strings.split(SEPARATOR).collect();
    let expected: Vec<Vec<u32>> = expected
        .lines()
        .map(|line| line.split_whitespace().map(|id| id.parse().expect("an id")).collect())
        .collect();
    assert_eq!(strings.len(), expected.len(), "the suite's two files belong together");
    assert!(strings.len() > 40, "a whole suite");
    let tokenizer = load(&name);
    for (string, expected) in strings.iter().zip(&expected) {
        assert_eq!(&plain(&*tokenizer, string), expected, "{string:?}");
    }
}

macro_rules! suites {
    ($($test:ident: $vocab:literal,)*) => {
        $(#[test]
        fn $test() {
            agrees($vocab);
        })*
    };
}

suites! {
    bert_bge: "bert-bge",
    command_r: "command-r",
    deepseek_coder: "deepseek-coder",
    deepseek_llm: "deepseek-llm",
    falcon: "falcon",
    gemma_4: "gemma-4",
    gpt_2: "gpt-2",
    llama_bpe: "llama-bpe",
    llama_spm: "llama-spm",
    mpt: "mpt",
    phi_3: "phi-3",
    qwen2: "qwen2",
    qwen35: "qwen35",
    refact: "refact",
    starcoder: "starcoder",
}

/// A run of line breaks is one token where there is one, even in files whose merges leave line breaks out.
#[test]
fn gemma_4_keeps_runs_of_line_breaks_whole() {
    let mut tiny = Tiny::new();
    tiny.tokens.extend(["\n", "\n\n"].map(str::to_owned));
    tiny.kinds.resize(tiny.tokens.len(), TokenKind::Normal);
    let vocab = Vocab { model: "gemma4", merges: Some(vec![b"a b"]), ..tiny.vocab() };
    let tokenizer = from_vocab(&vocab).expect("nothing wrong with it");
    assert_eq!(plain(&*tokenizer, "ab\n\n"), [261, 264]);
    assert_eq!(plain(&*tokenizer, "a\n\n\n b"), [259, 263, 263, 263, 262, 260]);
}
