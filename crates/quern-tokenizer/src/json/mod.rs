//! A tokenizer from a `tokenizer.json`, the file of Hugging Face's `tokenizers` library.
//!
//! The file is taken apart into tokens with their kinds, the steps before them (`parts.rs`, `patterns.rs`) and a model,
//! and goes the way of a GGUF file's vocabulary from there. What the file has and this build does not is refused by name.

mod parts;
mod patterns;
mod vocabulary;

use std::collections::HashMap;

use serde_json::{Map, Value};

use self::parts::{Frame, decoders, frame, front, token_bytes};
use self::vocabulary::{Vocabulary, bpe};
use crate::SharedTokenizer;
use crate::error::{TokenizerError, quote};
use crate::matcher::{Automaton, Spelling, Strip};
use crate::model::{Fallback, Kind, Model, text_tokens};
use crate::normalize::normalize;
use crate::special::{Defaults, Reach, Roles, SpecialIds};
use crate::tokenizer::{Matched, VocabTokenizer};
use crate::unigram::Unigram;
use crate::vocab::{Limits, Tokens};
use crate::wordpiece::{Marking, WordPiece};
use crate::words::Words;

/// The tokenizer that a `tokenizer.json` describes. The file says nothing about roles but which tokens frame a text;
/// `ids` are those that the caller knows from the model's other files (`config.json` has `eos_token_id`), and may be
/// empty. Truncation and padding, which the file may ask for, are for whoever makes batches.
pub fn from_json(json: &[u8], ids: &SpecialIds) -> Result<SharedTokenizer, TokenizerError> {
    let root: Value = serde_json::from_slice(json).map_err(|error| bad(format!("is no JSON: {error}")))?;
    let model = root.get("model").and_then(Value::as_object).ok_or_else(|| bad("has no model"))?;
    let kind = match text(model, "type")? {
        Some(kind) => kind,
        // The first versions of the format told the kind by what it holds.
        None if model.contains_key("merges") => "BPE",
        None => return Err(bad("does not say what kind its model is")),
    };
    let added = added_tokens(root.get("added_tokens"))?;
    let vocabulary = Vocabulary::new(kind, model, &added)?;
    let mut tokens = Tokens::new(&vocabulary.plain(), &Limits::DEFAULT)?;
    tokens.apart.clone_from(&vocabulary.apart);
    let frame = frame(root.get("post_processor"), &tokens)?;
    let mut roles = roles(ids, &frame, vocabulary.unk, &tokens)?;
    let mut front = front(root.get("normalizer"), root.get("pre_tokenizer"))?;

    let reach = |token: &Added<'_>| roles.reach(token.id, &tokens);
    let in_normal_text = |token: &&Added<'_>| token.normalized && reach(token) != Reach::Mark;
    let mut normal: Vec<(String, &Added<'_>)> = Vec::new();
    for token in added.iter().filter(in_normal_text) {
        let mut text = token.content.to_owned();
        normalize(&front.normalizers, &mut text, &mut String::new());
        normal.push((text, token));
    }
    let rewritten: HashMap<u32, &str> =
        normal.iter().map(|(text, token)| (token.id, text.as_str())).collect();
    let bytes = token_bytes(&tokens, &rewritten, &decoders(root.get("decoder"))?);
    let normal: Vec<Spelling<'_>> =
        normal.iter().map(|(text, token)| token.spelling(text, reach(token))).collect();
    front.added = Automaton::new(normal.iter());
    let raw = added.iter().filter(|token| !in_normal_text(token));
    let raw: Vec<Spelling<'_>> = raw.map(|token| token.spelling(token.content, reach(token))).collect();
    let matched = Matched::new(&raw);

    let model = match kind {
        "BPE" => bpe(model, tokens, &mut roles, front)?,
        "Unigram" => {
            let Vocabulary { scores, byte_fallback, .. } = vocabulary;
            Model::new(tokens, &roles, Some(front), |tokens, reach| {
                let worst = scores.iter().copied().fold(f64::INFINITY, f64::min);
                let text = text_tokens(tokens, reach);
                let words = Words::new(text.iter().map(|(spelling, _)| *spelling));
                let fallback = if byte_fallback { Fallback::Hex } else { Fallback::None };
                Ok(Kind::Unigram(Unigram::new(text, scores, worst, words), fallback))
            })?
        }
        _ => {
            let prefix = text(model, "continuing_subword_prefix")?.unwrap_or("##");
            let max_chars = model.get("max_input_chars_per_word").and_then(Value::as_u64).unwrap_or(100);
            Model::new(tokens, &roles, Some(front), |tokens, reach| {
                let marking = Marking::GoesOn(prefix);
                Ok(Kind::WordPiece(WordPiece::new(text_tokens(tokens, reach), marking, max_chars as usize)))
            })?
        }
    };
    Ok(VocabTokenizer::shared(model, roles, bytes, matched))
}

/// An entry of `added_tokens`.
#[derive(Debug)]
struct Added<'a> {
    id: u32,
    content: &'a str,
    special: bool,
    single_word: bool,
    lstrip: bool,
    rstrip: bool,
    normalized: bool,
}

impl Added<'_> {
    fn spelling<'s>(&self, text: &'s str, reach: Reach) -> Spelling<'s> {
        Spelling {
            id: self.id,
            text,
            reach,
            left: if self.lstrip { Strip::White } else { Strip::Nothing },
            right: if self.rstrip { Strip::White } else { Strip::Nothing },
            single_word: self.single_word,
        }
    }
}

fn added_tokens(list: Option<&Value>) -> Result<Vec<Added<'_>>, TokenizerError> {
    let mut tokens: Vec<Added<'_>> = Vec::new();
    let mut places = HashMap::new();
    for entry in list.and_then(Value::as_array).into_iter().flatten() {
        let entry = entry.as_object().ok_or_else(|| bad("has an added token that is no object"))?;
        let content = text(entry, "content")?.ok_or_else(|| bad("has an added token without content"))?;
        let id = entry.get("id").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
        let id =
            id.ok_or_else(|| bad(format!("has no id for the added token {}", quote(content.as_bytes()))))?;
        let special = flag(entry, "special", false)?;
        let token = Added {
            id,
            content,
            special,
            single_word: flag(entry, "single_word", false)?,
            lstrip: flag(entry, "lstrip", false)?,
            rstrip: flag(entry, "rstrip", false)?,
            normalized: flag(entry, "normalized", !special)?,
        };
        // Of two entries for one text the later counts.
        match places.insert(content, tokens.len()) {
            Some(earlier) => {
                places.insert(content, earlier);
                tokens[earlier] = token;
            }
            None => tokens.push(token),
        }
    }
    Ok(tokens)
}

fn roles(
    ids: &SpecialIds,
    frame: &Frame,
    unk: Option<u32>,
    tokens: &Tokens,
) -> Result<Roles, TokenizerError> {
    let mut ids = ids.clone();
    ids.unk = ids.unk.or(unk);
    ids.bos = frame.before.or(ids.bos);
    ids.add_bos = Some(frame.before.is_some());
    ids.add_space_prefix = Some(false);
    // What follows a text is its end, unless the model is known to end texts with another token.
    let is_end = ids.eos.is_none() || ids.eos == frame.after;
    let after = frame.after;
    if is_end {
        ids.eos = after;
    } else {
        ids.sep = after;
    }
    ids.add_eos = Some(is_end && after.is_some());
    ids.add_sep = Some(!is_end && after.is_some());
    Roles::new(&ids, Defaults { add_sep: true, ..Defaults::default() }, tokens)
}

fn bad(why: impl Into<String>) -> TokenizerError {
    TokenizerError::Json { why: why.into() }
}

/// What is asked for by name and not read here.
fn unsupported(part: &'static str, name: &str) -> TokenizerError {
    bad(format!("has the {part} {}, which this build does not read", quote(name.as_bytes())))
}

fn text<'v>(object: &'v Map<String, Value>, key: &str) -> Result<Option<&'v str>, TokenizerError> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(bad(format!("has a {key} that is no text"))),
    }
}

fn flag(object: &Map<String, Value>, key: &str, default: bool) -> Result<bool, TokenizerError> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(default),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(bad(format!("has a {key} that is neither true nor false"))),
    }
}
