//! The examples, run on the demo model as a reader would run them.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

fn demo() -> PathBuf {
    let folder = std::env::var_os("QUERN_TEST_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/test-data"), PathBuf::from);
    let path = folder.join("models/smollm2-135m-instruct-q4_1.gguf");
    assert!(path.is_file(), "{} is missing: run scripts/fetch-models.sh", path.display());
    path
}

/// What an example prints. Cargo builds examples with the tests, beside them.
fn run(name: &str, args: &[&str]) -> String {
    let test = std::env::current_exe().unwrap();
    let example = test.parent().unwrap().parent().unwrap().join("examples").join(name);
    let example = example.with_extension(std::env::consts::EXE_EXTENSION);
    assert!(example.is_file(), "{} is missing: run cargo build -p quern --examples", example.display());
    let output = Command::new(example).arg(demo()).args(args).output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn chat_answers() {
    let printed = run("chat", &["What is the capital of France?"]);
    assert!(printed.contains("Paris") && printed.ends_with("\n[stop]\n"), "{printed}");
}

#[test]
fn complete_repeats_itself() {
    let printed = run("complete", &["Once upon a time"]);
    assert!(
        printed.starts_with("Once upon a time") && printed.ends_with("[seed 42, repeated: true]\n"),
        "{printed}"
    );
}

#[test]
fn score_finds_the_odd_word() {
    let printed = run("score", &["The capital of France is called banana, and Paris is a city."]);
    assert!(printed.starts_with("perplexity ") && printed.contains("ban"), "{printed}");
}

#[test]
fn tokenize_goes_there_and_back() {
    let printed = run("tokenize", &["Hello, world"]);
    assert!(printed.contains("19556  \"Hello\"") && printed.ends_with("\nHello, world\n"), "{printed}");
}

#[test]
fn inspect_knows_the_model() {
    let printed = run("inspect", &[]);
    assert!(
        printed.contains("general.license = apache-2.0") && printed.contains("30 layers, context 8192"),
        "{printed}"
    );
}

#[test]
fn examples_are_short() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines < 30, "{} has {lines} lines", path.display());
        seen += 1;
    }
    assert_eq!(seen, 5);
}
