//! Cutting text into words by rules that can be put in any order, as those of `tokenizer.json` files are.

use std::ops::Range;

use crate::bytelevel;
use crate::classes::is_punctuation;
use crate::pretokenize::Step;

/// One rule. Each cuts the pieces left by the one before; empty pieces vanish.
#[derive(Debug)]
pub(crate) enum Cut {
    /// Cuts at what is found, or, if `invert`, at what is not.
    Split { at: Find, behaviour: Behaviour, invert: bool },
    /// Spaces become `with`, which is put before a piece too if `prefix` says so, and begins each word if `split`.
    Metaspace { with: char, prefix: Prefix, split: bool },
    /// GPT-2's words, if there is a pattern. A space is put before each piece that has none if `prefix`; bytes are spelled
    /// in the byte alphabet if `spell`.
    ByteLevel { prefix: bool, words: Option<Step>, spell: bool },
}

/// What to cut at.
#[derive(Debug)]
pub(crate) enum Find {
    Pattern(Step),
    Text(String),
    /// Each such character by itself.
    Char(fn(char) -> bool),
}

/// What becomes of what was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// It vanishes.
    Removed,
    /// It is a piece.
    Isolated,
    /// It ends the piece before it.
    MergedWithPrevious,
    /// It begins the piece after it.
    MergedWithNext,
    /// What is found side by side is one piece.
    Contiguous,
}

/// Which pieces a mark is put before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefix {
    Always,
    /// The first of the whole text.
    First,
    Never,
}

/// Cuts `text` by all `cuts`, in order, and emits the words. `first` says that the whole text begins here.
pub(crate) fn cut(cuts: &[Cut], text: &str, first: bool, emit: &mut dyn FnMut(&str)) {
    if text.is_empty() {
        return;
    }
    match cuts.split_first() {
        None => emit(text),
        Some((one, rest)) => one.pieces(text, first, &mut |piece, first| cut(rest, piece, first, emit)),
    }
}

impl Cut {
    /// BERT's words: white space vanishes, and each punctuation mark is a word.
    pub(crate) fn bert() -> [Cut; 2] {
        [(char::is_whitespace as fn(char) -> bool, Behaviour::Removed), (is_punctuation, Behaviour::Isolated)]
            .map(|(class, behaviour)| Cut::Split { at: Find::Char(class), behaviour, invert: false })
    }

    /// Emits the pieces of `text`, and whether each is the first of the whole text.
    fn pieces(&self, text: &str, first: bool, emit: &mut dyn FnMut(&str, bool)) {
        match self {
            Cut::Split { at, behaviour, invert } => {
                let mut group =
                    Grouper { text, first, behaviour: *behaviour, pending: 0..0, was_found: false, emit };
                at.find(text, &mut |range, found| group.push(range, found != *invert));
                group.finish();
            }
            Cut::Metaspace { with, prefix, split } => {
                let prefixed = match prefix {
                    Prefix::Always => true,
                    Prefix::First => first,
                    Prefix::Never => false,
                };
                let mut spaced = String::with_capacity(text.len() + 3);
                if prefixed && !text.starts_with([' ', *with]) {
                    spaced.push(*with);
                }
                spaced.extend(text.chars().map(|c| if c == ' ' { *with } else { c }));
                if !split {
                    return emit(&spaced, first);
                }
                let mut start = 0;
                for (at, _) in spaced.match_indices(*with).filter(|&(at, _)| at > 0) {
                    emit(&spaced[start..at], first && start == 0);
                    start = at;
                }
                emit(&spaced[start..], first && start == 0);
            }
            Cut::ByteLevel { prefix, words, spell } => {
                let spaced = (*prefix && !text.starts_with(' ')).then(|| format!(" {text}"));
                let text = spaced.as_deref().unwrap_or(text);
                let mut spelling = Vec::new();
                let mut emit = |word: &str, first: bool| {
                    if *spell {
                        spelling.clear();
                        bytelevel::spell(word.as_bytes(), &mut spelling);
                        emit(std::str::from_utf8(&spelling).unwrap_or_default(), first);
                    } else {
                        emit(word, first);
                    }
                };
                match words {
                    Some(step) => {
                        step.find(text, &mut |range, _| emit(&text[range.clone()], first && range.start == 0))
                    }
                    None => emit(text, first),
                }
            }
        }
    }
}

impl Find {
    /// Emits all of `text` in order: what is found, and what is between.
    fn find(&self, text: &str, emit: &mut dyn FnMut(Range<usize>, bool)) {
        let mut done = 0;
        let mut found = |range: Range<usize>, emit: &mut dyn FnMut(Range<usize>, bool)| {
            if done < range.start {
                emit(done..range.start, false);
            }
            done = range.end;
            if !range.is_empty() {
                emit(range, true);
            }
        };
        match self {
            Find::Pattern(step) => return step.find(text, emit),
            Find::Text(piece) => {
                text.match_indices(piece.as_str()).for_each(|(at, piece)| found(at..at + piece.len(), emit));
            }
            Find::Char(class) => {
                text.match_indices(*class).for_each(|(at, c)| found(at..at + c.len(), emit));
            }
        }
        found(text.len()..text.len(), emit);
    }
}

/// Puts what was found and what was not together to pieces.
struct Grouper<'t, 'e> {
    text: &'t str,
    first: bool,
    behaviour: Behaviour,
    /// A piece that may still grow.
    pending: Range<usize>,
    /// Whether its end was found.
    was_found: bool,
    emit: &'e mut dyn FnMut(&str, bool),
}

impl Grouper<'_, '_> {
    fn push(&mut self, range: Range<usize>, found: bool) {
        let joins = match self.behaviour {
            Behaviour::Removed | Behaviour::Isolated => false,
            Behaviour::MergedWithPrevious => found && !self.was_found,
            Behaviour::MergedWithNext => !found && self.was_found,
            Behaviour::Contiguous => found == self.was_found,
        };
        if joins && !self.pending.is_empty() {
            self.pending.end = range.end;
        } else {
            self.finish();
            self.pending = if found && self.behaviour == Behaviour::Removed { 0..0 } else { range };
        }
        self.was_found = found;
    }

    fn finish(&mut self) {
        if !self.pending.is_empty() {
            (self.emit)(&self.text[self.pending.clone()], self.first && self.pending.start == 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(cuts: &[Cut], text: &str) -> Vec<String> {
        let mut words = Vec::new();
        cut(cuts, text, true, &mut |word| words.push(word.to_owned()));
        words
    }

    /// What `BertPreTokenizer` of the `tokenizers` package gives.
    #[test]
    fn bert_words_end_at_punctuation() {
        let found = words(&Cut::bert(), " Hey, friend!  it's$5「x」\u{2028}y");
        assert_eq!(found, ["Hey", ",", "friend", "!", "it", "'", "s", "$", "5", "「", "x", "」", "y"]);
    }
}
