//! A vocabulary as plain data, and the checks that everything built on it relies on.

use crate::error::{TokenizerError, quote};
use crate::special::SpecialIds;
use crate::strings::{StringIndex, Strings};

/// What a vocabulary may ask for. The largest in use have about 260,000 tokens and 515,000 merges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Tokens.
    pub tokens: usize,
    /// Bytes in one token.
    pub token_bytes: usize,
    /// Bytes in all tokens.
    pub vocab_bytes: usize,
    /// Merges.
    pub merges: usize,
}

impl Limits {
    /// The limits that files are held to.
    pub const DEFAULT: Limits =
        Limits { tokens: 1 << 22, token_bytes: 1 << 14, vocab_bytes: 1 << 28, merges: 1 << 23 };
}

/// What a token is, as `tokenizer.ggml.token_type` numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// Text (1).
    Normal,
    /// Stands for what cannot be written otherwise (2).
    Unknown,
    /// Steers the model (3).
    Control,
    /// Added to the vocabulary by hand and looked for before anything else (4).
    UserDefined,
    /// Not in use (5), or of a type that is not defined.
    Unused,
    /// One byte, spelled `<0x00>` (6).
    Byte,
}

impl TokenKind {
    /// The kind that a file means by `number`.
    pub fn from_number(number: i32) -> TokenKind {
        match number {
            1 => TokenKind::Normal,
            2 => TokenKind::Unknown,
            3 => TokenKind::Control,
            4 => TokenKind::UserDefined,
            6 => TokenKind::Byte,
            _ => TokenKind::Unused,
        }
    }
}

/// A vocabulary as plain data: what a file says, unchecked. [`from_vocab`](crate::from_vocab) checks it.
#[derive(Debug, Clone, Default)]
pub struct Vocab<'a> {
    /// The kind of vocabulary: `tokenizer.ggml.model`.
    pub model: &'a str,
    /// The pre-tokenizer: `tokenizer.ggml.pre`.
    pub pre: Option<&'a str>,
    /// The model's name: `general.name`. One family's control tokens swallow white space and say so nowhere else.
    pub name: &'a str,
    /// Spelling of each token.
    pub tokens: Vec<&'a [u8]>,
    /// Kind of each token; absent means all are text.
    pub kinds: Option<Vec<TokenKind>>,
    /// Score of each token, for score-BPE (higher merges first) and Unigram (logarithms of probabilities).
    pub scores: Option<Vec<f32>>,
    /// Pairs of spellings, separated by a space, for BPE: earlier merges first.
    pub merges: Option<Vec<&'a [u8]>>,
    /// Unigram: `tokenizer.ggml.precompiled_charsmap`, SentencePiece's rules for rewriting text.
    pub charsmap: Option<&'a [u8]>,
    /// Unigram: `tokenizer.ggml.remove_extra_whitespaces`: spaces at the ends vanish, and runs of them become one.
    pub remove_extra_whitespaces: bool,
    /// WordPiece: `tokenizer.ggml.normalizer.lowercase`, which is so unless the file says otherwise.
    pub lowercase: Option<bool>,
    /// WordPiece: `tokenizer.ggml.normalizer.strip_accents`, which goes with lower case unless the file says otherwise.
    pub strip_accents: Option<bool>,
    /// The tokens with a role.
    pub special: SpecialIds,
}

/// The tokens of a checked vocabulary.
#[derive(Debug)]
pub(crate) struct Tokens {
    pub(crate) spellings: Strings,
    pub(crate) kinds: Vec<TokenKind>,
    /// Added tokens that the model itself does not have, ascending.
    pub(crate) apart: Vec<u32>,
    index: StringIndex,
}

impl Tokens {
    pub(crate) fn new(vocab: &Vocab<'_>, limits: &Limits) -> Result<Tokens, TokenizerError> {
        let n_vocab = vocab.tokens.len();
        within("the number of tokens", n_vocab, limits.tokens)?;
        within("the number of merges", vocab.merges.as_ref().map_or(0, Vec::len), limits.merges)?;
        let bytes = vocab.tokens.iter().map(|token| token.len()).fold(0, usize::saturating_add);
        within("the length of all tokens together", bytes, limits.vocab_bytes)?;
        let longest = vocab.tokens.iter().map(|token| token.len()).max().unwrap_or(0);
        within("the length of the longest token", longest, limits.token_bytes)?;

        let kinds = vocab.kinds.clone().unwrap_or_else(|| vec![TokenKind::Normal; n_vocab]);
        same_length("tokenizer.ggml.token_type", kinds.len(), n_vocab)?;
        if let Some(scores) = &vocab.scores {
            same_length("tokenizer.ggml.scores", scores.len(), n_vocab)?;
        }

        let mut spellings = Strings::with_capacity(n_vocab, bytes);
        vocab.tokens.iter().for_each(|token| spellings.push(token));
        let index = StringIndex::new(&spellings).map_err(|(first, second)| {
            TokenizerError::DuplicateToken { first, second, spelling: quote(vocab.tokens[second as usize]) }
        })?;
        Ok(Tokens { spellings, kinds, apart: Vec::new(), index })
    }

    pub(crate) fn len(&self) -> usize {
        self.spellings.len()
    }

    pub(crate) fn is_apart(&self, id: u32) -> bool {
        self.apart.binary_search(&id).is_ok()
    }

    pub(crate) fn find(&self, spelling: &[u8]) -> Option<u32> {
        self.index.find(&self.spellings, spelling)
    }

    pub(crate) fn kind(&self, id: u32) -> Option<TokenKind> {
        self.kinds.get(id as usize).copied()
    }
}

fn within(what: &'static str, found: usize, limit: usize) -> Result<(), TokenizerError> {
    if found > limit { Err(TokenizerError::TooLarge { what, found, limit }) } else { Ok(()) }
}

fn same_length(key: &'static str, found: usize, n_vocab: usize) -> Result<(), TokenizerError> {
    if found != n_vocab { Err(TokenizerError::WrongLength { key, found, n_vocab }) } else { Ok(()) }
}
