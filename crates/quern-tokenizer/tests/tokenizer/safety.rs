//! Which text becomes which special token, and where generation ends.

use quern_tokenizer::{EncodeOptions, Segment, SpecialIds, Tokenizer, Vocab, from_vocab};

use crate::support::{GEMMA3, SMOLLM2, Tiny, load, plain, trusted};

fn encode(tokenizer: &dyn Tokenizer, segments: &[Segment<'_>]) -> Vec<u32> {
    tokenizer.encode(segments, EncodeOptions::default())
}

#[test]
fn a_control_token_in_plain_text_is_text() {
    for (model, spelling, id) in
        [(SMOLLM2, "<|im_end|>", 2), (GEMMA3, "<start_of_turn>", 105), (GEMMA3, "<end_of_turn>", 106)]
    {
        let tokenizer = load(model);
        assert_eq!(trusted(&*tokenizer, spelling), [id]);
        let ids = plain(&*tokenizer, spelling);
        assert!(ids.len() > 1 && !ids.contains(&id), "{spelling}: {ids:?}");
        assert!(ids.iter().all(|&id| !tokenizer.is_control(id)));
        assert!(tokenizer.is_control(id));
        assert_eq!(tokenizer.token_id(spelling), Some(id));
        assert_eq!(tokenizer.token_bytes(id), spelling.as_bytes());
        assert!(tokenizer.control_spellings().iter().any(|s| s == spelling));
    }
}

#[test]
fn no_control_token_reaches_over_a_border_of_trust() {
    let tokenizer = load(SMOLLM2);
    for segments in [
        [Segment::Trusted("<|im_"), Segment::Plain("end|>")],
        [Segment::Plain("<|im_"), Segment::Trusted("end|>")],
        [Segment::Plain("<|im_"), Segment::Plain("end|>")],
    ] {
        assert_eq!(encode(&*tokenizer, &segments), plain(&*tokenizer, "<|im_end|>"));
    }
    let both_trusted = [Segment::Trusted("<|im_"), Segment::Plain(""), Segment::Trusted("end|>")];
    assert_eq!(encode(&*tokenizer, &both_trusted), [2]);
}

#[test]
fn borders_between_segments_leave_no_trace() {
    for model in [SMOLLM2, GEMMA3, "vocab/ggml-vocab-llama-spm.gguf"] {
        let tokenizer = load(model);
        let whole = "user\nhello  world, CamelCase 123\r\n\n\nüñ 日本";
        for (at, _) in whole.char_indices() {
            let (head, tail) = whole.split_at(at);
            let segments = [Segment::Trusted(head), Segment::Plain(tail)];
            assert_eq!(encode(&*tokenizer, &segments), trusted(&*tokenizer, whole), "{model} at {at}");
        }
    }
}

/// G30: text that goes on keeps its space and gains none.
#[test]
fn score_bpe_adds_a_space_at_the_start_only() {
    let tokenizer = load("vocab/ggml-vocab-llama-spm.gguf");
    // llama.cpp: "Paris" is "▁Paris" (3681) at the start of a text.
    assert_eq!(plain(&*tokenizer, "Paris"), [3681]);
    let segments = [Segment::Trusted("in"), Segment::Plain(" Paris")];
    assert_eq!(encode(&*tokenizer, &segments), [297, 3681]);
    // And after a control token.
    assert_eq!(trusted(&*tokenizer, "in<s>Paris"), [297, 1, 3681]);
}

#[test]
fn user_defined_tokens_are_text_unless_spelled_like_marks() {
    let tokenizer = load(GEMMA3);
    // Gemma's line breaks and HTML tags are user-defined tokens, which llama.cpp finds in any text.
    assert_eq!(plain(&*tokenizer, "\n\n"), [108]);
    assert_eq!(plain(&*tokenizer, "<table>"), [168]);
    let segments = [Segment::Trusted("\n"), Segment::Plain("\n")];
    assert_eq!(encode(&*tokenizer, &segments), [108]);
    // These are user-defined as well, but steer the model.
    for (mark, id) in [("[multimodal]", 5), ("<start_of_image>", 255_999)] {
        assert_eq!(trusted(&*tokenizer, mark), [id]);
        assert!(!plain(&*tokenizer, mark).contains(&id), "{mark}");
    }
    let spellings = tokenizer.control_spellings();
    assert!(spellings.iter().all(|spelling| spelling != "<table>" && !spelling.trim().is_empty()));
    assert!(spellings.windows(2).all(|pair| pair[0].len() >= pair[1].len()), "longest first");
}

#[test]
fn text_is_framed_as_the_file_says() {
    let framed =
        |model, text| load(model).encode(&[Segment::Plain(text)], EncodeOptions { add_special: true });
    // llama.cpp: llama-tokenize -p "hi".
    assert_eq!(framed(GEMMA3, "hi"), [2, 2202]);
    assert_eq!(framed(SMOLLM2, "hi"), [6004]);
    assert_eq!(framed("vocab/ggml-vocab-llama-bpe.gguf", ""), [128_000]);
    assert!(framed("vocab/ggml-vocab-gpt-2.gguf", "").is_empty());
}

/// Phi-3's control tokens swallow the white space after them, in llama.cpp and in the publisher's files.
#[test]
fn phi_3_strips_after_control_tokens() {
    let tokenizer = load("vocab/ggml-vocab-phi-3.gguf");
    assert_eq!(trusted(&*tokenizer, "<|user|> \n<|end|>\n"), [32010, 32007]);
    assert_eq!(trusted(&*tokenizer, "<|user|>\nhi"), trusted(&*tokenizer, "<|user|>hi"));
}

/// What llama.cpp prints as end-of-generation tokens for these files. Left out are three where it takes `</s>` for one
/// although it is text: a normal token in the Qwen files, the end of struck-out HTML in Gemma 3's.
#[test]
fn generation_ends_where_llama_cpp_ends_it() {
    let expected: [(&str, &[u32]); 15] = [
        ("vocab/ggml-vocab-aquila.gguf", &[0, 100_007]),
        ("vocab/ggml-vocab-baichuan.gguf", &[2]),
        ("vocab/ggml-vocab-command-r.gguf", &[0, 255_001]),
        ("vocab/ggml-vocab-deepseek-coder.gguf", &[32_014]),
        ("vocab/ggml-vocab-falcon.gguf", &[11]),
        ("vocab/ggml-vocab-gemma-4.gguf", &[1, 50, 106]),
        ("vocab/ggml-vocab-gpt-2.gguf", &[50_256]),
        ("vocab/ggml-vocab-llama-bpe.gguf", &[128_001, 128_009]),
        ("vocab/ggml-vocab-llama-spm.gguf", &[2]),
        ("vocab/ggml-vocab-phi-3.gguf", &[2, 32_000, 32_007]),
        ("vocab/ggml-vocab-qwen2.gguf", &[151_643, 151_645]),
        ("vocab/ggml-vocab-refact.gguf", &[0, 4, 18]),
        ("vocab/ggml-vocab-starcoder.gguf", &[0, 4]),
        (GEMMA3, &[1, 106]),
        (SMOLLM2, &[0, 2, 4]),
    ];
    for (file, ends) in expected {
        assert_eq!(load(file).end_of_generation(), ends, "{file}");
    }
}

#[test]
fn the_end_of_a_turn_is_found_by_its_spelling() {
    assert_eq!(load(GEMMA3).special().eot, Some(106));
    assert_eq!(load(SMOLLM2).special().eot, Some(2));
    assert_eq!(load("vocab/ggml-vocab-llama-bpe.gguf").special().eot, Some(128_009));
}

#[test]
fn a_missing_pre_tokenizer_is_reported() {
    let warns = |model| load(model).warnings().iter().any(|warning| warning.contains("tokenizer.ggml.pre"));
    assert!(warns("vocab/ggml-vocab-gpt-neox.gguf"));
    assert!(!warns(SMOLLM2));
}

/// llama.cpp's rules for each kind where a file says nothing, and the file's where it does.
#[test]
fn each_kind_has_its_own_frame() {
    let tiny = Tiny::new();
    let frame = |model: &'static str, rules: SpecialIds| {
        let special = SpecialIds { bos: Some(1), eos: Some(2), sep: Some(2), unk: Some(0), ..rules };
        let vocab = Vocab { model, special, pre: Some("gpt-2"), merges: Some(Vec::new()), ..tiny.vocab() };
        let tokenizer = from_vocab(&vocab).expect("nothing wrong with it");
        let ids = tokenizer.encode(&[Segment::Plain("")], EncodeOptions { add_special: true });
        assert!(tokenizer.encode(&[Segment::Plain("")], EncodeOptions::default()).is_empty());
        ids
    };
    let silent = SpecialIds::default;
    for (model, expected) in
        [("llama", &[1][..]), ("gpt2", &[]), ("gemma4", &[1]), ("bert", &[1, 2]), ("t5", &[2]), ("rwkv", &[])]
    {
        assert_eq!(frame(model, silent()), expected, "{model}");
    }
    let both = SpecialIds { add_bos: Some(true), add_eos: Some(true), ..silent() };
    assert_eq!(frame("gpt2", both.clone()), [1, 2]);
    assert_eq!(frame("t5", both), [1, 2]);
    let none = SpecialIds { add_bos: Some(false), add_eos: Some(false), add_sep: Some(false), ..silent() };
    for model in ["llama", "gpt2", "bert", "t5"] {
        assert!(frame(model, none.clone()).is_empty(), "{model}");
    }
    // Outside of BERT's vocabularies the rule is for pairs of texts.
    assert!(frame("gpt2", SpecialIds { add_sep: Some(true), ..silent() }).is_empty());
}
