//! A tokenizer over a vocabulary: the parts put together.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::decode::StreamDecoder;
use crate::error::TokenizerError;
use crate::kinds;
use crate::matcher::{Fragment, Matcher, Spelling, Strip};
use crate::model::{Model, Place, Scratch};
use crate::segment::Segment;
use crate::special::{Reach, Roles, SpecialTokens};
use crate::strings::Strings;
use crate::vocab::{TokenKind, Vocab};
use crate::{EncodeOptions, SharedTokenizer, Tokenizer};

/// Ordinary text is merged in stretches of at most this many bytes, so that positions fit in 32 bits even when every
/// space takes three.
const MAX_STRETCH: usize = 1 << 30;

/// A tokenizer for a vocabulary. The vocabulary is checked; everything the tokenizer needs is copied.
pub fn from_vocab(vocab: &Vocab<'_>) -> Result<SharedTokenizer, TokenizerError> {
    let (model, roles) = kinds::model(vocab)?;
    let matched = Matched::new(&special_spellings(&model, vocab.name));
    let bytes = model.token_bytes();
    Ok(VocabTokenizer::shared(model, roles, bytes, matched))
}

/// What is looked for in text before anything else.
#[derive(Debug)]
pub(crate) struct Matched {
    matcher: Matcher,
    control_spellings: Vec<String>,
}

impl Matched {
    pub(crate) fn new(spellings: &[Spelling<'_>]) -> Matched {
        let marks = spellings.iter().filter(|spelling| spelling.reach == Reach::Mark);
        let mut control_spellings: Vec<String> = marks.map(|spelling| spelling.text.to_owned()).collect();
        control_spellings.sort_by_key(|spelling| std::cmp::Reverse(spelling.len()));
        Matched { matcher: Matcher::new(spellings), control_spellings }
    }
}

#[derive(Debug)]
pub(crate) struct VocabTokenizer {
    model: Model,
    matched: Matched,
    roles: Roles,
    /// The bytes of each token; shared with decoders.
    bytes: Arc<Strings>,
}

impl VocabTokenizer {
    /// The parts put together; `bytes` are those of each token.
    pub(crate) fn shared(model: Model, roles: Roles, bytes: Strings, matched: Matched) -> SharedTokenizer {
        Arc::new(VocabTokenizer { model, matched, roles, bytes: Arc::new(bytes) })
    }
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
            left: Strip::Nothing,
            right: if strips(text) { Strip::Ascii } else { Strip::Nothing },
            single_word: false,
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
        let mut place = Place { first: true, after_space: special.add_space_prefix };
        self.matched.matcher.cut(&text, &trusted, |fragment| match fragment {
            Fragment::Text(text) => {
                for stretch in stretches(text) {
                    self.model.encode(stretch, place, &mut scratch, &mut ids);
                    place = Place::default();
                }
            }
            Fragment::Token(id) => {
                ids.push(id);
                place = Place { first: false, after_space: special.add_space_prefix };
            }
        });
        ids.extend(added(special.add_eos, special.eos));
        ids.extend(added(special.add_sep, special.sep));
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
        &self.matched.control_spellings
    }

    fn warnings(&self) -> &[String] {
        &self.roles.warnings
    }
}
