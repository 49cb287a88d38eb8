//! Settings from flags, variables and the configuration file.

use crate::common::{DEMO, Ran, model, run, text};
use std::path::Path;
use std::process::Command;

fn quern(folder: &Path, variables: &[(&str, &str)], args: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quern"));
    command.args(args).env_remove("QUERN_CONFIG").env("XDG_CONFIG_HOME", folder);
    command.envs(variables.iter().copied());
    run(&mut command, b"")
}

fn write(folder: &Path, lines: &str) -> String {
    std::fs::create_dir_all(folder.join("quern")).unwrap();
    let path = folder.join("quern/quern.toml");
    std::fs::write(&path, lines).unwrap();
    text(&path)
}

#[test]
#[cfg(target_os = "linux")]
fn a_flag_counts_before_a_variable_and_that_before_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file =
        write(folder.path(), "temp = 0.5\ntop_k = 3\ntop_p = 0.75\nctx = 64\nthreads = 1\nkv = 'f32'\n");
    let variables = [("QUERN_TOP_K", "4"), ("QUERN_TOP_P", "0.875"), ("QUERN_CTX", "65"), ("QUERN_SEED", "")];
    let args = ["run", &model(DEMO), "Hi", "-n", "1", "--json", "--top-p", "0.625", "--seed", "1"];
    let json = quern(folder.path(), &variables, &args).json();
    let sampling = |name: &str| {
        (json["sampling"][name]["value"].as_f64().unwrap(), json["sampling"][name]["from"].as_str().unwrap())
    };
    assert_eq!(sampling("top_p"), (0.625, "command line"));
    assert_eq!(sampling("top_k"), (4.0, "environment"));
    assert_eq!(sampling("temperature"), (0.5, "config file"));
    // The file's own recommendation is none; the preset's repeat penalty is SmolLM2's.
    assert_eq!(json["sampling"]["repeat_penalty"]["from"], "preset");
    let modes = &json["modes"];
    assert_eq!((&modes["context"], &modes["threads"], &modes["kv"]), (&65.into(), &1.into(), &"f32".into()));
    let flag =
        quern(folder.path(), &variables, &[&args[..], &["--ctx", "66", "--kv", "f16"]].concat()).json();
    assert_eq!((&flag["modes"]["context"], &flag["modes"]["kv"]), (&66.into(), &"f16".into()));

    let config = quern(folder.path(), &variables, &["config", "--json"]).json();
    assert_eq!(config["file"], file.as_str());
    let setting =
        |name: &str| (config["settings"][name]["value"].clone(), config["settings"][name]["from"].clone());
    assert_eq!(setting("top_k"), ("4".into(), "environment".into()));
    assert_eq!(setting("kv"), ("f32".into(), "config file".into()));
    assert_eq!(setting("seed"), (serde_json::Value::Null, "default".into()));
    let page = quern(folder.path(), &variables, &["config"]).done();
    assert!(page.contains("\ntop_p                 0.875 (environment)\n"), "{page}");
}

/// A variable has one value, which may hold several biases; a key of the file may be a list.
#[test]
#[cfg(target_os = "linux")]
fn a_setting_that_repeats_is_taken_whole_from_one_place() {
    let folder = tempfile::tempdir().unwrap();
    let lines =
        "logit_bias = ['504+100', '505=-inf']\ndry_sequence_breaker = [\"\\n\", '.']\nyarn_factor = 2\n";
    write(folder.path(), lines);
    let page = quern(folder.path(), &[], &["config"]).done();
    for part in ["\nlogit_bias            504+100,505=-inf (config file)\n", "\\n,. (config file)\n"] {
        assert!(page.contains(part), "{page}");
    }
    let args = ["run", &model(DEMO), "Hi", "-n", "2", "--temp", "0", "--json"];
    let json = quern(folder.path(), &[], &args).json();
    assert_eq!(json["ids"], serde_json::json!([504, 504]));
    assert_eq!(json["sampling"]["logit_bias"]["value"], "504=100,505=-inf");
    assert_eq!(json["modes"]["rope"], serde_json::json!({ "yarn_factor": 2.0 }));
    let variables = [("QUERN_LOGIT_BIAS", "506=100,507+1"), ("QUERN_ROPE_SCALE", "4")];
    let json = quern(folder.path(), &variables, &args).json();
    assert_eq!(json["ids"], serde_json::json!([506, 506]));
    // The stronger place says which way the context grows.
    assert_eq!(json["modes"]["rope"], serde_json::json!({ "rope_scale": 4.0 }));
    let json = quern(folder.path(), &variables, &[&args[..], &["--logit-bias", "508+100"]].concat()).json();
    assert_eq!(json["ids"], serde_json::json!([508, 508]));
}

/// Temperature 0 is greedy wherever it is said.
#[test]
fn temperature_0_of_a_variable_is_greedy_too() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["run", &model(DEMO), "Hi", "-n", "1", "--json"];
    let json = quern(folder.path(), &[("QUERN_TEMP", "0")], &args).json();
    assert_eq!(
        (&json["sampling"]["temperature"]["from"], &json["sampling"]["top_p"]["from"]),
        (&"environment".into(), &"default".into())
    );
}

#[test]
fn the_file_and_the_cache_can_be_named() {
    let folder = tempfile::tempdir().unwrap();
    let one = write(folder.path(), "cache = '/of/the/file'\n");
    let two = folder.path().join("two.toml");
    std::fs::write(&two, "threads = 2\n").unwrap();
    let ask = |variables: &[(&str, &str)], args: &[&str]| {
        quern(folder.path(), variables, &[&["config", "--json"], args].concat()).json()
    };
    let from =
        |json: &serde_json::Value, name: &str| json["settings"][name]["from"].as_str().unwrap().to_owned();
    let json = ask(&[("QUERN_CONFIG", &one)], &[]);
    assert_eq!(from(&json, "cache"), "config file");
    let json = ask(&[("QUERN_CONFIG", &one)], &["--config", &text(&two)]);
    assert_eq!((from(&json, "cache"), from(&json, "threads")), ("default".into(), "config file".into()));
    let json = ask(&[("QUERN_CONFIG", &one), ("QUERN_CACHE", "/of/the/variable")], &[]);
    assert_eq!(json["settings"]["cache"]["value"], "/of/the/variable");
    let json = ask(&[("QUERN_CACHE", "/of/the/variable")], &["--cache", "/of/the/flag"]);
    assert_eq!(
        (from(&json, "cache"), &json["settings"]["cache"]["value"]),
        ("command line".into(), &"/of/the/flag".into())
    );
    let list = quern(folder.path(), &[("QUERN_CONFIG", &one)], &["models", "list", "--json"]).json();
    assert_eq!(list["cache"], "/of/the/file");
}

#[test]
fn what_is_wrong_is_refused_by_name_and_place() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.toml");
    let ask = |lines: &str| {
        std::fs::write(&bad, lines).unwrap();
        quern(folder.path(), &[], &["inspect", "no/such.gguf", "--config", &text(&bad)]).refused()
    };
    for (lines, part) in [
        ("tempp = 1", "did you mean `temp`"),
        ("temp = \"hot\"", "hot"),
        ("x", "line 1"),
        ("\n[run]\n", "`run`"),
        ("rope_scale = 0.5", "--rope-scale"),
        ("rope_scale = 2\nyarn_factor = 2", "cannot be used with"),
    ] {
        let message = ask(lines);
        assert!(message.contains("bad.toml") && message.contains(part), "{lines}: {message}");
    }
    let message = quern(folder.path(), &[("QUERN_THREADS", "none")], &["inspect", "no/such.gguf"]).refused();
    assert!(message.contains("QUERN_THREADS") && message.contains("none"), "{message}");
    let message = quern(folder.path(), &[], &["config", "--config", "no/such.toml"]).refused();
    assert!(message.contains("no/such.toml"), "{message}");
    // A setting that holds by itself and not with the model is refused as its flag is.
    let message = quern(folder.path(), &[("QUERN_TOP_P", "2")], &["run", &model(DEMO), "x"]).refused();
    assert!(message.contains("top_p is 2"), "{message}");
}
