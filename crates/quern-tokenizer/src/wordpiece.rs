//! WordPiece: a word is the longest token that begins it, then the longest that goes on from there, and so on; a word
//! that cannot be written so is the unknown token as a whole.

use crate::cut::Cut;
use crate::error::TokenizerError;
use crate::front::Front;
use crate::model::{Kind, Model, SPACE, text_tokens};
use crate::normalize::Normalizer;
use crate::special::{Defaults, Roles};
use crate::trie::Trie;
use crate::vocab::{Tokens, Vocab};

/// The model `bert` of GGUF files. Words may be of any length there, as in llama.cpp: the files do not hold the
/// publishers' limit.
pub(crate) fn build(vocab: &Vocab<'_>, tokens: Tokens) -> Result<(Model, Roles), TokenizerError> {
    let defaults = Defaults {
        bos: Some(101),
        unk: Some(100),
        sep: Some(102),
        add_bos: true,
        add_sep: true,
        ..Defaults::default()
    };
    let roles = Roles::new(&vocab.special, defaults, &tokens)?;
    let lowercase = vocab.lowercase.unwrap_or(true);
    let strip_accents = vocab.strip_accents.unwrap_or(lowercase);
    let front = Front {
        normalizers: vec![Normalizer::Bert { clean: true, ideographs: true, strip_accents, lowercase }],
        cuts: Cut::bert().into(),
        added: None,
    };
    let model = Model::new(tokens, &roles, Some(front), |tokens, reach| {
        let marking = Marking::Begins(SPACE);
        Ok(Kind::WordPiece(WordPiece::new(text_tokens(tokens, reach), marking, usize::MAX)))
    })?;
    Ok((model, roles))
}

/// How the tokens that begin a word are told from those that go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marking<'a> {
    /// A token that begins a word begins with this, as `▁` in GGUF files.
    Begins(&'a str),
    /// A token that goes on begins with this, as `##` in the publishers' files.
    GoesOn(&'a str),
}

/// The tokens of a WordPiece vocabulary.
#[derive(Debug)]
pub(crate) struct WordPiece {
    trie: Trie,
    /// Below which node words begin, and go on; none if no token does so.
    begins: Option<u32>,
    goes_on: Option<u32>,
    /// A word of more characters is unknown.
    max_chars: usize,
}

impl WordPiece {
    /// The vocabulary of these tokens.
    pub(crate) fn new(tokens: Vec<(&[u8], u32)>, marking: Marking<'_>, max_chars: usize) -> WordPiece {
        let trie = Trie::new(tokens);
        let (begins, goes_on) = match marking {
            Marking::Begins(mark) => (trie.find(mark.as_bytes()), Some(Trie::ROOT)),
            Marking::GoesOn(mark) => (Some(Trie::ROOT), trie.find(mark.as_bytes())),
        };
        WordPiece { trie, begins, goes_on, max_chars }
    }

    /// Appends the tokens of a word; `false`, and nothing appended, if it is unknown.
    pub(crate) fn encode(&self, word: &str, out: &mut Vec<u32>) -> bool {
        let before = out.len();
        let complete = self.pieces(word, out).is_some();
        if !complete {
            out.truncate(before);
        }
        complete
    }

    fn pieces(&self, word: &str, out: &mut Vec<u32>) -> Option<()> {
        if word.chars().nth(self.max_chars).is_some() {
            return None;
        }
        let longest = |node: u32, rest: &str| {
            let characters =
                self.trie.prefixes(node, rest.as_bytes()).filter(|&(len, _)| rest.is_char_boundary(len));
            characters.last()
        };
        let begins = self.begins?;
        // A bare `▁` is a token that begins a word without any of its letters.
        let bare = self.trie.token(begins).map(|token| (0, token));
        let (len, token) = longest(begins, word).or(bare)?;
        out.push(token);
        let mut rest = &word[len..];
        while !rest.is_empty() {
            let (len, token) = longest(self.goes_on?, rest)?;
            out.push(token);
            rest = &rest[len..];
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(tokens: &[&str], marking: Marking<'_>, word: &str) -> Option<Vec<u32>> {
        let tokens = tokens.iter().zip(0..).map(|(token, id)| (token.as_bytes(), id)).collect();
        let mut out = vec![];
        WordPiece::new(tokens, marking, 8).encode(word, &mut out).then_some(out)
    }

    /// The example of the publisher's `WordpieceTokenizer`, in both spellings.
    #[test]
    fn the_longest_piece_goes_first() {
        let plain = ["un", "##aff", "##able", "##a", "##b", "u"];
        assert_eq!(encode(&plain, Marking::GoesOn("##"), "unaffable"), None, "nine letters, eight allowed");
        assert_eq!(encode(&plain, Marking::GoesOn("##"), "unaffa"), Some(vec![0, 1, 3]));
        assert_eq!(encode(&plain, Marking::GoesOn("##"), "unaffx"), None);
        let gguf = ["▁un", "aff", "able", "a", "b", "▁"];
        assert_eq!(encode(&gguf, Marking::Begins("▁"), "unaffa"), Some(vec![0, 1, 3]));
        assert_eq!(encode(&gguf, Marking::Begins("▁"), "ab"), Some(vec![5, 3, 4]));
        assert_eq!(encode(&gguf[1..5], Marking::Begins("▁"), "ab"), None);
        assert_eq!(encode(&plain[..1], Marking::GoesOn("##"), "unun"), None);
    }
}
