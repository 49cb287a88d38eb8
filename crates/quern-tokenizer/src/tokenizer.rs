//! A tokenizer over a vocabulary: the parts put together.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::decode::StreamDecoder;
use crate::error::{TokenizerError, quote};
use crate::matcher::{Fragment, Matcher, Spelling};
use crate::model::{Model, Scratch};
use crate::pretokenizers;
use crate::segment::Segment;
use crate::special::{Defaults, Reach, Roles, SpecialTokens};
use crate::strings::Strings;
use crate::vocab::{Limits, TokenKind, Tokens, Vocab};
use crate::{EncodeOptions, SharedTokenizer, Tokenizer};

/// Values of `tokenizer.ggml.model` that are read.
const MODELS: [&str; 3] = ["gpt2", "llama", "gemma4"];

/// Ordinary text is merged in stretches of at most this many bytes, so that positions fit in 32 bits even when every
/// space takes three.
const MAX_STRETCH: usize = 1 << 30;

/// A tokenizer for a vocabulary. The vocabulary is checked; everything the tokenizer needs is copied.
pub fn from_vocab(vocab: &Vocab<'_>) -> Result<SharedTokenizer, TokenizerError> {
    Ok(Arc::new(VocabTokenizer::new(vocab)?))
}

#[derive(Debug)]
struct VocabTokenizer {
    model: Model,
    matcher: Matcher,
    roles: Roles,
    /// The bytes of each token; shared with decoders.
    bytes: Arc<Strings>,
    control_spellings: Vec<String>,
}

impl VocabTokenizer {
    fn new(vocab: &Vocab<'_>) -> Result<VocabTokenizer, TokenizerError> {
        let (model, roles) = model(vocab)?;
        let bytes = Arc::new(model.token_bytes());
        let spellings = special_spellings(&model, vocab.name);
        // The automaton's one failure is more patterns than 31 bits count; the limits are far below.
        let matcher = Matcher::new(&spellings)
            .unwrap_or_else(|error| unreachable!("within the vocabulary's limits: {error}"));
        let marks = spellings.iter().filter(|spelling| spelling.reach == Reach::Mark);
        let mut control_spellings: Vec<String> = marks.map(|spelling| spelling.text.to_owned()).collect();
        control_spellings.sort_by_key(|spelling| std::cmp::Reverse(spelling.len()));
        Ok(VocabTokenizer { matcher, model, roles, bytes, control_spellings })
    }
}

/// The checked vocabulary and its special tokens.
pub(crate) fn model(vocab: &Vocab<'_>) -> Result<(Model, Roles), TokenizerError> {
    let tokens = Tokens::new(vocab, &Limits::DEFAULT)?;
    match vocab.model {
        "llama" => {
            let defaults =
                Defaults { bos: Some(1), eos: Some(2), unk: Some(0), add_bos: true, add_space_prefix: true };
            let roles = Roles::new(&vocab.special, defaults, &tokens)?;
            Ok((Model::by_score(vocab, tokens, &roles)?, roles))
        }
        "gpt2" => by_merges(vocab, tokens, "gpt2", vocab.pre),
        "gemma4" => by_merges(vocab, tokens, "gemma4", Some(pretokenizers::GEMMA4)),
        other => {
            Err(TokenizerError::UnknownModel { model: quote(other.as_bytes()), known: MODELS.join(", ") })
        }
    }
}

fn by_merges(
    vocab: &Vocab<'_>,
    tokens: Tokens,
    model: &'static str,
    pre: Option<&str>,
) -> Result<(Model, Roles), TokenizerError> {
    let name = pre.unwrap_or(pretokenizers::DEFAULT);
    let row = pretokenizers::find(name).ok_or_else(|| TokenizerError::UnknownPre {
        pre: quote(name.as_bytes()),
        known: pretokenizers::names().join(", "),
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
    let model = Model::by_merges(vocab, tokens, &roles, row, model)?;
    if !model.lost_bytes().is_empty() {
        let bytes: Vec<String> = model.lost_bytes().iter().map(|byte| format!("{byte:#04x}")).collect();
        roles.warnings.push(format!(
            "the vocabulary has no token for the bytes {}: they are left out of text",
            bytes.join(", ")
        ));
    }
    Ok((model, roles))
}

/// The tokens to look for in text. Those that are not valid UTF-8 occur in none.
fn special_spellings<'m>(model: &'m Model, name: &str) -> Vec<Spelling<'m>> {
    // The Phi-3 files leave out that these tokens swallow the white space after them, with four exceptions.
    let name = name.to_lowercase();
    let is_phi3 = name.contains("phi-3") || name.contains("phi3");
    let strips = |text: &str| is_phi3 && !matches!(text, "<unk>" | "<s>" | "<|endoftext|>");
    let special = model.tokens().spellings.iter().filter_map(|(id, spelling)| {
        let reach = model.reach(id);
        let text = std::str::from_utf8(spelling).ok().filter(|text| !text.is_empty())?;
        matches!(reach, Reach::Mark | Reach::Added).then(|| Spelling {
            id,
            text,
            reach,
            strips: strips(text),
        })
    });
    special.collect()
}

/// The segments' text as one, and where it is trusted.
fn concatenate<'a>(segments: &[Segment<'a>]) -> (Cow<'a, str>, Vec<Range<usize>>) {
    let mut trusted: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    for segment in segments.iter().filter(|segment| !segment.text().is_empty()) {
        let range = at..at + segment.text().len();
        at = range.end;
        match trusted.last_mut() {
            Some(last) if segment.is_trusted() && last.end == range.start => last.end = range.end,
            _ if segment.is_trusted() => trusted.push(range),
            _ => {}
        }
    }
    let text = match segments {
        [only] => Cow::Borrowed(only.text()),
        _ => segments.iter().map(|segment| segment.text()).collect(),
    };
    (text, trusted)
}

/// `text` in stretches of at most `MAX_STRETCH` bytes.
fn stretches(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (head, tail) = rest.split_at(rest.floor_char_boundary(MAX_STRETCH));
        rest = tail;
        (!head.is_empty()).then_some(head)
    })
}

impl Tokenizer for VocabTokenizer {
    fn encode(&self, segments: &[Segment<'_>], options: EncodeOptions) -> Vec<u32> {
        let (text, trusted) = concatenate(segments);
        let special = &self.roles.special;
        let added = |adds: bool, id: Option<u32>| id.filter(|_| options.add_special && adds);
        let mut ids = Vec::with_capacity(text.len() / 4 + 2);
        ids.extend(added(special.add_bos, special.bos));
        let mut scratch = Scratch::default();
        let mut space = special.add_space_prefix;
        self.matcher.cut(&text, &trusted, |fragment| match fragment {
            Fragment::Text(text) => {
                for stretch in stretches(text) {
                    self.model.encode(stretch, space, &mut scratch, &mut ids);
                    space = false;
                }
            }
            Fragment::Token(id) => {
                ids.push(id);
                space = special.add_space_prefix;
            }
        });
        ids.extend(added(special.add_eos, special.eos));
        ids
    }

    fn decoder(&self) -> StreamDecoder {
        StreamDecoder::new(Arc::clone(&self.bytes))
    }

    fn token_bytes(&self, id: u32) -> &[u8] {
        self.bytes.get(id).unwrap_or_default()
    }

    fn token_text(&self, id: u32) -> Cow<'_, str> {
        String::from_utf8_lossy(self.model.tokens().spellings.get(id).unwrap_or_default())
    }

    fn token_id(&self, spelling: &str) -> Option<u32> {
        self.model.tokens().find(spelling.as_bytes())
    }

    fn n_vocab(&self) -> usize {
        self.model.tokens().len()
    }

    fn special(&self) -> &SpecialTokens {
        &self.roles.special
    }

    fn is_control(&self, id: u32) -> bool {
        matches!(self.model.tokens().kind(id), Some(TokenKind::Control | TokenKind::Unknown))
            || self.is_end_of_generation(id)
    }

    fn is_end_of_generation(&self, id: u32) -> bool {
        self.roles.ends.binary_search(&id).is_ok()
    }

    fn end_of_generation(&self) -> &[u32] {
        &self.roles.ends
    }

    fn control_spellings(&self) -> &[String] {
        &self.control_spellings
    }

    fn warnings(&self) -> &[String] {
        &self.roles.warnings
    }
}
