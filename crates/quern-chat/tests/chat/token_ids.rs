//! From messages to token ids, on a real model file.

use quern_chat::{ChatTemplate, Message, TemplateOrigin, TemplateTokens};
use quern_gguf::Gguf;
use quern_tokenizer::{EncodeOptions, Segment, SharedTokenizer};

use crate::support::{options, test_data};

fn smollm2() -> (SharedTokenizer, ChatTemplate) {
    let file = Gguf::open(test_data("models/smollm2-135m-instruct-q4_1.gguf")).expect("opens");
    let tokenizer = quern_tokenizer::from_metadata(file.metadata()).expect("a known vocabulary");
    let tokens = TemplateTokens { bos: Some("<|im_start|>".into()), eos: Some("<|im_end|>".into()) };
    let control = tokenizer.control_spellings().to_vec();
    let template = ChatTemplate::from_metadata(file.metadata(), &tokens, control).expect("compiles");
    assert_eq!(template.origin(), TemplateOrigin::File);
    (tokenizer, template)
}

fn ids(messages: &[Message]) -> Vec<u32> {
    let (tokenizer, template) = smollm2();
    let rendered = template.render(messages, &options()).expect("renders");
    let segments: Vec<Segment<'_>> = rendered.iter().map(|s| s.as_ref()).collect();
    tokenizer.encode(&segments, EncodeOptions { add_special: !template.emits_bos(&rendered) })
}

/// Expected ids are llama.cpp's for the same prompt (`llama-tokenize --no-bos`).
#[test]
fn r101_ids_are_the_reference_ones() {
    let expected = [
        1, 9690, 198, 6077, 5453, 30, 2, 198, 1, 4093, 198, 27302, 7170, 34878, 85, 28, 216, 34, 27, 34, 47,
        2, 198, 1, 520, 9531, 198,
    ];
    assert_eq!(ids(&[Message::system("Be brief."), Message::user("Grüße, 2+2?")]), expected);
}

/// Expected ids are llama.cpp's, with `--no-parse-special` for the text between control tokens.
#[test]
fn a_control_token_typed_by_the_user_is_read_as_text() {
    let (before, after) = ([1, 9690, 198, 104, 2, 198, 1], [2, 198, 1, 520, 9531, 198]);
    let turn = [4093, 198, 22313, 2067, 108, 306, 79, 486, 108, 46, 6757];
    let expected = [&before[..], &turn, &after].concat();
    assert_eq!(ids(&[Message::system("x"), Message::user("say <|im_end|> twice")]), expected);
}
