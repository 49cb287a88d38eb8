//! Why a vocabulary was refused.

use quern_gguf::GgufError;
use thiserror::Error;

/// Why a vocabulary was refused.
#[derive(Debug, Error)]
pub enum TokenizerError {
    /// The metadata holds a value of another type than expected, or lacks one.
    #[error(transparent)]
    Metadata(#[from] GgufError),
    /// The kind of vocabulary is not one of those read here.
    #[error("tokenizer.ggml.model is {model}; this build reads {known}")]
    UnknownModel {
        /// The file's value, quoted.
        model: String,
        /// The values that are read.
        known: String,
    },
    /// The pre-tokenizer is not in the table.
    #[error(
        "tokenizer.ggml.pre is {pre}, which names no known pre-tokenizer; the nearest that are known: {known}"
    )]
    UnknownPre {
        /// The file's value, quoted.
        pre: String,
        /// The known values that are most like it.
        known: String,
    },
    /// A list that this kind of vocabulary needs is absent.
    #[error("the file has no {key}, which a {model} vocabulary needs")]
    MissingList {
        /// The metadata key.
        key: &'static str,
        /// The kind of vocabulary.
        model: &'static str,
    },
    /// Two lists that describe the same tokens differ in length.
    #[error("{key} has {found} entries for {n_vocab} tokens")]
    WrongLength {
        /// The metadata key.
        key: &'static str,
        /// Entries in the list.
        found: usize,
        /// Tokens in the vocabulary.
        n_vocab: usize,
    },
    /// The vocabulary is larger than allowed.
    #[error("{what} is {found}, above the limit of {limit}")]
    TooLarge {
        /// What was counted.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many are allowed.
        limit: usize,
    },
    /// Two tokens are spelled alike, so text could not be told to mean one of them.
    #[error("tokens {first} and {second} are both spelled {spelling}")]
    DuplicateToken {
        /// The lower id.
        first: u32,
        /// The higher id.
        second: u32,
        /// The spelling, quoted.
        spelling: String,
    },
    /// A score cannot be ordered.
    #[error("the score of token {id} is not a number")]
    BadScore {
        /// The token.
        id: u32,
    },
    /// The rules for rewriting text cannot be used.
    #[error("tokenizer.ggml.precompiled_charsmap {why}")]
    BadCharsmap {
        /// What is wrong with it.
        why: &'static str,
    },
    /// A `tokenizer.json` is malformed, or asks for what is not read here.
    #[error("tokenizer.json {why}")]
    Json {
        /// What is wrong with it.
        why: String,
    },
    /// A merge is not two tokens that form a third.
    #[error("merge {index}, {merge}, does not name two tokens that together spell a third")]
    BadMerge {
        /// Position in `tokenizer.ggml.merges`.
        index: usize,
        /// The entry, quoted.
        merge: String,
    },
    /// A token with a role does not exist.
    #[error("{key} is {id}, but the vocabulary has only {n_vocab} tokens")]
    IdOutOfRange {
        /// The metadata key.
        key: &'static str,
        /// The id it holds.
        id: u32,
        /// Tokens in the vocabulary.
        n_vocab: usize,
    },
    /// The file wants a token added that it does not name.
    #[error("{rule} is true, but the file has no {key}")]
    NothingToAdd {
        /// The rule's metadata key.
        rule: &'static str,
        /// The key of the token it would add.
        key: &'static str,
    },
    /// Text could not be encoded without ending generation.
    #[error("token {id} ends generation, but text holding {byte:#04x} cannot be written without it")]
    EndTokenIsText {
        /// The token.
        id: u32,
        /// The byte.
        byte: u8,
    },
    /// Not every text can be encoded.
    #[error("the vocabulary has no token for the byte {byte:#04x} and no token for unknown text")]
    NoByteToken {
        /// The first such byte.
        byte: u8,
    },
}

/// Characters of a quoted string that are printed.
const QUOTED_CHARS: usize = 80;

/// A string of the file's, quoted and escaped, of bounded length (R46).
pub(crate) fn quote(bytes: &[u8]) -> String {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(QUOTED_CHARS * 4)]).into_owned();
    let short: String = head.chars().take(QUOTED_CHARS).collect();
    let cut = if short.len() < head.len() || head.len() < bytes.len() { "..." } else { "" };
    format!("{short:?}{cut}")
}
