//! What is wrong with safetensors files, beyond what is wrong with single tensors.

use std::path::PathBuf;

use crate::error::PartOf;
use crate::text::quote;

/// What is wrong with a safetensors file, its index or its folder.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum SafetensorsFault {
    #[error("the file is {file_len} bytes long, too short for safetensors: download it again")]
    TooShort { file_len: u64 },
    #[error("this is not a safetensors file: it {looks_like}")]
    NotSafetensors { looks_like: String },
    #[error("the file declares a header of {declared} bytes, more than the limit of {limit}")]
    HeaderTooLong { declared: u64, limit: u64 },
    #[error(
        "the file declares a header of {declared} bytes, but is {file_len} bytes long: it is truncated, download it \
         again"
    )]
    HeaderPastEnd { declared: u64, file_len: u64 },
    #[error("{what} is not the JSON that it should be: {} at line {line}, column {column}", quote(reason))]
    Json { what: &'static str, reason: String, line: usize, column: usize },
    #[error("{n} bytes after the last tensor belong to none: the file is damaged, download it again")]
    LeftOver { n: u64 },

    #[error("the index is {found} bytes long, more than the limit of {limit}")]
    IndexTooLong { found: u64, limit: u64 },
    #[error("the index lists no weights")]
    EmptyIndex,
    #[error(
        "the index says that tensor {} is in {}: only .safetensors files beside the index are read",
        quote(name),
        quote(file)
    )]
    FileName { name: String, file: String },
    #[error(
        "this file is missing{}: the index {} lists it, so put it beside the index or download it again",
        if *more > 0 { format!(" and {more} more") } else { String::new() },
        index.display()
    )]
    MissingFile { index: PathBuf, more: usize },
    #[error(
        "tensor {} is not in this file, where the index {} says it is: download both again",
        quote(name),
        index.display()
    )]
    MissingTensor { name: String, index: PathBuf },
    #[error(
        "this file holds tensor {}, which the index {} does not list for it: download both again",
        quote(name),
        index.display()
    )]
    NotListed { name: String, index: PathBuf },
    #[error(
        "by its name this is {of}, and {} is not beside it: download all files of the model",
        index.display()
    )]
    LonePart { of: PartOf, index: PathBuf },

    #[error("this folder holds no .safetensors file")]
    EmptyFolder,
    #[error("this folder holds several models ({}): name the one to read", list(names))]
    SeveralModels { names: Vec<String> },
}

/// Some names, safe to print.
fn list(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(4).map(quote).collect();
    let more = if names.len() > shown.len() { ", ..." } else { "" };
    shown.join(", ") + more
}

impl SafetensorsFault {
    /// The parser's words, which may quote the file, without the place that it appends.
    pub(super) fn json(what: &'static str, error: &serde_json::Error) -> SafetensorsFault {
        let (line, column) = (error.line(), error.column());
        let said = error.to_string();
        let reason =
            said.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&said).to_owned();
        SafetensorsFault::Json { what, reason, line, column }
    }
}
