//! From ordinary text to ids: the three kinds of vocabulary on top of the one merge loop.

use crate::bytelevel;
use crate::error::TokenizerError;
use crate::merge::{Join, Joins, Merger, NO_TOKEN};
use crate::merges::Merges;
use crate::pretokenize::{Step, split};
use crate::pretokenizers::PreTokenizer;
use crate::special::{Reach, Roles};
use crate::strings::Strings;
use crate::vocab::{TokenKind, Tokens, Vocab};

/// How spaces are spelled where the byte alphabet is not used.
const SPACE: &str = "▁";

/// Memory that encoding reuses from word to word.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) merger: Merger,
    text: String,
    spelling: Vec<u8>,
}

/// A vocabulary, ready to encode ordinary text.
#[derive(Debug)]
pub(crate) struct Model {
    tokens: Tokens,
    reach: Vec<Reach>,
    kind: Kind,
    /// The token for each byte of text that has no other; [`NO_TOKEN`] where there is none.
    bytes: Box<[u32; 256]>,
    /// For what has neither.
    unk: Option<u32>,
    /// Bytes that are left out of text for want of any token.
    lost: Vec<u8>,
}

#[derive(Debug)]
enum Kind {
    /// `gpt2`: merges over bytes.
    ByteLevel { steps: Vec<Step>, merges: Merges, ignore_merges: bool },
    /// `gemma4`: merges over characters.
    RawText { steps: Vec<Step>, merges: Merges, whole_line_breaks: bool, words: Words },
    /// `llama`: what joins is whatever two neighbours spell together, by score.
    Score { priorities: Vec<u32>, longest: usize, words: Words },
}

impl Model {
    /// Score-BPE.
    pub(crate) fn by_score(
        vocab: &Vocab<'_>,
        tokens: Tokens,
        roles: &Roles,
    ) -> Result<Model, TokenizerError> {
        let missing = TokenizerError::MissingList { key: "tokenizer.ggml.scores", model: "llama" };
        let scores = vocab.scores.as_ref().ok_or(missing)?;
        if let Some(id) = scores.iter().position(|score| score.is_nan()) {
            return Err(TokenizerError::BadScore { id: id as u32 });
        }
        let priorities = scores.iter().map(|&score| descending(score)).collect();
        let longest = vocab.tokens.iter().map(|token| token.len()).max().unwrap_or(0);
        Model::new(tokens, roles, |tokens, _| {
            Ok(Kind::Score { priorities, longest, words: Words::new(tokens) })
        })
    }

    /// BPE by a list of merges.
    pub(crate) fn by_merges(
        vocab: &Vocab<'_>,
        tokens: Tokens,
        roles: &Roles,
        row: &PreTokenizer,
        model: &'static str,
    ) -> Result<Model, TokenizerError> {
        let missing = TokenizerError::MissingList { key: "tokenizer.ggml.merges", model };
        let merges = vocab.merges.as_ref().ok_or(missing)?;
        let steps = row.patterns.iter().map(|pattern| Step::new(pattern)).collect::<Result<Vec<_>, _>>();
        // A unit test compiles every row of the table.
        let steps = steps.unwrap_or_else(|error| unreachable!("a pattern of the table: {error}"));
        Model::new(tokens, roles, |tokens, reach| {
            let merges = Merges::new(merges, tokens, |id| is_text(reach[id as usize]))?;
            Ok(match row.raw_text {
                true => Kind::RawText {
                    steps,
                    merges,
                    whole_line_breaks: row.whole_line_breaks,
                    words: Words::new(tokens),
                },
                false => Kind::ByteLevel { steps, merges, ignore_merges: row.ignore_merges },
            })
        })
    }

    fn new(
        tokens: Tokens,
        roles: &Roles,
        kind: impl FnOnce(&Tokens, &[Reach]) -> Result<Kind, TokenizerError>,
    ) -> Result<Model, TokenizerError> {
        let reach: Vec<Reach> = (0..tokens.len() as u32).map(|id| roles.reach(id, &tokens)).collect();
        let kind = kind(&tokens, &reach)?;
        let unk = roles.special.unk.filter(|&id| {
            roles.ends.binary_search(&id).is_err() && tokens.kind(id) != Some(TokenKind::Control)
        });
        let mut bytes = Box::new([NO_TOKEN; 256]);
        let mut lost = Vec::new();
        for byte in 0..=255u8 {
            let spelling = match kind {
                Kind::ByteLevel { .. } => bytelevel::spelled(byte).to_string(),
                Kind::RawText { .. } | Kind::Score { .. } => format!("<0x{byte:02X}>"),
            };
            let found = tokens.find(spelling.as_bytes());
            // Bytes that no UTF-8 text holds need no token.
            let occurs = !matches!(byte, 0xC0 | 0xC1 | 0xF5..);
            match found {
                Some(id) if reach[id as usize] != Reach::Mark => bytes[usize::from(byte)] = id,
                Some(id) if occurs => return Err(TokenizerError::EndTokenIsText { id, byte }),
                // Published byte-level vocabularies lack some control characters and bytes of rare scripts.
                None if occurs && unk.is_none() => match kind {
                    Kind::ByteLevel { .. } => lost.push(byte),
                    Kind::RawText { .. } | Kind::Score { .. } => {
                        return Err(TokenizerError::NoByteToken { byte });
                    }
                },
                _ => {}
            }
        }
        Ok(Model { tokens, reach, kind, bytes, unk, lost })
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
                (Some(TokenKind::Normal | TokenKind::Unused), _) => unescape_spaces(spelling, out),
                _ => out.extend_from_slice(spelling),
            }
            bytes.end();
        }
        bytes
    }

    /// Appends the ids of ordinary text, `after_space` as if a space stood before it. Text is shorter than 1 GiB.
    pub(crate) fn encode(&self, text: &str, after_space: bool, scratch: &mut Scratch, out: &mut Vec<u32>) {
        let Scratch { merger, text: escaped, spelling } = scratch;
        escaped.clear();
        match &self.kind {
            Kind::ByteLevel { steps, merges, ignore_merges } => split(steps, text, &mut |word| {
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
            }),
            Kind::RawText { steps, merges, whole_line_breaks, words } => {
                escape_spaces(text, escaped);
                split(steps, escaped, &mut |line| {
                    let whole = if *whole_line_breaks && line.starts_with('\n') {
                        self.find_text(line.as_bytes())
                    } else {
                        None
                    };
                    if let Some(id) = whole {
                        return out.push(id);
                    }
                    words.split(line, |word| {
                        merger.clear();
                        for (at, c) in word.char_indices() {
                            let len = c.len_utf8();
                            let id = self.find_text(&word.as_bytes()[at..at + len]);
                            merger.push(len, id.unwrap_or(NO_TOKEN));
                        }
                        self.merge(word, merger, merges, out);
                    });
                });
            }
            Kind::Score { priorities, longest, words } => {
                if after_space {
                    escaped.push_str(SPACE);
                }
                escape_spaces(text, escaped);
                let joins = ByScore { model: self, priorities, longest: *longest };
                words.split(escaped, |word| {
                    merger.clear();
                    word.chars().for_each(|c| merger.push(c.len_utf8(), NO_TOKEN));
                    self.merge(word, merger, &joins, out);
                });
            }
        }
    }

    /// Merges the word whose symbols are in `merger`, and appends the ids.
    fn merge(&self, word: &str, merger: &mut Merger, joins: &impl Joins, out: &mut Vec<u32>) {
        merger.merge(word.as_bytes(), joins);
        for (range, id) in merger.symbols() {
            let bytes = &word.as_bytes()[range];
            if id != NO_TOKEN {
                out.push(id);
            } else if let Some(id) = self.find_symbol(bytes) {
                out.push(id);
            } else if bytes.iter().all(|&byte| self.bytes[usize::from(byte)] != NO_TOKEN) {
                out.extend(bytes.iter().map(|&byte| self.bytes[usize::from(byte)]));
            } else {
                out.extend(self.unk);
            }
        }
    }

    /// The token of a character that joined nothing and was not looked up at the start.
    fn find_symbol(&self, bytes: &[u8]) -> Option<u32> {
        match self.kind {
            Kind::Score { .. } => self.find_text(bytes),
            Kind::ByteLevel { .. } | Kind::RawText { .. } => None,
        }
    }

    /// The token of that spelling, if ordinary text may become it.
    fn find_text(&self, spelling: &[u8]) -> Option<u32> {
        self.tokens.find(spelling).filter(|&id| is_text(self.reach[id as usize]))
    }
}

fn is_text(reach: Reach) -> bool {
    matches!(reach, Reach::Text | Reach::Added)
}

/// Where text with escaped spaces can be cut without changing what merges: between two characters of which the second is
/// a space and the pair is inside no token. Short words keep the heap small and in the cache.
#[derive(Debug)]
struct Words {
    /// Last bytes of the characters that stand before a space inside some token.
    before_space: [bool; 256],
}

impl Words {
    fn new(tokens: &Tokens) -> Words {
        let mut before_space = [false; 256];
        for (_, spelling) in tokens.spellings.iter() {
            let spaces = spelling.windows(SPACE.len()).enumerate().filter(|(_, w)| *w == SPACE.as_bytes());
            for (at, _) in spaces.filter(|&(at, _)| at > 0) {
                before_space[usize::from(spelling[at - 1])] = true;
            }
        }
        Words { before_space }
    }

    fn split<'t>(&self, text: &'t str, mut emit: impl FnMut(&'t str)) {
        let mut start = 0;
        for (at, _) in text.match_indices(SPACE) {
            if at > start && !self.before_space[usize::from(text.as_bytes()[at - 1])] {
                emit(&text[start..at]);
                start = at;
            }
        }
        if start < text.len() {
            emit(&text[start..]);
        }
    }
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
fn descending(score: f32) -> u32 {
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
fn spelled_byte(spelling: &[u8]) -> Option<u8> {
    let hex = spelling.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    let digits = std::str::from_utf8(hex).ok().filter(|hex| hex.len() == 2 && !hex.starts_with('+'))?;
    u8::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let (model, _) = crate::tokenizer::model(&vocab).expect("a small vocabulary");
        let mut scratch = Scratch::default();
        let mut ids = Vec::new();
        model.encode(text, false, &mut scratch, &mut ids);
        assert!(ids.len() < text.len() / 2, "runs were merged");
        scratch.merger.steps
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
