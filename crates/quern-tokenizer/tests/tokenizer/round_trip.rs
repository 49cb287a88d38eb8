//! What is encoded comes back.

use std::sync::LazyLock;

use proptest::prelude::*;
use quern_tokenizer::{EncodeOptions, Segment, SharedTokenizer};

use crate::support::{GEMMA3, SMOLLM2, decode, load, plain};

type Loaded = LazyLock<SharedTokenizer>;

static GPT2: Loaded = LazyLock::new(|| load("vocab/ggml-vocab-gpt-2.gguf"));
static QWEN2: Loaded = LazyLock::new(|| load("vocab/ggml-vocab-qwen2.gguf"));
static LLAMA: Loaded = LazyLock::new(|| load("vocab/ggml-vocab-llama-spm.gguf"));
static GEMMA4: Loaded = LazyLock::new(|| load("vocab/ggml-vocab-gemma-4.gguf"));
static GEMMA3_MODEL: Loaded = LazyLock::new(|| load(GEMMA3));
static SMOLLM2_MODEL: Loaded = LazyLock::new(|| load(SMOLLM2));

/// Any characters, and the ones that cutting and merging care about more often than chance would have them.
fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<String>(),
        "[ \t\r\n]{0,6}",
        "[a-zA-Z']{0,8}",
        "[0-9]{0,7}",
        prop::sample::select(vec![
            "<|im_end|>",
            "<start_of_turn>",
            "</s>",
            "▁",
            "😀",
            "é",
            "\u{301}",
            "日本",
            "<0x0A>",
            "\u{A0}"
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn byte_level_text_comes_back_whole(text in texts()) {
        prop_assert_eq!(decode(&**GPT2, &plain(&**GPT2, &text)), text.as_str());
        prop_assert_eq!(decode(&**QWEN2, &plain(&**QWEN2, &text)), text.as_str());
    }

    /// A `▁` of the text's own is a space to these vocabularies; there is no way to write it.
    #[test]
    fn text_with_escaped_spaces_comes_back_but_for_the_escape(text in texts()) {
        let expected = text.replace('▁', " ");
        prop_assert_eq!(decode(&**GEMMA3_MODEL, &plain(&**GEMMA3_MODEL, &text)), expected.as_str());
        prop_assert_eq!(decode(&**GEMMA4, &plain(&**GEMMA4, &text)), expected.as_str());
        let prefixed = if text.is_empty() { String::new() } else { format!(" {expected}") };
        prop_assert_eq!(decode(&**LLAMA, &plain(&**LLAMA, &text)), prefixed);
    }

    #[test]
    fn plain_text_never_ends_or_steers_generation(text in texts()) {
        for tokenizer in [&GPT2, &QWEN2, &LLAMA, &GEMMA4, &GEMMA3_MODEL, &SMOLLM2_MODEL] {
            let ids = plain(&***tokenizer, &text);
            prop_assert!(ids.iter().all(|&id| !tokenizer.is_control(id)), "{:?}", ids);
        }
    }

    #[test]
    fn cuts_between_plain_segments_leave_no_trace(parts in prop::collection::vec(texts(), 1..4)) {
        let segments: Vec<Segment<'_>> = parts.iter().map(|part| Segment::Plain(part)).collect();
        for tokenizer in [&GPT2, &LLAMA, &GEMMA3_MODEL] {
            prop_assert_eq!(tokenizer.encode(&segments, EncodeOptions::default()), plain(&***tokenizer, &parts.concat()));
        }
    }
}

#[test]
fn tokens_stand_for_exact_bytes() {
    // GPT-2's published vocabulary: 220 is a space, 198 a line break, 447 the start of a right quote.
    assert_eq!(GPT2.token_bytes(220), b" ");
    assert_eq!(GPT2.token_bytes(198), b"\n");
    assert_eq!(GPT2.token_bytes(447), b"\xE2\x80");
    assert_eq!(GPT2.token_text(220), "Ġ");
    // Llama's: 13 is the byte 0x0A, 3681 is "▁Paris".
    assert_eq!(LLAMA.token_bytes(13), b"\n");
    assert_eq!(LLAMA.token_text(13), "<0x0A>");
    assert_eq!(LLAMA.token_bytes(3681), b" Paris");
    assert_eq!(
        (LLAMA.n_vocab(), LLAMA.token_bytes(32_000), LLAMA.token_text(u32::MAX)),
        (32_000, &b""[..], "".into())
    );
}
