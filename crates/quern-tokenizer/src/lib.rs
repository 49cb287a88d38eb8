//! Text to token ids and back, from GGUF metadata or a `tokenizer.json`; byte-exact streaming decode.
//!
//! [`from_metadata`] turns the `tokenizer.ggml.*` keys of a file into a [`Tokenizer`]. The kinds of vocabulary are the
//! rows of one table (`kinds.rs`). Byte-level BPE (`gpt2`), SentencePiece's score-BPE with byte fallback (`llama`) and
//! BPE over raw UTF-8 text (`gemma4`) share **one merge loop** (`merge.rs`), a linked list of symbols and a binary heap
//! of candidates; what differs is only how two neighbours are looked up and which candidate goes first. WordPiece
//! (`bert`), Unigram (`t5`) and RWKV's greedy match (`rwkv`) share one tree of tokens (`trie.rs`).
//!
//! [`from_json`] reads the `tokenizer.json` of Hugging Face's `tokenizers` library into the same machinery: its models
//! are these models, its steps before them the same loops, its patterns those of the table where they look ahead, and
//! compiled like them where they do not. Our own reader rather than that library for the reasons below, and because
//! ids of ordinary text must never be control tokens, which its `encode` does not promise: it finds them in any text.
//! What cannot be expressed in linear time, or is not known, is refused by name. Three things differ from that library
//! on purpose: text that spells a control or byte token stays text; added tokens inside white space that a mark swallows
//! are not found; and decoding keeps the space before a first word, since a stream may continue another text.
//!
//! Why our own loop and not the `tokenizers` crate: a vocabulary goes from the file to the tables without a detour
//! through JSON, so 262,144 tokens load in a fraction of a second; no text, however chosen, takes more than
//! O(n log n) time; equal scores merge leftmost first, which merge lists cannot express; and ids agree with
//! llama.cpp, whose files these are.
//!
//! Text is cut into words before merging by the patterns of one table (`pretokenizers.rs`), compiled with the
//! linear-time `regex` crate. An unknown `tokenizer.ggml.pre` or `tokenizer.ggml.model` is refused by name: every id
//! after a wrong guess would be wrong.
//!
//! # Trust
//!
//! Text comes in [`Segment`]s. Control tokens are found in [`Segment::Trusted`] text only; ordinary text, trusted or
//! not, is never merged into one either (the exact rule heads `special.rs`). Apart from that, neighbouring segments
//! are tokenized as the one text that they are.
//!
//! # What is deliberately absent
//!
//! PLaMo vocabularies; the "clean up spaces" step that some implementations apply to decoded text, since it cannot be
//! undone or streamed; chat templates, which are `quern-chat`'s.

mod bytelevel;
mod charsmap;
mod classes;
mod cut;
mod decode;
mod error;
mod front;
mod json;
mod kinds;
mod matcher;
mod merge;
mod merges;
mod metadata;
mod model;
mod normalize;
mod pretokenize;
mod pretokenizers;
#[cfg(test)]
mod ratio;
mod rwkv;
mod segment;
mod special;
mod strings;
mod tokenizer;
mod trie;
mod unigram;
mod vocab;
mod wordpiece;
mod words;

use std::borrow::Cow;
use std::sync::Arc;

pub use decode::StreamDecoder;
pub use error::TokenizerError;
pub use json::from_json;
pub use kinds::models;
pub use metadata::from_metadata;
pub use pretokenizers::names as pretokenizer_names;
pub use segment::{OwnedSegment, Segment};
pub use special::{SpecialIds, SpecialTokens};
pub use tokenizer::from_vocab;
pub use vocab::{Limits, TokenKind, Vocab};

/// How a whole text is encoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Put the beginning-of-text token before and the end-of-text token after the text where the file says so.
    ///
    /// Nothing is deduplicated: a template that writes the beginning-of-text token itself wants `false` here.
    pub add_special: bool,
}

/// Text to token ids and back.
///
/// Ids out of range are harmless everywhere: they have no bytes, no text, and are no control tokens.
pub trait Tokenizer: Send + Sync {
    /// The ids of a text that is given in pieces. The borders between the pieces leave no trace in the ids, except that
    /// no control token reaches over one.
    fn encode(&self, segments: &[Segment<'_>], options: EncodeOptions) -> Vec<u32>;

    /// A decoder for one stream of generated ids.
    fn decoder(&self) -> StreamDecoder;

    /// The exact bytes that a token stands for, which need not be valid UTF-8. A control token stands for its spelling.
    fn token_bytes(&self, id: u32) -> &[u8];

    /// The token as the file spells it, for people to read.
    fn token_text(&self, id: u32) -> Cow<'_, str>;

    /// The token that the file spells exactly so.
    fn token_id(&self, spelling: &str) -> Option<u32>;

    /// The number of tokens; ids are below it.
    fn n_vocab(&self) -> usize;

    /// The tokens with a role, and the rules for adding them.
    fn special(&self) -> &SpecialTokens;

    /// Whether the token steers the model and is not text: what must not be shown to a user as is.
    fn is_control(&self, id: u32) -> bool;

    /// Whether generation ends at this token.
    fn is_end_of_generation(&self, id: u32) -> bool;

    /// All tokens that end generation, ascending.
    fn end_of_generation(&self) -> &[u32];

    /// The spellings that [`Segment::Trusted`] text turns into single tokens and [`Segment::Plain`] text does not, longest
    /// first.
    fn control_spellings(&self) -> &[String];

    /// What in the file was odd but could be worked with, one sentence each.
    fn warnings(&self) -> &[String];
}

/// A tokenizer as it is passed around: shared between threads, and with decoders that outlive the borrow.
pub type SharedTokenizer = Arc<dyn Tokenizer>;
