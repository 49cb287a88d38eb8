//! The tokens of a `tokenizer.json`, and its merges.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{Added, bad, flag, text, unsupported};
use crate::cut::Cut;
use crate::error::{TokenizerError, quote};
use crate::front::Front;
use crate::merges::Merges;
use crate::model::{Fallback, Kind, Model, is_text, spelled_byte};
use crate::special::Roles;
use crate::vocab::{TokenKind, Tokens, Vocab};
use crate::words::Words;

/// Ids may go beyond the number of tokens by this much and be four times it: what lies between takes memory.
const HOLES: usize = 1 << 16;

/// The tokens by id, with their kinds.
#[derive(Debug)]
pub(super) struct Vocabulary<'a> {
    spellings: Vec<&'a str>,
    kinds: Vec<TokenKind>,
    /// Unigram's; empty for other kinds.
    pub(super) scores: Vec<f64>,
    /// Added tokens that the model does not have, ascending.
    pub(super) apart: Vec<u32>,
    pub(super) unk: Option<u32>,
    pub(super) byte_fallback: bool,
}

impl<'a> Vocabulary<'a> {
    pub(super) fn new(
        kind: &str,
        model: &'a Map<String, Value>,
        added: &[Added<'a>],
    ) -> Result<Vocabulary<'a>, TokenizerError> {
        let mut entries: Vec<(u32, &'a str)> = Vec::new();
        let mut scores = Vec::new();
        let vocab = model.get("vocab").ok_or_else(|| bad("has no vocab"))?;
        match (kind, vocab) {
            ("BPE" | "WordPiece", Value::Object(vocab)) => {
                for (token, id) in vocab {
                    let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
                    entries.push((id.ok_or_else(|| no_id(token))?, token));
                }
            }
            ("Unigram", Value::Array(vocab)) => {
                for (id, entry) in vocab.iter().enumerate() {
                    let pair = entry.as_array().map(Vec::as_slice);
                    let Some([Value::String(token), Value::Number(score)]) = pair else {
                        return Err(bad(format!("has an entry {id} in vocab that is no token with a score")));
                    };
                    entries.push((id as u32, token));
                    scores.push(score.as_f64().unwrap_or(f64::NAN));
                }
                if let Some(id) = scores.iter().position(|score| !score.is_finite()) {
                    return Err(TokenizerError::BadScore { id: id as u32 });
                }
            }
            ("BPE" | "WordPiece" | "Unigram", _) => {
                return Err(bad(format!("has a vocab that {kind} cannot have")));
            }
            _ => return Err(unsupported("model", kind)),
        }
        let own: HashSet<u32> = entries.iter().map(|entry| entry.0).collect();
        let mut apart: Vec<u32> = added.iter().map(|token| token.id).filter(|id| !own.contains(id)).collect();
        apart.sort_unstable();
        entries.extend(added.iter().map(|token| (token.id, token.content)));

        let n_vocab = entries.iter().map(|entry| entry.0 as usize + 1).max().unwrap_or(0);
        if n_vocab > entries.len() * 4 + HOLES {
            return Err(bad(format!("has an id of {} among {} tokens", n_vocab - 1, entries.len())));
        }
        let mut spellings = vec![""; n_vocab];
        for (id, token) in entries {
            let place = &mut spellings[id as usize];
            if !place.is_empty() && *place != token {
                let (one, other) = (quote(place.as_bytes()), quote(token.as_bytes()));
                return Err(bad(format!("gives the id {id} to both {one} and {other}")));
            }
            *place = token;
        }
        if kind == "Unigram" {
            scores.resize(n_vocab, 0.0);
        }
        let byte_fallback = kind != "WordPiece" && flag(model, "byte_fallback", false)?;
        let mut kinds = vec![TokenKind::Normal; n_vocab];
        if byte_fallback {
            let is_byte = |spelling: &str| spelled_byte(spelling.as_bytes()).is_some();
            let bytes = spellings.iter().zip(&mut kinds).filter(|(spelling, _)| is_byte(spelling));
            bytes.for_each(|(_, kind)| *kind = TokenKind::Byte);
        }
        for token in added {
            let kind = &mut kinds[token.id as usize];
            match token.special {
                _ if *kind == TokenKind::Byte => {}
                true => *kind = TokenKind::Control,
                false => *kind = TokenKind::UserDefined,
            }
        }
        let unk = match kind {
            "Unigram" => model.get("unk_id").and_then(Value::as_u64).map(|id| id as usize),
            _ => text(model, "unk_token")?
                .and_then(|unk| spellings.iter().position(|spelling| *spelling == unk)),
        };
        if let Some(unk) = unk {
            *kinds
                .get_mut(unk)
                .ok_or_else(|| bad(format!("has an unk_id of {unk} among {n_vocab} tokens")))? =
                TokenKind::Unknown;
        }
        Ok(Vocabulary { spellings, kinds, scores, apart, unk: unk.map(|unk| unk as u32), byte_fallback })
    }

    /// What the checks of [`Tokens::new`] need.
    pub(super) fn plain(&self) -> Vocab<'a> {
        Vocab {
            tokens: self.spellings.iter().map(|spelling| spelling.as_bytes()).collect(),
            kinds: Some(self.kinds.clone()),
            ..Vocab::default()
        }
    }
}

fn no_id(token: &str) -> TokenizerError {
    bad(format!("has no id for the token {}", quote(token.as_bytes())))
}

/// BPE. If the last step before it spells bytes in the byte alphabet, the model looks bytes up itself.
pub(super) fn bpe(
    model: &Map<String, Value>,
    tokens: Tokens,
    roles: &mut Roles,
    mut front: Front,
) -> Result<Model, TokenizerError> {
    for key in ["continuing_subword_prefix", "end_of_word_suffix"] {
        if text(model, key)?.is_some_and(|affix| !affix.is_empty()) {
            return Err(unsupported("BPE option", key));
        }
    }
    if model.get("dropout").and_then(Value::as_f64).is_some_and(|dropout| dropout != 0.0) {
        return Err(unsupported("BPE option", "dropout"));
    }
    let ignore_merges = flag(model, "ignore_merges", false)?;
    let fuse_unk = flag(model, "fuse_unk", false)?;
    let byte_fallback = flag(model, "byte_fallback", false)?;
    let list = model.get("merges").and_then(Value::as_array).ok_or_else(|| bad("has no merges"))?;
    let pairs: Vec<Vec<u8>>;
    let merges: Vec<&[u8]>;
    // Both spellings of a merge become the older one, whose parts a space stands between.
    match list.first() {
        Some(Value::Array(_)) => {
            let joined = |(index, pair): (usize, &Value)| match pair.as_array().map(Vec::as_slice) {
                Some([Value::String(left), Value::String(right)])
                    if !left.chars().skip(1).any(|c| c == ' ') =>
                {
                    Ok([left.as_bytes(), right.as_bytes()].join(&b' '))
                }
                _ => Err(bad(format!("has a merge {index} that is no pair of tokens"))),
            };
            pairs = list.iter().enumerate().map(joined).collect::<Result<_, _>>()?;
            merges = pairs.iter().map(Vec::as_slice).collect();
        }
        _ => {
            let texts = list.iter().map(|merge| merge.as_str().map(str::as_bytes));
            let all: Option<Vec<&[u8]>> = texts.collect();
            merges = all.ok_or_else(|| bad("has a merge that is no text"))?;
        }
    }
    let spells = front.cuts.iter().any(|cut| matches!(cut, Cut::ByteLevel { spell: true, .. }));
    let byte_level = match front.cuts.last_mut() {
        Some(Cut::ByteLevel { spell, .. }) if !byte_fallback => {
            *spell = false;
            true
        }
        _ => false,
    };
    let made = Model::new(tokens, roles, Some(front), |tokens, reach| {
        let merges = Merges::new(&merges, tokens, |id| is_text(reach[id as usize]))?;
        if byte_level {
            return Ok(Kind::ByteLevel { steps: Vec::new(), merges, ignore_merges });
        }
        let fallback = match (spells, byte_fallback) {
            (true, _) => Fallback::Alphabet,
            (false, true) => Fallback::Hex,
            (false, false) => Fallback::None,
        };
        let words = Words::new(tokens.spellings.iter().map(|(_, spelling)| spelling));
        let words = if fuse_unk { None } else { Some(words) };
        Ok(Kind::RawText {
            steps: Vec::new(),
            merges,
            whole_line_breaks: false,
            ignore_merges,
            words,
            fuse_unk,
            fallback,
        })
    })?;
    roles.warn_of_lost_bytes(made.lost_bytes());
    Ok(made)
}
