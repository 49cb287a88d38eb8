//! Running the binary, and where its models lie.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub(crate) const DEMO: &str = "smollm2-135m-instruct-q4_1.gguf";
pub(crate) const GEMMA3: &str = "gemma-3-270m-q4_k_m.gguf";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file that scripts/fetch-models.sh brings.
pub(crate) fn test_data(name: &str) -> PathBuf {
    let folder =
        std::env::var_os("QUERN_TEST_DATA").map_or_else(|| root().join(".cache/test-data"), PathBuf::from);
    let path = folder.join(name);
    assert!(path.is_file(), "{} is missing: run scripts/fetch-models.sh", path.display());
    path
}

pub(crate) fn model(name: &str) -> String {
    text(&test_data(&format!("models/{name}")))
}

pub(crate) fn tiny(name: &str) -> String {
    text(&root().join("fixtures/tiny").join(name))
}

pub(crate) fn text(path: &Path) -> String {
    path.to_str().expect("test paths are UTF-8").to_owned()
}

/// The binary, with nothing on its standard input.
pub(crate) fn quern(args: &[&str]) -> Ran {
    quern_with_input(args, b"")
}

pub(crate) fn quern_with_input(args: &[&str], input: &[u8]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quern"));
    // Not the settings of whoever runs the tests.
    run(command.args(args).env("XDG_CONFIG_HOME", root().join("no-such-folder")), input)
}

pub(crate) fn run(command: &mut Command, input: &[u8]) -> Ran {
    let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = streams.spawn().unwrap();
    // A command that reads no input may be gone by now.
    let _ = child.stdin.take().unwrap().write_all(input);
    Ran { args: format!("{command:?}"), output: child.wait_with_output().unwrap() }
}

/// How a run ended.
pub(crate) struct Ran {
    args: String,
    pub(crate) output: Output,
}

impl Ran {
    pub(crate) fn code(&self) -> Option<i32> {
        self.output.status.code()
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8(self.output.stdout.clone()).unwrap()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// Its standard output, after a run that went well and had nothing to say besides.
    pub(crate) fn done(&self) -> String {
        assert_eq!((self.code(), self.stderr()), (Some(0), String::new()), "{}", self.args);
        self.stdout()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        let line = self.done();
        assert_eq!(line.lines().count(), 1, "{}", self.args);
        serde_json::from_str(&line).unwrap()
    }

    /// The message of a run that was refused: one line, nothing on standard output, code 2.
    pub(crate) fn refused(&self) -> String {
        let stderr = self.stderr();
        assert_eq!((self.code(), self.stdout()), (Some(2), String::new()), "{}: {stderr}", self.args);
        assert_eq!(stderr.lines().count(), 1, "{}: {stderr}", self.args);
        stderr.strip_prefix("quern: error: ").unwrap_or_else(|| panic!("{}: {stderr}", self.args)).to_owned()
    }
}
