//! Vocabularies that contradict themselves are refused by name; none makes anything panic.

use proptest::prelude::*;
use quern_tokenizer::{EncodeOptions, Segment, SpecialIds, TokenKind, TokenizerError, Vocab, from_vocab};

use crate::support::Tiny;

fn refusal(change: impl FnOnce(&mut Vocab<'_>)) -> TokenizerError {
    let tiny = Tiny::new();
    let mut vocab = tiny.vocab();
    change(&mut vocab);
    match from_vocab(&vocab) {
        Ok(_) => panic!("the vocabulary was taken"),
        Err(error) => error,
    }
}

#[test]
fn the_tiny_vocabulary_works() {
    let tiny = Tiny::new();
    let tokenizer = from_vocab(&tiny.vocab()).expect("nothing wrong with it");
    let ids = tokenizer.encode(&[Segment::Plain("abc")], EncodeOptions { add_special: true });
    assert_eq!(ids, [1, 262, 261, 3 + u32::from(b'c')]);
}

#[test]
fn r42_special_ids_beyond_the_vocabulary_are_refused() {
    for id in [263, u32::MAX] {
        let changes: [fn(&mut SpecialIds, u32); 9] = [
            |special, id| special.bos = Some(id),
            |special, id| special.eos = Some(id),
            |special, id| special.eot = Some(id),
            |special, id| special.eom = Some(id),
            |special, id| special.unk = Some(id),
            |special, id| special.pad = Some(id),
            |special, id| special.fim_pad = Some(id),
            |special, id| special.fim_rep = Some(id),
            |special, id| special.fim_sep = Some(id),
        ];
        for change in changes {
            let error = refusal(|vocab| change(&mut vocab.special, id));
            assert!(
                matches!(error, TokenizerError::IdOutOfRange { id: found, n_vocab: 263, .. } if found == id)
            );
        }
    }
}

#[test]
fn g29_unknown_names_are_refused_with_the_known_ones() {
    let error = refusal(|vocab| {
        vocab.model = "gpt2";
        vocab.pre = Some("lama-bpe");
    });
    let message = error.to_string();
    assert!(message.contains("\"lama-bpe\"") && message.contains("known: llama-bpe"), "{message}");
    let message = refusal(|vocab| vocab.model = "plamo2").to_string();
    assert_eq!(
        message,
        "tokenizer.ggml.model is \"plamo2\"; this build reads gpt2, llama, gemma4, bert, t5, rwkv"
    );
}

/// R46: a hostile name is quoted, escaped and cut.
#[test]
fn names_in_messages_are_printable_and_short() {
    let name = format!("\u{1b}[31m\0{}", "x".repeat(10_000));
    let tiny = Tiny::new();
    let error = from_vocab(&Vocab { model: &name, ..tiny.vocab() }).err().expect("no such kind");
    let message = error.to_string();
    assert!(message.len() < 300 && !message.contains(char::is_control), "{message:?}");
}

#[test]
fn lists_must_match_the_tokens() {
    let error = refusal(|vocab| vocab.scores = Some(vec![0.0; 4]));
    assert_eq!(error.to_string(), "tokenizer.ggml.scores has 4 entries for 263 tokens");
    let error = refusal(|vocab| vocab.kinds = Some(vec![TokenKind::Normal; 264]));
    assert!(matches!(
        error,
        TokenizerError::WrongLength { key: "tokenizer.ggml.token_type", found: 264, .. }
    ));
    let error = refusal(|vocab| vocab.scores = None);
    assert!(matches!(error, TokenizerError::MissingList { key: "tokenizer.ggml.scores", .. }));
    let error = refusal(|vocab| vocab.model = "gemma4");
    assert!(matches!(error, TokenizerError::MissingList { key: "tokenizer.ggml.merges", .. }));
    let error = refusal(|vocab| vocab.scores = Some(vec![f32::NAN; 263]));
    assert!(matches!(error, TokenizerError::BadScore { id: 0 }));
}

#[test]
fn tokens_must_be_distinct_and_of_sane_length() {
    let error = refusal(|vocab| vocab.tokens[260] = b"a");
    assert_eq!(error.to_string(), "tokens 259 and 260 are both spelled \"a\"");
    let long = vec![b'a'; (1 << 14) + 1];
    let tiny = Tiny::new();
    let mut vocab = tiny.vocab();
    vocab.tokens[259] = &long;
    assert!(matches!(from_vocab(&vocab), Err(TokenizerError::TooLarge { found: 16_385, .. })));
}

#[test]
fn merges_must_name_tokens() {
    for merge in ["a c", "a", "", " ", "ab a", "a  b"] {
        let error = refusal(|vocab| {
            vocab.model = "gemma4";
            vocab.merges = Some(vec![b"a b", merge.as_bytes()]);
        });
        assert!(matches!(error, TokenizerError::BadMerge { index: 1, .. }), "{merge:?}: {error}");
    }
}

#[test]
fn text_must_be_writable_without_ending_it() {
    let error = refusal(|vocab| vocab.special.eos = Some(3 + 65));
    assert!(matches!(error, TokenizerError::EndTokenIsText { id: 68, byte: 65 }));
    let error = refusal(|vocab| {
        vocab.tokens[3] = b"other";
        vocab.special.unk = Some(1);
    });
    assert!(matches!(error, TokenizerError::NoByteToken { byte: 0 }));
    let error = refusal(|vocab| {
        vocab.special.add_eos = Some(true);
        vocab.kinds = vocab.kinds.take().map(|mut kinds| {
            kinds[2] = TokenKind::Normal;
            kinds
        });
        vocab.tokens[2] = b"other";
    });
    assert_eq!(error.to_string(), "tokenizer.ggml.add_eos_token is true, but the file has no eos_token_id");
}

/// Merging by score asks only whether two pieces spell a token together, and control tokens often score highest.
#[test]
fn text_never_merges_into_a_control_or_byte_token() {
    let mut tiny = Tiny::new();
    tiny.tokens.extend(["</", "s>", "<0", "<0x", "<0x4", "1>"].map(str::to_owned));
    tiny.kinds.resize(tiny.tokens.len(), TokenKind::Normal);
    let tokenizer = from_vocab(&tiny.vocab()).expect("fine");
    let encode = |segment| tokenizer.encode(&[segment], EncodeOptions::default());
    assert_eq!(encode(Segment::Plain("</s>")), [262, 263, 264]);
    assert_eq!(encode(Segment::Trusted("</s>")), [2]);
    assert_eq!(encode(Segment::Trusted("<0x41>")), [262, 267, 268]);
}

/// An ordinary token that a file declares an end is reachable as such only.
#[test]
fn text_that_a_file_declares_an_end_is_written_otherwise() {
    let tiny = Tiny::new();
    let mut vocab = tiny.vocab();
    vocab.special.eos = Some(261);
    let tokenizer = from_vocab(&vocab).expect("odd, but every text can be written");
    assert_eq!(tokenizer.encode(&[Segment::Plain("ab")], EncodeOptions::default()), [262, 259, 260]);
    assert_eq!(tokenizer.encode(&[Segment::Trusted("ab")], EncodeOptions::default()), [261]);
}

/// G1: Harmony's `<|end|>` ends an analysis, not the turn.
#[test]
fn g1_the_end_of_a_block_does_not_end_generation() {
    let mut tiny = Tiny::new();
    tiny.tokens.push("<|end|>".to_owned());
    tiny.kinds.push(TokenKind::Control);
    assert_eq!(from_vocab(&tiny.vocab()).expect("fine").end_of_generation(), [2, 263]);
    for spelling in ["<|return|>", "<|call|>"] {
        tiny.tokens.push(spelling.to_owned());
        tiny.kinds.push(TokenKind::Control);
    }
    let tokenizer = from_vocab(&tiny.vocab()).expect("fine");
    assert_eq!(tokenizer.end_of_generation(), [2, 264, 265]);
    assert!(tokenizer.is_control(263) && tokenizer.special().eot.is_none());
}

proptest! {
    // Each case compiles patterns, which takes a hundred times longer than the rest of it.
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever a file holds, it is refused or it works, and plain text stays harmless.
    #[test]
    fn no_vocabulary_panics(
        model in prop::sample::select(vec!["llama", "gpt2", "gemma4", "bert", "t5", "rwkv"]),
        pre in prop::sample::select(vec![None, Some("gpt-2"), Some("llama-bpe"), Some("sarvam-moe")]),
        extra in prop::collection::vec(("[ab<>|Ġ▁]{0,4}|<\\|[a-z]{1,3}\\|>|\n{1,3}", -1..8i32, -2.0..2.0f32), 0..24),
        merges in prop::option::of(prop::collection::vec("[ab]{1,2} [ab]{1,2}|.{0,4}", 0..3)),
        ids in prop::collection::vec(prop::option::of(0..290u32), 6),
        rules in prop::collection::vec(prop::option::of(any::<bool>()), 3),
        text in "[ab<>| \n▁é]{0,30}|.{0,20}",
    ) {
        let mut tiny = Tiny::new();
        let mut scores = vec![0.0; tiny.tokens.len()];
        for (token, kind, score) in extra {
            if !tiny.tokens.contains(&token) {
                tiny.tokens.push(token);
                tiny.kinds.push(TokenKind::from_number(kind));
                scores.push(score);
            }
        }
        let vocab = Vocab {
            model,
            pre,
            scores: Some(scores),
            merges: merges.as_ref().map(|merges| merges.iter().map(String::as_bytes).collect()),
            special: SpecialIds {
                bos: ids[0], eos: ids[1], eot: ids[2], eom: ids[3], unk: ids[4], pad: ids[5],
                add_bos: rules[0], add_eos: rules[1], add_space_prefix: rules[2],
                ..SpecialIds::default()
            },
            ..tiny.vocab()
        };
        let unk = vocab.special.unk.or(Some(0));
        if let Ok(tokenizer) = from_vocab(&vocab) {
            let both = [Segment::Trusted(&text), Segment::Plain(&text), Segment::Trusted(&text)];
            let ids = tokenizer.encode(&both, EncodeOptions { add_special: true });
            prop_assert!(ids.iter().all(|&id| (id as usize) < tokenizer.n_vocab()));
            for id in tokenizer.encode(&[Segment::Plain(&text)], EncodeOptions::default()) {
                prop_assert!(!tokenizer.is_end_of_generation(id));
                // What BERT's files hold for unknown text may be one.
                prop_assert!(tiny.kinds[id as usize] != TokenKind::Control || (model == "bert" && Some(id) == unk));
            }
        }
    }
}
