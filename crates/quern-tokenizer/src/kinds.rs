//! The kinds of vocabulary: one row for each value of `tokenizer.ggml.model`.

use crate::error::{TokenizerError, quote};
use crate::merges::Merges;
use crate::model::{Fallback, Kind, Model, descending, is_text};
use crate::pretokenize::Step;
use crate::pretokenizers::{self, PreTokenizer};
use crate::special::{Defaults, Roles};
use crate::vocab::{Limits, Tokens, Vocab};
use crate::words::Words;
use crate::{rwkv, unigram, wordpiece};

/// Makes a model of a checked vocabulary.
type Build = fn(&Vocab<'_>, Tokens) -> Result<(Model, Roles), TokenizerError>;

const KINDS: &[(&str, Build)] = &[
    ("gpt2", |vocab, tokens| by_merges(vocab, tokens, "gpt2", vocab.pre)),
    ("llama", by_score),
    ("gemma4", |vocab, tokens| by_merges(vocab, tokens, "gemma4", Some(pretokenizers::GEMMA4))),
    ("bert", wordpiece::build),
    ("t5", unigram::build),
    ("rwkv", rwkv::build),
];

/// Values of `tokenizer.ggml.model` that are read.
pub fn models() -> Vec<&'static str> {
    KINDS.iter().map(|(name, _)| *name).collect()
}

/// The checked vocabulary and its special tokens.
pub(crate) fn model(vocab: &Vocab<'_>) -> Result<(Model, Roles), TokenizerError> {
    let tokens = Tokens::new(vocab, &Limits::DEFAULT)?;
    match KINDS.iter().find(|(name, _)| *name == vocab.model) {
        Some((_, build)) => build(vocab, tokens),
        None => Err(TokenizerError::UnknownModel {
            model: quote(vocab.model.as_bytes()),
            known: models().join(", "),
        }),
    }
}

/// Score-BPE.
fn by_score(vocab: &Vocab<'_>, tokens: Tokens) -> Result<(Model, Roles), TokenizerError> {
    let defaults = Defaults {
        bos: Some(1),
        eos: Some(2),
        unk: Some(0),
        add_bos: true,
        add_space_prefix: true,
        ..Defaults::default()
    };
    let roles = Roles::new(&vocab.special, defaults, &tokens)?;
    let scores = scores(vocab, "llama")?;
    let priorities = scores.iter().map(|&score| descending(score)).collect();
    let longest = vocab.tokens.iter().map(|token| token.len()).max().unwrap_or(0);
    let model = Model::new(tokens, &roles, None, |tokens, _| {
        let words = Words::new(tokens.spellings.iter().map(|(_, spelling)| spelling));
        Ok(Kind::Score { priorities, longest, words })
    })?;
    Ok((model, roles))
}

/// The scores of a kind of vocabulary that cannot do without them.
pub(crate) fn scores<'v>(vocab: &'v Vocab<'_>, model: &'static str) -> Result<&'v [f32], TokenizerError> {
    let missing = TokenizerError::MissingList { key: "tokenizer.ggml.scores", model };
    let scores = vocab.scores.as_deref().ok_or(missing)?;
    match scores.iter().position(|score| score.is_nan()) {
        Some(id) => Err(TokenizerError::BadScore { id: id as u32 }),
        None => Ok(scores),
    }
}

/// BPE by a list of merges, with the words of the pre-tokenizer `pre`.
fn by_merges(
    vocab: &Vocab<'_>,
    tokens: Tokens,
    model: &'static str,
    pre: Option<&str>,
) -> Result<(Model, Roles), TokenizerError> {
    let name = pre.unwrap_or(pretokenizers::DEFAULT);
    let row = pretokenizers::find(name).ok_or_else(|| TokenizerError::UnknownPre {
        pre: quote(name.as_bytes()),
        known: pretokenizers::near(name).join(", "),
    })?;
    let defaults = Defaults { add_bos: row.add_bos, ..Defaults::default() };
    let mut roles = Roles::new(&vocab.special, defaults, &tokens)?;
    // Only score-BPE has the rule, whatever a file says.
    roles.special.add_space_prefix = false;
    if name == pretokenizers::DEFAULT {
        roles.warnings.push(
            "the file names no pre-tokenizer (tokenizer.ggml.pre), so a default one is used; the model was trained with \
             another one and may answer worse than it could"
                .to_owned(),
        );
    }
    if name == pretokenizers::GEMMA4 && !roles.special.add_bos && roles.special.bos.is_some() {
        roles.special.add_bos = true;
        roles.warnings.push(
            "tokenizer.ggml.add_bos_token is false, which is a known mistake of early Gemma 4 files; the token is added"
                .to_owned(),
        );
    }
    let model = merging(vocab, tokens, &roles, row, model)?;
    roles.warn_of_lost_bytes(model.lost_bytes());
    Ok((model, roles))
}

fn merging(
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
    Model::new(tokens, roles, None, |tokens, reach| {
        let merges = Merges::new(merges, tokens, |id| is_text(reach[id as usize]))?;
        Ok(match row.raw_text {
            true => {
                let words = Words::new(tokens.spellings.iter().map(|(_, spelling)| spelling));
                Kind::RawText {
                    steps,
                    merges,
                    whole_line_breaks: row.whole_line_breaks,
                    ignore_merges: false,
                    words: Some(words),
                    fuse_unk: false,
                    fallback: Fallback::Hex,
                }
            }
            false => Kind::ByteLevel { steps, merges, ignore_merges: row.ignore_merges },
        })
    })
}
