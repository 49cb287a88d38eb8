//! `quern tokenize` and `quern detokenize`.

use crate::common::{DEMO, GEMMA3, model, quern, quern_with_input, test_data, text};

/// Expected ids: AutoTokenizer of transformers and llama.cpp agree on them.
#[test]
fn plain_text_gets_nothing_added() {
    let demo = model(DEMO);
    let ids = |args: &[&str]| quern(&[&["tokenize", &demo], args].concat()).done();
    assert_eq!(ids(&["--text", "Hello, world"]), "19556 28 905\n");
    assert_eq!(ids(&["--text", "<|im_start|>user", "--special"]), "1 4093\n");
    let plain = quern(&["tokenize", &demo, "--text", "<|im_start|>user", "--json"]).json();
    assert!(plain["ids"].as_array().unwrap().len() > 2, "{plain}");
    assert_eq!(plain["tokens"].as_array().unwrap().len(), plain["ids"].as_array().unwrap().len());
    // Gemma's rules put <bos> in front; only --special follows them.
    let gemma = model(GEMMA3);
    let first =
        |args: &[&str]| quern(&[&["tokenize", &gemma, "--text", "Hi", "--json"], args].concat()).json();
    assert_eq!(first(&["--special"])["ids"][0], 2);
    assert_ne!(first(&[])["ids"][0], 2);
}

#[test]
fn text_comes_back_byte_for_byte() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let written = "  Zażółć gęślą jaźń\r\n\tif (x) { 1234567 }\n\n😀 日本語 <|im_end|> end \n";
    std::fs::write(file.path(), written).unwrap();
    for name in [DEMO, GEMMA3] {
        let gguf = model(name);
        let tokenized = quern(&["tokenize", &gguf, "--text-file", &text(file.path())]).done();
        let ids: Vec<&str> = tokenized.split_whitespace().collect();
        let back = quern(&[&["detokenize", &gguf], &ids[..]].concat()).done();
        assert_eq!(back, written, "{name}");
        let back = quern_with_input(&["detokenize", &gguf, "--ids-file", "-"], tokenized.as_bytes()).done();
        assert_eq!(back, written, "{name}");
        let stdin = quern_with_input(&["tokenize", &gguf, "--text-file", "-"], written.as_bytes()).done();
        assert_eq!(stdin, tokenized, "{name}");
    }
}

/// A vocabulary without weights, against the ids that llama.cpp publishes with it.
#[test]
fn vocabulary_files_do() {
    let vocab = test_data("vocab/ggml-vocab-llama-bpe.gguf");
    let read = |extension: &str| std::fs::read_to_string(format!("{}.{extension}", text(&vocab))).unwrap();
    let (texts, ids) = (read("inp"), read("out"));
    let mut compared = 0;
    for (written, expected) in texts.split("\n__ggml_vocab_test__\n").zip(ids.lines()) {
        let args = ["tokenize", &text(&vocab), "--text-file", "-"];
        if compared % 8 == 0 {
            let got = quern_with_input(&args, written.as_bytes()).done();
            assert_eq!(got.trim(), expected.trim(), "{written:?}");
        }
        compared += 1;
    }
    assert!(compared > 40, "{compared}");
}

#[test]
fn ids_outside_the_vocabulary_are_refused() {
    let message = quern(&["detokenize", &model(DEMO), "1", "49152"]).refused();
    assert!(message.contains("49152"), "{message}");
    let message = quern(&["detokenize", &model(DEMO), "one"]).refused();
    assert!(message.contains("`one`"), "{message}");
}
