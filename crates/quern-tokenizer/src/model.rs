//! From ordinary text to ids: the kinds of vocabulary put to work.

use crate::bytelevel;
use crate::error::TokenizerError;
use crate::front::{Front, FrontScratch};
use crate::matcher::Fragment;
use crate::merge::{Join, Joins, Merger, NO_TOKEN};
use crate::merges::Merges;
use crate::pretokenize::{Step, split};
use crate::rwkv::{self, Rwkv};
use crate::special::{Reach, Roles};
use crate::strings::Strings;
use crate::unigram::{Lattice, Unigram};
use crate::vocab::{TokenKind, Tokens};
use crate::wordpiece::WordPiece;
use crate::words::Words;

/// How spaces are spelled where the byte alphabet is not used.
pub(crate) const SPACE: &str = "▁";

/// Memory that encoding reuses from word to word.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    text: String,
    front: FrontScratch,
    pub(crate) word: WordScratch,
}

/// Memory for one word.
#[derive(Debug, Default)]
pub(crate) struct WordScratch {
    pub(crate) merger: Merger,
    spelling: Vec<u8>,
    lattice: Lattice,
}

/// Where a stretch of text stands.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    /// The whole text begins with it.
    pub(crate) first: bool,
    /// It is to be read as if a space stood before it.
    pub(crate) after_space: bool,
}

/// A vocabulary, ready to encode ordinary text.
#[derive(Debug)]
pub(crate) struct Model {
    tokens: Tokens,
    reach: Vec<Reach>,
    kind: Kind,
    /// What cuts text into words, where the kind itself does not.
    front: Option<Front>,
    /// The token for each byte of text that has no other; [`NO_TOKEN`] where there is none.
    bytes: Box<[u32; 256]>,
    /// For what has neither.
    unk: Option<u32>,
    /// Bytes that are left out of text for want of any token.
    lost: Vec<u8>,
}

#[derive(Debug)]
pub(crate) enum Kind {
    /// `gpt2`: merges over bytes.
    ByteLevel { steps: Vec<Step>, merges: Merges, ignore_merges: bool },
    /// `gemma4`: merges over characters.
    RawText {
        steps: Vec<Step>,
        merges: Merges,
        whole_line_breaks: bool,
        /// A word that is a token is that token.
        ignore_merges: bool,
        /// Where words may be cut further, if they may.
        words: Option<Words>,
        /// Unknown characters side by side are one unknown token.
        fuse_unk: bool,
        fallback: Fallback,
    },
    /// `llama`: what joins is whatever two neighbours spell together, by score.
    Score { priorities: Vec<u32>, longest: usize, words: Words },
    /// `bert`: the longest piece first, word by word.
    WordPiece(WordPiece),
    /// `t5`: the best sum of scores.
    Unigram(Unigram, Fallback),
    /// `rwkv`: the longest token first.
    Rwkv(Rwkv),
}

/// What stands for a byte of text that has no other token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fallback {
    /// `<0x0A>`.
    Hex,
    /// The byte's character in the byte alphabet, in which the text comes already.
    Alphabet,
    /// Nothing.
    None,
}

impl Model {
    /// A model of the `kind` that is made for these tokens.
    pub(crate) fn new(
        tokens: Tokens,
        roles: &Roles,
        front: Option<Front>,
        kind: impl FnOnce(&Tokens, &[Reach]) -> Result<Kind, TokenizerError>,
    ) -> Result<Model, TokenizerError> {
        let reach: Vec<Reach> = (0..tokens.len() as u32).map(|id| roles.reach(id, &tokens)).collect();
        let kind = kind(&tokens, &reach)?;
        // BERT's files hold the unknown token as a control token, and have nothing else for what is unknown.
        let control = |id| tokens.kind(id) == Some(TokenKind::Control) && !matches!(kind, Kind::WordPiece(_));
        let unk = roles.special.unk.filter(|&id| roles.ends.binary_search(&id).is_err() && !control(id));
        let mut bytes = Box::new([NO_TOKEN; 256]);
        let mut lost = Vec::new();
        let spelled = matches!(kind, Kind::RawText { fallback: Fallback::Alphabet, .. });
        for byte in 0..=255u8 {
            let found = match &kind {
                Kind::ByteLevel { .. } | Kind::RawText { fallback: Fallback::Alphabet, .. } => {
                    tokens.find(bytelevel::spelled(byte).to_string().as_bytes())
                }
                Kind::RawText { fallback: Fallback::Hex, .. }
                | Kind::Score { .. }
                | Kind::Unigram(_, Fallback::Hex) => tokens.find(format!("<0x{byte:02X}>").as_bytes()),
                Kind::RawText { .. } | Kind::Unigram(..) | Kind::WordPiece(_) => None,
                Kind::Rwkv(tokens) => tokens.byte(byte),
            };
            // Bytes that no UTF-8 text holds need no token.
            let occurs = !matches!(byte, 0xC0 | 0xC1 | 0xF5..);
            match found {
                // The bytes of text that is spelled in the alphabet are not those that it stands for.
                Some(id) if spelled && reach[id as usize] != Reach::Mark => {}
                Some(id) if reach[id as usize] != Reach::Mark => bytes[usize::from(byte)] = id,
                Some(id) if occurs => return Err(TokenizerError::EndTokenIsText { id, byte }),
                // Published byte-level vocabularies lack some control characters and bytes of rare scripts.
                None if occurs && unk.is_none() => match kind {
                    Kind::ByteLevel { .. } | Kind::RawText { fallback: Fallback::Alphabet, .. } => {
                        lost.push(byte)
                    }
                    _ => return Err(TokenizerError::NoByteToken { byte }),
                },
                _ => {}
            }
        }
        Ok(Model { tokens, reach, kind, front, bytes, unk, lost })
    }

    pub(crate) fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Bytes that encoding leaves out, because the vocabulary has nothing for them.
    pub(crate) fn lost_bytes(&self) -> &[u8] {
        &self.lost
    }

    /// What text can become a token; ids are in range.
    pub(crate) fn reach(&self, id: u32) -> Reach {
        self.reach[id as usize]
    }

    /// The bytes of every token.
    pub(crate) fn token_bytes(&self) -> Strings {
        let mut bytes = Strings::with_capacity(self.tokens.len(), 0);
        for (id, spelling) in self.tokens.spellings.iter() {
            let out = bytes.tail();
            match (self.tokens.kind(id), &self.kind) {
                (Some(TokenKind::Byte), _) => match spelled_byte(spelling) {
                    Some(byte) => out.push(byte),
                    None => out.extend_from_slice(spelling),
                },
                (Some(TokenKind::Normal | TokenKind::Unused), Kind::ByteLevel { .. }) => {
                    bytelevel::unspell(spelling, out);
                }
                (Some(TokenKind::Normal | TokenKind::Unused), Kind::Rwkv(_)) => rwkv::unescape(spelling, out),
                (Some(TokenKind::Normal | TokenKind::Unused), _) => unescape_spaces(spelling, out),
                _ => out.extend_from_slice(spelling),
            }
            bytes.end();
        }
        bytes
    }

    /// Appends the ids of ordinary text. Text is shorter than 1 GiB.
    pub(crate) fn encode(&self, text: &str, place: Place, scratch: &mut Scratch, out: &mut Vec<u32>) {
        let Scratch { text: escaped, front: memory, word: scratch } = scratch;
        if let Some(front) = &self.front {
            return front.words(text, place.first, memory, &mut |fragment| match fragment {
                Fragment::Text(word) => self.encode_word(word, scratch, out),
                Fragment::Token(id) => out.push(id),
            });
        }
        escaped.clear();
        match &self.kind {
            Kind::ByteLevel { steps, .. } => {
                split(steps, text, &mut |word| self.encode_word(word, scratch, out))
            }
            Kind::RawText { steps, whole_line_breaks, .. } => {
                escape_spaces(text, escaped);
                split(steps, escaped, &mut |line| {
                    let is_breaks = *whole_line_breaks && line.starts_with('\n');
                    match is_breaks.then(|| self.find_text(line.as_bytes())).flatten() {
                        Some(id) => out.push(id),
                        None => self.encode_word(line, scratch, out),
                    }
                });
            }
            Kind::Score { .. } => {
                if place.after_space {
                    escaped.push_str(SPACE);
                }
                escape_spaces(text, escaped);
                self.encode_word(escaped, scratch, out);
            }
            Kind::WordPiece(_) | Kind::Unigram(..) | Kind::Rwkv(_) => self.encode_word(text, scratch, out),
        }
    }

    /// Appends the ids of a word, which nothing in it joins to what is around it.
    fn encode_word(&self, word: &str, scratch: &mut WordScratch, out: &mut Vec<u32>) {
        let WordScratch { merger, spelling, lattice } = scratch;
        match &self.kind {
            Kind::ByteLevel { merges, ignore_merges, .. } => {
                if *ignore_merges {
                    spelling.clear();
                    bytelevel::spell(word.as_bytes(), spelling);
                    if let Some(id) = self.find_text(spelling) {
                        return out.push(id);
                    }
                }
                merger.clear();
                word.bytes().for_each(|byte| merger.push(1, self.bytes[usize::from(byte)]));
                self.merge(word, merger, merges, out);
            }
            Kind::RawText { merges, words, ignore_merges, .. } => {
                if *ignore_merges && let Some(id) = self.find_text(word.as_bytes()) {
                    return out.push(id);
                }
                let mut encode = |word: &str| {
                    merger.clear();
                    for (at, c) in word.char_indices() {
                        let len = c.len_utf8();
                        let id = self.find_text(&word.as_bytes()[at..at + len]);
                        merger.push(len, id.unwrap_or(NO_TOKEN));
                    }
                    self.merge(word, merger, merges, out);
                };
                match words {
                    Some(words) => words.split(word, encode),
                    None => encode(word),
                }
            }
            Kind::Score { priorities, longest, words } => {
                let joins = ByScore { model: self, priorities, longest: *longest };
                words.split(word, |word| {
                    merger.clear();
                    word.chars().for_each(|c| merger.push(c.len_utf8(), NO_TOKEN));
                    self.merge(word, merger, &joins, out);
                });
            }
            Kind::WordPiece(pieces) => {
                if !pieces.encode(word, out) {
                    out.extend(self.unk);
                }
            }
            Kind::Unigram(unigram, _) => {
                // Unknown characters side by side are one unknown token.
                let mut after_unknown = false;
                unigram.encode(word, lattice, |text, token| {
                    let is_unknown = token == NO_TOKEN && !self.has_bytes(text.as_bytes());
                    match token {
                        NO_TOKEN if is_unknown && after_unknown => {}
                        NO_TOKEN => self.push_bytes(text.as_bytes(), out),
                        id => out.push(id),
                    }
                    after_unknown = is_unknown;
                });
            }
            Kind::Rwkv(tokens) => tokens.encode(word.as_bytes(), |id| out.extend(id.or(self.unk))),
        }
    }

    /// Merges the word whose symbols are in `merger`, and appends the ids.
    fn merge(&self, word: &str, merger: &mut Merger, joins: &impl Joins, out: &mut Vec<u32>) {
        merger.merge(word.as_bytes(), joins);
        let fuses = matches!(self.kind, Kind::RawText { fuse_unk: true, .. });
        let mut after_unknown = false;
        for (range, id) in merger.symbols() {
            let bytes = &word.as_bytes()[range];
            let is_unknown = id == NO_TOKEN && fuses && !self.has_bytes(bytes);
            if id != NO_TOKEN {
                out.push(id);
            } else if let Some(id) = self.find_symbol(bytes) {
                out.push(id);
            } else if !(is_unknown && after_unknown) {
                self.push_bytes(bytes, out);
            }
            after_unknown = is_unknown;
        }
    }

    fn has_bytes(&self, text: &[u8]) -> bool {
        text.iter().all(|&byte| self.bytes[usize::from(byte)] != NO_TOKEN)
    }

    /// Appends text that has no token: byte by byte if every byte has one, or else as unknown.
    fn push_bytes(&self, text: &[u8], out: &mut Vec<u32>) {
        if self.has_bytes(text) {
            out.extend(text.iter().map(|&byte| self.bytes[usize::from(byte)]));
        } else {
            out.extend(self.unk);
        }
    }

    /// The token of a character that joined nothing and was not looked up at the start.
    fn find_symbol(&self, bytes: &[u8]) -> Option<u32> {
        match self.kind {
            Kind::Score { .. } => self.find_text(bytes),
            _ => None,
        }
    }

    /// The token of that spelling, if ordinary text may become it.
    fn find_text(&self, spelling: &[u8]) -> Option<u32> {
        self.tokens.find(spelling).filter(|&id| is_text(self.reach[id as usize]))
    }
}

pub(crate) fn is_text(reach: Reach) -> bool {
    matches!(reach, Reach::Text | Reach::Added)
}

/// The tokens that ordinary text can become, for a vocabulary that looks them up by prefix.
pub(crate) fn text_tokens<'t>(tokens: &'t Tokens, reach: &[Reach]) -> Vec<(&'t [u8], u32)> {
    let spellings = tokens.spellings.iter().map(|(id, spelling)| (spelling, id));
    spellings.filter(|&(spelling, id)| !spelling.is_empty() && is_text(reach[id as usize])).collect()
}

/// Merges by score.
struct ByScore<'m> {
    model: &'m Model,
    priorities: &'m [u32],
    longest: usize,
}

impl Joins for ByScore<'_> {
    fn join(&self, _: u32, _: u32, text: &[u8]) -> Option<Join> {
        let id = if text.len() > self.longest { None } else { self.model.find_text(text) }?;
        Some(Join { priority: self.priorities[id as usize], id })
    }
}

/// A number that orders scores downwards: the highest score gets the lowest. Zeros of both signs are one.
pub(crate) fn descending(score: f32) -> u32 {
    let bits = (score + 0.0).to_bits();
    if bits >> 31 == 1 { bits } else { !(bits | 1 << 31) }
}

fn escape_spaces(text: &str, out: &mut String) {
    let mut parts = text.split(' ');
    out.extend(parts.next());
    for part in parts {
        out.push_str(SPACE);
        out.push_str(part);
    }
}

fn unescape_spaces(spelling: &[u8], out: &mut Vec<u8>) {
    let mut rest = spelling;
    while let Some((&first, after)) = rest.split_first() {
        match rest.strip_prefix(SPACE.as_bytes()) {
            Some(after) => {
                out.push(b' ');
                rest = after;
            }
            None => {
                out.push(first);
                rest = after;
            }
        }
    }
}

/// The byte that `<0x0A>` spells.
pub(crate) fn spelled_byte(spelling: &[u8]) -> Option<u8> {
    let hex = spelling.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    let digits = std::str::from_utf8(hex).ok().filter(|hex| hex.len() == 2 && !hex.starts_with('+'))?;
    u8::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocab::Vocab;

    #[test]
    fn scores_are_ordered_downwards() {
        let scores = [f32::INFINITY, 3.0, 1e-30, 0.0, -1e-30, -2.0, -1e10, f32::NEG_INFINITY];
        assert!(scores.windows(2).all(|pair| descending(pair[0]) < descending(pair[1])));
        assert_eq!(descending(0.0), descending(-0.0));
    }

    #[test]
    fn bytes_are_spelled_in_hexadecimal() {
        assert_eq!(spelled_byte(b"<0x0A>"), Some(10));
        for other in ["<0x0>", "<0x0G>", "<0x+1>", "0x0A", "<0x0AA>", ""] {
            assert_eq!(spelled_byte(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn spaces_are_escaped_and_back() {
        let mut escaped = String::new();
        escape_spaces(" a  b ", &mut escaped);
        assert_eq!(escaped, "▁a▁▁b▁");
        let mut back = Vec::new();
        unescape_spaces(escaped.as_bytes(), &mut back);
        assert_eq!(back, b" a  b ");
    }

    /// Steps of the merge loop for a text, by a vocabulary whose letters `a` and spaces merge into ever longer runs.
    fn steps(model: &'static str, text: &str) -> usize {
        let runs = |c: &str| (0..8).map(|power| c.repeat(1 << power)).collect::<Vec<_>>();
        let space = if model == "gpt2" { "Ġ" } else { "▁" };
        let mut tokens = [runs("a"), runs(space), vec!["<unk>".to_owned(), "b".to_owned()]].concat();
        if model != "gpt2" {
            tokens.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
        }
        let doubled = [runs("a"), runs(space)].concat();
        let merges: Vec<String> = doubled.iter().map(|run| format!("{run} {run}")).collect();
        let longest = [7, 15];
        let merges = merges.iter().enumerate().filter(|(i, _)| !longest.contains(i));
        let vocab = Vocab {
            model,
            tokens: tokens.iter().map(String::as_bytes).collect(),
            scores: Some(vec![0.0; tokens.len()]),
            merges: Some(merges.map(|(_, merge)| merge.as_bytes()).collect()),
            special: crate::SpecialIds { unk: Some(16), ..Default::default() },
            pre: Some("gpt-2"),
            ..Vocab::default()
        };
        let (model, _) = crate::kinds::model(&vocab).expect("a small vocabulary");
        let mut scratch = Scratch::default();
        let mut ids = Vec::new();
        model.encode(text, Place::default(), &mut scratch, &mut ids);
        assert!(ids.len() < text.len() / 2, "runs were merged");
        scratch.word.merger.steps
    }

    /// G30, R45: no text makes merging super-linear. The heap adds a factor of log n to these counts.
    #[test]
    fn merging_takes_linearly_many_steps() {
        for model in ["llama", "gpt2", "gemma4"] {
            for piece in ["a", " ", "aaaaaaaa        "] {
                for n in [2_000, 200_000] {
                    let steps = steps(model, &piece.repeat(n / piece.len()));
                    assert!(steps > n / 2 && steps <= 3 * n, "{model} {piece:?} {n}: {steps}");
                }
            }
        }
    }
}
