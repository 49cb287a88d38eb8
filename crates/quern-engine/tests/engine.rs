//! Requests through the engine: true ends, true counts, and the same tokens as the model's own logits say.

#![allow(clippy::unwrap_used)]

use quern_backend::KvType;
use quern_cpu::{CpuBackend, CpuOptions};
use quern_engine::sampling::SamplingParams;
use quern_engine::{
    Engine, EngineError, EngineOptions, Event, FinishReason, Output, Prompt, Request, StoppedBy,
};
use quern_gguf::Gguf;
use quern_model::Model;
use quern_tokenizer::{OwnedSegment, SharedTokenizer};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

fn smollm2() -> PathBuf {
    let dir = std::env::var_os("QUERN_TEST_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/test-data"), PathBuf::from);
    let path = dir.join("models/smollm2-135m-instruct-q4_1.gguf");
    assert!(path.is_file(), "{} is missing: run scripts/fetch-models.sh", path.display());
    path
}

fn engine(path: &Path, options: EngineOptions) -> (Engine, Option<SharedTokenizer>) {
    let file = Arc::new(Gguf::open(path).unwrap());
    let backend =
        Arc::new(CpuBackend::new(&CpuOptions { threads: Some(2), ..CpuOptions::default() }).unwrap());
    let model = Arc::new(Model::load(backend, &file, &mut |_, _| {}).unwrap());
    let tokenizer = quern_tokenizer::from_metadata(file.metadata()).ok();
    (Engine::new(model, tokenizer.clone(), options).unwrap(), tokenizer)
}

fn tiny(options: EngineOptions) -> Engine {
    engine(&fixture("tiny/llama-plain.gguf"), options).0
}

fn greedy(prompt: Prompt, max_tokens: Option<usize>) -> Request {
    Request { sampling: SamplingParams::greedy(), max_tokens, ..Request::new(prompt) }
}

fn ids(output: &Output) -> Vec<u32> {
    output.tokens.iter().map(|t| t.id).collect()
}

/// The reference: transformers' logits of a prompt give the first greedy token.
#[test]
fn the_first_greedy_token_is_the_publishers() {
    let engine = tiny(EngineOptions { kv: KvType::F32, ..EngineOptions::default() });
    let prompts: Vec<Vec<u32>> =
        serde_json::from_slice(&std::fs::read(fixture("tiny/llama-plain.ids.json")).unwrap()).unwrap();
    let npy = std::fs::read(fixture("tiny/llama-plain.logits.npy")).unwrap();
    let n_vocab = engine.spec().n_vocab;
    let values: Vec<f32> = npy[npy.len() - 4 * n_vocab * prompts.iter().map(Vec::len).sum::<usize>()..]
        .as_chunks::<4>()
        .0
        .iter()
        .map(|b| f32::from_le_bytes(*b))
        .collect();
    let mut end = 0;
    for prompt in prompts {
        end += prompt.len();
        let last = &values[(end - 1) * n_vocab..end * n_vocab];
        let best = (0..n_vocab).max_by(|&a, &b| last[a].total_cmp(&last[b])).unwrap();
        let output = engine.complete(greedy(Prompt::Ids(prompt), Some(1))).unwrap();
        assert_eq!(ids(&output), [best as u32]);
    }
}

#[test]
fn greedy_tokens_are_the_argmax_of_the_scores() {
    let engine = tiny(EngineOptions { prefill_chunk: 3, ..EngineOptions::default() });
    let prompt = vec![5, 9, 90, 3, 77, 8, 1];
    let output = engine.complete(greedy(Prompt::Ids(prompt.clone()), Some(20))).unwrap();
    let all = [prompt.clone(), ids(&output)].concat();
    let mut best = Vec::new();
    engine
        .score(&all, &mut |_, logits| {
            best.push(
                (0..logits.len()).rev().max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap() as u32
            );
            true
        })
        .unwrap();
    assert_eq!(best[prompt.len() - 1..all.len() - 1], all[prompt.len()..]);
    assert_eq!(output.finish.reason, FinishReason::Length);
    assert_eq!((output.finish.usage.prompt_tokens, output.finish.usage.completion_tokens), (7, 20));
}

#[test]
fn a_seed_repeats_and_prefill_chunks_do_not_matter() {
    let sampled = |chunk: usize, seed: u64| {
        let engine = tiny(EngineOptions { prefill_chunk: chunk, ..EngineOptions::default() });
        let sampling = SamplingParams { temperature: 1.0, seed: Some(seed), ..SamplingParams::default() };
        let request =
            Request { sampling, max_tokens: Some(40), ..Request::new(Prompt::Ids(vec![1, 2, 3, 4, 5])) };
        let output = engine.complete(request).unwrap();
        assert_eq!(output.finish.seed, seed);
        ids(&output)
    };
    assert_eq!(sampled(512, 0), sampled(2, 0));
    assert_ne!(sampled(512, 0), sampled(512, 1));
}

#[test]
fn the_context_ends_an_answer_with_length() {
    let engine = tiny(EngineOptions { context: Some(12), ..EngineOptions::default() });
    let output = engine.complete(greedy(Prompt::Ids(vec![1, 2, 3, 4, 5]), None)).unwrap();
    assert_eq!(output.finish.reason, FinishReason::Length);
    assert_eq!(output.tokens.len(), 7);
    let too_long = engine.complete(greedy(Prompt::Ids(vec![1; 12]), None)).unwrap_err();
    assert!(matches!(too_long, EngineError::PromptTooLong { prompt: 12, context: 12 }), "{too_long}");
    let none = engine.complete(greedy(Prompt::Ids(vec![]), None)).unwrap_err();
    assert!(matches!(none, EngineError::EmptyPrompt));
    // A refused request leaves the engine as it was.
    assert_eq!(
        engine.complete(greedy(Prompt::Ids(vec![1, 2, 3, 4, 5]), None)).unwrap().tokens,
        output.tokens
    );
}

#[test]
fn text_and_stop_strings_need_a_tokenizer() {
    let engine = tiny(EngineOptions::default());
    let text = Prompt::Text { segments: vec![OwnedSegment::Plain("x".into())], add_special: true };
    assert!(matches!(engine.complete(greedy(text, Some(1))).unwrap_err(), EngineError::NoTokenizer));
    let request = Request { stops: vec!["a".into()], ..greedy(Prompt::Ids(vec![1]), Some(1)) };
    assert!(matches!(engine.complete(request).unwrap_err(), EngineError::NoTokenizer));
}

#[test]
fn a_stop_token_ends_an_answer_and_is_not_part_of_it() {
    let engine = tiny(EngineOptions::default());
    let free = ids(&engine.complete(greedy(Prompt::Ids(vec![1, 2, 3]), Some(10))).unwrap());
    let stop = free[4];
    let at = free.iter().position(|id| *id == stop).unwrap();
    let request = Request { stop_ids: vec![stop], ..greedy(Prompt::Ids(vec![1, 2, 3]), Some(10)) };
    let output = engine.complete(request).unwrap();
    assert_eq!(ids(&output), free[..at]);
    assert_eq!(output.finish.stopped_by, Some(StoppedBy::Token(stop)));
    assert_eq!(output.finish.usage.completion_tokens, at + 1, "the stop token was drawn too");
}

#[test]
fn cancelling_ends_within_a_step_and_frees_the_engine() {
    let engine = tiny(EngineOptions::default());
    let mut generation = engine.submit(greedy(Prompt::Ids(vec![1, 2, 3]), None)).unwrap();
    while !matches!(generation.next().unwrap().unwrap(), Event::Token(_)) {}
    generation.cancel();
    let finish = generation.by_ref().find_map(|e| match e.unwrap() {
        Event::Finish(finish) => Some(finish),
        _ => None,
    });
    assert_eq!(finish.unwrap().reason, FinishReason::Cancelled);
    assert!(generation.next().is_none());
    // Dropped without a word: the next request still runs.
    drop(engine.submit(greedy(Prompt::Ids(vec![1, 2, 3]), None)).unwrap());
    assert_eq!(engine.complete(greedy(Prompt::Ids(vec![4, 5]), Some(3))).unwrap().tokens.len(), 3);
}

#[test]
fn a_context_beyond_the_models_is_refused() {
    let path = fixture("tiny/llama-plain.gguf");
    let file = Arc::new(Gguf::open(path).unwrap());
    let backend =
        Arc::new(CpuBackend::new(&CpuOptions { threads: Some(1), ..CpuOptions::default() }).unwrap());
    let model = Arc::new(Model::load(backend, &file, &mut |_, _| {}).unwrap());
    let options = EngineOptions { context: Some(1 << 27), ..EngineOptions::default() };
    assert!(matches!(Engine::new(model, None, options), Err(EngineError::Context { .. })));
}

fn chat(question: &str) -> Prompt {
    let segments = vec![
        OwnedSegment::Trusted("<|im_start|>user\n".into()),
        OwnedSegment::Plain(question.into()),
        OwnedSegment::Trusted("<|im_end|>\n<|im_start|>assistant\n".into()),
    ];
    Prompt::Text { segments, add_special: true }
}

#[test]
fn a_real_model_answers_streams_and_stops() {
    let (engine, tokenizer) = engine(&smollm2(), EngineOptions::default());
    let request = greedy(chat("What is the capital of France?"), Some(40));
    let output = engine.complete(request.clone()).unwrap();
    assert!(output.text.contains("Paris"), "{}", output.text);
    assert_eq!(output.finish.reason, FinishReason::Stop);
    let end = tokenizer.as_ref().unwrap().token_id("<|im_end|>").unwrap();
    assert_eq!(output.finish.stopped_by, Some(StoppedBy::Token(end)));

    // A stop string that begins inside one token and ends in another is never shown.
    let stopped = engine.complete(Request { stops: vec!["f France".into()], ..request.clone() }).unwrap();
    let cut = output.text.find("f France").unwrap();
    assert_eq!(stopped.text, output.text[..cut]);
    assert_eq!(stopped.finish.stopped_by, Some(StoppedBy::Text("f France".into())));

    // The end token cannot be drawn: the answer goes on to its limit.
    let on = engine.complete(Request { ignore_eos: true, ..request }).unwrap();
    assert_eq!((on.finish.reason, on.tokens.len()), (FinishReason::Length, 40));
    assert!(on.text.starts_with(&output.text));
}
