//! Help, versions, and command lines that make no sense.

use crate::common::{quern, tiny};

const COMMANDS: [&str; 12] = [
    "run",
    "chat",
    "score",
    "tokenize",
    "detokenize",
    "inspect",
    "bench",
    "models",
    "caps",
    "config",
    "completions",
    "man",
];

#[test]
fn every_command_explains_itself_with_an_example() {
    let top = quern(&["--help"]).done();
    for command in COMMANDS {
        assert!(top.contains(&format!("\n  {command}")), "{top}");
        for flag in ["--help", "-h"] {
            let help = quern(&[command, flag]).done();
            assert!(help.contains("Examples:") && help.contains(&format!("quern {command} ")), "{help}");
        }
    }
    for code in ["0 ", "1 ", "2 ", "130 "] {
        assert!(top.contains(&format!("\n  {code}")), "{code} is not in the table of exit codes: {top}");
    }
}

#[test]
fn the_version_is_the_packages() {
    assert_eq!(quern(&["--version"]).done(), format!("quern {}\n", env!("CARGO_PKG_VERSION")));
}

/// R130: a flag outside its mode is refused by name, not ignored.
#[test]
fn r130_what_makes_no_sense_is_refused_by_name() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["run", "m.gguf", "x", "--raw", "--system", "y"], &["--raw", "--system"]),
        (&["run", "m.gguf", "x", "-n", "0"], &["0", "at least 1"]),
        (&["run", "m.gguf", "x", "-n", "many"], &["many", "whole number"]),
        (&["run", "m.gguf", "x", "--seed", "-1"], &["-1"]),
        (&["run", "m.gguf", "x", "--seed", "18446744073709551616"], &["18446744073709551616"]),
        (&["run", "m.gguf", "x", "--kv", "q8"], &["--kv", "f16", "q8_0", "f32"]),
        (&["run", "m.gguf", "x", "--sed", "1"], &["--sed", "--seed"]),
        (&["run"], &["MODEL"]),
        (&["walk"], &["walk"]),
        (&["score", "m.gguf"], &["--text-file", "--ids", "--ids-file"]),
        (&["score", "m.gguf", "--ids", "1", "--text-file", "f"], &["--ids", "--text-file"]),
        (&["score", "m.gguf", "--ids", "1,x"], &["`x`"]),
        (&["tokenize", "m.gguf"], &["--text-file", "--text"]),
        (&["tokenize", "m.gguf", "--text", "x", "--text-file", "f"], &["--text", "--text-file"]),
        (&["detokenize", "m.gguf"], &["ID", "--ids-file"]),
        (&["bench", "m.gguf", "-n", "1"], &["-n", "at least 2"]),
        (&["bench", "m.gguf", "-r", "0"], &["at least 1"]),
    ];
    for (args, parts) in cases {
        let message = quern(args).refused();
        for part in *parts {
            assert!(message.contains(part), "{args:?}: {message:?} does not name {part}");
        }
    }
}

#[test]
fn a_model_that_is_not_there_is_refused_with_what_would_be() {
    for (command, rest) in [("inspect", &[][..]), ("bench", &[]), ("run", &["x"])] {
        let message = quern(&[&[command, "no/such.gguf"], rest].concat()).refused();
        assert!(message.contains("no/such.gguf") && message.contains("demo"), "{message}");
        let message = quern(&[&[command, "nobody"], rest].concat()).refused();
        assert!(message.contains("`nobody`") && message.contains("demo"), "{message}");
    }
}

#[test]
fn what_the_model_cannot_do_is_refused_by_name() {
    let model = tiny("llama-plain.gguf");
    let cases: &[(&[&str], &str)] = &[
        (&["run", &model, "x"], "no tokenizer"),
        (&["run", &model, "x", "--raw"], "no tokenizer"),
        (&["tokenize", &model, "--text", "x"], "no tokenizer"),
        (&["score", &model, "--ids", "1,2", "--ctx", "1000000"], "1000000"),
        (&["score", &model, "--ids", "1,2", "--threads", "100000"], "100000"),
        (&["score", &model, "--ids", "1,4000000000"], "4000000000"),
        (&["bench", &model, "-p", "1000000"], "positions"),
    ];
    for (args, part) in cases {
        let message = quern(args).refused();
        assert!(message.contains(part), "{args:?}: {message}");
    }
}
