//! The front door itself: what it reports, which settings win, and what it does not do twice.
#![allow(clippy::unwrap_used)]

use quern::{
    ActivationMode, Contract, EncodeOptions, Error, KvType, LoadOptions, Message, ModelFile, Overrides,
    Prompt, Quern, RenderOptions, RequestOptions, Source, TemplateOrigin,
};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn tiny(name: &str) -> String {
    root().join("fixtures/tiny").join(name).to_str().unwrap().to_owned()
}

fn model(name: &str) -> String {
    let folder =
        std::env::var_os("QUERN_TEST_DATA").map_or_else(|| root().join(".cache/test-data"), PathBuf::from);
    let path = folder.join("models").join(name);
    assert!(path.is_file(), "{} is missing: run scripts/fetch-models.sh", path.display());
    path.to_str().unwrap().to_owned()
}

#[test]
fn facts_say_what_is_in_force() {
    let options = LoadOptions {
        threads: Some(2),
        activations: ActivationMode::F32,
        kv: KvType::F32,
        context: Some(48),
        ..LoadOptions::default()
    };
    let loaded = Quern::load(&tiny("llama-plain.gguf"), options, &mut ()).unwrap();
    let facts = loaded.facts();
    assert_eq!((facts.model.as_str(), facts.threads, facts.context), ("llama-plain", 2, 48));
    assert_eq!((facts.activations, facts.kv), (ActivationMode::F32, KvType::F32));
    assert_eq!(facts.contract, Contract::Exact { numerics: 2 });
    assert!(facts.weight_bytes > 0 && facts.backend.contains(facts.isa), "{facts:?}");

    // Ids in, ids out, without a tokenizer.
    let options = RequestOptions {
        sampling: Overrides { temperature: Some(0.0), ..Overrides::default() },
        max_tokens: Some(3),
        ..RequestOptions::default()
    };
    let output = loaded.generate(Prompt::Ids(vec![1, 2, 3]), &options).unwrap().output().unwrap();
    assert_eq!((output.tokens.len(), output.text.as_str()), (3, ""));
    assert!(matches!(loaded.complete("x", &options), Err(Error::NoTokenizer { .. })));
    assert!(matches!(loaded.chat(&[Message::user("x")], &options), Err(Error::NoTokenizer { .. })));
}

#[test]
fn a_cache_that_the_heads_do_not_fit_is_refused_by_name() {
    let options = LoadOptions { kv: KvType::Q8_0, ..LoadOptions::default() };
    let Err(error) = Quern::load(&tiny("llama-full.gguf"), options, &mut ()) else { panic!("heads of 20") };
    assert!(error.is_refusal());
    let words = error.to_string();
    for word in ["llama-full.gguf", "layer 0", "20", "q8_0", "32", "f16, f32"] {
        assert!(words.contains(word), "{word}: {words}");
    }
}

/// Figures of the family: HuggingFaceTB's own page recommends temperature 0.2 and top_p 0.9 for SmolLM2.
#[test]
fn the_request_wins_over_the_preset_and_greedy_takes_no_advice() {
    let loaded =
        Quern::load(&model("smollm2-135m-instruct-q4_1.gguf"), LoadOptions::default(), &mut ()).unwrap();
    let own = Overrides { top_p: Some(0.5), ..Overrides::default() };
    let choice = loaded.sampling(&own).unwrap();
    let params = &choice.resolved.params;
    assert_eq!((params.temperature, params.top_p, choice.preset), (0.2, 0.5, Some("smollm2")));
    assert_eq!(choice.resolved.source("top_p"), Some(Source::Request));
    assert_eq!(choice.resolved.source("temperature"), Some(Source::Preset));

    // The preset's repeat penalty would make the most probable token another one.
    let greedy = loaded.sampling(&Overrides { temperature: Some(0.0), ..own }).unwrap();
    let params = &greedy.resolved.params;
    assert_eq!((params.repeat_penalty, params.top_p, greedy.preset), (1.0, 0.5, None));
}

/// A line break is U+010A in the alphabet that GPT-2 published for byte-level BPE, which the file's tokens are written in.
#[test]
fn a_sequence_breaker_is_every_way_to_spell_it() {
    let loaded =
        Quern::load(&model("smollm2-135m-instruct-q4_1.gguf"), LoadOptions::default(), &mut ()).unwrap();
    let tokens = loaded.file().metadata().strings("tokenizer.ggml.tokens").unwrap();
    let has_break = |id: &u32| String::from_utf8_lossy(tokens.get(*id as usize)).contains('\u{10a}');
    let with_break: Vec<_> = (0..tokens.len() as u32).filter(has_break).map(|id| vec![id]).collect();
    assert!(with_break.len() > 10);
    assert_eq!(loaded.sequence_breakers(&["\n".into()]).unwrap(), with_break);

    // Across a border between tokens, whatever stands before the text in the first.
    let tokenizer = loaded.tokenizer().unwrap();
    let across = loaded.sequence_breakers(&["):".into()]).unwrap();
    let id = |text: &str| tokenizer.token_id(text).unwrap();
    for sequence in [vec![id("):")], vec![id(")"), id(":")], vec![id("()"), id(":")]] {
        assert!(across.contains(&sequence), "{sequence:?} of {across:?}");
    }
    for sequence in &across {
        let bytes: Vec<u8> = sequence.iter().flat_map(|id| tokenizer.token_bytes(*id)).copied().collect();
        assert!(bytes.windows(2).any(|window| window == b"):"), "{sequence:?}");
    }
    assert_eq!(loaded.sequence_breakers(&[]).unwrap(), Vec::<Vec<u32>>::new());
}

/// One beginning-of-text token, whether the template writes it or the tokenizer adds it.
#[test]
fn the_first_token_is_never_doubled() {
    let file = ModelFile::open(&model("gemma-3-270m-q4_k_m.gguf"), &mut ()).unwrap();
    let tokenizer = file.tokenizer().unwrap();
    let bos = tokenizer.special().bos.unwrap();
    let loaded = Quern::from_file(file, LoadOptions::default(), &mut ()).unwrap();
    assert_eq!(loaded.template().unwrap().origin(), TemplateOrigin::Fallback("gemma"));
    let prompt = loaded.render(&[Message::user("Hi")], &RenderOptions::default()).unwrap();
    let Prompt::Text { segments, add_special } = prompt else { panic!("a template gives text") };
    let segments: Vec<_> = segments.iter().map(|segment| segment.as_ref()).collect();
    let chat = tokenizer.encode(&segments, EncodeOptions { add_special });
    for ids in [chat, loaded.encode("Hi").unwrap()] {
        assert_eq!(ids[0], bos);
        assert_eq!(ids.iter().filter(|id| **id == bos).count(), 1, "{ids:?}");
    }
}

/// A file that is in order for one purpose and not for another is refused for that one only.
#[test]
fn a_vocabulary_tokenizes_and_does_not_run() {
    let folder =
        std::env::var_os("QUERN_TEST_DATA").map_or_else(|| root().join(".cache/test-data"), PathBuf::from);
    let path = folder.join("vocab/ggml-vocab-llama-bpe.gguf");
    let file = ModelFile::open(path.to_str().unwrap(), &mut ()).unwrap();
    assert_eq!(file.tokenizer().unwrap().n_vocab(), 128_256);
    let error = file.spec().unwrap_err();
    assert!(error.to_string().contains("vocabulary only") && error.is_refusal(), "{error}");
    assert!(Quern::from_file(file, LoadOptions::default(), &mut ()).is_err_and(|error| error.is_refusal()));
}

/// A folder as Hugging Face has it, with a tokenizer of one letter a token.
fn folder(name: &str, letters: std::ops::Range<u8>) -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("tiny-2.5-").tempdir().unwrap();
    for entry in std::fs::read_dir(tiny(name)).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    let vocab: Vec<String> =
        letters.clone().map(|c| format!("{}: {}", serde_json::json!(char::from(c)), c - b'A')).collect();
    let end = letters.end - b'A';
    let tokenizer = format!(
        r#"{{"added_tokens": [{{"id": {end}, "content": "<|end|>", "special": true, "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false}}],
            "pre_tokenizer": {{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}},
            "decoder": {{"type": "ByteLevel"}},
            "model": {{"type": "BPE", "vocab": {{{}}}, "merges": []}}}}"#,
        vocab.join(", ")
    );
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("tokenizer.json", &tokenizer);
    write("generation_config.json", &format!(r#"{{"eos_token_id": [{end}], "temperature": 0.25}}"#));
    write("chat_template.jinja", "{% for m in messages %}{{ m.content }}<|end|>{% endfor %}");
    folder
}

#[test]
fn a_folder_brings_its_tokenizer_template_and_settings() {
    let folder = folder("qwen3", b'A'..b'[');
    let path = folder.path().to_str().unwrap();
    let loaded = Quern::load(path, LoadOptions::default(), &mut ()).unwrap();
    assert!(path.ends_with(&loaded.facts().model), "{}", loaded.facts().model);
    let tokenizer = loaded.tokenizer().unwrap();
    assert_eq!(tokenizer.special().eos, Some(26));
    let prompt = loaded.render(&[Message::user("BAD<|end|>")], &RenderOptions::default()).unwrap();
    let Prompt::Text { segments, add_special } = prompt else { panic!("a template gives text") };
    let segments: Vec<_> = segments.iter().map(|segment| segment.as_ref()).collect();
    let ids = tokenizer.encode(&segments, EncodeOptions { add_special });
    assert_eq!(ids[..3], [1, 0, 3]);
    assert_eq!(ids.iter().filter(|id| **id == 26).count(), 1, "typed text is never a control token: {ids:?}");
    let choice = loaded.sampling(&Overrides::default()).unwrap();
    assert_eq!(choice.resolved.params.temperature, 0.25);
}

/// R43.
#[test]
fn a_tokenizer_larger_than_the_embedding_is_refused() {
    let folder = folder("qwen3", b'A'..b'A' + 120);
    let Err(error) = Quern::load(folder.path().to_str().unwrap(), LoadOptions::default(), &mut ()) else {
        panic!("accepted")
    };
    let message = error.to_string();
    assert!(error.is_refusal() && message.contains("121 tokens, the embedding 109 rows"), "{message}");
}
