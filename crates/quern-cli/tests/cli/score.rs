//! `quern score`, against logits of the publisher's own code.

use crate::common::{DEMO, model, quern, quern_with_input, run, text, tiny};
use serde_json::json;
use std::process::Command;

/// The first prompt of a tiny model and transformers' logits for it.
fn reference(name: &str) -> (Vec<u32>, Vec<Vec<f32>>) {
    let prompts = std::fs::read(tiny(&format!("{name}.ids.json"))).unwrap();
    let prompts: Vec<Vec<u32>> = serde_json::from_slice(&prompts).unwrap();
    let (_, rows) = npy(&std::fs::read(tiny(&format!("{name}.logits.npy"))).unwrap());
    (prompts[0].clone(), rows[..prompts[0].len()].to_vec())
}

/// Header and rows of a float matrix as numpy saves it.
fn npy(bytes: &[u8]) -> (String, Vec<Vec<f32>>) {
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let header_len = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = std::str::from_utf8(&bytes[10..10 + header_len]).unwrap().to_owned();
    let shape = header.split_once("'shape': (").unwrap().1.split_once(')').unwrap().0;
    let dims: Vec<usize> = shape.split(',').map(|dim| dim.trim().parse().unwrap()).collect();
    let (values, rest) = bytes[10 + header_len..].as_chunks::<4>();
    assert!(rest.is_empty() && values.len() == dims[0] * dims[1], "{header}");
    let values: Vec<f32> = values.iter().map(|value| f32::from_le_bytes(*value)).collect();
    (header, values.chunks_exact(dims[1]).map(<[f32]>::to_vec).collect())
}

/// The log probability of an id in f64, from the definition.
fn logprob(row: &[f32], id: u32) -> f64 {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = row.iter().map(|x| libm::exp(f64::from(x - max))).sum();
    f64::from(row[id as usize] - max) - libm::log(sum)
}

fn csv(ids: &[u32]) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// A file without a tokenizer: everything a score reports, from the publisher's logits.
#[test]
fn ids_score_as_the_publishers_logits_say() {
    let (ids, rows) = reference("llama-plain");
    let folder = tempfile::tempdir().unwrap();
    let logits = folder.path().join("logits.npy");
    let gguf = tiny("llama-plain.gguf");
    let (list, out) = (csv(&ids), text(&logits));
    let exact = ["--activations", "f32", "--kv", "f32", "--json"];
    let args = ["score", &gguf, "--ids", &list, "--logits-out", &out];
    let json = quern(&args.iter().chain(&exact).copied().collect::<Vec<_>>()).json();

    let expected: Vec<f64> = rows.iter().zip(&ids[1..]).map(|(row, id)| logprob(row, *id)).collect();
    let n = expected.len() as f64;
    let nll_sum = -expected.iter().sum::<f64>();
    let near = |name: &str, value: f64| {
        let got = json[name].as_f64().unwrap();
        assert!((got - value).abs() <= 1e-4 * value.abs().max(1.0), "{name}: {got} {value}");
    };
    near("nll_sum", nll_sum);
    near("nll_mean", nll_sum / n);
    near("perplexity", libm::exp(nll_sum / n));
    let hits = rows.iter().zip(&ids[1..]).filter(|(row, id)| {
        row.iter().enumerate().all(|(other, logit)| *logit <= row[**id as usize] || other == **id as usize)
    });
    near("top1", hits.count() as f64 / n);
    assert_eq!((&json["positions"], &json["ids"]), (&ids.len().into(), &ids.clone().into()));
    let logprobs = json["logprobs"].as_array().unwrap();
    assert!(logprobs[0].is_null() && logprobs.len() == ids.len());
    for (got, want) in logprobs[1..].iter().zip(&expected) {
        assert!((got.as_f64().unwrap() - want).abs() < 1e-4, "{got} {want}");
    }

    let (header, got) = npy(&std::fs::read(&logits).unwrap());
    assert!(header.contains("'descr': '<f4'") && header.contains("'fortran_order': False"), "{header}");
    assert_eq!((got.len(), got[0].len()), (rows.len(), rows[0].len()));
    for (got, want) in got.iter().flatten().zip(rows.iter().flatten()) {
        assert!((got - want).abs() < 1e-4, "{got} {want}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a temporary file was left");

    // The same ids from a file, as JSON and as words, and from standard input.
    let file = folder.path().join("ids");
    for written in [format!("{ids:?}"), list.replace(',', "\n")] {
        std::fs::write(&file, &written).unwrap();
        let from_file = ["score", &gguf, "--ids-file", &text(&file)];
        let args: Vec<_> = from_file.iter().chain(&exact).copied().collect();
        assert_eq!(quern(&args).json()["logprobs"], json["logprobs"]);
        let args: Vec<_> = ["score", &gguf, "--ids-file", "-"].iter().chain(&exact).copied().collect();
        assert_eq!(quern_with_input(&args, written.as_bytes()).json()["logprobs"], json["logprobs"]);
    }
}

/// A failure leaves neither a half file nor an older one changed.
#[test]
fn a_refused_score_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("logits.npy");
    std::fs::write(&out, "older").unwrap();
    let list = csv(&[&[1; 100][..], &[u32::MAX]].concat());
    quern(&["score", &tiny("llama-plain.gguf"), "--ids", &list, "--logits-out", &text(&out)]).refused();
    assert_eq!(std::fs::read(&out).unwrap(), b"older");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

    let ran =
        quern(&["score", &tiny("llama-plain.gguf"), "--ids", "1,2", "--logits-out", "/no/such/folder/x"]);
    assert_eq!((ran.code(), ran.stderr().lines().count()), (Some(1), 1), "{}", ran.stderr());
}

/// A text is scored as plain text; its ids and its NLL do not depend on threads or on the instruction set.
#[test]
fn a_text_scores_the_same_on_any_threads_and_instruction_set() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("text");
    std::fs::write(&file, "The capital of France is Paris.<|im_end|>").unwrap();
    let score = |threads: &str, isa: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quern"));
        command.args(["score", &model(DEMO), "--text-file", &text(&file), "--json", "--threads", threads]);
        run(command.env("QUERN_ISA", isa), b"").json()
    };
    let first = score("1", "scalar");
    assert!(!first["ids"].as_array().unwrap().contains(&2.into()), "a spelling became a control token");
    assert_eq!(first["modes"]["isa"], "scalar");
    let second = score("3", "");
    assert_eq!((&first["ids"], &first["logprobs"]), (&second["ids"], &second["logprobs"]));
    assert_eq!(second["modes"]["threads"], 3);
}

#[test]
fn one_id_predicts_nothing_and_says_so() {
    let json = quern(&["score", &tiny("llama-plain.gguf"), "--ids", "1", "--json"]).json();
    assert!(json["nll_mean"].is_null() && json["perplexity"].is_null(), "{json}");
    assert_eq!(json["logprobs"].as_array().unwrap().len(), 1);
}

/// The file was trained for 512 positions, and tests/rope_overrides.rs of quern-model says what the flags compute.
#[test]
fn a_context_reaches_as_far_as_the_flags_say() {
    let plain = tiny("llama-plain.gguf");
    let score =
        |flags: &[&str]| quern(&[&["score", &plain, "--ids", "1,2,3,4,5,6", "--json"], flags].concat());
    let published = score(&[]).json();
    assert_eq!((&published["modes"]["context"], &published["modes"]["rope"]), (&512.into(), &json!({})));
    for (flags, rope, context) in [
        (&["--rope-scale", "4"][..], json!({ "rope_scale": 4.0 }), 2048),
        (&["--yarn-factor", "1.5"], json!({ "yarn_factor": 1.5 }), 768),
        (&["--rope-base", "10000"], json!({ "rope_base": 10000.0 }), 512),
        (&["--rope-scale", "2", "--ctx", "1024"], json!({ "rope_scale": 2.0 }), 1024),
    ] {
        let json = score(flags).json();
        assert_eq!((&json["modes"]["rope"], &json["modes"]["context"]), (&rope, &context.into()));
        assert_ne!(json["nll_sum"], published["nll_sum"], "{flags:?}");
    }
    let message = score(&["--rope-scale", "2", "--ctx", "1025"]).refused();
    assert!(message.contains("1025") && message.contains("reaches 1024"), "{message}");
    let message = score(&["--rope-scale", "2", "--yarn-factor", "2"]).refused();
    assert!(message.contains("--rope-scale") && message.contains("--yarn-factor"), "{message}");
    let linear = tiny("llama-linear.gguf");
    let message = quern(&["score", &linear, "--ids", "1,2", "--yarn-factor", "2"]).refused();
    assert!(message.contains("yarn_factor") && message.contains("declares linear scaling by 4"), "{message}");
}
