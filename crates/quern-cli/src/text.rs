//! Text from files and from standard input.

use crate::exit::refuse;
use anyhow::Context;
use std::io::Read;
use std::path::Path;

/// The whole of a file as text; `-` is standard input.
pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    let (name, bytes) = if path == Path::new("-") {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().read_to_end(&mut bytes);
        ("standard input".to_owned(), read.map(|_| bytes))
    } else {
        (path.display().to_string(), std::fs::read(path))
    };
    let bytes = match bytes {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return refuse(format!("there is no file {name}"));
        }
        bytes => bytes.with_context(|| format!("cannot read {name}"))?,
    };
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(error) => refuse(format!(
            "{name} is not UTF-8 text: the byte at {} is none",
            error.utf8_error().valid_up_to()
        )),
    }
}

/// Prints one JSON value as a line on standard output.
pub(crate) fn print_json(value: &serde_json::Value) -> anyhow::Result<()> {
    write_stdout(format!("{value}\n").as_bytes())
}

/// Writes to standard output and flushes: what a reader is owed must not wait in a buffer, and a full disk is an error.
pub(crate) fn write_stdout(bytes: &[u8]) -> anyhow::Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).context("cannot write to standard output")
}
