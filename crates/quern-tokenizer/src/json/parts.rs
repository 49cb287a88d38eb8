//! The steps around the model of a `tokenizer.json`: what comes before it, what frames its tokens, and what turns them
//! back into text.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::patterns::{literal_or_regex, step};
use super::{bad, flag, text, unsupported};
use crate::bytelevel;
use crate::charsmap::Charsmap;
use crate::classes::is_punctuation;
use crate::cut::{Behaviour, Cut, Find, Prefix};
use crate::error::TokenizerError;
use crate::front::Front;
use crate::model::spelled_byte;
use crate::normalize::Normalizer;
use crate::pretokenize::Step;
use crate::strings::Strings;
use crate::vocab::{TokenKind, Tokens};

/// Steps of one kind.
const STEPS: usize = 64;
/// Bytes that a step puts into text by itself.
const INSERTED: usize = 64;
/// How much longer all replacements together may make a text.
const GROWTH: usize = 256;

type Object = Map<String, Value>;

/// The steps in a list of lists, each with its type.
fn flatten<'v>(
    value: Option<&'v Value>,
    list: &str,
    out: &mut Vec<(&'v str, &'v Object)>,
) -> Result<(), TokenizerError> {
    let object = match value {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(object)) => object,
        Some(_) => return Err(bad(format!("has an entry of {list} that is no object"))),
    };
    match text(object, "type")?.ok_or_else(|| bad(format!("has an entry of {list} without a type")))? {
        "Sequence" => {
            let steps = object.get(list).and_then(Value::as_array);
            let steps = steps.ok_or_else(|| bad(format!("has a Sequence without {list}")))?;
            steps.iter().try_for_each(|step| flatten(Some(step), list, out))
        }
        _ if out.len() == STEPS => Err(bad(format!("has more than {STEPS} {list}"))),
        name => {
            out.push((name, object));
            Ok(())
        }
    }
}

fn steps<'v>(value: Option<&'v Value>, list: &str) -> Result<Vec<(&'v str, &'v Object)>, TokenizerError> {
    let mut out = Vec::new();
    flatten(value, list, &mut out)?;
    Ok(out)
}

/// Everything before the model.
pub(super) fn front(normalizer: Option<&Value>, cutter: Option<&Value>) -> Result<Front, TokenizerError> {
    let normalizers = steps(normalizer, "normalizers")?;
    let mut growth = 1usize;
    let normalizers =
        normalizers.into_iter().map(|(name, options)| normalizer_of(name, options, &mut growth));
    let normalizers = normalizers.collect::<Result<Vec<_>, _>>()?;
    let mut cuts = Vec::new();
    for (name, options) in steps(cutter, "pretokenizers")? {
        cuts.extend(cuts_of(name, options)?);
    }
    Ok(Front { normalizers, cuts, ..Front::default() })
}

fn normalizer_of(name: &str, options: &Object, growth: &mut usize) -> Result<Normalizer, TokenizerError> {
    Ok(match name {
        "NFC" => Normalizer::Nfc,
        "NFD" => Normalizer::Nfd,
        "NFKC" => Normalizer::Nfkc,
        "NFKD" => Normalizer::Nfkd,
        "Lowercase" => Normalizer::Lowercase,
        "StripAccents" => Normalizer::StripAccents,
        "Strip" => Normalizer::Strip {
            left: flag(options, "strip_left", true)?,
            right: flag(options, "strip_right", true)?,
        },
        "BertNormalizer" => {
            let lowercase = flag(options, "lowercase", true)?;
            Normalizer::Bert {
                clean: flag(options, "clean_text", true)?,
                ideographs: flag(options, "handle_chinese_chars", true)?,
                strip_accents: flag(options, "strip_accents", lowercase)?,
                lowercase,
            }
        }
        "Prepend" => Normalizer::Prepend(inserted(options, "prepend")?.to_owned()),
        "Replace" => {
            let with = inserted(options, "content")?.to_owned();
            let (pattern, shortest) = literal_or_regex(options.get("pattern"))?;
            grow(growth, with.len().div_ceil(shortest))?;
            Normalizer::Replace { pattern, with }
        }
        "Precompiled" => {
            let encoded = text(options, "precompiled_charsmap")?.unwrap_or_default();
            let blob = base64(encoded).ok_or_else(|| bad("has a precompiled_charsmap that is no Base64"))?;
            let charsmap = Charsmap::new(&blob)?;
            grow(growth, charsmap.growth())?;
            Normalizer::Charsmap(charsmap)
        }
        other => return Err(unsupported("normalizer", other)),
    })
}

/// Text chosen by the file is put in wherever something is found, step after step: without a bound, ten short steps make
/// terabytes of a letter.
fn grow(growth: &mut usize, factor: usize) -> Result<(), TokenizerError> {
    *growth = growth.saturating_mul(factor.max(1));
    match *growth > GROWTH {
        true => Err(bad(format!("has normalizers that can make a text more than {GROWTH} times as long"))),
        false => Ok(()),
    }
}

fn inserted<'v>(options: &'v Object, key: &str) -> Result<&'v str, TokenizerError> {
    let inserted = text(options, key)?.unwrap_or_default();
    match inserted.len() > INSERTED {
        true => Err(bad(format!("has a {key} of more than {INSERTED} bytes"))),
        false => Ok(inserted),
    }
}

fn cuts_of(name: &str, options: &Object) -> Result<Vec<Cut>, TokenizerError> {
    let chars = |class: fn(char) -> bool, behaviour| {
        vec![Cut::Split { at: Find::Char(class), behaviour, invert: false }]
    };
    Ok(match name {
        "ByteLevel" => {
            let words = flag(options, "use_regex", true)?.then(Step::gpt2);
            let prefix = flag(options, "add_prefix_space", true)?;
            vec![Cut::ByteLevel { prefix, words, spell: true }]
        }
        "Metaspace" => {
            let mut chars = text(options, "replacement")?.unwrap_or("▁").chars();
            let (Some(with), None) = (chars.next(), chars.next()) else {
                return Err(bad("has a Metaspace whose replacement is not one character"));
            };
            // Files of the first versions had a flag in place of the scheme.
            let by_flag = if flag(options, "add_prefix_space", true)? { "always" } else { "never" };
            let prefix = match text(options, "prepend_scheme")?.unwrap_or(by_flag) {
                "always" => Prefix::Always,
                "first" => Prefix::First,
                "never" => Prefix::Never,
                other => return Err(unsupported("prepend_scheme", other)),
            };
            vec![Cut::Metaspace { with, prefix, split: flag(options, "split", true)? }]
        }
        "Split" => {
            let at = match options.get("pattern").and_then(Value::as_object) {
                Some(pattern) => match (text(pattern, "String")?, text(pattern, "Regex")?) {
                    (Some(""), _) => return Err(bad("has a Split at nothing")),
                    (Some(piece), _) => Find::Text(piece.to_owned()),
                    (None, Some(pattern)) => Find::Pattern(step(pattern)?),
                    (None, None) => return Err(bad("has a Split without a pattern")),
                },
                None => return Err(bad("has a Split without a pattern")),
            };
            let behaviour = behaviour(options)?.ok_or_else(|| bad("has a Split without a behavior"))?;
            vec![Cut::Split { at, behaviour, invert: flag(options, "invert", false)? }]
        }
        "Digits" => {
            let single = flag(options, "individual_digits", false)?;
            chars(char::is_numeric, if single { Behaviour::Isolated } else { Behaviour::Contiguous })
        }
        "Punctuation" => chars(is_punctuation, behaviour(options)?.unwrap_or(Behaviour::Isolated)),
        "Whitespace" => {
            let at = Find::Pattern(step(r"\w+|[^\w\s]+")?);
            vec![Cut::Split { at, behaviour: Behaviour::Removed, invert: true }]
        }
        "WhitespaceSplit" => chars(char::is_whitespace, Behaviour::Removed),
        "BertPreTokenizer" => Cut::bert().into(),
        other => return Err(unsupported("pre-tokenizer", other)),
    })
}

fn behaviour(options: &Object) -> Result<Option<Behaviour>, TokenizerError> {
    Ok(Some(match text(options, "behavior")? {
        None => return Ok(None),
        Some("Removed") => Behaviour::Removed,
        Some("Isolated") => Behaviour::Isolated,
        Some("MergedWithPrevious") => Behaviour::MergedWithPrevious,
        Some("MergedWithNext") => Behaviour::MergedWithNext,
        Some("Contiguous") => Behaviour::Contiguous,
        Some(other) => return Err(unsupported("behavior", other)),
    }))
}

/// The tokens around a text.
#[derive(Debug, Default)]
pub(super) struct Frame {
    pub(super) before: Option<u32>,
    pub(super) after: Option<u32>,
}

/// What the post-processor puts around one text: at most one token on either side.
pub(super) fn frame(value: Option<&Value>, tokens: &Tokens) -> Result<Frame, TokenizerError> {
    let mut frame = Frame::default();
    let known = |name: &str| {
        let id = tokens.find(name.as_bytes());
        id.ok_or_else(|| bad(format!("frames texts with the token {name:?}, which it does not have")))
    };
    let twice = || bad("frames texts with more than one token on a side, which this build does not do");
    let mut put = |side: fn(&mut Frame) -> &mut Option<u32>, id| match side(&mut frame).replace(id) {
        Some(_) => Err(twice()),
        None => Ok(()),
    };
    for (name, options) in steps(value, "processors")? {
        match name {
            "ByteLevel" => {}
            "TemplateProcessing" => {
                let pieces = options.get("single").and_then(Value::as_array);
                let mut after_text = false;
                for piece in pieces.ok_or_else(|| bad("has a TemplateProcessing without single"))? {
                    let special =
                        piece.get("SpecialToken").and_then(|token| token.get("id")).and_then(Value::as_str);
                    match special {
                        Some(token) if after_text => put(|frame| &mut frame.after, known(token)?)?,
                        Some(token) => put(|frame| &mut frame.before, known(token)?)?,
                        None if piece.get("Sequence").is_some() && !after_text => after_text = true,
                        None => {
                            return Err(bad("has a TemplateProcessing that is not one text between tokens"));
                        }
                    }
                }
            }
            "BertProcessing" | "RobertaProcessing" => {
                let token = |key: &str| {
                    let pair = options.get(key).and_then(Value::as_array);
                    let name = pair.and_then(|pair| pair.first()).and_then(Value::as_str);
                    name.ok_or_else(|| bad(format!("has a {name:?} without {key}"))).and_then(known)
                };
                put(|frame| &mut frame.before, token("cls")?)?;
                put(|frame| &mut frame.after, token("sep")?)?;
            }
            other => return Err(unsupported("post-processor", other)),
        }
    }
    Ok(frame)
}

/// How a token is turned into text. All steps work on one token, so that text can be given out as it comes.
#[derive(Debug)]
pub(super) enum Decoder<'v> {
    ByteLevel,
    /// `<0x0A>` is a byte.
    ByteFallback,
    Replace {
        from: &'v str,
        to: &'v str,
    },
    /// A token that goes on begins so; any other follows a space.
    WordPiece {
        prefix: &'v str,
    },
}

/// The decoder's steps. Those that take a space from the start of a whole text are left out: text that is streamed may
/// continue another.
pub(super) fn decoders(value: Option<&Value>) -> Result<Vec<Decoder<'_>>, TokenizerError> {
    let mut decoders = Vec::new();
    for (name, options) in steps(value, "decoders")? {
        decoders.push(match name {
            "ByteLevel" => Decoder::ByteLevel,
            "ByteFallback" => Decoder::ByteFallback,
            "Metaspace" => Decoder::Replace { from: text(options, "replacement")?.unwrap_or("▁"), to: " " },
            "Replace" => {
                let from =
                    options.get("pattern").and_then(|pattern| pattern.get("String")).and_then(Value::as_str);
                let from = from.filter(|from| !from.is_empty());
                let from = from.ok_or_else(|| unsupported("decoder", "Replace with a pattern"))?;
                Decoder::Replace { from, to: inserted(options, "content")? }
            }
            "WordPiece" => Decoder::WordPiece { prefix: text(options, "prefix")?.unwrap_or("##") },
            "Fuse" => continue,
            "Strip" if text(options, "content")? == Some(" ") && number(options, "stop") == 0 => continue,
            other => return Err(unsupported("decoder", other)),
        });
    }
    if value.is_none_or(Value::is_null) {
        // Without a decoder, tokens are words.
        decoders.push(Decoder::WordPiece { prefix: "" });
    }
    Ok(decoders)
}

fn number(options: &Object, key: &str) -> u64 {
    options.get(key).and_then(Value::as_u64).unwrap_or(0)
}

/// The bytes of each token. Those that are found in rewritten text stand for their `rewritten` spelling; control tokens
/// stand for their spelling as it is.
pub(super) fn token_bytes(
    tokens: &Tokens,
    rewritten: &HashMap<u32, &str>,
    decoders: &[Decoder<'_>],
) -> Strings {
    let mut bytes = Strings::with_capacity(tokens.len(), 0);
    for (id, spelling) in tokens.spellings.iter() {
        let is_text = !matches!(tokens.kind(id), Some(TokenKind::Control | TokenKind::Unknown));
        let mut now = rewritten.get(&id).map_or(spelling, |text| text.as_bytes()).to_vec();
        for decoder in decoders.iter().filter(|_| is_text && !spelling.is_empty()) {
            now = decoder.decode(&now);
        }
        bytes.push(&now);
    }
    bytes
}

impl Decoder<'_> {
    fn decode(&self, token: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(token.len());
        match self {
            Decoder::ByteLevel => bytelevel::unspell(token, &mut out),
            Decoder::ByteFallback => match spelled_byte(token) {
                Some(byte) => out.push(byte),
                None => out.extend_from_slice(token),
            },
            Decoder::Replace { from, to } => {
                let mut rest = token;
                while let Some((&first, after)) = rest.split_first() {
                    match rest.strip_prefix(from.as_bytes()) {
                        Some(after) => {
                            out.extend_from_slice(to.as_bytes());
                            rest = after;
                        }
                        None => {
                            out.push(first);
                            rest = after;
                        }
                    }
                }
            }
            Decoder::WordPiece { prefix } => {
                let goes_on = token.strip_prefix(prefix.as_bytes()).filter(|_| !prefix.is_empty());
                if goes_on.is_none() {
                    out.push(b' ');
                }
                out.extend_from_slice(goes_on.unwrap_or(token));
            }
        }
        out
    }
}

/// What Base64 stands for (RFC 4648, section 4; padding at the end may be absent).
fn base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=').as_bytes();
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut n_bits) = (0u32, 0);
    for &c in text {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        n_bits += 6;
        if n_bits >= 8 {
            n_bits -= 8;
            out.push((bits >> n_bits) as u8);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648, section 10.
    #[test]
    fn base64_is_the_standards() {
        for (text, bytes) in [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9vYmFy", "foobar")] {
            assert_eq!(base64(text).as_deref(), Some(bytes.as_bytes()));
        }
        assert_eq!((base64("Zg=="), base64("Z!")), (Some(vec![b'f']), None));
        assert_eq!(base64("+/+/"), Some(vec![0xFB, 0xFF, 0xBF]));
    }
}
