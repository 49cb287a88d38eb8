//! References to repositories and the cache of models, through the binary. How a repository is fetched is tested in
//! quern-hub, against a server on loopback.

use crate::common::{Ran, run, tiny};
use sha2::{Digest, Sha256};
use std::path::Path;
use std::process::Command;

const COMMIT: &str = "8b3861f6931c4026b0cd22b38dbc09e7668983ac";

/// Nothing listens there.
const NOWHERE: &str = "http://127.0.0.1:9";

fn quern(cache: &Path, args: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quern"));
    command.args(args).env("QUERN_CACHE", cache).env("HF_ENDPOINT", NOWHERE).env("PATH", "");
    run(&mut command, b"")
}

/// A cache with one model of a repository, as an earlier run leaves it.
fn filled(cache: &Path) {
    let model = std::fs::read(tiny("llama-full.gguf")).unwrap();
    let repo = cache.join("models/hf/someone/Tiny-GGUF");
    std::fs::create_dir_all(repo.join(COMMIT)).unwrap();
    let sha256: String = Sha256::digest(&model).iter().map(|byte| format!("{byte:02x}")).collect();
    let record = serde_json::json!({
        "version": 2,
        "reference": "hf:someone/Tiny-GGUF:Q8_0",
        "commit": COMMIT,
        "files": [{ "path": "tiny-Q8_0.gguf", "bytes": model.len(), "hash": { "kind": "sha256", "hex": sha256 } }],
    });
    std::fs::write(repo.join(COMMIT).join("tiny-Q8_0.gguf"), model).unwrap();
    std::fs::write(repo.join("q8_0@main.json"), record.to_string()).unwrap();
}

#[test]
fn a_repositorys_model_is_found_without_a_network() {
    let cache = tempfile::tempdir().unwrap();
    filled(cache.path());
    let score =
        quern(cache.path(), &["score", "hf:someone/Tiny-GGUF:q8_0", "--ids", "1,2,3", "--json"]).json();
    assert_eq!(score["model"], "tiny-Q8_0");

    let list = quern(cache.path(), &["models", "list"]).done();
    assert!(list.contains("hf:someone/Tiny-GGUF:Q8_0") && list.contains("commit 8b3861f6931c"), "{list}");
    let json = quern(cache.path(), &["models", "list", "--json"]).json();
    let size = std::fs::metadata(tiny("llama-full.gguf")).unwrap().len();
    assert_eq!(
        (&json["models"][0]["bytes"], &json["models"][0]["origin"]["commit"]),
        (&size.into(), &COMMIT.into())
    );
    let path = quern(cache.path(), &["models", "path", "hf:someone/Tiny-GGUF:Q8_0"]).done();
    assert_eq!(
        Path::new(path.trim()),
        cache.path().join(format!("models/hf/someone/Tiny-GGUF/{COMMIT}/tiny-Q8_0.gguf"))
    );

    let removed = quern(cache.path(), &["models", "rm", "hf:someone/Tiny-GGUF:Q8_0"]);
    assert_eq!((removed.code(), removed.stdout()), (Some(0), String::new()));
    assert!(removed.stderr().contains("removed hf:someone/Tiny-GGUF:Q8_0"));
    assert_eq!(quern(cache.path(), &["models", "list", "--json"]).json()["models"], serde_json::json!([]));
}

#[test]
fn what_cannot_be_had_is_told_in_one_line() {
    let cache = tempfile::tempdir().unwrap();
    let unreachable = quern(cache.path(), &["inspect", "hf:someone/Model-GGUF:Q4_K_M"]);
    let stderr = unreachable.stderr();
    assert_eq!((unreachable.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
    assert!(stderr.contains("hf:someone/Model-GGUF:Q4_K_M"), "{stderr}");
    for (args, part) in [
        (&["inspect", "hf:someone"][..], "owner/name"),
        (&["inspect", "hf:someone/../x:Q4"], "hf:owner/name"),
        (&["models", "rm", "demo"], "not in the cache"),
        (&["models", "path", "hf:a/b"], "not in the cache"),
        (&["models", "rm", "nobody"], "no model is called `nobody`"),
    ] {
        let message = quern(cache.path(), args).refused();
        assert!(message.contains(part), "{args:?}: {message}");
    }
}
