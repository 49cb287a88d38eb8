//! Unigram: of all ways to write a text in tokens, the one whose scores have the highest sum (Viterbi's algorithm).
//!
//! Text goes through the tree of tokens from every character, at most the length of the longest token far, so the time
//! is linear. Scores are added in 64 bits and from left to right, and a later way must be better to win, which makes the
//! result that of SentencePiece's optimised encoder.

use crate::charsmap::Charsmap;
use crate::error::TokenizerError;
use crate::front::Front;
use crate::kinds::scores;
use crate::merge::NO_TOKEN;
use crate::model::{Fallback, Kind, Model, text_tokens};
use crate::normalize::Normalizer;
use crate::special::{Defaults, Roles};
use crate::trie::Trie;
use crate::vocab::{TokenKind, Tokens, Vocab};
use crate::words::Words;

/// The model `t5` of GGUF files. Where such a file has byte tokens, they stand for unknown characters, as SentencePiece
/// has it; llama.cpp has the unknown token there.
pub(crate) fn build(vocab: &Vocab<'_>, tokens: Tokens) -> Result<(Model, Roles), TokenizerError> {
    let defaults = Defaults { eos: Some(1), unk: Some(2), add_eos: true, ..Defaults::default() };
    let roles = Roles::new(&vocab.special, defaults, &tokens)?;
    let scores = scores(vocab, "t5")?;
    let charsmap = vocab.charsmap.filter(|blob| !blob.is_empty()).map(Charsmap::new).transpose()?;
    let front = Front {
        normalizers: vec![Normalizer::SentencePiece {
            charsmap,
            space_prefix: roles.special.add_space_prefix,
            merge_spaces: vocab.remove_extra_whitespaces,
        }],
        ..Front::default()
    };
    let model = Model::new(tokens, &roles, Some(front), |tokens, reach| {
        let text = text_tokens(tokens, reach);
        let is = |id: usize, kind| tokens.kinds[id] == kind;
        let normal = scores.iter().enumerate().filter(|&(id, _)| is(id, TokenKind::Normal));
        let worst = normal.map(|(_, &score)| f64::from(score)).fold(f64::INFINITY, f64::min);
        // A token added by hand is better than any other.
        let score = |(id, &score)| if is(id, TokenKind::UserDefined) { 0.0 } else { f64::from(score) };
        let words = Words::new(text.iter().map(|(spelling, _)| *spelling));
        let scores = scores.iter().enumerate().map(score).collect();
        Ok(Kind::Unigram(Unigram::new(text, scores, worst, words), Fallback::Hex))
    })?;
    Ok((model, roles))
}

/// How much worse than the worst token an unknown character is (SentencePiece's `kUnkPenalty`).
const UNKNOWN_PENALTY: f64 = 10.0;

/// The tokens and their scores.
#[derive(Debug)]
pub(crate) struct Unigram {
    trie: Trie,
    /// By token.
    scores: Vec<f64>,
    /// Of a character without a token.
    unknown: f64,
    words: Words,
}

/// The best way to write the text up to some position.
#[derive(Debug, Clone, Copy)]
struct Best {
    score: f64,
    /// Where its last token begins; `u32::MAX` if no way is known yet.
    from: u32,
    token: u32,
}

const UNREACHED: Best = Best { score: f64::NEG_INFINITY, from: u32::MAX, token: NO_TOKEN };

/// Memory that is reused from word to word.
#[derive(Debug, Default)]
pub(crate) struct Lattice(Vec<Best>);

impl Unigram {
    /// The vocabulary of these tokens; `worst` is the lowest score.
    pub(crate) fn new(tokens: Vec<(&[u8], u32)>, scores: Vec<f64>, worst: f64, words: Words) -> Unigram {
        Unigram { trie: Trie::new(tokens), scores, unknown: worst - UNKNOWN_PENALTY, words }
    }

    /// Emits the tokens of a text with their texts, in order. A character without a token comes as [`NO_TOKEN`].
    pub(crate) fn encode(&self, text: &str, lattice: &mut Lattice, mut emit: impl FnMut(&str, u32)) {
        // No token reaches over a border of words, so the best way goes through it.
        self.words.split(text, |word| {
            self.search(word, &mut lattice.0);
            let mut end = word.len() as u32;
            let mut next = NO_TOKEN;
            // The links lead backwards: turn them round.
            while end > 0 {
                let best = &mut lattice.0[end as usize];
                let from = best.from;
                best.from = std::mem::replace(&mut next, end);
                end = from;
            }
            let mut start = 0;
            while start < word.len() {
                let end = next as usize;
                let Best { token, from, .. } = lattice.0[end];
                emit(&word[start..end], token);
                (start, next) = (end, from);
            }
        });
    }

    /// Fills in the best way to every character's border; every one is reached.
    fn search(&self, word: &str, best: &mut Vec<Best>) {
        best.clear();
        best.resize(word.len() + 1, UNREACHED);
        best[0] = Best { score: 0.0, from: 0, token: NO_TOKEN };
        for (start, c) in word.char_indices() {
            let here = best[start].score;
            let mut offer = |len: usize, score: f64, token: u32| {
                let way = &mut best[start + len];
                if way.from == u32::MAX || here + score > way.score {
                    *way = Best { score: here + score, from: start as u32, token };
                }
            };
            let mut has_token = false;
            for (len, token) in self.trie.prefixes(Trie::ROOT, &word.as_bytes()[start..]) {
                if word.is_char_boundary(start + len) {
                    offer(len, self.scores[token as usize], token);
                    has_token |= len == c.len_utf8();
                }
            }
            if !has_token {
                offer(c.len_utf8(), self.unknown, NO_TOKEN);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(tokens: &[(&str, f64)], text: &str) -> Vec<(String, u32)> {
        let list = tokens.iter().zip(0..).map(|((token, _), id)| (token.as_bytes(), id)).collect();
        let scores: Vec<f64> = tokens.iter().map(|token| token.1).collect();
        let worst = scores.iter().copied().fold(f64::INFINITY, f64::min);
        let words = Words::new(tokens.iter().map(|token| token.0.as_bytes()));
        let mut out = Vec::new();
        let unigram = Unigram::new(list, scores, worst, words);
        unigram.encode(text, &mut Lattice::default(), |piece, id| out.push((piece.to_owned(), id)));
        out
    }

    /// The vocabulary and the results of SentencePiece's own unit test for this algorithm.
    #[test]
    fn the_best_sum_wins() {
        let tokens = [
            ("ab", 0.0),
            ("cd", -0.1),
            ("abc", -0.2),
            ("a", -0.3),
            ("b", -0.4),
            ("c", -0.5),
            ("ABC", -0.5),
            ("abcdabcd", 20.0),
            ("q", 20.5),
            ("r", 20.5),
            ("qr", -0.5),
        ];
        let texts = |text| pieces(&tokens, text).into_iter().map(|piece| piece.0).collect::<Vec<_>>();
        assert_eq!(texts("abc"), ["abc"]);
        assert_eq!(texts("AB"), ["A", "B"]);
        assert_eq!(texts("abcd"), ["ab", "cd"]);
        assert_eq!(texts("abcc"), ["abc", "c"]);
        assert_eq!(texts("abcdabcd"), ["abcdabcd"]);
        assert_eq!(texts("qr"), ["q", "r"]);
        assert_eq!(texts("xabcabaabcdd"), ["x", "abc", "ab", "a", "ab", "cd", "d"]);
        assert_eq!(texts("ab日ab"), ["ab", "日", "ab"]);
        assert_eq!(pieces(&tokens, "a日")[1], ("日".to_owned(), NO_TOKEN));
        assert!(texts("").is_empty());
    }
}
