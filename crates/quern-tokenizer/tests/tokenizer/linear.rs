//! No text takes more than linear time (with a factor of log n where there are merges), whatever the kind of vocabulary.

use quern_tokenizer::{EncodeOptions, Segment, TokenKind, Tokenizer, Vocab, from_vocab};

use crate::json::{cases, file, read};
use crate::support::load;

#[path = "../../src/ratio.rs"]
mod ratio;

fn segment(is_trusted: bool, text: &str) -> Segment<'_> {
    if is_trusted { Segment::Trusted(text) } else { Segment::Plain(text) }
}

fn is_linear(name: &str, tokenizer: &dyn Tokenizer, n: usize) {
    let longest = (0..tokenizer.n_vocab() as u32).filter_map(|id| {
        let text = std::str::from_utf8(tokenizer.token_bytes(id)).ok()?;
        (!tokenizer.is_control(id) && !text.is_empty()).then(|| text.to_owned())
    });
    let longest = longest.max_by_key(String::len).expect("a token");
    let pieces =
        ["a", " ", "\u{301}", "1", "\n", "a ", "a\u{301}", "日", "\u{1F600}", "<|im_end", "<", &longest];
    for piece in pieces {
        for is_trusted in [false, true] {
            ratio::is_linear(&format!("{name} {piece:?}"), piece, n, |text| {
                assert!(
                    tokenizer.encode(&[segment(is_trusted, text)], EncodeOptions::default()).len()
                        <= text.len() + 8
                );
            });
        }
    }
}

macro_rules! linear {
    ($($test:ident: $file:literal,)*) => {
        $(#[test]
        fn $test() {
            is_linear($file, &*load($file), 1 << 14);
        })*
    };
}

linear! {
    byte_level: "vocab/ggml-vocab-gpt-2.gguf",
    ignored_merges: "vocab/ggml-vocab-llama-bpe.gguf",
    score: "vocab/ggml-vocab-llama-spm.gguf",
    raw_text: "vocab/ggml-vocab-gemma-4.gguf",
    wordpiece: "vocab/ggml-vocab-bert-bge.gguf",
    unigram: "vocab/ggml-vocab-nomic-bert-moe.gguf",
}

#[test]
fn rwkv() {
    let tokens: Vec<String> =
        serde_json::from_str(include_str!("../golden/rwkv_tokens.json")).expect("a list of strings");
    let tokens = tokens.iter().map(String::as_bytes).collect();
    let tokenizer =
        from_vocab(&Vocab { model: "rwkv", tokens, ..Vocab::default() }).expect("nothing wrong with it");
    is_linear("rwkv", &*tokenizer, 1 << 14);
}

/// Files with every kind of step before the model.
#[test]
fn tokenizer_json() {
    let cases = cases();
    for name in cases.as_object().expect("cases").keys() {
        is_linear(name, &*read(&file(&cases, name)), 1 << 14);
    }
}

/// R45: a megabyte of text with ten thousand control tokens in the vocabulary.
#[test]
fn many_control_tokens() {
    let mut tokens: Vec<String> = (0..=255u8).map(|byte| format!("<0x{byte:02X}>")).collect();
    let mut kinds = vec![TokenKind::Byte; tokens.len()];
    tokens.extend((0..10_000).map(|i| format!("<|control_{i}|>")));
    kinds.resize(tokens.len(), TokenKind::Control);
    let vocab = Vocab {
        model: "llama",
        tokens: tokens.iter().map(String::as_bytes).collect(),
        scores: Some(vec![0.0; tokens.len()]),
        kinds: Some(kinds),
        ..Vocab::default()
    };
    let tokenizer = from_vocab(&vocab).expect("nothing wrong with it");
    for piece in ["<|control_9999|>", "<|control_999", "<|", "text <|control_1|> and more text "] {
        for is_trusted in [false, true] {
            tokenizer.encode(
                &[segment(is_trusted, &piece.repeat((1 << 20) / piece.len()))],
                EncodeOptions::default(),
            );
            ratio::is_linear(piece, piece, 1 << 15, |text| {
                tokenizer.encode(&[segment(is_trusted, text)], EncodeOptions::default());
            });
        }
    }
}
