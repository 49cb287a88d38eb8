//! A vocabulary from the metadata of a GGUF file.

use std::borrow::Cow;

use quern_gguf::{Array, Metadata, StringArray, Value};

use crate::error::TokenizerError;
use crate::special::SpecialIds;
use crate::vocab::{TokenKind, Vocab};
use crate::{SharedTokenizer, from_vocab};

/// The tokenizer that a file describes. The file's tensors are not needed: a vocabulary-only file will do.
pub fn from_metadata(metadata: &Metadata) -> Result<SharedTokenizer, TokenizerError> {
    let kinds = metadata.opt_i32s("tokenizer.ggml.token_type")?;
    let charsmap = charsmap(metadata)?;
    from_vocab(&Vocab {
        model: metadata.str("tokenizer.ggml.model")?,
        pre: metadata.opt_str("tokenizer.ggml.pre")?,
        name: metadata.opt_str("general.name")?.unwrap_or_default(),
        tokens: list(metadata.strings("tokenizer.ggml.tokens")?),
        kinds: kinds.map(|kinds| kinds.iter().copied().map(TokenKind::from_number).collect()),
        scores: scores(metadata)?,
        merges: metadata.opt_strings("tokenizer.ggml.merges")?.map(list),
        charsmap: charsmap.as_deref(),
        remove_extra_whitespaces: metadata
            .opt_bool("tokenizer.ggml.remove_extra_whitespaces")?
            .unwrap_or(false),
        lowercase: metadata.opt_bool("tokenizer.ggml.normalizer.lowercase")?,
        strip_accents: metadata.opt_bool("tokenizer.ggml.normalizer.strip_accents")?,
        special: SpecialIds::from_metadata(metadata)?,
    })
}

impl SpecialIds {
    /// What the `tokenizer.ggml.*` keys say, whatever holds the vocabulary.
    pub fn from_metadata(metadata: &Metadata) -> Result<SpecialIds, TokenizerError> {
        let id = |key| metadata.opt_u32(key);
        Ok(SpecialIds {
            bos: id("tokenizer.ggml.bos_token_id")?,
            eos: id("tokenizer.ggml.eos_token_id")?,
            eot: id("tokenizer.ggml.eot_token_id")?,
            eom: id("tokenizer.ggml.eom_token_id")?,
            unk: id("tokenizer.ggml.unknown_token_id")?,
            sep: id("tokenizer.ggml.seperator_token_id")?,
            cls: id("tokenizer.ggml.cls_token_id")?,
            pad: id("tokenizer.ggml.padding_token_id")?,
            fim_pad: id("tokenizer.ggml.fim_pad_token_id")?,
            fim_rep: id("tokenizer.ggml.fim_rep_token_id")?,
            fim_sep: id("tokenizer.ggml.fim_sep_token_id")?,
            add_bos: metadata.opt_bool("tokenizer.ggml.add_bos_token")?,
            add_eos: metadata.opt_bool("tokenizer.ggml.add_eos_token")?,
            add_sep: metadata.opt_bool("tokenizer.ggml.add_sep_token")?,
            add_space_prefix: metadata.opt_bool("tokenizer.ggml.add_space_prefix")?,
        })
    }
}

fn list(strings: &StringArray) -> Vec<&[u8]> {
    strings.iter().collect()
}

/// Scores, which a few files hold as integers. Kinds of vocabulary that have no use for them leave them unread.
fn scores(metadata: &Metadata) -> Result<Option<Vec<f32>>, TokenizerError> {
    const KEY: &str = "tokenizer.ggml.scores";
    if let Ok(Some(whole)) = metadata.opt_i32s(KEY) {
        return Ok(Some(whole.iter().map(|&score| score as f32).collect()));
    }
    Ok(metadata.opt_f32s(KEY)?.map(|scores| scores.into_owned()))
}

/// The charsmap, which some files hold as signed bytes.
fn charsmap(metadata: &Metadata) -> Result<Option<Cow<'_, [u8]>>, TokenizerError> {
    match metadata.get("tokenizer.ggml.precompiled_charsmap") {
        None => Ok(None),
        Some(Value::Array(Array::U8(bytes))) => Ok(Some(Cow::Borrowed(bytes))),
        Some(Value::Array(Array::I8(bytes))) => Ok(Some(bytes.iter().map(|&byte| byte as u8).collect())),
        Some(_) => Err(TokenizerError::BadCharsmap { why: "is no array of bytes" }),
    }
}
