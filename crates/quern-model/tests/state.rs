//! What a sequence keeps: forks, going back, sliding windows, and refusals that change nothing.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Run, SEQ, fixture, load, logits};
use quern_backend::{Batch, Segment, SeqId, Want};
use quern_cpu::CpuBackend;
use quern_model::{Model, ModelError, States, Workspace};

struct Bench {
    model: Model<CpuBackend>,
    ws: Workspace<CpuBackend>,
    states: States<CpuBackend>,
    run: Run,
}

impl Bench {
    fn new(name: &str, context: usize) -> Bench {
        let run = Run::default();
        let model = load(&fixture(name), run);
        let ws = Workspace::new(&model, 8);
        let mut states = States::default();
        states.insert(SEQ, model.sequence(run.kv, context));
        Bench { model, ws, states, run }
    }

    /// Feeds tokens to a sequence; gives the last logits.
    fn feed(&mut self, seq: SeqId, tokens: &[u32]) -> Vec<f32> {
        let first_pos = self.states.get(seq).unwrap().len() as u32;
        let batch = Batch::single(seq, tokens, first_pos, Want::Last);
        self.model.forward(&mut self.ws, &batch, &mut self.states).unwrap();
        self.ws.logits(&self.model).into_owned()
    }
}

fn ids(n: usize, n_vocab: usize, step: usize) -> Vec<u32> {
    (0..n).map(|i| ((i * step + 3) % n_vocab) as u32).collect()
}

/// A full model and a windowed one; prompts that cross pages.
const ATTENTION: [&str; 2] = ["tiny/llama-plain.gguf", "tiny/gemma3-window.gguf"];
/// Those, and hybrids of recurrent and full layers.
const MODELS: [&str; 4] = [ATTENTION[0], ATTENTION[1], "tiny/qwen35.gguf", "tiny/qwen35-keys.gguf"];

#[test]
fn a_fork_goes_its_own_way_and_leaves_the_other_alone() {
    for name in MODELS {
        let mut bench = Bench::new(name, 700);
        let n_vocab = bench.model.spec().n_vocab;
        let prompt = ids(300, n_vocab, 7);
        let (a, b) = (ids(30, n_vocab, 11), ids(30, n_vocab, 13));
        bench.feed(SEQ, &prompt);
        let fork = bench.states.get(SEQ).unwrap().fork(bench.model.backend());
        bench.states.insert(SeqId(2), fork);
        let mut got = Vec::new();
        for i in 0..30 {
            got.push((bench.feed(SEQ, &a[i..=i]), bench.feed(SeqId(2), &b[i..=i])));
        }
        for (tail, pick) in [(&a, 0), (&b, 1)] {
            let whole = logits(&bench.model, bench.run, &[&prompt[..], tail].concat());
            let expected = whole.chunks(n_vocab).skip(300);
            for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
                let got = if pick == 0 { &got.0 } else { &got.1 };
                assert!(
                    got.iter().zip(expected).all(|(a, b)| a.to_bits() == b.to_bits()),
                    "{name} {pick} step {i}"
                );
            }
        }
    }
}

#[test]
fn going_back_gives_the_same_bits_as_never_having_gone_on() {
    for name in ATTENTION {
        let mut bench = Bench::new(name, 700);
        let backend = bench.model.backend().clone();
        let n_vocab = bench.model.spec().n_vocab;
        bench.feed(SEQ, &ids(270, n_vocab, 7));
        bench.feed(SEQ, &ids(9, n_vocab, 11));
        let mut state = bench.states.remove(SEQ).unwrap();
        assert!(!state.truncate(&backend, 280), "longer than it is");
        assert!(state.truncate(&backend, 270));
        bench.states.insert(SEQ, state);
        let got = bench.feed(SEQ, &ids(5, n_vocab, 13));
        let straight = [ids(270, n_vocab, 7), ids(5, n_vocab, 13)].concat();
        let expected = logits(&bench.model, bench.run, &straight);
        let last = &expected[expected.len() - n_vocab..];
        assert!(got.iter().zip(last).all(|(a, b)| a.to_bits() == b.to_bits()), "{name}");
    }
}

/// A recurrent state cannot be run backwards: it begins again, or a fork that was kept takes its place.
#[test]
fn a_hybrid_goes_back_to_nothing_or_to_a_fork() {
    for name in ["tiny/qwen35.gguf", "tiny/qwen35-keys.gguf"] {
        let mut bench = Bench::new(name, 700);
        let backend = bench.model.backend().clone();
        let n_vocab = bench.model.spec().n_vocab;
        let (prompt, wrong, right) = (ids(270, n_vocab, 7), ids(9, n_vocab, 11), ids(5, n_vocab, 13));
        bench.feed(SEQ, &prompt);
        let kept = bench.states.get(SEQ).unwrap().fork(&backend);
        assert_eq!(kept.bytes(), bench.states.get(SEQ).unwrap().bytes());
        bench.feed(SEQ, &wrong);
        let mut state = bench.states.remove(SEQ).unwrap();
        assert!(!state.truncate(&backend, 270));
        assert!(state.truncate(&backend, 279), "where it is");
        assert_eq!(state.len(), 279, "a refusal changes nothing");

        let expected = logits(&bench.model, bench.run, &[&prompt[..], &right].concat());
        let last = &expected[expected.len() - n_vocab..];
        let same = |got: &[f32]| got.iter().zip(last).all(|(a, b)| a.to_bits() == b.to_bits());
        bench.states.insert(SEQ, kept);
        assert!(same(&bench.feed(SEQ, &right)), "{name}: from the fork");
        assert!(state.truncate(&backend, 0));
        bench.states.insert(SEQ, state);
        bench.feed(SEQ, &prompt);
        assert!(same(&bench.feed(SEQ, &right)), "{name}: from nothing");
    }
}

/// Tokens one at a time, the last logits of each.
#[test]
fn decode_equals_prefill() {
    let others = ["gemma2", "mistral", "qwen2", "qwen3"].map(|name| format!("tiny/{name}.gguf"));
    for name in MODELS.into_iter().chain(others.iter().map(String::as_str)) {
        let mut bench = Bench::new(name, 100);
        let n_vocab = bench.model.spec().n_vocab;
        let ids = ids(40, n_vocab, 7);
        let prefill = logits(&bench.model, bench.run, &ids);
        for (i, row) in prefill.chunks(n_vocab).enumerate() {
            let got = bench.feed(SEQ, &ids[i..=i]);
            assert!(got.iter().zip(row).all(|(a, b)| a.to_bits() == b.to_bits()), "{name} position {i}");
        }
    }
}

#[test]
fn a_window_lets_go_of_pages_and_then_cannot_go_back() {
    let mut bench = Bench::new("tiny/gemma3-window.gguf", 2000);
    let backend = bench.model.backend().clone();
    let n_vocab = bench.model.spec().n_vocab;
    bench.feed(SEQ, &ids(200, n_vocab, 7));
    let one_page = bench.states.get(SEQ).unwrap().bytes();
    bench.feed(SEQ, &ids(1000, n_vocab, 7));
    let state = bench.states.get(SEQ).unwrap();
    // Full layers hold five pages, sliding layers one.
    assert!(state.bytes() < 3 * one_page, "{} of {one_page}", state.bytes());
    let mut state = bench.states.remove(SEQ).unwrap();
    assert!(!state.truncate(&backend, 100));
    assert_eq!(state.len(), 1200, "a refusal changes nothing");
}

#[test]
fn sequences_in_one_batch_equal_each_alone() {
    for name in MODELS {
        let mut bench = Bench::new(name, 700);
        let n_vocab = bench.model.spec().n_vocab;
        let prompts = [ids(5, n_vocab, 7), ids(290, n_vocab, 11), ids(33, n_vocab, 13)];
        let segment = |i: usize, tokens: &[u32], first_pos: usize| Segment {
            seq: SeqId(i as u64),
            tokens: tokens.to_vec(),
            first_pos: first_pos as u32,
            want: Want::All,
        };
        let mut got = vec![Vec::new(); 3];
        for i in 0..3 {
            bench.states.insert(SeqId(i as u64), bench.model.sequence(bench.run.kv, 700));
        }
        // Uneven parts of each, together.
        let cuts = [[0, 2, 5], [0, 100, 290], [0, 32, 33]];
        for part in 0..2 {
            let segments: Vec<_> = (0..3)
                .map(|i| segment(i, &prompts[i][cuts[i][part]..cuts[i][part + 1]], cuts[i][part]))
                .collect();
            let rows: Vec<usize> = segments.iter().map(|s| s.tokens.len()).collect();
            bench.model.forward(&mut bench.ws, &Batch { segments }, &mut bench.states).unwrap();
            let mut logits = &*bench.ws.logits(&bench.model);
            for (got, rows) in got.iter_mut().zip(rows) {
                let (own, rest) = logits.split_at(rows * n_vocab);
                got.extend_from_slice(own);
                logits = rest;
            }
        }
        for (prompt, got) in prompts.iter().zip(&got) {
            let alone = logits(&bench.model, bench.run, prompt);
            assert!(alone.iter().zip(got).all(|(a, b)| a.to_bits() == b.to_bits()), "{name}");
            assert_eq!(alone.len(), got.len());
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let mut bench = Bench::new("tiny/llama-plain.gguf", 10);
    let n_vocab = bench.model.spec().n_vocab as u32;
    bench.feed(SEQ, &[1, 2, 3]);
    let mut refused = |tokens: &[u32], first_pos: u32, seq: SeqId| {
        let batch = Batch::single(seq, tokens, first_pos, Want::Last);
        let error = bench.model.forward(&mut bench.ws, &batch, &mut bench.states).unwrap_err();
        assert_eq!(bench.states.get(SEQ).unwrap().len(), 3);
        error
    };
    assert!(matches!(refused(&[n_vocab], 3, SEQ), ModelError::Token { .. }));
    assert!(matches!(refused(&[1; 8], 3, SEQ), ModelError::Context { context: 10, .. }));
    assert!(matches!(refused(&[1], 4, SEQ), ModelError::Sequence { .. }));
    assert!(matches!(refused(&[], 3, SEQ), ModelError::Sequence { .. }));
    assert!(matches!(refused(&[1], 0, SeqId(9)), ModelError::Sequence { .. }));
}
