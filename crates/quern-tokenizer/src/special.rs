//! Tokens with a role, where generation ends, and which text reaches which token.
//!
//! Files name some of their special tokens by id and leave others to be recognised by their spelling, so this module
//! holds the lists of known spellings, which are llama.cpp's.
//!
//! # What text can become
//!
//! | kind of token | in trusted text | in plain text | by merging |
//! | --- | --- | --- | --- |
//! | control, unknown, any that ends generation | yes | no | no |
//! | user-defined, spelled like a mark | yes | no | no |
//! | user-defined, other | yes | yes | yes |
//! | normal, unused | no | no | yes |
//! | byte | no | no | in place of text that has no token |
//!
//! A user-defined token is *spelled like a mark* if it has a letter or digit and one of `< > [ ] { } | ｜ ◁ ▷`, as
//! `<tool_call>`, `<|user|>` and `[INST]` do. Excepted are the tags of HTML, which some vocabularies hold as whole
//! tokens: `<b>` in a user's text is text. What is left are runs of white space, letters and the like.
//!
//! llama.cpp finds every user-defined token in plain text and merges into any token whatever its kind. The difference
//! shows only for text that spells a mark, and there it is the point.

use crate::error::TokenizerError;
use crate::vocab::{TokenKind, Tokens};

/// What a file says about special tokens: ids by role, and rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpecialIds {
    /// `bos_token_id`: begins a text.
    pub bos: Option<u32>,
    /// `eos_token_id`: ends a text.
    pub eos: Option<u32>,
    /// `eot_token_id`: ends a turn.
    pub eot: Option<u32>,
    /// `eom_token_id`: ends a message that awaits a tool's result.
    pub eom: Option<u32>,
    /// `unknown_token_id`: stands for text that has no token.
    pub unk: Option<u32>,
    /// `seperator_token_id` (so spelled): stands after each text, in BERT's vocabularies.
    pub sep: Option<u32>,
    /// `cls_token_id`: begins a text where no `bos_token_id` does, in BERT's vocabularies.
    pub cls: Option<u32>,
    /// `padding_token_id`: fills up batches.
    pub pad: Option<u32>,
    /// `fim_pad_token_id`: ends code filled into a gap.
    pub fim_pad: Option<u32>,
    /// `fim_rep_token_id`: a repository's name follows.
    pub fim_rep: Option<u32>,
    /// `fim_sep_token_id`: another file follows.
    pub fim_sep: Option<u32>,
    /// `add_bos_token`.
    pub add_bos: Option<bool>,
    /// `add_eos_token`.
    pub add_eos: Option<bool>,
    /// `add_sep_token`.
    pub add_sep: Option<bool>,
    /// `add_space_prefix`.
    pub add_space_prefix: Option<bool>,
}

/// The special tokens and rules in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecialTokens {
    /// Begins a text.
    pub bos: Option<u32>,
    /// Ends a text.
    pub eos: Option<u32>,
    /// Ends a turn.
    pub eot: Option<u32>,
    /// Ends a message that awaits a tool's result.
    pub eom: Option<u32>,
    /// Stands for text that has no token.
    pub unk: Option<u32>,
    /// Stands after each text.
    pub sep: Option<u32>,
    /// Fills up batches.
    pub pad: Option<u32>,
    /// Whether [`SpecialTokens::bos`] is added before a text.
    pub add_bos: bool,
    /// Whether [`SpecialTokens::eos`] is added after a text.
    pub add_eos: bool,
    /// Whether [`SpecialTokens::sep`] is added after a text: in BERT's vocabularies only.
    pub add_sep: bool,
    /// Whether a space is put before text that starts a text or follows a control token.
    pub add_space_prefix: bool,
}

/// What a kind of vocabulary implies where a file is silent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Defaults {
    pub(crate) bos: Option<u32>,
    pub(crate) eos: Option<u32>,
    pub(crate) unk: Option<u32>,
    pub(crate) sep: Option<u32>,
    pub(crate) add_bos: bool,
    pub(crate) add_eos: bool,
    /// Only BERT's vocabularies put a token after a text that is no end: elsewhere the file's rule is for pairs of texts.
    pub(crate) add_sep: bool,
    pub(crate) add_space_prefix: bool,
}

/// What ends a turn, most specific first: the first one in the vocabulary counts if the file names none.
const END_OF_TURN: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<｜end▁of▁sentence｜>",
];
const END_OF_MESSAGE: &[&str] = &["<|eom_id|>"];
const FIM_PAD: &[&str] = &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"];
const FIM_REPOSITORY: &[&str] = &["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"];
const FIM_SEPARATOR: &[&str] = &["<|file_sep|>"];

/// What ends generation besides the above.
const OTHER_ENDS: &[&str] = &[
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "[EOS]",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "[e~[",
];

/// Ends generation unless it is the end tag of struck-out text.
const END_OF_SENTENCE: &str = "</s>";

/// Ends an analysis rather than the turn where the vocabulary has the other marks of such formats (G1).
const END_OF_BLOCK: &str = "<|end|>";

/// Elements of HTML that are whole tokens in published vocabularies.
const HTML: &[&str] = &[
    "a",
    "b",
    "bbox",
    "blockquote",
    "body",
    "br",
    "caption",
    "code",
    "del",
    "div",
    "em",
    "footer",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "header",
    "hr",
    "html",
    "i",
    "iframe",
    "img",
    "ins",
    "li",
    "mark",
    "ol",
    "p",
    "pre",
    "s",
    "small",
    "span",
    "strong",
    "sub",
    "sup",
    "table",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "tr",
    "u",
    "ul",
];

/// Special tokens, checked and completed by spelling.
#[derive(Debug)]
pub(crate) struct Roles {
    pub(crate) special: SpecialTokens,
    /// Ascending.
    pub(crate) ends: Vec<u32>,
    pub(crate) warnings: Vec<String>,
}

impl Roles {
    pub(crate) fn new(
        ids: &SpecialIds,
        defaults: Defaults,
        tokens: &Tokens,
    ) -> Result<Roles, TokenizerError> {
        let mut warnings = Vec::new();
        let n_vocab = tokens.len();
        let check = |key: &'static str, id: Option<u32>| match id {
            Some(id) if id as usize >= n_vocab => Err(TokenizerError::IdOutOfRange { key, id, n_vocab }),
            _ => Ok(id),
        };
        // A conventional id counts only if the token is of a special kind: a wrong guess would end text at a comma.
        let conventional = |id: Option<u32>| {
            id.filter(|&id| matches!(tokens.kind(id), Some(TokenKind::Control | TokenKind::Unknown)))
        };
        let special_kind = |id: u32| tokens.kind(id) != Some(TokenKind::Normal);
        let first =
            |spellings: &[&str]| spellings.iter().find_map(|spelling| tokens.find(spelling.as_bytes()));

        let cls = check("tokenizer.ggml.cls_token_id", ids.cls)?.filter(|_| defaults.add_sep);
        let bos =
            check("tokenizer.ggml.bos_token_id", ids.bos)?.or(cls).or_else(|| conventional(defaults.bos));
        let eos = check("tokenizer.ggml.eos_token_id", ids.eos)?.or_else(|| conventional(defaults.eos));
        let eot = check("tokenizer.ggml.eot_token_id", ids.eot)?.or_else(|| first(END_OF_TURN));
        let eom = check("tokenizer.ggml.eom_token_id", ids.eom)?.or_else(|| first(END_OF_MESSAGE));
        let unk = check("tokenizer.ggml.unknown_token_id", ids.unk)?.or_else(|| conventional(defaults.unk));
        let sep = check("tokenizer.ggml.seperator_token_id", ids.sep)?.or_else(|| conventional(defaults.sep));
        let pad = check("tokenizer.ggml.padding_token_id", ids.pad)?;
        let fim = [
            check("tokenizer.ggml.fim_pad_token_id", ids.fim_pad)?.or_else(|| first(FIM_PAD)),
            check("tokenizer.ggml.fim_rep_token_id", ids.fim_rep)?.or_else(|| first(FIM_REPOSITORY)),
            check("tokenizer.ggml.fim_sep_token_id", ids.fim_sep)?.or_else(|| first(FIM_SEPARATOR)),
        ];

        let listed = |spellings: &'static [&str]| spellings.iter().filter_map(|s| tokens.find(s.as_bytes()));
        let end_tag_of_html = tokens.find(b"</b>").is_some();
        let mut ends: Vec<u32> = fim.into_iter().flatten().collect();
        ends.extend(listed(END_OF_TURN).chain(listed(END_OF_MESSAGE)).chain(listed(OTHER_ENDS)));
        ends.extend(
            tokens.find(END_OF_SENTENCE.as_bytes()).filter(|&id| special_kind(id) && !end_tag_of_html),
        );
        ends.extend([eos, eot, eom].into_iter().flatten());
        if ends_a_block(tokens) {
            ends.retain(|&id| Some(id) != tokens.find(END_OF_BLOCK.as_bytes()));
        }
        let eot = eot.filter(|id| ends.contains(id));
        ends.sort_unstable();
        ends.dedup();
        if ends.is_empty() {
            warnings.push("no token ends generation: it will run to the token limit".to_owned());
        }

        let add_bos =
            adds("tokenizer.ggml.add_bos_token", ids.add_bos, defaults.add_bos, "bos_token_id", bos)?;
        let add_eos =
            adds("tokenizer.ggml.add_eos_token", ids.add_eos, defaults.add_eos, "eos_token_id", eos)?;
        let add_sep = defaults.add_sep
            && adds("tokenizer.ggml.add_sep_token", ids.add_sep, true, "seperator_token_id", sep)?;
        let add_space_prefix = ids.add_space_prefix.unwrap_or(defaults.add_space_prefix);
        let special =
            SpecialTokens { bos, eos, eot, eom, unk, sep, pad, add_bos, add_eos, add_sep, add_space_prefix };
        Ok(Roles { special, ends, warnings })
    }

    /// Warns that text loses bytes for want of any token.
    pub(crate) fn warn_of_lost_bytes(&mut self, lost: &[u8]) {
        if !lost.is_empty() {
            let bytes: Vec<String> = lost.iter().map(|byte| format!("{byte:#04x}")).collect();
            self.warnings.push(format!(
                "the vocabulary has no token for the bytes {}: they are left out of text",
                bytes.join(", ")
            ));
        }
    }

    /// What text can become this token.
    pub(crate) fn reach(&self, id: u32, tokens: &Tokens) -> Reach {
        if self.ends.binary_search(&id).is_ok() {
            return Reach::Mark;
        }
        match tokens.kind(id) {
            None | Some(TokenKind::Control | TokenKind::Unknown) => Reach::Mark,
            Some(TokenKind::Byte) => Reach::Byte,
            Some(TokenKind::Normal | TokenKind::Unused) => Reach::Text,
            Some(TokenKind::UserDefined) => match tokens.spellings.get(id).map(std::str::from_utf8) {
                Some(Ok(spelling)) if is_mark(spelling) => Reach::Mark,
                _ if tokens.is_apart(id) => Reach::Apart,
                _ => Reach::Added,
            },
        }
    }
}

/// What text can become a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Its spelling in trusted text.
    Mark,
    /// Its spelling in any text, and text that merges into it.
    Added,
    /// Its spelling in any text; the model itself does not have it.
    Apart,
    /// Text that merges into it.
    Text,
    /// A byte without another token.
    Byte,
}

fn adds(
    rule: &'static str,
    stated: Option<bool>,
    default: bool,
    key: &'static str,
    id: Option<u32>,
) -> Result<bool, TokenizerError> {
    match (stated, id) {
        (Some(true), None) => Err(TokenizerError::NothingToAdd { rule, key }),
        (Some(adds), _) => Ok(adds),
        (None, id) => Ok(default && id.is_some()),
    }
}

/// Whether `<|end|>` ends one block of several, as in Harmony and Solar-open: the turn has ends of its own there.
fn ends_a_block(tokens: &Tokens) -> bool {
    let has = |spelling: &str| tokens.find(spelling.as_bytes()).is_some();
    (has("<|return|>") && has("<|call|>")) || (has("<|flush|>") && (has("<|calls|>") || has("<|call|>")))
}

/// Whether a user-defined token is spelled like a mark.
fn is_mark(spelling: &str) -> bool {
    let bracket = |c: char| matches!(c, '<' | '>' | '[' | ']' | '{' | '}' | '|' | '｜' | '◁' | '▷');
    spelling.contains(bracket) && spelling.contains(char::is_alphanumeric) && !is_html(spelling)
}

fn is_html(spelling: &str) -> bool {
    let element = spelling.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
    element.is_some_and(|element| HTML.contains(&element.strip_prefix('/').unwrap_or(element)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_text_are_told_apart() {
        for mark in [
            "<tool_call>",
            "</think>",
            "[INST]",
            "<|user|>",
            "<start_of_image>",
            "[PAD7]",
            "<｜a｜>",
            "◁think▷",
        ] {
            assert!(is_mark(mark), "{mark}");
        }
        for text in ["\n\n", "  ", "<b>", "</blockquote>", "õ", "->", "</", "[]", "Hello", "||"] {
            assert!(!is_mark(text), "{text}");
        }
    }
}
